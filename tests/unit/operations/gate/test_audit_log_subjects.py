"""What audit records are about: every call that changes something names it, as far as anybody can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from penstock.operations.builtin import builtin_operations, internal_operations
from tests.unit.operations.conftest import Caller, OpenGate
from tests.waiting import SECONDS_MAX

GREET = {"penstock": "v1", "name": "greet", "nodes": [{"id": "done", "type": "end"}]}
PUBLISHED = {"document": {"name": "greet", "version": "1.0.0"}, "nodes": []}
CHANGING = {
    capability.name: capability
    for capability in (*builtin_operations(), *internal_operations())
    if not capability.annotations.read_only
}
# The member of the input that names what is changed.
MEMBERS = {
    "workflow_id": (
        "workflow.update workflow.delete workflow.execute task.create task.update task.delete task.execute"
        " schedule.create"
    ),
    "execution_id": (
        "execution.pause execution.resume execution.cancel execution.retry execution.fork execution.delete"
        " execution.start_child execution.call_tool execution.reach"
        " execution.signal execution.update execution.answer execution.submit_activity execution.lease_activity"
        " control.workflow_resume control.workflow_submit_activity control.workflow_signal control.workflow_cancel"
        " execution.escalate execution.withdraw notification.set notification.delete"
    ),
    "schedule_id": ("schedule.update schedule.delete schedule.pause schedule.resume schedule.run_now schedule.start"),
    "name": "key.create",
    "task": "task.define",
    "key_id": "key.revoke key.rotate",
    "policy_id": "policy.put policy.delete",
    "subject": "quota.set quota.reset",
    "hold_id": "audit.release",
    "issuer": "token.revoke",
    "revocation_id": "token.restore",
    "id": "schema.create model.create tool.create agent.create graph.create",
    "graph_id": (
        "graph.update graph.delete graph.schema_apply graph.branches_create graph.branches_delete graph.branches_merge"
        " graph.mutate graph.collect"
        " graph.load graph.queries_put graph.queries_delete graph.configure graph.guard graph.quarantine"
    ),
    "schema_id": "schema.update schema.delete",
    "model_id": "model.update model.delete",
    "tool_id": "tool.update tool.delete tool.execute tool.define",
    "agent_id": "agent.update agent.delete agent.execute agent.define agent.message session.define",
    "session_id": "session.end session.forget console_session.begin console_session.renew console_session.close",
    "console_session_id": "console_session.end",
    "logout_id": "console_session.note_logout",
    "endpoint_id": "webhook.update webhook.delete webhook.rotate webhook.test webhook.disable notification.end",
    "delivery_id": "delivery.retry",
    "draft_id": "draft.approve draft.reject draft.commit draft.cancel draft.propose",
    "operation": "draft.define preflight.run",
    "principal": "grant.create key.sign_out",
    "grant_id": "grant.delete",
    "server": "upstream.refresh upstream.keep_listing upstream.accept_first upstream.begin_sign_in"
    " upstream.complete_sign_in upstream.sign_out upstream.keep_grant upstream.sample upstream.define_sampling",
}
# Where it takes more than one member, or another form, to say it.
COMPOSED: list[tuple[str, dict[str, Any], str]] = [
    ("workflow.create", {"document": GREET}, "greet"),
    ("workflow.create", {"document": PUBLISHED}, "greet"),
    ("workflow.create", {"id": "greet", "tasks": []}, "greet"),
    ("workflow.import", {"workflows": [GREET, {**GREET, "name": "other"}]}, "greet,other"),
    ("control.workflow_start", {"definition": PUBLISHED}, "greet"),
    ("control.workflow_start", {"definition": GREET, "execution_id": "run"}, "run"),
    ("upstream.accept", {"server": "shop", "tools": ["search", "pay"]}, "shop/search,pay"),
    ("upstream.revoke", {"server": "shop", "tool": "search"}, "shop/search"),
    ("upstream.refuse", {"server": "shop", "tool": "search", "reason": "no"}, "shop/search"),
    ("upstream.call", {"server": "shop", "tool": "search"}, "shop/search"),
    ("graph.query_run", {"graph_id": "crm", "name": "tasks"}, "crm/tasks"),
    ("memory.put", {"scope": "tenant", "key": "tone", "value": "formal"}, "tenant:tone"),
    ("memory.delete", {"scope": "principal", "key": "tone"}, "principal:tone"),
    ("memory.clear", {"scope": "session", "session_id": "s-1"}, "session"),
    ("upstream.define_call", {"server": "shop", "tool": "search"}, "shop/search"),
]
# A new webhook has no name but the id that it gets; retention is about many things, and says how many; a restored file
# has a record for each backup and trail.
# A checkpoint, a hold, a backup and a new key have no name but what they get; whoever is erased is not named again.
UNNAMED = {
    "webhook.create",
    "policy.load",
    "graph.release",
    "retention.forget_runs",
    "retention.forget_audit",
    "store.restore",
    "audit.checkpoint",
    "audit.keep_stamp",
    "audit.hold",
    "audit.redact",
    "audit.rotate_key",
    "backup.create",
    "backup.create_scheduled",
    "backup.rotate",
    "console_session.forget",
}
CASES = [
    *((name, {member: "it"}, "it") for member, names in MEMBERS.items() for name in names.split()),
    *COMPOSED,
]


@pytest.mark.parametrize(
    ("name", "arguments", "subject"), CASES, ids=[f"{number} {name}" for number, (name, _, _) in enumerate(CASES)]
)
def test_a_call_that_changes_something_names_it(name: str, arguments: dict[str, Any], subject: str) -> None:
    capability = CHANGING[name]
    assert set(arguments) <= set(msgspec.to_builtins(capability.input_schema)["properties"])
    assert capability.authorization(arguments).resource_id == subject


def test_every_operation_that_changes_something_is_looked_at() -> None:
    assert {name for name, _, _ in CASES} | UNNAMED == set(CHANGING)


def run(open_caller: OpenGate, test: Callable[[Caller], Awaitable[None]]) -> None:
    async def body() -> None:
        async with asyncio.timeout(SECONDS_MAX), open_caller() as caller:
            await test(caller)

    asyncio.run(body())


async def subjects(caller: Caller, operation: str) -> list[str | None]:
    listed = (await caller.call("audit.list", operation=operation, outcome="allowed"))["items"]
    return [item["subject"] for item in reversed(listed)]


def test_the_record_of_something_new_has_its_id(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        key = await caller.call("key.create", name="reports", scopes=["workflow:read"])
        webhook = await caller.call("webhook.create", url="https://example.com/events")
        assert await subjects(caller, "key.create") == [key["key"]["id"]]
        assert await subjects(caller, "webhook.create") == [webhook["webhook"]["id"]]

    run(open_caller, test)


def test_the_record_of_a_new_workflow_has_its_name_in_whatever_form_it_was_sent(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.create", document=GREET)
        await caller.call("workflow.create", source=msgspec.json.encode({**GREET, "name": "text"}).decode())
        await caller.call("workflow.create", id="tasks", tasks=GREET["nodes"])
        assert await subjects(caller, "workflow.create") == ["greet", "text", "tasks"]

    run(open_caller, test)
