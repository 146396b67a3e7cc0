"""Every operation is classified: either it stores what takes effect later, and its author counts, or it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.operations.builtin import builtin_operations
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.context import HoldChoices, NodeVisit
from penstock.operations.gate.pipeline import AnsweredCall
from tests.scenarios.office import ERASE, Office, in_office
from tests.scenarios.test_authorship import LAUNDERED, LONGER, LOW

# What these change has no effect of its own later: data, decisions, runs, credentials (which have rules of their own).
NOT_STORING = {
    "agent.delete",
    "agent.execute",
    "agent.message",
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
STORING = {item.name for item in builtin_operations() if item.governance.stores is not None}
ARGUMENTS: dict[str, dict[str, Any]] = {operation: arguments for operation, arguments in LAUNDERED.values()} | {
    "workflow.create": {"document": {**LOW, "name": "another"}},
    "workflow.import": {"workflows": [{**LOW, "name": "another"}]},
    "task.delete": {"workflow_id": "longer", "task_id": "pause"},
    "policy.put": {
        "policy_id": "p",
        "text": '@id("p") forbid (principal, action == Action::"workflow.delete", resource);',
    },
}
# Who stores it, what the request says beside that, and whether a person has to accept it.
AUTHORS: dict[str, tuple[str, dict[str, Any], HoldChoices, bool]] = {
    "person": ("person", {}, HoldChoices(), False),
    "service": ("service", {}, HoldChoices(), False),
    "service that proposes": ("service", {}, HoldChoices(services_propose=True), True),
    "agent": ("agent", {}, HoldChoices(), True),
    "model over MCP": ("person", {"surface": "mcp"}, HoldChoices(), True),
    "agent inside a run": (
        "person",
        {"surface": "run", "visit": NodeVisit(run_id="r_1", node_id="ask", visit=1, by_model=True)},
        HoldChoices(),
        True,
    ),
    "agent, nothing is held": ("agent", {}, HoldChoices(preset="open"), False),
}
# These need more than arguments: something to change, a graph, an address that is reached. Their rule is the same one.
PREPARED = {"graph.queries_put", "webhook.update", "webhook.rotate", "schedule.update"} | {
    f"{kind}.update" for kind in ("schema", "model", "tool", "agent")
}


def test_every_operation_that_changes_something_is_classified() -> None:
    changing = {item.name for item in builtin_operations() if not item.annotations.read_only}
    assert changing == STORING | NOT_STORING, "does it store what takes effect later? Declare `stores`, or list it here"
    assert not STORING & NOT_STORING
    assert set(ARGUMENTS) | PREPARED == STORING


def test_a_definition_that_is_stored_may_always_be_held() -> None:
    assert all(item.governance.holdable for item in builtin_operations() if item.governance.stores is not None)


@pytest.mark.parametrize("author", AUTHORS)
def test_who_stores_a_definition_decides_whether_a_person_accepts_it(tmp_path: Path, author: str) -> None:
    kind, more, holds, waits = AUTHORS[author]

    async def test(office: Office) -> None:
        for document in (LOW, LONGER):
            await office.call(office.owner, "workflow.create", document=document)
        await office.hire("author", kind, "*")
        wrong = {}
        for operation in sorted(ARGUMENTS):
            outcome = await office.outcome("author", operation, request=more, **ARGUMENTS[operation])
            reply = outcome.reply if isinstance(outcome, AnsweredCall) else None
            held = isinstance(reply, Reply) and getattr(reply.value, "held", None) is not None
            if reply is None or held is not waits:
                wrong[operation] = outcome
        assert wrong == {}
        if waits:
            stored = await office.call(office.owner, "workflow.get", workflow_id="erase_customer")
            assert stored["document"] == ERASE

    in_office(tmp_path, test, holds)
