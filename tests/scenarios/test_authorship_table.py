"""Every operation that stores something, in every way in which it takes effect, by every kind of author."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.operations.builtin import builtin_operations, profile_operations
from penstock.operations.gate.context import HoldChoices
from penstock.runtime.chains import AUTHOR_LABEL
from tests.scenarios.authored import (
    WAYS,
    Bench,
    Row,
    open_bench,
    operation_of,
    prepare_ways,
    rows,
    run_before,
    store,
    store_by_model,
)
from tests.unit.operations.receiver import receiving
from tests.waiting import SECONDS_MAX

# What these change has no effect of its own later: data, decisions, runs, credentials (which have rules of their own).
NOT_STORING = {
    "agent.delete",
    "agent.execute",
    "agent.message",
    "app.auto_execute_update",
    "app.create",
    "app.delete",
    "app.policy_update",
    "app.restore",
    "app.revoke",
    "audit.checkpoint",
    "audit.hold",
    "audit.redact",
    "audit.release",
    "audit.rotate_key",
    "backup.create",
    "console_session.end",
    "control.workflow_cancel",
    "control.workflow_resume",
    "control.workflow_signal",
    "control.workflow_submit_activity",
    "delivery.retry",
    "draft.approve",
    "draft.cancel",
    "draft.commit",
    "draft.propose",
    "draft.reject",
    "execution.answer",
    "execution.cancel",
    "execution.delete",
    "execution.fork",
    "execution.lease_activity",
    "execution.pause",
    "execution.resume",
    "execution.retry",
    "execution.signal",
    "execution.submit_activity",
    "execution.update",
    "grant.create",
    "grant.delete",
    "graph.branches_create",
    "graph.branches_delete",
    "graph.branches_merge",
    "graph.collect",
    "graph.create",
    "graph.delete",
    "graph.load",
    "graph.mutate",
    "graph.queries_delete",
    "graph.query_run",
    "graph.schema_apply",
    "graph.update",
    "key.create",
    "key.revoke",
    "key.rotate",
    "key.sign_out",
    "memory.clear",
    "memory.delete",
    "memory.put",
    "model.delete",
    "notification.delete",
    "notification.set",
    "policy.delete",
    "preflight.run",
    "quota.reset",
    "quota.set",
    "schedule.delete",
    "schedule.pause",
    "schedule.resume",
    "schedule.run_now",
    "schema.delete",
    "session.end",
    "token.restore",
    "token.revoke",
    "tool.delete",
    "tool.execute",
    "transaction.create",
    "transaction.delete",
    "transaction.hard_delete",
    "transaction.update",
    "transactions.export_csv",
    "upstream.accept",
    "upstream.begin_sign_in",
    "upstream.call",
    "upstream.complete_sign_in",
    "upstream.refresh",
    "upstream.refuse",
    "upstream.revoke",
    "upstream.sign_out",
    "webhook.delete",
    "webhook.test",
    "workflow.delete",
    "workflow.execute",
}
OPERATIONS = (*builtin_operations(), *profile_operations(fixtures=True))
STORING = {item.name for item in OPERATIONS if item.governance.stores is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Somebody who stores something."""

    kind: str
    """The kind of the key; `model` for the model of an agent that a person started."""
    request: dict[str, Any] = field(default_factory=dict)
    holds: HoldChoices = field(default_factory=HoldChoices)
    proposes: bool = True


WRITERS = {
    "person": Writer(kind="person", proposes=False),
    "service": Writer(kind="service", proposes=False),
    "service that proposes": Writer(kind="service", holds=HoldChoices(services_propose=True)),
    "agent": Writer(kind="agent"),
    "model over MCP": Writer(kind="person", request={"surface": "mcp"}),
    "model inside a run": Writer(kind="model"),
}
# A node that somebody sends runs once; it is the call of whoever sent it, and services that propose only store.
ONCE = {("service that proposes", "task.execute")}


def test_every_operation_that_changes_something_is_classified() -> None:
    changing = {item.name for item in OPERATIONS if not item.annotations.read_only}
    assert changing == STORING | NOT_STORING, "does it store what takes effect later? Declare `stores`, or list it here"
    assert not STORING & NOT_STORING


def test_every_operation_that_stores_something_has_a_row_and_its_kind_has_ways() -> None:
    known = rows("http://127.0.0.1:1")
    assert {operation_of(label) for label in known} == STORING, "add a row to tests/scenarios/authored.py"
    assert {row.kind for row in known.values()} == set(WAYS)


