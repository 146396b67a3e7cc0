"""Backups that the server makes: for the operator alone, on record, and called verified only while that is known."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from penstock.app.drivers import make_storage
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.runtime.tables.resources import read_resource
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import DOUBLE

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Caller]:
    """A gate whose operator named a folder for backups."""
    path = folder / "penstock.db"
    backups = folder / "backups"
    backups.mkdir(exist_ok=True)
    storage = make_storage(path, backup_folder=str(backups))
    async with Penstock.open(path, storage=storage) as penstock, open_gate(penstock) as gate:
        yield Caller(gate, local_owner(), penstock)


async def test_a_backup_has_what_the_store_has_and_is_listed_and_on_record(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        await owner.call("workflow.import", workflows=[DOUBLE])
        made = await owner.call("backup.create")
        path = tmp_path / "backups" / made["name"]
        assert made["verified"] is True
        assert made["size_bytes"] == path.stat().st_size
        assert await owner.call("backup.list") == {"folder": str(path.parent), "total": 1, "items": [made]}
        [record] = (await owner.call("audit.list", operation="backup.create"))["items"]
        assert (record["subject"], record["outcome"]) == (made["name"], "allowed")
        assert record["details"]["size_bytes"] == made["size_bytes"]
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / "penstock.db"
    path.rename(copy)
    copy.with_name("penstock.db.secret").write_bytes((tmp_path / "penstock.db.secret").read_bytes())
    copy.with_name("penstock.db.secret").chmod(0o600)
    async with opened(copy.parent) as owner:
        assert [item["id"] for item in (await owner.call("workflow.list"))["items"]] == [DOUBLE["name"]]


async def test_a_repeated_call_makes_one_backup(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        first = await owner.reply("backup.create", idempotency_key="tonight")
        again = await owner.reply("backup.create", idempotency_key="tonight")
        assert msgspec.to_builtins(first.value) == msgspec.to_builtins(again.value)
        assert (await owner.call("backup.list"))["total"] == 1


async def test_a_file_that_was_changed_or_came_from_elsewhere_is_not_called_verified(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        names = [(await owner.call("backup.create"))["name"] for _ in range(3)]
        folder = tmp_path / "backups"
        with (folder / names[0]).open("ab") as file:
            file.write(b"x")
        (folder / names[1]).unlink()
        stranger = "penstock-2001-01-01T00-00-00.000Z.db"
        (folder / stranger).write_bytes(b"nothing")
        found = (await owner.call("backup.list"))["items"]
        assert [(item["name"], item["verified"]) for item in found] == [
            (names[2], True),
            (names[0], False),
            (stranger, False),
        ]
        assert found[1]["runs"] is None
        # What is gone is forgotten with the next backup, so that the note does not grow.
        newest = (await owner.call("backup.create"))["name"]
        note = await read_resource(owner.gate.services.platform, "default", "backup", "verified")
        assert note is not None
        assert msgspec.convert(note.body["files"], dict[str, object]).keys() == {names[0], names[2], newest}


async def test_backups_are_for_the_operator_alone_and_need_a_folder(open_caller: OpenGate, tmp_path: Path) -> None:
    async with open_caller() as owner:
        assert await owner.call("backup.list") == {"folder": None, "total": 0, "items": []}
        refused = await owner.refusal("backup.create")
        assert refused.code == "NOT_CONFIGURED"
        assert "storage.backup_folder" in (refused.hint or "")
    async with opened(tmp_path) as owner:
        tenant = await owner.new_caller("*", tenant="acme")
        clerk = await owner.new_caller("backup:*")
        reader = await owner.new_caller("system:read")
        for name in ("backup.create", "backup.list"):
            assert (await tenant.refusal(name)).code == "OPERATOR_REQUIRED"
            assert (await clerk.refusal(name)).code == "OPERATOR_REQUIRED"
            assert (await reader.refusal(name)).code == "SCOPE_REQUIRED"
        assert (await owner.refusal("backup.create", name="../mine.db")).code == "INVALID_ARGUMENTS"
        assert (await owner.call("backup.list"))["total"] == 0
