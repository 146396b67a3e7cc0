"""Workflows as tools: what a document exposes can be called through the gate, and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import NotFound, Rejected
from penstock.base.json import JsonObject
from penstock.operations.exposed.workflows import ExposedWorkflows
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import AnsweredCall
from penstock.operations.runs.tool_schemas import object_schema
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import ASK, DOUBLE, WAIT

pytestmark = pytest.mark.anyio


def exposed(document: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**document, "expose": {"tool": True}, **more}


async def result(caller: Caller, name: str, arguments: JsonObject, **more: Any) -> Any:
    """The answer to a call of a tool that must succeed."""
    outcome = await caller.gate.call(
        Request(
            operation=name,
            arguments=arguments,
            principal=await caller.principal(),
            surface="mcp",
            request_id="test",
            **more,
        )
    )
    assert isinstance(outcome, AnsweredCall), outcome
    return msgspec.to_builtins(outcome.reply.value)  # type: ignore[union-attr]


async def test_an_exposed_workflow_is_called_and_its_output_comes_back(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=exposed(DOUBLE))
        answer = await result(caller, "workflow:double", {"number": 4}, patience_seconds=20)
        assert (answer["status"], answer["output"]) == ("completed", 8)
        assert (await caller.call("execution.status", execution_id=answer["execution_id"]))["output"] == 8


async def test_a_workflow_that_is_not_exposed_is_not_there(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=DOUBLE)
        assert isinstance(await caller.refusal("workflow:double", number=4), NotFound)


async def test_arguments_are_checked_before_there_is_any_execution(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=exposed(DOUBLE))
        error = await caller.refusal("workflow:double", number="four")
        assert isinstance(error, Rejected)
        assert error.details["errors"][0]["pointer"] == "/number"  # type: ignore[index,call-overload]
        assert (await caller.call("execution.list"))["items"] == []


async def test_without_its_scope_a_tool_does_not_exist(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        document = exposed(DOUBLE, governance={"scopes": ["finance:pay"]})
        await caller.call("workflow.create", document=document)
        without = await caller.new_caller("workflow:*")
        hidden = await without.refusal("workflow:double", number=4)
        unknown = await without.refusal("workflow:triple", number=4)
        assert hidden.code == unknown.code == "OPERATION_NOT_FOUND"
        assert hidden.message.replace("double", "triple") == unknown.message
        granted = await caller.new_caller("workflow:*", "finance:pay", name="payer")
        assert (await result(granted, "workflow:double", {"number": 4}, patience_seconds=20))["output"] == 8


async def test_another_tenant_has_no_such_tool(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=exposed(DOUBLE))
        other = await caller.new_caller("*", tenant="other")
        assert (await other.refusal("workflow:double", number=4)).code == "OPERATION_NOT_FOUND"


async def test_a_change_is_seen_at_once_and_has_another_revision(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=exposed(DOUBLE, title="Twice"))
        before = await caller.gate.exposed.of("default")
        await caller.call("workflow.update", workflow_id="double", document=exposed(DOUBLE, title="Two times"))
        after = await caller.gate.exposed.of("default")
        assert after.tools["workflow:double"].title == "Two times"
        assert after.revision != before.revision
        await caller.call("workflow.delete", workflow_id="double")
        assert not (await caller.gate.exposed.of("default")).tools


async def test_a_workflow_that_calls_itself_read_only_leaves_its_record_with_its_start(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call(
            "workflow.create", document=exposed(DOUBLE, expose={"tool": {"annotations": {"read_only": True}}})
        )
        assert (await caller.gate.exposed.of("default")).tools["workflow:double"].annotations.read_only
        await result(caller, "workflow:double", {"number": 4}, patience_seconds=20)
        # Reads are gathered and written later; this one stored a run.
        assert len((await caller.call("audit.list", operation="workflow:double"))["items"]) == 1


async def test_what_another_process_changes_is_seen_after_a_moment(open_caller: OpenGate) -> None:
    async with open_caller() as caller, open_caller() as elsewhere:
        await caller.call("workflow.create", document=exposed(DOUBLE, title="Twice"))
        services = caller.gate.services
        clock = Ahead(services.clock)
        known = ExposedWorkflows(replace(services, clock=clock))
        before = await known.of("default")
        clock.ms += limits.EXPOSED_REREAD_MS
        assert await known.of("default") is before
        await elsewhere.call("workflow.update", workflow_id="double", document=exposed(DOUBLE, title="Two times"))
        clock.ms += limits.EXPOSED_REREAD_MS
        shown = await asyncio.gather(*(known.of("default") for _ in range(20)))
        assert {found.tools["workflow:double"].title for found in shown} == {"Two times"}
        assert {found.revision for found in shown} == {before.revision + 1}


class Ahead:
    """A clock that stands still until somebody sets it."""

    def __init__(self, clock: Clock) -> None:
        self.ms = clock.now_ms()

    def now_ms(self) -> int:
        return self.ms

    def elapsed_ms(self) -> int:
        return 0


async def test_a_call_ends_when_the_execution_asks_something(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=exposed(ASK))
        answer = await result(caller, "workflow:ask", {}, patience_seconds=20)
        assert answer["status"] == "waiting_input"
        assert answer["questions"][0]["prompt"] == "May I?"


async def test_a_call_ends_when_patience_does_and_the_execution_goes_on(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=exposed(WAIT))
        told: list[JsonObject] = []

        async def hear(news: JsonObject) -> None:
            told.append(news)

        answer = await result(caller, "workflow:wait", {}, patience_seconds=0.05, observe=hear)
        assert answer["status"].startswith("waiting")
        assert told
        assert told[-1]["execution_id"] == answer["execution_id"]


async def test_whoever_waits_hears_of_the_end(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=ASK)
        started = await caller.call("workflow.execute", workflow_id="ask")
        asked = await caller.call("execution.wait", execution_id=started["execution_id"], wait_seconds=240)
        assert asked["status"] == "waiting_input"
        answered = caller.call("execution.answer", execution_id=started["execution_id"], answer={"ok": True})
        _, ended = await asyncio.gather(
            answered, caller.call("execution.wait", execution_id=started["execution_id"], wait_seconds=240)
        )
        assert ended["status"] in ("completed", "waiting_input")


def test_an_input_that_is_no_object_is_wrapped_in_one() -> None:
    assert object_schema({"type": "string"})["properties"] == {"input": {"type": "string"}}
    assert object_schema({}) == {"type": "object"}
