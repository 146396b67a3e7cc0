"""The history of a run can store what any operation of the catalogue answers to it."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from typing import Any, Final

from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability
from tests.fixtures.oauth_server import serving_oauth
from tests.scenarios.keyed_operations import ARRANGEMENTS, ASK, CALLERS, FIND, SCHEMA, WAIT, Desk, open_desk
from tests.waiting import SECONDS_MAX

OPERATIONS: Final = Path(__file__).parents[2] / "src/penstock/operations"
SEEN_IN_OTHERS: Final = frozenset({*CALLERS, "workflow.execute", "execution.fork", "execution.retry"})
"""Drafts are decided by people, not by runs, and answered like `draft.cancel`. The others answer with a run that does
not end, so that their caller would wait."""
FAILS: Final = {
    "action.handle": "PREFLIGHT_NOT_FOUND",
    "agent.execute": "COMPOSITE_EXECUTOR_NOT_CONFIGURED",
    "execution.changes": "TOOL_CALL_INVALID",
    "execution.stream": "TOOL_CALL_INVALID",
    "graph.query": "ADHOC_NOT_ALLOWED",
    "policy.tools": "NOT_CONFIGURED",
    "system.clients": "NOT_CONFIGURED",
    "task.execute": "STEP_CONFIG_INVALID",
}
"""What cannot be answered here: streams, and what this process has not."""


async def plant(desk: Desk) -> dict[str, Any]:
    """Something of every kind; gives the arguments that name it."""
    workflow = await desk.workflow(ASK, WAIT)
    run = await desk.do("workflow.execute", workflow_id=workflow, mode="host_mediated")
    schedule = await desk.do("schedule.create", workflow_id=workflow, cron="0 3 * * *")
    hook = await desk.do("webhook.create", url="https://example.com/events")
    delivery = await desk.do("webhook.test", endpoint_id=hook["webhook"]["id"])
    await desk.do(
        "notification.set", execution_id=run["execution_id"], notification_id="main", url="https://example.com/n"
    )
    key = await desk.do("key.create", name="somebody", scopes=["workflow:run"], kind="agent")
    await desk.do("schema.create", id="planted", schema={"type": "object"})
    await desk.do("model.create", id="planted", provider="openai", model="m")
    await desk.do("tool.create", id="planted", name="Planted", kind="step")
    await desk.do("agent.create", id="planted", model="planted")
    talk = await desk.do("agent.message", agent_id="planted", message="hi")
    await desk.do("memory.put", scope="tenant", key="planted", value=["a"])
    text = '@id("planted") forbid (principal is Agent, action, resource) when { context.time.hour > 24 };'
    await desk.do("policy.put", policy_id="planted", text=text)
    await desk.do("quota.set", subject=f"key:{key['key']['id']}", runs_per_day=4711)
    checkpoint = await desk.do("audit.checkpoint")
    await desk.do("graph.create", id="planted", schema=SCHEMA)
    await desk.do("graph.queries_put", graph_id="planted", name="find", source=FIND)
    loaded = await desk.do("graph.load", graph_id="planted", data='{"type": "Person", "data": {"name": "Eve"}}')
    draft = await desk.draft()
    app = await desk.do("app.create", name="planted", scopes=["ledger.read"])
    return {
        "workflow_id": workflow,
        "task_id": "hold",
        "execution_id": run["execution_id"],
        "expression": ".state",
        "schedule_id": schedule["schedule_id"],
        "endpoint_id": hook["webhook"]["id"],
        "delivery_id": delivery["id"],
        "notification_id": "main",
        "key_id": key["key"]["id"],
        "subject": f"key:{key['key']['id']}",
        "schema_id": "planted",
        "version": 1,
        "model_id": "planted",
        "tool_id": "planted",
        "agent_id": "planted",
        "session_id": talk["session_id"],
        "scope": "tenant",
        "key": "planted",
        "text": text,
        "policy_id": "planted",
        "action": "workflow.list",
        "seq": checkpoint["size"],
        "from_size": checkpoint["size"],
        "graph_id": "planted",
        "name": "find",
        "source": FIND,
        "commit_id": loaded["commit"]["commit_id"],
        "query": FIND,
        "server": "shop",
        "draft_id": draft["id"],
        "app_id": app["id"],
        "cron": "0 3 * * *",
        "address": "http://127.0.0.1:8080",
    }


SAID_BESIDE: Final[dict[str, JsonObject]] = {
    "action.handle": {"operation": "key.create", "preflight_id": "p"},
    "graph.branches_preview": {"source": "main"},
    "graph.diff": {"source": "main"},
    "graph.queries_explain": {"params": {"name": "Eve"}},
    "memory.search": {"text": "a"},
    "policy.replay": {"text": '@id("all") permit (principal, action, resource);'},
    "transaction.list": {"ledgerId": "ledger_main"},
    "workflow.validate": {"document": {"penstock": "v1", "name": "x", "nodes": []}},
}
"""Arguments that no thing is named by."""


def named_by(item: Capability) -> list[str]:
    """The arguments without which there is no answer."""
    found = item.input_schema.get("required", [])
    assert isinstance(found, list)
    return [*map(str, found), *(["execution_id"] if item.name == "control.workflow_status" else [])]


async def call_in_run(desk: Desk, operation: str, arguments: JsonObject) -> tuple[str | None, str]:
    """Call an operation from a node; give the code and the message of what went wrong."""
    name = desk.name("caller")
    node: JsonObject = {"id": "called", "type": "tool_call", "server": "penstock", "tool": operation}
    nodes: list[Any] = [
        {**node, "arguments": "${ .input }", "on_error": {"next": "failed"}, "retry": {"max_attempts": 1}},
        {"id": "done", "type": "end", "output": {"code": None, "message": ""}},
        {"id": "failed", "type": "end", "output": {"code": "${ .error.code }", "message": "${ .error.message }"}},
    ]
    await desk.do("workflow.create", document={"penstock": "v1", "name": name, "nodes": nodes})
    ended = await desk.do("workflow.execute", workflow_id=name, input=arguments, sync=True)
    output = ended.get("output") or {"code": (ended.get("error") or {}).get("code"), "message": str(ended)}
    return output["code"], str(output["message"])


def test_a_history_can_store_what_any_operation_answers(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving_oauth() as oauth, open_desk(tmp_path, oauth, profile=True) as desk:
            await desk.staff()
            planted = await plant(desk)
            failed: dict[str, str] = {}
            told: list[str] = []
            for item in desk.gate.catalogue.all():
                if item.name in SEEN_IN_OTHERS:
                    continue
                if item.annotations.read_only:
                    named = {name: planted[name] for name in named_by(item) if name in planted}
                    arguments = {**named, **SAID_BESIDE.get(item.name, {})}
                else:
                    arguments = await ARRANGEMENTS[item.name](desk)
                code, message = await call_in_run(desk, item.name, arguments)
                if code is not None:
                    failed[item.name] = code
                    told.append(f"{item.name}: {code} {message}")
            assert failed == FAILS, "\n".join(told)

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_what_runs_store_of_answers_is_made_plain_json_first() -> None:
    """`msgspec.to_builtins` leaves tuples, which no history stores."""
    for path in OPERATIONS.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "ActivityDone(" in text or "ExecuteWorkflow(" in text:
            called = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
            assert "to_builtins" not in called, f"{path}: use plain_json"
