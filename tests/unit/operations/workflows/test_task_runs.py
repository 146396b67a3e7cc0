"""`task.execute` runs one node by itself, with its own configuration and what the call says that it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.base.json import JsonObject
from penstock.runtime.steps.registry import step
from tests.scenarios.agents import ScriptedModel, executors, waiting_for
from tests.scenarios.office import Office, staff
from tests.waiting import SECONDS_MAX

REFUND: JsonObject = {
    "penstock": "v1",
    "name": "refund",
    "secrets": ["BANK_KEY"],
    "input": {"type": "object", "required": ["order"], "properties": {"order": {"type": "string"}}},
    "state": {"type": "object", "properties": {"shop": {"type": "string", "default": "Acme"}}},
    "governance": {"scopes": ["shop:refund"], "risk": "low"},
    "nodes": [
        {"id": "quote", "type": "step", "handler": "quoted", "with": {"order": "${ .input.order }"}},
        {"id": "approve", "type": "interrupt", "message": "Refund?"},
        {
            "id": "pay",
            "type": "step",
            "handler": "paid",
            "with": {
                "text": "Refund $${ ${ .quote.amount } for ${ .input.order } of ${ .state.shop }",
                "amount": {"jq": ".quote.amount"},
                "key": "Bearer ${secret:BANK_KEY}",
                "literal": {"literal": "${ .input }"},
            },
            "next": "done",
            "on_error": {"next": "done"},
        },
        {"id": "done", "type": "end", "output": "${ .pay }"},
    ],
}


@step(name="quoted")
async def quoted(order: str) -> dict[str, Any]:
    return {"amount": len(order)}


@step(name="paid")
async def paid(text: str, amount: int, key: str, literal: str) -> dict[str, Any]:
    return {"text": text, "amount": amount, "key": len(key), "literal": literal}


def in_bank(path: Path, body: Callable[[Office], Awaitable[None]], model: ScriptedModel | None = None) -> None:
    async def test() -> None:
        async with (
            Penstock.open(
                path / "penstock.db",
                steps=[quoted, paid],
                executors=None if model is None else executors(model),
                secrets={"BANK_KEY": "s3cr3t-t0ken"}.get,
            ) as penstock,
            open_gate(penstock) as gate,
        ):
            office = Office(gate, penstock)
            await staff(office)
            await office.call(office.owner, "workflow.create", document=REFUND)
            await body(office)

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


PAY: dict[str, Any] = {
    "workflow_id": "refund",
    "task_id": "pay",
    "input": {"order": "A-1"},
    "results": {"quote": {"amount": 12}},
    "state": {"shop": "Beta"},
}


def test_a_node_of_a_workflow_runs_with_its_own_configuration(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        reply = await office.reply(office.owner, "task.execute", **PAY, sync=True)
        answer = msgspec.to_builtins(reply.value)
        assert (reply.status, answer["status"], answer["workflow_id"]) == (200, "completed", "task:refund.pay"), answer
        assert answer["output"] == {
            "text": "Refund ${ 12 for A-1 of Beta",
            "amount": 12,
            "key": len("Bearer s3cr3t-t0ken"),
            "literal": "${ .input }",
        }
        listed = await office.call(office.owner, "workflow.list")
        assert [item["id"] for item in listed["items"]] == ["erase_customer", "refund"]

    in_bank(tmp_path, test)


def test_the_values_of_a_call_are_not_stored_with_the_definition_and_the_same_call_is_made_once(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        first = await office.reply(office.owner, "task.execute", **PAY, request={"idempotency_key": "k"})
        again = await office.reply(office.owner, "task.execute", **PAY, request={"idempotency_key": "k"})
        assert first.status == 202
        run = msgspec.to_builtins(first.value)["execution_id"]
        assert msgspec.to_builtins(again.value)["execution_id"] == run
        await waiting_for(office, run, "completed")
        other = {**PAY, "results": {"quote": {"amount": 7}}}
        answer = await office.call(office.owner, "task.execute", **other, sync=True)
        assert answer["output"]["amount"] == 7
        records = (await office.call(office.owner, "audit.list", operation="task.define"))["items"]
        assert len(records) == 1

    in_bank(tmp_path, test)


def test_a_task_skips_what_comes_before_it_so_only_an_author_with_the_scopes_of_the_workflow_runs_it(
    tmp_path: Path,
) -> None:
    async def test(office: Office) -> None:
        await office.hire("caller", "person", "workflow:run", "workflow:read", "shop:refund")
        assert (await office.refusal("caller", "task.execute", **PAY)).code == "SCOPE_REQUIRED"
        await office.hire("author", "person", "workflow:*")
        refused = await office.refusal("author", "task.execute", **PAY)
        assert (refused.code, refused.details["scope"]) == ("SCOPE_REQUIRED", "shop:refund")
        await office.hire("both", "person", "workflow:*", "shop:refund", "execution:*")
        done = await office.call("both", "task.execute", **PAY, sync=True)
        assert done["status"] == "completed"
        forked = await office.refusal("author", "execution.fork", execution_id=done["execution_id"], at_sequence=1)
        assert forked.code == "SCOPE_REQUIRED"
        held = await office.call("robot", "task.execute", **PAY, sync=True)
        assert (held["status"], held["held"]["operation"]) == ("waiting_approval", "task.execute")

    in_bank(tmp_path, test)


def test_a_task_of_its_own_belongs_to_no_workflow(tmp_path: Path) -> None:
    task = {"id": "ask", "type": "llm_call", "model": "fast", "prompt": "Say ${ .input.word }"}
    model = ScriptedModel(["Tea."])

    async def test(office: Office) -> None:
        answer = await office.call(office.owner, "task.execute", task=task, input={"word": "tea"}, sync=True)
        assert (answer["status"], answer["workflow_id"]) == ("completed", "task:ask"), answer

    in_bank(tmp_path, test, model)
    assert "tea" in model.requests[0].messages[0].text
    assert model.requests[0].messages[0].text.startswith("Say <untrusted-")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"workflow_id": "refund", "task_id": "approve"}, "TASK_NOT_EXECUTABLE"),
        ({"workflow_id": "refund", "task_id": "nothing"}, "TASK_NOT_FOUND"),
        ({"workflow_id": "nothing", "task_id": "pay"}, "WORKFLOW_NOT_FOUND"),
        ({"workflow_id": "refund"}, "INVALID_ARGUMENTS"),
        ({"workflow_id": "refund", "task_id": "pay", "task": {"id": "a"}}, "INVALID_ARGUMENTS"),
        ({"task": {"id": "a", "type": "loop"}}, "TASK_NOT_EXECUTABLE"),
        ({"task": {"id": "a", "type": "llm_call", "model": "m", "conversation": "c"}}, "TASK_NOT_EXECUTABLE"),
        ({"task": {"id": "a", "type": "step", "handler": "paid", "with": "${ .input | }"}}, "INVALID_DOCUMENT"),
        ({"task": {"id": "a", "type": "http"}}, "INVALID_DOCUMENT"),
    ],
)
def test_what_does_no_work_by_itself_is_refused(tmp_path: Path, given: dict[str, Any], code: str) -> None:
    async def test(office: Office) -> None:
        refused = await office.refusal(office.owner, "task.execute", **given)
        assert refused.code == code, refused

    in_bank(tmp_path, test)
