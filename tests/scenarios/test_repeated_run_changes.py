"""A change of a run that is repeated with its idempotency key after a crash: the first answer, one effect, one record.

Every operation that changes a run is killed when its change is committed and before anybody hears of it. The next
process on the same file answers the repeated call, at once, with what the first one would have answered, byte for byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.base.clock import ManualClock
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate import idempotency
from penstock.operations.gate.pipeline import AnsweredCall, Gate, RefusedCall
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.steps.registry import step
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.call_records import find_call
from penstock.runtime.tables.runs.store import RunStore
from tests.opened_database import sqlite_of
from tests.scenarios.test_repeated_calls import Case, call, killed, outcome
from tests.waiting import SECONDS_MAX

BEGUN_AT = 1_800_000_000_000
KEY = "the-key"
RUN = "run-1"


def workflow(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"penstock": "v1", "name": "change", **more, "nodes": [*nodes, {"id": "done", "type": "end"}]}


WAIT = workflow({"id": "hold", "type": "wait", "signal": "go"}, {"id": "more", "type": "wait", "signal": "again"})
ASK = workflow(
    {"id": "ask", "type": "interrupt", "message": "Well?", "answer": {"type": "object"}},
    {"id": "more", "type": "wait", "signal": "again"},
)
WORK = workflow({"id": "work", "type": "step", "handler": "app:work", "effects": "at_most_once"})
FAIL = workflow({"id": "fail", "type": "step", "handler": "app:work", "retry": {"max_attempts": 1}})

Prepare = Callable[[Gate], Awaitable[object]]


async def paused(gate: Gate) -> None:
    await call(gate, "execution.pause", execution_id=RUN)


async def failed(gate: Gate) -> None:
    await call(gate, "execution.submit_activity", execution_id=RUN, node_id="fail", ok=False, error="no")


async def in_doubt(gate: Gate) -> None:
    """Whoever had the activity is gone, and nobody knows what they did."""
    clock = gate.services.clock
    wanted: dict[str, Any] = {"execution_id": RUN, "node_id": "work", "seconds": 1}
    assert isinstance(clock, ManualClock)
    await call(gate, "execution.lease_activity", **wanted, holder="gone")
    clock.advance(1_000)
    await outcome(gate, "execution.lease_activity", {**wanted, "holder": "other"})
    assert (await call(gate, "execution.status", execution_id=RUN))["status"] == "waiting_decision"


async def scheduled(gate: Gate) -> None:
    await call(gate, "schedule.create", workflow_id="change", schedule_id="nightly", cron="0 3 * * *")


@step(name="work")
async def work() -> int:
    """What a run does that goes on by itself."""
    return 1


@dataclass(frozen=True, kw_only=True)
class Change:
    """An operation that changes a run."""

    operation: str
    arguments: dict[str, Any] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=lambda: WAIT)
    prepare: Prepare | None = None
    commits: int = 1
    name: str = ""


SUBMITTED = {"execution_id": RUN, "node_id": "work", "ok": True, "result": 1}
NAMED = {"execution_id": RUN}
CHANGES = [
    Change(operation="workflow.execute", arguments={"workflow_id": "change"}),
    Change(operation="execution.pause", arguments={**NAMED, "reason": "later"}),
    Change(operation="execution.resume", arguments=NAMED, prepare=paused),
    Change(operation="execution.cancel", arguments=NAMED),
    Change(operation="execution.signal", arguments={**NAMED, "name": "go", "payload": 1}),
    Change(operation="execution.answer", arguments={**NAMED, "answer": {"yes": True}}, document=ASK),
    Change(operation="execution.submit_activity", arguments=SUBMITTED, document=WORK),
    Change(
        operation="execution.submit_activity",
        arguments={"execution_id": RUN, "node_id": "fail", "ok": False, "error": "no"},
        document=FAIL,
        name="execution.submit_activity of a failure",
    ),
    Change(
        operation="execution.lease_activity",
        arguments={**NAMED, "node_id": "work", "seconds": 60},
        document=WORK,
    ),
    Change(operation="execution.retry", arguments=NAMED, document=FAIL, prepare=failed),
    Change(
        operation="execution.retry",
        arguments=NAMED,
        document=WORK,
        prepare=in_doubt,
        name="execution.retry of an activity",
    ),
    Change(operation="execution.fork", arguments={**NAMED, "at_sequence": 1}),
    Change(operation="control.workflow_resume", arguments={**NAMED, "resume_payload": {"yes": True}}, document=ASK),
    Change(
        operation="control.workflow_submit_activity",
        arguments={**NAMED, "node_id": "work", "outcome": {"ok": True, "result": 1}},
        document=WORK,
    ),
    Change(operation="control.workflow_signal", arguments={**NAMED, "signal_name": "go"}),
    Change(operation="control.workflow_cancel", arguments=NAMED),
    Change(operation="schedule.run_now", arguments={"schedule_id": "nightly"}, prepare=scheduled, commits=2),
]
NAMES = [change.name or change.operation for change in CHANGES]


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[Gate, RunStore]]:
    """A process on a file; it performs nothing, and its clock stands: only calls change anything."""
    clock = ManualClock(BEGUN_AT)
    async with Penstock.open(path, clock=clock, perform=False) as penstock, open_gate(penstock) as gate:
        assert isinstance(penstock.store, RunStore)
        yield gate, penstock.store


async def prepared(gate: Gate, change: Change) -> None:
    await call(gate, "workflow.create", document=change.document)
    if change.operation != "workflow.execute":
        await call(gate, "workflow.execute", workflow_id="change", execution_id=RUN, mode="host_mediated")
    if change.prepare is not None:
        await change.prepare(gate)


async def said(gate: Gate, change: Change, key: str | None = KEY) -> tuple[bytes, bool]:
    """Everything that a call is answered with, in bytes, and whether it was answered before."""
    found = await outcome(gate, change.operation, change.arguments, key)
    assert isinstance(found, AnsweredCall), found
    assert isinstance(found.reply, Reply)
    reply = found.reply
    return msgspec.json.encode([reply.value, reply.status, reply.etag, reply.location]), found.replayed


async def histories(gate: Gate) -> dict[str, list[str]]:
    """The names of all records of all runs."""
    listed = await call(gate, "execution.list")
    ids = [item["execution_id"] for item in listed["items"]]
    return {name: [record.name for record in await gate.services.host.history(name)] for name in sorted(ids)}


async def records_of(gate: Gate, change: Change) -> list[tuple[str, bool]]:
    """The outcomes of the calls of an operation with the key, and which of them were repetitions."""
    found = await list_audit(gate.services.platform, AuditQuery(tenant="default", operation=change.operation))
    kept = [record.entry for record in found.records if record.entry.details.get("idempotency_key") == KEY]
    return [(entry.outcome, entry.details.get("replayed") is True) for entry in reversed(kept)]


@pytest.mark.parametrize("change", CHANGES, ids=NAMES)
def test_a_change_of_a_run_that_is_repeated_after_a_crash_gets_the_first_answer(tmp_path: Path, change: Change) -> None:
    async def test() -> None:
        async with opened(tmp_path / "whole.db") as (gate, store):
            await prepared(gate, change)
            await gate.flush()
            commits = sqlite_of(store).writer.commits
            undisturbed, _ = await said(gate, change)
            assert sqlite_of(store).writer.commits == commits + change.commits, (
                "claim, change, answer and audit record are one commit"
            )
            effect = await histories(gate)
            assert await said(gate, change) == (undisturbed, True)
            assert await histories(gate) == effect

        path = tmp_path / "killed.db"
        async with opened(path) as (gate, store):
            await prepared(gate, change)
            before = await histories(gate)
            case = Case(operation=change.operation, arguments=change.arguments, listing="execution.list")
            assert await killed(gate, store, case, change.arguments, lives=1)
            assert await histories(gate) == effect != before, "the change was made, and nobody heard of it"
            assert await records_of(gate, change) == [("allowed", False)]
        async with opened(path) as (gate, _):
            assert await said(gate, change) == (undisturbed, True)
            assert await said(gate, change) == (undisturbed, True)
            assert await histories(gate) == effect
            assert await records_of(gate, change) == [("allowed", False), ("allowed", True), ("allowed", True)]

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_without_a_key_a_repeated_change_is_refused_or_made_again(tmp_path: Path) -> None:
    """Nobody can know that it is the same call: what fits only once is refused, what fits again happens again."""

    async def test() -> None:
        async with opened(tmp_path / "penstock.db") as (gate, _):
            await prepared(gate, CHANGES[1])
            for operation, more, code in (
                ("execution.signal", {"name": "go"}, None),
                ("execution.pause", {}, "PAUSE_NOT_ALLOWED"),
                ("execution.resume", {}, "RESUME_NOT_ALLOWED"),
                ("execution.cancel", {}, "CANCEL_NOT_ALLOWED"),
            ):
                assert isinstance(await outcome(gate, operation, {**NAMED, **more}), AnsweredCall), operation
                once = await histories(gate)
                again = await outcome(gate, operation, {**NAMED, **more})
                assert (again.error.code if isinstance(again, RefusedCall) else None) == code, operation
                after = await histories(gate)
                assert (after != once) == (code is None), operation

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_of_two_processes_that_make_one_call_the_slower_one_gets_the_answer_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked whether the call was made before that was stored, and then found the run changed."""
    change = next(item for item in CHANGES if item.operation == "execution.pause")

    async def test() -> None:
        path = tmp_path / "penstock.db"
        async with opened(path) as (gate, _), opened(path) as (other, _):
            await prepared(gate, change)
            looked, go_on = asyncio.Event(), asyncio.Event()

            async def slow(database: Database, claim: Any) -> Any:
                found = await find_call(database, claim)
                if database is other.services.platform and not looked.is_set():  # its first look only
                    looked.set()
                    await go_on.wait()
                return found

            monkeypatch.setattr(idempotency, "find_call", slow)  # as slow as a busy machine
            slower = asyncio.create_task(said(other, change))
            await looked.wait()
            answer, _ = await said(gate, change)
            go_on.set()
            assert await slower == (answer, True)
            assert (await histories(gate))[RUN].count("RunPaused") <= 1

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_a_call_that_follows_its_run_is_repeated_with_what_it_heard_in_the_end(tmp_path: Path) -> None:
    """What is stored with the change says that the run goes on; the last word takes its place."""
    document = workflow(
        {"id": "hold", "type": "wait", "signal": "go"},
        {"id": "work", "type": "step", "handler": f"{__name__}:work"},
        name="change",
    )
    change = next(item for item in CHANGES if item.operation == "control.workflow_signal")

    async def test() -> None:
        path = tmp_path / "penstock.db"
        async with Penstock.open(path, steps=[work]) as penstock, open_gate(penstock) as gate:
            await call(gate, "workflow.create", document=document)
            await call(gate, "workflow.execute", workflow_id="change", execution_id=RUN)
            answer, _ = await said(gate, change)
            assert msgspec.json.decode(answer)[0]["status"] == "completed"
        async with Penstock.open(path, steps=[work]) as penstock, open_gate(penstock) as gate:
            assert await said(gate, change) == (answer, True)

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
