"""Nobody is asked about what does not exist: a call that would wait is refused as if it were made at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.operations.builtin import builtin_operations
from penstock.operations.gate.context import HoldChoices, WriteIntent
from penstock.operations.gate.pipeline import AnsweredCall, RefusedCall
from tests.scenarios.office import ERASE, Office, in_office

DRAFT = {"intent": WriteIntent(wants_draft=True)}
# What each operation has to be told beside the names of things that do not exist.
MORE: dict[str, dict[str, Any]] = {
    "workflow.update": {"document": ERASE},
    "task.create": {"task": {"id": "pause", "type": "wait", "duration": "1s"}},
    "task.execute": {"workflow_id": "unknown", "task_id": "unknown"},
    "task.update": {"task": {"id": "unknown", "type": "wait", "duration": "1s"}},
    "execution.fork": {"at_sequence": 3},
    "execution.signal": {"name": "paid"},
    "execution.update": {"name": "paid"},
    "execution.answer": {"answer": True},
    "execution.submit_activity": {"ok": True},
    "execution.lease_activity": {"seconds": 60},
    "schedule.create": {"cron": "0 6 * * *"},
    "control.workflow_resume": {"resume_payload": {}},
    "control.workflow_submit_activity": {"outcome": {"ok": True}},
    "control.workflow_signal": {"signal_name": "paid"},
    "schema.update": {"schema": {}},
    "model.update": {"provider": "openai", "model": "gpt"},
    "tool.update": {"kind": "mcp", "description": "?", "server": "shop", "name": "x"},
    "tool.execute": {},
    "agent.update": {"model": "m", "instructions": "?"},
    "agent.execute": {"prompt": "?"},
    "agent.message": {"message": "?"},
    "memory.delete": {"scope": "tenant", "key": "unknown"},
    "upstream.accept": {"tools": ["search"]},
    "upstream.refuse": {"reason": "?"},
    "upstream.begin_sign_in": {"redirect_uri": "http://127.0.0.1:40123/callback"},
    "upstream.complete_sign_in": {"state": "s"},
    "graph.update": {"title": "?"},
    "graph.schema_apply": {"schema": "node Person { name: String @key }"},
    "graph.branches_create": {"name": "work"},
    "graph.collect": {"keep_days": 0},
    "graph.branches_merge": {"source": "work"},
    "graph.branches_delete": {"name": "work"},
    "graph.mutate": {"query": 'query add() { insert Person { name: "Ada" } }'},
    "graph.load": {"data": '{"type": "Person", "data": {"name": "Ada"}}'},
    "graph.queries_put": {"name": "all", "source": "query all() { match { $p: Person } return { $p } }"},
    "graph.queries_delete": {"name": "all"},
    "graph.query_run": {"name": "all"},
    "webhook.update": {"url": "https://example.com/events", "events": ["run.failed"]},
    "notification.set": {"url": "https://example.com/news"},
}
NAMES = (
    "workflow_id",
    "task_id",
    "execution_id",
    "node_id",
    "schedule_id",
    "key_id",
    "subject",
    "hold_id",
    "policy_id",
)
MORE_NAMES = ("revocation_id", "schema_id", "model_id", "tool_id", "agent_id", "server", "tool", "endpoint_id")
LAST_NAMES = ("delivery_id", "grant_id", "graph_id", "session_id", "notification_id", "console_session_id")
# Stores what it names, and so finds nothing; its code is for a version that was deleted meanwhile. The last two look
# whether the caller may, before anybody is asked.
CREATING = {
    "policy.put",
    "workflow.create",
    "workflow.import",
    "agent.create",
    "model.create",
    "schema.create",
    "tool.create",
    "key.create",
    "key.sign_out",
}
LOOKING_FOR = {
    capability.name: capability
    for capability in builtin_operations()
    if capability.governance.holdable
    and not capability.annotations.read_only
    and capability.name not in CREATING
    and (any(code.endswith("NOT_FOUND") for code in capability.errors) or capability.find is not None)
}


def unknown(name: str) -> dict[str, Any]:
    """The arguments of a call about something that does not exist."""
    schema: dict[str, Any] = LOOKING_FOR[name].input_schema
    members = [item for item in (*NAMES, *MORE_NAMES, *LAST_NAMES) if item in schema["properties"]]
    named = {item: "unknown" for item in members if item in schema.get("required", ()) or name.startswith("control.")}
    return {**named, **MORE.get(name, {})}


def test_every_operation_that_looks_for_something_can_look_before_it_is_held() -> None:
    assert {name for name, capability in LOOKING_FOR.items() if capability.find is None} == set()
    assert len(LOOKING_FOR) > 40


def test_what_does_not_exist_is_refused_alike_whether_or_not_the_call_would_wait(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("shop", "service", "*")
        differing = {}
        for name in sorted(LOOKING_FOR):
            direct = await office.outcome("shop", name, **unknown(name))
            held = await office.outcome("robot", name, **unknown(name), request=DRAFT)
            looked = await office.outcome("shop", "preflight.run", operation=name, arguments=unknown(name))
            told = [item.error.code if isinstance(item, RefusedCall) else item for item in (direct, held, looked)]
            if len(set(map(str, told))) != 1 or told[0] == "INVALID_ARGUMENTS":
                differing[name] = told
        assert differing == {}
        assert (await office.call(office.owner, "draft.list"))["items"] == []

    in_office(tmp_path, test)


@pytest.mark.parametrize("preset", ["careful", "strict"])
def test_an_agent_over_mcp_is_told_that_a_workflow_does_not_exist(tmp_path: Path, preset: Any) -> None:
    async def test(office: Office) -> None:
        over_mcp = {"surface": "mcp"}
        refused = await office.refusal("robot", "workflow.delete", workflow_id="unknown", request=over_mcp)
        assert refused.code == "WORKFLOW_NOT_FOUND"
        held = await office.call("robot", "workflow.delete", workflow_id="erase_customer", request=over_mcp)
        assert held["status"] == "waiting_approval"
        audited = await office.call(office.owner, "audit.list", operation="workflow.delete", outcome="refused")
        assert [item["code"] for item in audited["items"]] == ["WORKFLOW_NOT_FOUND"]

    in_office(tmp_path, test, HoldChoices(preset=preset))


FORBIDDEN = '@id("hidden") forbid (principal is Agent, action == Action::"workflow:erase_customer", resource);'


@pytest.mark.parametrize("way", ["scope", "policy", "tenant"])
def test_what_a_caller_may_not_know_of_looks_unknown_also_as_a_draft(tmp_path: Path, way: str) -> None:
    async def test(office: Office) -> None:
        scopes = ["workflow:run", "workflow:delete", "schedule:*", "execution:*"]
        more: dict[str, Any] = {}
        if way == "scope":
            guarded = {**ERASE, "governance": {"scopes": ["crm:erase"]}}
            await office.call(office.owner, "workflow.update", workflow_id="erase_customer", document=guarded)
        elif way == "policy":
            await office.call(office.owner, "policy.put", policy_id="rules", text=FORBIDDEN)
        else:
            more = {"tenant": "elsewhere"}
        await office.hire("spy", "agent", *scopes, **more)
        calls: list[tuple[str, dict[str, Any]]] = [
            ("workflow.execute", {"input": {"customer": "C-7"}}),
            ("schedule.create", {"cron": "0 6 * * *", "input": {"customer": "C-7"}}),
        ]
        if way == "tenant":
            calls.append(("workflow.delete", {}))
        for name, arguments in calls:
            told = []
            for workflow in ("erase_customer", "unknown"):
                outcome = await office.outcome("spy", name, workflow_id=workflow, **arguments, request=DRAFT)
                assert isinstance(outcome, RefusedCall), outcome
                told.append((outcome.error.code, outcome.error.message.replace(workflow, "it"), outcome.error.hint))
            assert told[0] == told[1], name

    in_office(tmp_path, test)


def test_a_draft_of_a_start_asks_those_whom_the_workflow_names(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        governed = {"risk": "high", "approvers": {"group": "finance"}}
        changed = {**ERASE, "governance": governed}
        await office.call(office.owner, "workflow.update", workflow_id="erase_customer", document=changed)
        start = {"workflow_id": "erase_customer", "input": {"customer": "C-7"}}
        looked = await office.call("robot", "preflight.run", operation="workflow.execute", arguments=start)
        assert (looked["would"], looked["reason"], looked["approvers"][0]["groups"]) == ("hold", "risk", ("finance",))
        held = await office.call("robot", "workflow.execute", **start, request=DRAFT)
        draft = await office.call(office.owner, "draft.get", draft_id=held["held"]["draft_id"])
        assert (draft["reason"], draft["risk"], draft["approvers"]["group"]) == ("risk", "high", "finance")

    in_office(tmp_path, test)


def test_a_preflight_counts_for_what_the_call_starts_too(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        granted = {"principal": office.people["robot"].id, "capabilities": ["workflow.execute"], "expires_in": "1h"}
        await office.call(office.owner, "grant.create", **granted, high_risk=True)
        start = {"workflow_id": "erase_customer", "input": {"customer": "C-7"}, "sync": True}
        looked = await office.call("robot", "preflight.run", operation="workflow.execute", arguments=start)
        assert looked["would"] == "execute"
        intent = WriteIntent(preflight_id=looked["preflight_id"], justification="asked for by the customer")
        request = {"intent": intent, "idempotency_key": "once"}
        outcome = await office.outcome("robot", "workflow.execute", **start, request=request)
        assert isinstance(outcome, AnsweredCall), outcome
        assert await office.erased() == ["C-7"]

    in_office(tmp_path, test, HoldChoices(preset="strict"))