def test_a_definition_that_is_stored_may_always_be_held() -> None:
    assert all(item.governance.holdable for item in OPERATIONS if item.governance.stores is not None)


async def written(bench: Bench, writer: Writer, label: str, row: Row) -> Any:
    if writer.kind == "model":
        return await store_by_model(bench, label, row)
    return await store(bench, "writer", label, row, writer.request)


async def hire(bench: Bench, writer: Writer) -> None:
    if writer.kind != "model":
        await bench.office.hire("writer", writer.kind, "*")
    await bench.office.hire("ada", "person", "draft:*", "execution:*", "approve:approvers")


async def store_later(bench: Bench) -> None:
    for operation, arguments in bench.later:
        await bench.office.call(bench.owner, operation, **arguments)


async def outcomes(bench: Bench, known: dict[str, Row]) -> dict[tuple[str, str], str]:
    """What came of each row in each way."""
    return {
        (label, way): await act(bench, row.name) for label, row in known.items() for way, act in WAYS[row.kind].items()
    }


def with_rows(test: Any) -> None:
    async def body() -> None:
        async with receiving() as receiver:
            await test(receiver, rows(receiver.url))

    asyncio.run(asyncio.wait_for(body(), SECONDS_MAX))


@pytest.mark.parametrize("author", WRITERS)
def test_what_was_stored_takes_effect_in_every_way_or_in_none(tmp_path: Path, author: str) -> None:
    """It was stored under `open`. What nobody accepted has no effect as soon as the preset is another one."""
    writer = WRITERS[author]

    async def test(receiver: Any, known: dict[str, Row]) -> None:
        async with open_bench(tmp_path, HoldChoices(preset="open"), receiver) as bench:
            await prepare_ways(bench, known)
            await hire(bench, writer)
            for label, row in known.items():
                await written(bench, writer, label, row)
                await run_before(bench, row)
            await store_later(bench)
        async with open_bench(tmp_path, writer.holds, receiver, bench) as later:
            found = await outcomes(later, known)
        expected = ("VERSION_PROPOSED",) if writer.proposes else ("done", "held")
        wrong = {
            place: outcome for place, outcome in found.items() if (outcome in expected) is ((author, place[0]) in ONCE)
        }
        assert wrong == {}

    with_rows(test)


@pytest.mark.parametrize("author", WRITERS)
def test_what_is_stored_waits_for_a_person_and_then_takes_effect_in_every_way(tmp_path: Path, author: str) -> None:
    writer = WRITERS[author]

    async def test(receiver: Any, known: dict[str, Row]) -> None:
        async with open_bench(tmp_path, writer.holds, receiver) as bench:
            await prepare_ways(bench, known)
            await hire(bench, writer)
            not_held = {}
            for label, row in known.items():
                made = await written(bench, writer, label, row)
                held = made.get("held") if isinstance(made, dict) else None
                if (held is not None) is not writer.proposes:
                    not_held[label] = made
                if held is not None:
                    made = await bench.office.call("ada", "draft.approve", draft_id=held["draft_id"])
                    assert made["status"] == "executed", (label, made)
                await run_before(bench, row)
            assert not_held == {}
            await store_later(bench)
            found = await outcomes(bench, known)
            assert {place: outcome for place, outcome in found.items() if outcome not in ("done", "held")} == {}
            if writer.proposes and writer.kind != "service":
                await check_marks(bench, known)

    with_rows(test)


async def check_marks(bench: Bench, known: dict[str, Row]) -> None:
    """Every run of what an agent wrote is marked as such, in whichever way it was started."""
    names = {row.name for row in known.values() if row.kind in ("workflow", "agent document")}
    names |= {f"{row.kind}:{row.name}" for row in known.values() if row.kind in ("tool", "agent")}
    tasks = tuple(f"task:{name}." for name in names)
    page = await bench.office.call(bench.owner, "execution.list", limit=200)
    items = list(page["items"])
    while page["next_cursor"] is not None:
        page = await bench.office.call(bench.owner, "execution.list", limit=200, cursor=page["next_cursor"])
        items += page["items"]
    ours = [item for item in items if item["workflow_id"] in names or item["workflow_id"].startswith(tasks)]
    assert {item["workflow_id"] for item in ours} >= names
    unmarked = [item["workflow_id"] for item in ours if item["labels"].get(AUTHOR_LABEL) != "agent"]
    assert unmarked == []
