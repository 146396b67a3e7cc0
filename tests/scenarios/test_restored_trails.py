"""A restored file says so: in every audit trail, in the name of whoever restored it, and the trails still hold."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.app.gate import local_owner, open_gate
from penstock.app.os_users import os_user
from penstock.app.penstock import Penstock
from penstock.cli.main import app
from penstock.operations.gate.context import Principal
from penstock.operations.gate.internal_callers import internal_call
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.stores.sqlite.maintenance.backups import backup, restore
from penstock.runtime.tables.audit.records import list_audit
from tests.scenarios.test_audited_changes import fail_audit
from tests.waiting import SECONDS_MAX

DATABASE, COPY = "penstock.db", "copy.db"
ACME = Principal(id="key:acme", tenant="acme", kind="service", scopes=frozenset({"*"}))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def penstock(*arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def make_keys(count: int, *who: Principal) -> None:
    """Let somebody make keys, each with a record."""

    async def body() -> None:
        async with Penstock.open(DATABASE, perform=False) as penstock, open_gate(penstock) as gate:
            for principal in who or (local_owner(),):
                for number in range(count):
                    await internal_call(
                        gate, principal, "key.create", {"name": f"k{number}", "scopes": ["workflow:read"]}
                    )

    asyncio.run(asyncio.wait_for(body(), SECONDS_MAX))


def trail(tenant: str = "default", path: str = DATABASE) -> list[tuple[int, str, str, str | None, dict[str, Any]]]:
    """The records of a trail that holds: number, operation, principal, subject, details."""

    async def body() -> list[Any]:
        async with Penstock.open(path, perform=False) as penstock, open_gate(penstock, looks_only=True) as gate:
            owner = Principal(id="key:owner", tenant=tenant, kind="service", scopes=frozenset({"*"}))
            found = await list_audit(gate.services.platform, AuditQuery(tenant=tenant, oldest_first=True))
            verified = await internal_call(gate, owner, "audit.verify", {})
            assert verified.intact, verified
            assert verified.last_seq == found.records[-1].seq
            return [
                (item.seq, item.entry.operation, item.entry.principal, item.entry.subject, item.entry.details)
                for item in found.records
                if item.entry.operation in ("key.create", "store.restore")
            ]

    return asyncio.run(asyncio.wait_for(body(), SECONDS_MAX))


def ends() -> dict[str, tuple[int, str]]:
    """The last number and hash of every trail, as they stand in the file."""
    with closing(sqlite3.connect(DATABASE)) as connection:
        found = connection.execute("SELECT tenant, last_seq, last_hash FROM audit_heads").fetchall()
    return {tenant: (seq, sealed) for tenant, seq, sealed in found}


def test_a_restore_is_the_next_record_of_every_trail_and_names_what_it_cut_off() -> None:
    make_keys(2, local_owner(), ACME)
    backup(DATABASE, COPY)
    make_keys(3)
    before = ends()
    told = penstock("server", "restore", COPY, "--force")
    assert told["not_on_record"] is None
    with closing(sqlite3.connect(DATABASE)) as connection:
        recorded = "SELECT tenant, seq, principal FROM audit WHERE operation = 'store.restore' ORDER BY tenant"
        me = os_user().principal_id
        assert connection.execute(recorded).fetchall() == [("acme", 3, me), ("default", 3, me)]
    for tenant in ("default", "acme"):
        seq, operation, principal, subject, details = trail(tenant)[-1]
        assert (seq, operation, principal, subject) == (3, "store.restore", me, COPY)
        assert details.pop("restored_at") is not None
        replaced_seq, replaced_hash = before[tenant]
        assert details == {"kept_as": told["kept_as"], "replaced_seq": replaced_seq, "replaced_hash": replaced_hash}
    assert before["default"][0] > 3, "what was cut off is known by its number and hash"
    assert penstock("server", "check")["ok"]


def test_a_restore_in_an_empty_place_is_on_record_with_the_secret_that_is_put_there_later(folder: Path) -> None:
    make_keys(2)
    backup(DATABASE, COPY)
    secret = (folder / f"{DATABASE}.secret").rename(folder / "kept.secret")
    (folder / DATABASE).unlink()
    told = penstock("server", "restore", COPY)
    assert "PEPPER_MISSING" in told["not_on_record"]
    secret.rename(folder / f"{DATABASE}.secret")
    (_, operation, principal, subject, details) = trail()[-1]
    assert (operation, principal, subject) == ("store.restore", os_user().principal_id, COPY)
    assert "replaced_seq" not in details
    assert len(trail()) == 3, "it is put on record once"


def test_a_file_that_is_restored_twice_before_anybody_opens_it_says_so_twice(folder: Path) -> None:
    make_keys(1)
    backup(DATABASE, COPY)
    for number in (1, 2):
        note: Any = {"by": f"os:ada{number}", "at": number, "source": f"{number}.db"}
        restore(DATABASE if number == 1 else "again.db", f"{number}.db", note=note)
        backup(f"{number}.db", "again.db", overwrite=True)
    (folder / "2.db.secret").write_bytes((folder / f"{DATABASE}.secret").read_bytes())
    (folder / "2.db.secret").chmod(0o600)
    found = [(principal, subject) for _, operation, principal, subject, _ in trail(path="2.db")]
    assert found[1:] == [("os:ada1", "1.db"), ("os:ada2", "2.db")]


def test_that_a_file_was_restored_is_not_forgotten_while_no_record_can_be_written() -> None:
    make_keys(1)
    fail_audit(Path(DATABASE))
    backup(DATABASE, COPY)
    assert penstock("server", "restore", COPY, "--force")["not_on_record"] is not None
    fail_audit(Path(DATABASE), fails=False)
    assert [operation for _, operation, _, _, _ in trail()] == ["key.create", "store.restore"]


def test_a_trail_that_was_put_back_as_a_whole_is_found_by_what_somebody_kept() -> None:
    make_keys(1)
    backup(DATABASE, COPY)
    make_keys(3)
    seq, sealed = ends()["default"]
    penstock("server", "restore", COPY, "--force")

    async def body() -> Any:
        async with Penstock.open(DATABASE, perform=False) as penstock, open_gate(penstock) as gate:
            return await internal_call(gate, local_owner(), "audit.verify", {"seq": seq, "hash": sealed})

    verified = asyncio.run(asyncio.wait_for(body(), SECONDS_MAX))
    assert (verified.intact, verified.reason) == (False, "rolled_back")
