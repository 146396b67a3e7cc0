"""Fields that policies hide from a caller are in none of the answers that it gets."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from penstock.operations.builtin import builtin_operations
from penstock.operations.catalogue.capability import EventStream, Reply
from penstock.operations.gate.pipeline import AnsweredCall, RefusedCall
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import workflow
from tests.unit.operations.running import ended, run

CARD = "4111111111111111"
PAY = workflow(
    "pay",
    {"id": "charge", "type": "set_state", "set": {"card": "${ .input.card }"}},
    {"id": "done", "type": "end", "output": {"card": "${ .input.card }", "paid": True}},
    input={"type": "object", "required": ["card"], "properties": {"card": {"type": "string"}}},
    output={"type": "object", "properties": {"card": {"type": "string"}, "paid": {"type": "boolean"}}},
    expose={"tool": True},
)
OUTER = workflow(
    "outer",
    {"id": "child", "type": "subworkflow", "workflow": "pay", "input": {"card": CARD}},
    {"id": "done", "type": "end", "output": "done"},
)
HIDES = (
    '@id("cards") @redact("output.card") forbid (principal, action == Action::"workflow:pay", resource)'
    ' unless { principal in Group::"finance" };'
)
READER = ("workflow:*", "execution:*", "draft:*", "webhook:*", "preflight:run")


async def prepared(caller: Caller, text: str = HIDES) -> tuple[Caller, Caller]:
    """Somebody who must not see cards, and somebody who may."""
    await caller.call("workflow.import", workflows=[PAY, OUTER])
    await caller.call("policy.put", policy_id="cards", text=text)
    return (
        await caller.new_caller(*READER, kind="person"),
        await caller.new_caller(*READER, kind="person", groups=["finance"]),
    )


async def everything(caller: Caller, operation: str, **arguments: Any) -> str:
    """All of what an operation tells a caller, as text."""
    outcome = await caller.outcome(operation, **arguments)
    if isinstance(outcome, RefusedCall):
        return outcome.error.code
    assert isinstance(outcome, AnsweredCall)
    if isinstance(outcome.reply, EventStream):
        return json.dumps([item.data async for item in outcome.reply.events])
    assert isinstance(outcome.reply, Reply)
    return json.dumps(msgspec.to_builtins(outcome.reply.value))


def test_the_answer_of_a_tool_has_no_hidden_fields(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        blind, sees = await prepared(caller)
        assert (await sees.call("workflow:pay", card=CARD))["output"] == {"card": CARD, "paid": True}
        assert (await blind.call("workflow:pay", card=CARD))["output"] == {"paid": True}
        # The stored answer of a repeated call is cut, too.
        for _ in range(2):
            reply = await blind.reply("workflow:pay", card=CARD, idempotency_key="k-1")
            assert msgspec.to_builtins(reply.value)["output"] == {"paid": True}
        again = {"workflow_id": "pay", "input": {"card": CARD}, "sync": True}
        for _ in range(2):
            reply = await blind.reply("workflow.execute", **again, idempotency_key="k-2")
            assert msgspec.to_builtins(reply.value)["output"] == {"paid": True}

    run(open_caller, test)


@pytest.mark.parametrize("workflow_id", ["pay", "outer"])
def test_no_view_of_a_run_shows_a_hidden_field(open_caller: OpenGate, workflow_id: str) -> None:
    views: dict[str, dict[str, Any]] = {
        "execution.wait": {},
        "execution.status": {},
        "execution.history": {},
        "execution.stream": {},
        "execution.query": {"expression": ".state"},
        "control.workflow_status": {},
    }

    async def test(caller: Caller) -> None:
        blind, sees = await prepared(caller)
        await caller.call("workflow.execute", workflow_id=workflow_id, execution_id="one", input={"card": CARD})
        await ended(caller, "one")
        for operation, more in views.items():
            told = await everything(blind, operation, execution_id="one", **more)
            # What went in is no answer: only `pay` itself was given the card.
            shown = told.replace(f'"input": {{"card": "{CARD}"}}', "")
            assert CARD not in shown, operation
            assert ("FIELDS_HIDDEN" in told) is (operation in ("execution.query", "control.workflow_status"))
        whole = [await everything(sees, operation, execution_id="one", **more) for operation, more in views.items()]
        assert not any("FIELDS_HIDDEN" in item for item in whole)
        assert CARD in whole[2]

    run(open_caller, test)


def test_a_history_without_values_tells_what_happened(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        blind, sees = await prepared(caller)
        await caller.call("workflow.execute", workflow_id="pay", execution_id="one", input={"card": CARD})
        await ended(caller, "one")
        cut = (await blind.call("execution.history", execution_id="one"))["items"]
        whole = (await sees.call("execution.history", execution_id="one"))["items"]
        assert [item["name"] for item in cut] == [item["name"] for item in whole]
        assert any(item["payload"].get("nodeId") == "done" for item in cut)

    run(open_caller, test)


def test_the_answer_of_a_held_call_is_cut_for_whoever_looks_at_the_draft(open_caller: OpenGate) -> None:
    text = HIDES + (
        '@id("ask") @outcome("approval") @approvers("finance")'
        ' forbid (principal, action == Action::"workflow:pay", resource);'
    )

    async def test(caller: Caller) -> None:
        blind, sees = await prepared(caller, text)
        requester = await caller.new_caller(*READER, kind="person", groups=["finance"])
        held = await requester.call("workflow:pay", card=CARD)
        draft_id = held["held"]["draft_id"]
        assert "workflow" in (await sees.call("draft.review", draft_id=draft_id))["impact"]
        assert (await blind.call("draft.review", draft_id=draft_id))["impact"] == {}
        await sees.call("draft.approve", draft_id=draft_id)
        await ended(caller, draft_id)
        assert (await sees.call("draft.get", draft_id=draft_id))["result"] == {"card": CARD, "paid": True}
        assert (await blind.call("draft.get", draft_id=draft_id))["result"] == {"paid": True}
        (listed,) = (await blind.call("draft.list"))["items"]
        assert listed["result"] == {"paid": True}
        assert (await blind.call("execution.wait", execution_id=draft_id))["output"] == {"paid": True}
        assert CARD not in json.dumps((await blind.call("execution.history", execution_id=draft_id))["items"])

    run(open_caller, test)


@pytest.mark.parametrize("operation", ["workflow.execute", "control.workflow_start"])
def test_what_an_approved_call_answered_shows_no_hidden_field_of_the_run_in_it(
    open_caller: OpenGate, operation: str
) -> None:
    text = HIDES + (
        '@id("ask") @outcome("approval") @approvers("finance")'
        f' forbid (principal, action == Action::"{operation}", resource) when {{ !context.by_model }};'
    )
    # The card is in no argument: those are not hidden.
    card = "4111" * 4
    made = {"id": "done", "type": "end", "output": {"card": '${ "4111" * 4 }', "paid": True}}
    document = {**PAY, "nodes": [made], "input": {"type": "object"}}
    start = {"workflow_id": "pay", "sync": True} if operation == "workflow.execute" else {"definition": document}

    async def test(caller: Caller) -> None:
        blind, sees = await prepared(caller, text)
        await caller.call("workflow.update", workflow_id="pay", document=document)
        requester = await caller.new_caller(*READER, kind="person", groups=["finance"])
        held = await requester.call(operation, input={}, **start)
        draft_id = held["held"]["draft_id"]
        await sees.call("draft.approve", draft_id=draft_id)
        await ended(caller, draft_id)
        views: dict[str, dict[str, Any]] = {
            "draft.get": {"draft_id": draft_id},
            "execution.wait": {"execution_id": draft_id},
            "execution.history": {"execution_id": draft_id},
            "execution.stream": {"execution_id": draft_id},
        }
        for view, named in views.items():
            assert card in await everything(sees, view, **named), view
            assert card not in await everything(blind, view, **named), view

    run(open_caller, test)


def test_whoever_must_not_see_outputs_cannot_have_them_sent(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        blind, sees = await prepared(caller)
        endpoint = {"url": "https://example.com/hook", "include_output": True}
        assert (await blind.refusal("webhook.create", **endpoint)).code == "FIELDS_HIDDEN"
        made = (await sees.call("webhook.create", **endpoint))["webhook"]
        moved = {**endpoint, "url": "https://example.org/mine"}
        assert (await blind.refusal("webhook.update", endpoint_id=made["id"], **moved)).code == "FIELDS_HIDDEN"
        assert (await blind.refusal("delivery.list", endpoint_id=made["id"])).code == "FIELDS_HIDDEN"
        await blind.call("webhook.create", url="https://example.com/hook")

    run(open_caller, test)


def test_fields_of_an_operation_are_hidden_and_its_previews_are_plain(open_caller: OpenGate) -> None:
    text = (
        '@id("names") @redact("output.items.labels, output.items.parent_id")'
        ' forbid (principal, action == Action::"execution.list", resource) unless { principal in Group::"finance" };'
    )

    async def test(caller: Caller) -> None:
        blind, sees = await prepared(caller, text)
        await caller.call("workflow.execute", workflow_id="pay", labels={"who": CARD}, input={"card": CARD})
        assert CARD not in await everything(blind, "execution.list")
        assert CARD in await everything(sees, "execution.list")

    run(open_caller, test)


def test_a_preview_shows_nothing_of_the_state_behind_hidden_fields(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        blind, sees = await prepared(caller)
        asked = {"operation": "workflow:pay", "arguments": {"card": CARD}}
        plain = (await blind.call("preflight.run", **asked))["impact"]
        assert set(plain) <= {"summary", "subject"}
        assert "touches" in (await sees.call("preflight.run", **asked))["impact"]

    run(open_caller, test)


def test_hidden_fields_are_explained_and_refuse_nothing(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await prepared(caller)
        explained = await caller.call("policy.explain", action="pay", arguments={"card": CARD})
        assert (explained["call"], explained["listed"], explained["hidden"]) == ("permitted", True, ["output.card"])
        refused = await caller.refusal("policy.put", policy_id="cards", text=HIDES.replace("output.card", "output.crd"))
        assert "output.crd is not declared" in refused.message

    run(open_caller, test)


def test_every_operation_that_answers_with_contents_of_runs_says_so() -> None:
    # These answer with handles, rows of lists, definitions, or with what `HiddenFields` cuts by its type.
    cut = {"execution.status", "execution.wait", "execution.history", "execution.stream", "workflow.execute"}
    handles = {"pause", "resume", "cancel", "retry", "fork", "delete", "signal", "answer", "submit_activity", "list"}
    pictures = {"changes", "drawing", "timeline"}  # ids, definitions, statuses and times
    cut |= {f"execution.{name}" for name in handles | pictures}
    found = {
        item.name
        for item in builtin_operations()
        if item.name.startswith(("execution.", "control.", "delivery."))
        and item.name not in cut
        and (item.reveals is None or item.reveals({}) is None)
    }
    assert found == set()


def test_what_waits_is_listed_without_what_a_run_with_hidden_fields_asks(open_caller: OpenGate) -> None:
    ask = {"id": "ask", "type": "interrupt", "message": "Charge ${ .input.card }?", "answer": {"type": "boolean"}}
    asks = {**PAY, "nodes": [ask, *PAY["nodes"]]}

    async def test(caller: Caller) -> None:
        blind, sees = await prepared(caller)
        await caller.call("workflow.update", workflow_id="pay", document=asks)
        started = await caller.call("workflow.execute", workflow_id="pay", input={"card": CARD}, sync=True)
        assert CARD in await everything(sees, "approval.list")
        (item,) = (await blind.call("approval.list"))["items"]
        assert (item["id"], item["decidable"], item["question"]["decides"]) == (started["execution_id"], True, "")
        assert item["question"]["prompt"] is None
        assert CARD not in await everything(blind, "approval.list")

    run(open_caller, test)
