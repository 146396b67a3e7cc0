"""Golden stores: a file of an earlier format is opened, becomes current, loses nothing, and its runs continue."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock import Penstock, step
from penstock.app.drivers import maintenance_of
from penstock.app.gate import local_owner, open_gate
from penstock.app.maintenance import restore_on_record
from penstock.operations.gate.internal_callers import internal_call
from penstock.runtime.stores.sqlite.schema.migrations import SCHEMA_VERSION
from tests.golden.record_store import STORES
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio
RECORDED = {int(path.name[7:9]): path for path in sorted(STORES.glob("format-*.db.gz"))}
# Formats that no version of Penstock ever left a file in: they came together with the next one.
NEVER_WRITTEN = {2, 3, 10, 11, 12, 13, 14}
# The first format with keys and an audit trail.
GOVERNED_SINCE = 4
# The first format whose records name the user of the system.
NAMES_USERS_SINCE = 8


@step(name="steps:look_up")
def look_up(order_id: str) -> dict[str, Any]:
    return {"order_id": order_id, "customer": "Ada"}


@step(name="steps:refund")
def refund(order_id: str, amount: float) -> dict[str, Any]:
    return {"amount": amount, "reference": f"RF-{order_id}"}


STEPS = (look_up, refund)


def unpack(number: int, folder: Path) -> Path:
    """The recorded store of a format with its secret, as its release left them."""
    path = folder / "penstock.db"
    path.write_bytes(gzip.decompress(RECORDED[number].read_bytes()))
    secret = STORES / f"format-{number:02}.secret"
    if secret.exists():
        shutil.copyfile(secret, folder / "penstock.db.secret")
        (folder / "penstock.db.secret").chmod(0o600)
    return path


def format_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


async def continues(path: Path) -> None:
    """Every run of a recorded store does what it would have done in its release."""
    async with Penstock.open(path, steps=STEPS) as penstock:
        paid = penstock.run("paid")
        assert (await paid.status(), await paid.result()) == ("completed", {"refunded": 20, "reference": "RF-A-7"})
        begun = await penstock.run("begun").result(timeout_seconds=SECONDS_MAX)
        assert begun == {"refunded": 30, "reference": "RF-A-9"}
        waits = penstock.run("waits")
        [question] = await waits.questions()
        assert question.prompt == "Refund 180 for order A-1042?"
        await waits.answer({"approve": True})
        assert await waits.result(timeout_seconds=SECONDS_MAX) == {"refunded": 180, "reference": "RF-A-1042"}
        started = await penstock.start("refund_order", {"order_id": "A-1", "amount": 5})
        assert await started.result(timeout_seconds=SECONDS_MAX) == {"refunded": 5, "reference": "RF-A-1"}


@pytest.mark.parametrize("number", RECORDED, ids=lambda number: f"format_{number}")
async def test_a_recorded_store_becomes_current_and_its_runs_continue(number: int, tmp_path: Path) -> None:
    path = unpack(number, tmp_path)
    assert format_of(path) == number
    before = maintenance_of(path).stats()
    assert (before.format_version, before.runs) == (number, 3)
    await continues(path)
    assert format_of(path) == SCHEMA_VERSION
    assert maintenance_of(path).check().ok
    assert maintenance_of(path).stats().runs_by_status == {"completed": 4}


@pytest.mark.parametrize(
    "number", [each for each in RECORDED if each >= GOVERNED_SINCE], ids=lambda number: f"format_{number}"
)
async def test_keys_and_the_audit_trail_of_a_recorded_store_stay_valid(number: int, tmp_path: Path) -> None:
    path = unpack(number, tmp_path)
    async with Penstock.open(path, perform=False) as penstock, open_gate(penstock) as gate:
        keys = msgspec.to_builtins(await internal_call(gate, local_owner(), "key.list", {}))
        assert [key["name"] for key in keys["items"]] == ["owner"]
        verified = msgspec.to_builtins(await internal_call(gate, local_owner(), "audit.verify", {}))
        assert (verified["intact"], verified["broken_at"]) == (True, None)
        listed = msgspec.to_builtins(
            await internal_call(gate, local_owner(), "audit.list", {"operation": "key.create"})
        )
        assert [item["principal"] for item in listed["items"]] == [
            "local:owner" if number < NAMES_USERS_SINCE else "os:root"
        ]


@pytest.mark.parametrize("number", [min(RECORDED), 8, 21], ids=lambda number: f"format_{number}")
async def test_a_backup_of_an_earlier_format_can_be_restored_and_continues(number: int, tmp_path: Path) -> None:
    path = unpack(number, tmp_path)
    saved = tmp_path / "saved.db"
    assert maintenance_of(path).backup(saved).format_version == number
    done, pending = await restore_on_record(saved, path, force=True)
    assert (done.format_version, format_of(path)) == (number, number)
    assert "older release" in (pending or "")
    await continues(path)


def test_every_format_that_was_ever_written_is_recorded() -> None:
    assert set(range(1, SCHEMA_VERSION)) - NEVER_WRITTEN - set(RECORDED) == set(), (
        "run python -m tests.golden.record_store"
    )
    assert all(path.stat().st_size < 200_000 for path in RECORDED.values())
