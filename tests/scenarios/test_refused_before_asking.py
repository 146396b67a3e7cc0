"""Nobody is asked to approve what cannot be made: whatever can be decided beforehand is refused at once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.governance.holds import Approval
from penstock.operations.builtin import builtin_operations
from penstock.operations.catalogue.reasons import reasons_of
from penstock.operations.gate.context import HoldChoices
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import RefusedCall
from tests.scenarios.office import ERASE, Office, in_office
from tests.waiting import until

STRICT = HoldChoices(preset="strict", approval=Approval(groups=("approvers",)))
PAY: dict[str, Any] = {
    "penstock": "v1",
    "name": "pay",
    "input": {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer"}}},
    "governance": {"risk": "high"},
    "expose": {"tool": True},
    "nodes": [
        {"id": "hold", "type": "wait", "signal": "go"},
        {"id": "done", "type": "end", "output": "${ .input.amount }"},
    ],
}
FORBID = 'forbid(principal, action == Action::"workflow:pay", resource) when { context.input.amount > 100 };'
SCHEMA = "node Person { name: String @key }"
# What each refusal is of: an operation, its arguments, and the code with which it is refused at once.
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "policy: tool": ("workflow:pay", {"amount": 500}, "POLICY_DENIED"),
    "policy: execute": ("workflow.execute", {"workflow_id": "pay", "input": {"amount": 500}}, "POLICY_DENIED"),
    "policy: control": ("control.workflow_start", {"definition": PAY, "input": {"amount": 500}}, "POLICY_DENIED"),
    "policy: schedule": (
        "schedule.create",
        {"workflow_id": "pay", "cron": "0 6 * * *", "input": {"amount": 500}},
        "POLICY_DENIED",
    ),
    "policy: task": (
        "task.execute",
        {"workflow_id": "pay", "task_id": "hold", "input": {"amount": 500}},
        "POLICY_DENIED",
    ),
    "policy: agent": ("agent.execute", {"agent_id": "payer", "prompt": "p"}, "POLICY_DENIED"),
    "arguments: input": ("workflow.execute", {"workflow_id": "pay", "input": {"amount": "x"}}, "INPUT_INVALID"),
    "arguments: control": ("control.workflow_start", {"definition": {"penstock": "v1"}}, "VALIDATION_ERROR"),
    "arguments: label": (
        "workflow.execute",
        {"workflow_id": "pay", "input": {"amount": 1}, "labels": {"penstock.x": "y"}},
        "LABEL_RESERVED",
    ),
    "arguments: timeout": (
        "workflow.execute",
        {"workflow_id": "pay", "input": {"amount": 1}, "timeout": "soon"},
        "DURATION_INVALID",
    ),
    "arguments: cron": ("schedule.create", {"workflow_id": "greet", "cron": "often"}, "SCHEDULE_INVALID"),
    "arguments: document": ("workflow.create", {"document": {"penstock": "v1"}}, "INVALID_DOCUMENT"),
    "arguments: model": ("model.create", {"id": "m", "provider": "nobody", "model": "x"}, "MODEL_PROVIDER_UNKNOWN"),
    "arguments: scope": ("key.create", {"name": "k", "scopes": ["not a scope"]}, "SCOPE_INVALID"),
    "arguments: schema": ("graph.create", {"id": "g", "schema": "nonsense"}, "GRAPH_SCHEMA_INVALID"),
    "arguments: policy": ("policy.put", {"policy_id": "p", "text": "nonsense"}, "POLICY_INVALID"),
    "arguments: webhook": ("webhook.create", {"url": "ftp://example.com"}, "WEBHOOK_URL_INVALID"),
    "not executable": ("task.execute", {"workflow_id": "greet", "task_id": "done"}, "TASK_NOT_EXECUTABLE"),
    "exists: workflow": ("workflow.create", {"document": PAY}, "WORKFLOW_EXISTS"),
    "exists: graph": ("graph.create", {"id": "own", "schema": SCHEMA}, "GRAPH_EXISTS"),
    "exists: agent": ("agent.create", {"id": "payer", "model": "m", "instructions": "i"}, "AGENT_NAME_TAKEN"),
    "exists: execution": (
        "workflow.execute",
        {"workflow_id": "greet", "input": {}, "execution_id": "taken"},
        "EXECUTION_ID_TAKEN",
    ),
    "state: cancel": ("execution.cancel", {"execution_id": "ended"}, "CANCEL_NOT_ALLOWED"),
    "state: pause": ("execution.pause", {"execution_id": "ended"}, "RUN_ENDED"),
    "state: resume": ("execution.resume", {"execution_id": "taken"}, "RESUME_NOT_ALLOWED"),
    "state: delete": ("execution.delete", {"execution_id": "taken"}, "EXECUTION_NOT_ENDED"),
    "state: signal": ("execution.signal", {"execution_id": "ended", "name": "go"}, "SIGNAL_NOT_AWAITING"),
    "state: answer": ("execution.answer", {"execution_id": "taken", "answer": {}}, "NO_OPEN_QUESTION"),
    "state: fork": ("execution.fork", {"execution_id": "ended", "at_sequence": 999}, "FORK_POINT_INVALID"),
    "state: control": ("control.workflow_cancel", {"execution_id": "ended"}, "CANCEL_NOT_ALLOWED"),
    "changed: update": (
        "workflow.update",
        {"workflow_id": "greet", "document": {**ERASE, "name": "greet"}, "if_match": '"other"'},
        "PRECONDITION_FAILED",
    ),
    "changed: delete": ("workflow.delete", {"workflow_id": "greet", "if_match": '"other"'}, "PRECONDITION_FAILED"),
    "name differs": ("workflow.update", {"workflow_id": "greet", "document": PAY}, "WORKFLOW_NAME_DIFFERS"),
    "quota": ("workflow.execute", {"workflow_id": "greet", "input": {}}, "QUOTA_EXCEEDED"),
    "settings: schema": ("graph.schema_apply", {"graph_id": "given", "schema": SCHEMA}, "GRAPH_OF_SETTINGS"),
    "settings: delete": ("graph.delete", {"graph_id": "given"}, "GRAPH_OF_SETTINGS"),
    "settings: query": (
        "graph.queries_put",
        {"graph_id": "given", "name": "q", "source": "query q() { match { $p: Person } return { $p.name } }"},
        "GRAPH_OF_SETTINGS",
    ),
}


async def _furnish(office: Office, case: str) -> None:
    greet = {**ERASE, "name": "greet", "input": {"type": "object"}, "governance": {"risk": "high"}}
    payer = {
        "penstock": "v1",
        "name": "payer",
        "agent": {"model": "m", "instructions": "i", "tools": ["workflow:pay"]},
    }
    for document in (PAY, {**greet, "nodes": [PAY["nodes"][0], greet["nodes"][0]]}, payer):
        await office.call(office.owner, "workflow.create", document=document)
    if case == "quota":
        await office.call(office.owner, "quota.set", subject="tenant", runs_per_day=2)
    for run in ("taken", "ended"):
        await office.call(office.owner, "workflow.execute", workflow_id="pay", input={"amount": 1}, execution_id=run)
    await office.call(office.owner, "execution.cancel", execution_id="ended")
    await office.call(office.owner, "graph.create", id="own", schema=SCHEMA)
    await _declare(office)
    forbid = FORBID if case != "policy: agent" else 'forbid(principal, action == Action::"workflow:payer", resource);'
    source = f'@id("less")\n{forbid}'
    await office.call(office.owner, "policy.put", policy_id="limits", text=source)


async def _declare(office: Office) -> None:
    """Declare a graph as the settings do."""
    caller = system_principal("graphs", "graph:admin", tenant="default")
    await internal_call(office.gate, caller, "graph.configure", {"graph_id": "given", "schema": SCHEMA})


@pytest.mark.parametrize("case", CASES)
def test_what_can_be_decided_beforehand_is_refused_at_once(tmp_path: Path, case: str) -> None:
    operation, arguments, code = CASES[case]

    async def test(office: Office) -> None:
        await _furnish(office, case)
        outcome = await office.outcome("robot", operation, **arguments)
        assert isinstance(outcome, RefusedCall), outcome
        assert outcome.error.code == code, outcome.error
        assert (await office.call("ada", "draft.list"))["items"] == []
        looked = await office.outcome("robot", "preflight.run", operation=operation, arguments=arguments)
        assert isinstance(looked, RefusedCall), looked
        assert looked.error.code == code

    in_office(tmp_path, test, STRICT)


# Calls of the documentation that make something new: they need nothing that is there already.
_MAKES = {
    *("workflow.create", "workflow.import", "graph.create", "memory.put", "memory.clear", "control.workflow_start"),
    *("key.create", "quota.set", "audit.checkpoint", "audit.hold", "audit.redact", "policy.put", "token.revoke"),
    *("schema.create", "model.create", "tool.create", "agent.create", "webhook.create", "grant.create"),
    *("audit.rotate_key", "backup.create", "execution.answer"),
}
# What such a call leaves alone while it waits. (A held call has a workflow, a run and an audit record of its own.)
_UNTOUCHED = ("schedules", "api_keys", "resources", "deliveries", "policy_uses", "graphs", "memory_entries")


def test_every_operation_refuses_what_does_not_exist_and_rehearsing_changes_nothing(tmp_path: Path) -> None:
    """Derived from the catalogue: the call of the documentation of each operation that can be held, by an agent."""
    operations = [
        item for item in builtin_operations() if not item.only_reads and item.governance.holdable and item.examples
    ]

    async def test(office: Office) -> None:
        await until(lambda: _has_started(office, tmp_path))
        before, held = _rows(tmp_path), set()
        for capability in operations:
            outcome = await office.outcome("robot", capability.name, **capability.examples[0].arguments)
            if isinstance(outcome, RefusedCall):
                assert outcome.error.code in reasons_of(capability), (capability.name, outcome.error)
                assert not outcome.failed, capability.name
            else:
                held.add(capability.name)
            assert _rows(tmp_path) == before, capability.name
        assert held <= _MAKES
        assert len(held) > len(_MAKES) / 2  # otherwise this shows nothing

    in_office(tmp_path, test, STRICT)


@pytest.mark.parametrize("operation", ["memory.delete", "memory.clear", "memory.put"])
def test_rehearsing_a_change_of_memory_leaves_what_is_remembered_and_what_finds_it(
    tmp_path: Path, operation: str
) -> None:
    named = {"scope": "tenant", "key": "tone"}
    arguments = {"memory.delete": named, "memory.clear": {"scope": "tenant"}, "memory.put": {**named, "value": "brief"}}

    async def test(office: Office) -> None:
        await office.call(office.owner, "memory.put", **named, value="formal")
        outcome = await office.outcome("robot", operation, **arguments[operation])
        assert not isinstance(outcome, RefusedCall), outcome
        assert len((await office.call("ada", "draft.list"))["items"]) == 1
        assert (await office.call(office.owner, "memory.get", **named))["value"] == "formal"
        found = await office.call(office.owner, "memory.search", scope="tenant", text="formal brief")
        assert [item["value"] for item in found["items"]] == ["formal"]

    in_office(tmp_path, test, STRICT)


async def _has_started(office: Office, path: Path) -> bool:
    """Whether what a server stores in the background at its start is there: a backup, and the tools of others."""
    servers = (await office.call(office.owner, "upstream.list"))["items"]
    around = [item for item in servers if item["status"] != "idle"]
    if not around:
        return True
    with closing(sqlite3.connect(path / "penstock.db")) as file:
        stored = set(file.execute("select kind, resource_id from resources"))
    expected = {("backup", "verified"), *(("upstream_listing", item["server"]) for item in around)}
    return expected <= stored and all(set(item["tools"]) == {"pinned"} for item in around)


def _rows(path: Path) -> dict[str, int]:
    """Return how many rows each table has, of those that a call which only waits does not touch."""
    with closing(sqlite3.connect(path / "penstock.db")) as file:
        names = [row[0] for row in file.execute("select name from sqlite_master where type = 'table'")]
        assert set(_UNTOUCHED) <= set(names)
        return {name: file.execute(f"select count(*) from {name}").fetchone()[0] for name in _UNTOUCHED}
