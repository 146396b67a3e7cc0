"""Trails are signed when they are due, and checkpoints reach their targets, later if not at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.serving.checkpoint_targets import FileTarget, NotWritten, Written
from penstock.app.serving.checkpoints import CheckpointChoices, CheckpointKeeper, keep_checkpoints
from penstock.base.clock import ManualClock
from penstock.governance.audit.checkpoints import parse_notes
from penstock.operations.audit.checkpoints import newest_checkpoint
from penstock.operations.gate.context import ServerParts
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.tables.audit.records import list_audit
from tests.waiting import SECONDS_MAX, until

NOON = 1_767_268_800_000
HOUR = 60 * 60 * 1000


@dataclass
class Memory:
    """A target that can be out of order."""

    name: str = "memory"
    works: bool = True
    written: list[tuple[str, int]] = field(default_factory=list)

    async def write(self, tenant: str, size: int, note: str) -> Written | NotWritten:
        if not self.works:
            return NotWritten("out of order")
        self.written.append((tenant, size))
        return Written()

    async def close(self) -> None:
        """Nothing to close."""


def with_gate(
    path: Path, test: Callable[[Gate, ManualClock], Awaitable[None]], server: ServerParts | None = None
) -> None:
    async def body() -> None:
        clock = ManualClock(NOON)
        async with Penstock.open(path, clock=clock) as penstock, open_gate(penstock, server=server) as gate:
            await test(gate, clock)

    asyncio.run(asyncio.wait_for(body(), SECONDS_MAX))


async def changes(gate: Gate, first: int, count: int, tenant: str = "default") -> None:
    for number in range(first, first + count):
        await internal_call(gate, local_owner(tenant), "schema.create", {"id": f"s{number}", "schema": {}})


async def signed(gate: Gate, tenant: str = "default") -> int:
    found = await newest_checkpoint(gate.services.platform, tenant)
    return 0 if found is None else found.size


def test_a_trail_is_signed_after_so_many_records_or_so_much_time(tmp_path: Path) -> None:
    async def test(gate: Gate, clock: ManualClock) -> None:
        target = Memory()
        keeper = CheckpointKeeper(gate, CheckpointChoices(every_entries=5, every_ms=HOUR), [target])
        await changes(gate, 0, 4)
        await changes(gate, 0, 1, tenant="shop")
        await keeper.look()
        assert await signed(gate) == 0
        await changes(gate, 4, 1)
        await keeper.look()
        assert (await signed(gate), await signed(gate, "shop")) == (5, 0)
        clock.advance(HOUR)
        await keeper.look()
        assert await signed(gate) == 5, "nothing came but the record of the checkpoint"
        assert await signed(gate, "shop") == 1
        await changes(gate, 5, 1)
        await keeper.look()
        assert await signed(gate) == 7
        assert target.written == [("default", 5), ("shop", 1), ("default", 7)]
        again = CheckpointKeeper(gate, CheckpointChoices(every_entries=5, every_ms=HOUR), [target])
        await again.look()
        assert len(target.written) == 3, "a new process goes on where the last one was"

    with_gate(tmp_path / "penstock.db", test)


def test_what_a_target_could_not_take_is_written_later_and_in_order(tmp_path: Path) -> None:
    async def test(gate: Gate, clock: ManualClock) -> None:
        target = Memory(works=False)
        keeper = CheckpointKeeper(gate, CheckpointChoices(every_entries=2, every_ms=HOUR), [target])
        for number in range(3):
            await changes(gate, 2 * number, 2)
            await keeper.look()
        target.works = True
        await keeper.look()
        assert target.written == [("default", 2), ("default", 5), ("default", 8)]

    with_gate(tmp_path / "penstock.db", test)


def test_a_broken_trail_is_not_signed_and_not_filled_with_refusals(tmp_path: Path) -> None:
    async def test(gate: Gate, clock: ManualClock) -> None:
        keeper = CheckpointKeeper(gate, CheckpointChoices(every_entries=1, every_ms=HOUR))
        await changes(gate, 0, 1)
        (tmp_path / "penstock.db.audit-key").write_text("no key")
        (tmp_path / "penstock.db.audit-key").chmod(0o600)
        for _ in range(3):
            await keeper.look()
        page = await list_audit(gate.services.platform, AuditQuery(tenant="default", operation="audit.checkpoint"))
        assert [record.entry.code for record in page.records] == ["AUDIT_KEY_UNAVAILABLE"]
        clock.advance(HOUR)
        await keeper.look()
        page = await list_audit(gate.services.platform, AuditQuery(tenant="default", operation="audit.checkpoint"))
        assert len(page.records) == 2

    with_gate(tmp_path / "penstock.db", test)


def test_while_a_server_runs_checkpoints_reach_the_file(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor.txt"

    async def test(gate: Gate, clock: ManualClock) -> None:
        choices = CheckpointChoices(every_entries=2, files=(anchor,), look_seconds=0.02)
        async with keep_checkpoints(gate, choices):
            await changes(gate, 0, 2)
            await until(lambda: anchor.exists() and bool(anchor.read_text(encoding="utf-8")))
        assert len(parse_notes(anchor.read_text(encoding="utf-8"))) == 1
        assert FileTarget(anchor).name == str(anchor)

    with_gate(tmp_path / "penstock.db", test)
