"""What the process changes by itself passes the gate: each change has a principal and exactly one audit record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.app import gate as gate_wiring
from penstock.app.gate import create_owner_key, local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.retention import Retention, apply_retention
from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.base.errors import LimitExceeded, NotFound, Unavailable
from penstock.base.json import JsonObject
from penstock.cli.server.workflows import load_workflow_into
from penstock.definitions.build.workflow import build_workflow
from penstock.governance.principals import PrincipalKind
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import GateLimits, Principal
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.rates.limiter import RateLimiter
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.ports.runs import RunQuery
from penstock.runtime.schedules.scheduler import NotAllowed, Postponed, Started
from penstock.runtime.tables.api_keys import put_key, read_key
from penstock.runtime.tables.audit.heads import find_audit_head
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.runs.store import RunStore
from tests.opened_database import sqlite_of
from tests.scenarios.test_audited_changes import fail_audit
from tests.waiting import SECONDS_MAX


async def audited(gate: Gate, operation: str, *, tenant: str = "default") -> list[tuple[Any, ...]]:
    """Who did something, to what, and how it ended; the newest first."""
    await gate.flush()
    page = await list_audit(gate.services.platform, AuditQuery(tenant=tenant, operation=operation, limit=50))
    return [(item.entry.principal, item.entry.surface, item.entry.outcome, item.entry.code) for item in page.records]


def test_the_first_key_of_a_store_is_made_by_a_call_with_a_record(tmp_path: Path) -> None:
    async def body() -> None:
        async with Penstock.open(tmp_path / "penstock.db", perform=False) as penstock, open_gate(penstock) as gate:
            assert await create_owner_key(gate) is not None
            (made,) = await audited(gate, "key.create")
            assert made == (local_owner().id, "system", "allowed", None)
            assert await create_owner_key(gate) is None
            assert len(await audited(gate, "key.create")) == 1

    asyncio.run(body())


DOUBLE: dict[str, Any] = {"penstock": "v1", "name": "nightly", "nodes": [{"id": "done", "type": "end", "output": 1}]}
DAILY: dict[str, Any] = {"workflow_id": "nightly", "schedule_id": "daily", "cron": "0 12 * * *"}
NOON = 1_767_268_800_000
DAY = 24 * 60 * 60 * 1000


@dataclass(slots=True)
class Night:
    """A store with a workflow, and a clock on which it can become night."""

    gate: Gate
    penstock: Penstock
    clock: ManualClock

    async def call(self, who: Principal, operation: str, /, **arguments: Any) -> Any:
        return msgspec.to_builtins(await internal_call(self.gate, who, operation, arguments, surface="rest"))

    async def holder(self, *scopes: str) -> tuple[Principal, str]:
        """Somebody with a new key, and its id."""
        made = await self.call(OWNER, "key.create", name="ada", scopes=list(scopes))
        row = await read_key(self.gate.services.platform, made["key"]["id"])
        assert row is not None
        return principal_of(row), row.key_id

    async def passes(self) -> Any:
        """What became of the schedule the next night."""
        self.clock.advance(DAY)
        (outcome,) = (await self.penstock.scheduler.fire_due()).values()
        return outcome

    async def schedule(self) -> Any:
        return await self.call(OWNER, "schedule.get", schedule_id="daily")


OWNER = Principal(id="local:owner", tenant="default", kind="local", scopes=frozenset({"*"}))
SCHEDULER = ("workflow:run", "schedule:write", "schedule:read")


def at_night(tmp_path: Path, test: Callable[[Night], Awaitable[None]]) -> None:
    async def body() -> None:
        clock = ManualClock(NOON)
        opened = Penstock.open(tmp_path / "penstock.db", clock=clock, workflows=[DOUBLE], perform=False)
        async with opened as penstock, open_gate(penstock) as gate:
            await test(Night(gate, penstock, clock))

    asyncio.run(body())


def test_a_schedule_starts_its_runs_by_a_call_in_the_name_of_who_made_it(tmp_path: Path) -> None:
    async def test(night: Night) -> None:
        ada, _ = await night.holder(*SCHEDULER)
        assert (await night.call(ada, "schedule.create", **DAILY))["made_by"] == ada.id
        assert isinstance(await night.passes(), Started)
        (record,) = await audited(night.gate, "schedule.start")
        assert record == ("schedule:daily", "schedule", "allowed", None)
        page = await list_audit(night.gate.services.platform, AuditQuery(tenant="default", operation="schedule.start"))
        assert page.records[0].entry.acting_for == (ada.id,)
        assert (await night.schedule())["refused"] is None

    at_night(tmp_path, test)


def test_a_schedule_of_a_revoked_key_starts_nothing_and_says_so(tmp_path: Path) -> None:
    async def test(night: Night) -> None:
        ada, key_id = await night.holder(*SCHEDULER)
        await night.call(ada, "schedule.create", **DAILY)
        await night.call(OWNER, "key.revoke", key_id=key_id)
        assert (await night.passes()).code == "KEY_REVOKED"
        assert await audited(night.gate, "schedule.start") == [("schedule:daily", "schedule", "refused", "KEY_REVOKED")]
        shown = await night.schedule()
        assert shown["last_run"] is None
        assert shown["refused"]["code"] == "KEY_REVOKED"
        # Somebody else takes it on by changing it, and what was refused is forgotten with the next start.
        await night.call(OWNER, "schedule.update", schedule_id="daily", catch_up="2m")
        assert isinstance(await night.passes(), Started)
        assert ((shown := await night.schedule())["made_by"], shown["refused"]) == (OWNER.id, None)

    at_night(tmp_path, test)


def test_the_key_that_replaced_another_one_keeps_its_schedules(tmp_path: Path) -> None:
    async def test(night: Night) -> None:
        ada, key_id = await night.holder(*SCHEDULER)
        await night.call(ada, "schedule.create", **DAILY)
        await night.call(OWNER, "key.rotate", key_id=key_id)
        assert isinstance(await night.passes(), Started)

    at_night(tmp_path, test)


def test_a_schedule_of_somebody_who_lost_the_right_to_start_workflows_starts_nothing(tmp_path: Path) -> None:
    async def test(night: Night) -> None:
        ada, key_id = await night.holder(*SCHEDULER)
        await night.call(ada, "schedule.create", **DAILY)
        row = await read_key(night.gate.services.platform, key_id)
        assert row is not None
        await put_key(night.gate.services.platform, msgspec.structs.replace(row, scopes=("schedule:write",)))
        assert (await night.passes()).code == "SCOPE_REQUIRED"

    at_night(tmp_path, test)


def test_the_schedule_of_a_document_acts_for_whoever_stored_the_document(tmp_path: Path) -> None:
    async def test(night: Night) -> None:
        triggers = [{"id": "daily", "schedule": {"cron": "0 12 * * *"}}]
        ada, key_id = await night.holder("workflow:write", "workflow:run")
        await night.call(ada, "workflow.update", workflow_id="nightly", document={**DOUBLE, "triggers": triggers})
        assert (await night.schedule())["made_by"] == ada.id
        assert isinstance(await night.passes(), Started)
        await night.call(OWNER, "key.revoke", key_id=key_id)
        assert (await night.passes()).code == "KEY_REVOKED"

    at_night(tmp_path, test)


def test_a_start_that_is_put_off_or_skipped_is_no_call(tmp_path: Path) -> None:
    async def test(night: Night) -> None:
        waits = {**DOUBLE, "nodes": [{"id": "go", "type": "wait", "signal": "go"}, {"id": "done", "type": "end"}]}
        await night.call(OWNER, "workflow.update", workflow_id="nightly", document=waits)
        await night.call(OWNER, "schedule.create", overlap="queue", **DAILY)
        assert isinstance(await night.passes(), Started)
        assert isinstance(await night.passes(), Postponed)
        assert len(await audited(night.gate, "schedule.start")) == 1

    at_night(tmp_path, test)


def test_a_file_is_loaded_by_a_call_and_one_that_says_the_same_leaves_no_record(tmp_path: Path) -> None:
    async def test(night: Night) -> None:
        other = {**DOUBLE, "name": "other"}
        assert await load_workflow_into(night.gate, build_workflow(other))
        assert not await load_workflow_into(night.gate, build_workflow(other))
        assert await load_workflow_into(night.gate, build_workflow({**other, "title": "Another one"}))
        loader = ("system:loader", "system", "allowed", None)
        assert await audited(night.gate, "workflow.create") == [loader]
        assert await audited(night.gate, "workflow.update") == [loader]
        stored = await night.gate.services.store.definitions.find_named("other")
        assert stored is not None
        assert stored.created_by == "system:loader"

    at_night(tmp_path, test)


def test_the_process_itself_is_not_kept_from_asking_much() -> None:
    admission = RateLimiter(GateLimits(write_per_minute=6, concurrent_per_key=1))
    inside: list[PrincipalKind] = ["system", "schedule"]
    for kind in inside:
        principal = Principal(id=f"{kind}:it", tenant="default", kind=kind, scopes=frozenset())
        for _ in range(3):
            admission.charge(principal, "workflow.create", "write", NOON)
            admission.enter(principal)
    outside = Principal(id="key:k", tenant="default", kind="service", scopes=frozenset())
    admission.charge(outside, "workflow.create", "write", NOON)
    with pytest.raises(LimitExceeded):
        admission.charge(outside, "workflow.create", "write", NOON)


def test_runs_past_their_time_are_forgotten_by_calls_one_for_each_batch_of_a_tenant(tmp_path: Path) -> None:
    async def test(night: Night) -> None:
        acme = build_workflow(DOUBLE)
        await night.penstock.register(acme, tenant="acme")
        for number in range(7):
            await night.penstock.start("nightly", run_id=f"r{number}")
        await night.penstock.start("nightly", run_id="theirs", tenant="acme")
        night.clock.advance(3 * DAY)
        await night.penstock.start("nightly", run_id="young")
        for _ in range(2):
            await apply_retention(night.gate, Retention(runs_ms=DAY))
        retention = ("system:retention", "system", "allowed", None)
        assert await audited(night.gate, "retention.forget_runs") == [retention]
        assert await audited(night.gate, "retention.forget_runs", tenant="acme") == [retention]
        page = await list_audit(
            night.gate.services.platform, AuditQuery(tenant="default", operation="retention.forget_runs")
        )
        assert page.records[0].entry.details == {"runs": 7}
        left = await night.gate.services.store.list_runs(RunQuery())
        assert [row.run_id for row in left.rows] == ["young"]

    at_night(tmp_path, test)


def test_audit_records_past_their_time_are_forgotten_by_a_call(tmp_path: Path) -> None:
    async def test(night: Night) -> None:
        await night.holder("workflow:run")
        await night.holder("workflow:run")
        night.clock.advance(3 * DAY)
        for _ in range(3):
            await apply_retention(night.gate, Retention(audit_ms=DAY))
        assert await audited(night.gate, "retention.forget_audit") == [("system:retention", "system", "allowed", None)]
        assert len(await audited(night.gate, "key.create")) <= 1  # the newest of a chain is never the first to go

    at_night(tmp_path, test)


async def sealed(gate: Gate) -> list[tuple[int, str, JsonObject]]:
    """The trail, oldest first, and that it holds."""
    page = await list_audit(gate.services.platform, AuditQuery(tenant="default", oldest_first=True))
    head = await find_audit_head(gate.services.platform, "default")
    assert head is not None
    assert (head.first_seq, head.last_seq) == (page.records[0].seq, page.records[-1].seq)
    return [(item.seq, item.entry.operation, item.entry.details) for item in page.records]


def test_audit_records_go_in_pieces_and_each_piece_with_its_own_record_in_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "AUDIT_REMOVED_AT_ONCE_MAX", 2)
    # What the gate stores from time to time would be counted, too.
    monkeypatch.setattr(limits, "RATE_SHARE_SECONDS", SECONDS_MAX)
    monkeypatch.setattr(gate_wiring, "_FLUSH_SECONDS", SECONDS_MAX)

    async def test(night: Night) -> None:
        store = night.penstock.store
        assert isinstance(store, RunStore)
        for _ in range(5):
            await night.holder("workflow:run")
        night.clock.advance(3 * DAY)
        await night.holder("workflow:run")
        commits = sqlite_of(store).writer.commits
        await apply_retention(night.gate, Retention(audit_ms=DAY, deliveries_ms=None))
        assert sqlite_of(store).writer.commits == commits + 3
        assert await sealed(night.gate) == [
            (6, "key.create", {}),
            (7, "retention.forget_audit", {"before_seq": 3}),
            (8, "retention.forget_audit", {"before_seq": 5}),
            (9, "retention.forget_audit", {"before_seq": 6}),
        ]
        await apply_retention(night.gate, Retention(audit_ms=DAY, deliveries_ms=None))
        assert sqlite_of(store).writer.commits == commits + 3

    at_night(tmp_path, test)


def test_no_audit_record_goes_if_the_record_of_that_cannot_be_written(tmp_path: Path) -> None:
    async def test(night: Night) -> None:
        for _ in range(3):
            await night.holder("workflow:run")
        before = await sealed(night.gate)
        night.clock.advance(3 * DAY)
        fail_audit(tmp_path / "penstock.db")
        with pytest.raises(Unavailable):
            await apply_retention(night.gate, Retention(audit_ms=DAY))
        assert await sealed(night.gate) == before
        fail_audit(tmp_path / "penstock.db", fails=False)
        await apply_retention(night.gate, Retention(audit_ms=DAY))
        assert [operation for _, operation, _ in await sealed(night.gate)] == ["key.create", "retention.forget_audit"]

    at_night(tmp_path, test)


def test_nobody_outside_can_call_what_the_clock_calls(tmp_path: Path) -> None:
    async def test(night: Night) -> None:
        await night.call(OWNER, "schedule.create", **DAILY)
        with pytest.raises(NotFound) as refused:
            await night.call(OWNER, "schedule.start", schedule_id="daily", mark="1")
        assert refused.value.code == "OPERATION_NOT_FOUND"
        assert "schedule.start" not in {capability.name for capability in await night.gate.visible(OWNER)}

    at_night(tmp_path, test)


def test_what_is_due_waits_for_the_gate_where_one_is_to_come(tmp_path: Path) -> None:
    async def body() -> None:
        async with Penstock.open(tmp_path / "penstock.db", governed=True) as penstock:
            looking = [penstock.scheduler.is_looking]
            async with open_gate(penstock):
                looking.append(penstock.scheduler.is_looking)
            looking.append(penstock.scheduler.is_looking)
            assert looking == [False, True, False]

    asyncio.run(body())


def test_the_clock_starts_a_workflow_only_while_the_maker_of_the_schedule_has_its_scopes(tmp_path: Path) -> None:
    async def test(night: Night) -> None:
        ada, _ = await night.holder(*SCHEDULER)
        await night.call(ada, "schedule.create", **DAILY)
        assert isinstance(await night.passes(), Started)
        closed = {**DOUBLE, "governance": {"scopes": ["books:close"]}}
        await night.call(OWNER, "workflow.update", workflow_id="nightly", document=closed)
        bob, _ = await night.holder(*SCHEDULER, "books:close")
        refused = await night.passes()
        assert refused == NotAllowed(
            "SCOPE_REQUIRED", f"{ada.id}, who made the schedule, does not have the scope books:close"
        )
        assert (await night.schedule())["refused"]["code"] == "SCOPE_REQUIRED"
        await night.call(bob, "schedule.update", schedule_id="daily", catch_up="2h")
        outcome = await night.passes()
        assert isinstance(outcome, Started), outcome

    at_night(tmp_path, test)


def test_a_file_with_a_trigger_and_scopes_is_loaded_and_its_schedule_starts_it(tmp_path: Path) -> None:
    async def test(night: Night) -> None:
        guarded = {**DOUBLE, "governance": {"scopes": ["books:close"]}}
        triggered = {**guarded, "triggers": [{"id": "daily", "schedule": {"cron": "0 12 * * *"}}]}
        assert await load_workflow_into(night.gate, build_workflow(triggered))
        outcome = await night.passes()
        assert isinstance(outcome, Started), outcome

    at_night(tmp_path, test)
