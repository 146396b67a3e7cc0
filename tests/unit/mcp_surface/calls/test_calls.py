"""Calls of tools through the gate: what is sealed, what is answered twice, what is foreign."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.mcp_surface.callers import ProtocolFault
from penstock.mcp_surface.questions.clients import ClientAnswer
from tests.unit.mcp_surface.assistants import Assistant
from tests.unit.operations.conftest import Caller as GateCaller
from tests.unit.operations.conftest import OpenGate, open_caller
from tests.unit.operations.documents import ASK

__all__ = ["open_caller"]

pytestmark = pytest.mark.anyio
ASKED = {**ASK, "expose": {"tool": True}}


async def asked(caller: GateCaller) -> tuple[Assistant, Any, dict[str, ClientAnswer]]:
    """An assistant that was asked, and the answer that it may give."""
    await caller.call("workflow.create", document=ASKED)
    assistant = Assistant(caller)
    question = await assistant.call("ask", completes=True)
    assert question["resultType"] == "input_required"
    answers = {key: ClientAnswer(action="accept", content={"ok": True}) for key in question["inputRequests"]}
    return assistant, question, answers


async def test_a_call_that_is_completed_goes_on_with_the_same_execution(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        assistant, question, answers = await asked(caller)
        result = await assistant.call("ask", completes=True, answers=answers, state=question["requestState"])
        assert result["structuredContent"]["output"] == {"ok": True}
        assert len((await caller.call("execution.list"))["items"]) == 1


async def test_a_state_is_used_once(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        assistant, question, answers = await asked(caller)
        await assistant.call("ask", completes=True, answers=answers, state=question["requestState"])
        with pytest.raises(ProtocolFault):
            await assistant.call("ask", completes=True, answers=answers, state=question["requestState"])


async def test_a_state_of_another_request_is_refused(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        assistant, question, answers = await asked(caller)
        with pytest.raises(ProtocolFault):
            await assistant.call("ask", {"other": 1}, completes=True, answers=answers, state=question["requestState"])


async def test_a_state_of_somebody_else_is_refused(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        _, question, answers = await asked(caller)
        other = Assistant(await caller.new_caller("*", name="other"))
        with pytest.raises(ProtocolFault):
            await other.call("ask", completes=True, answers=answers, state=question["requestState"])


async def test_a_call_without_the_answer_is_asked_again(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        assistant, question, _ = await asked(caller)
        again = await assistant.call("ask", completes=True, state=question["requestState"])
        assert again["resultType"] == "input_required"
        assert list(again["inputRequests"]) == list(question["inputRequests"])


async def test_who_may_not_answer_is_not_asked(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=ASKED)
        runner = Assistant(await caller.new_caller("workflow:run", name="runner"))
        result = await runner.call("ask", completes=True)
        assert result["resultType"] == "complete"
        assert "this key may not" in result["content"][0]["text"]


async def test_an_answer_that_does_not_fit_is_asked_for_again(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        assistant, question, answers = await asked(caller)
        wrong = {key: ClientAnswer(action="accept", content={"ok": "perhaps"}) for key in answers}
        result = await assistant.call("ask", completes=True, answers=wrong, state=question["requestState"])
        assert result["resultType"] == "input_required"
        [again] = result["inputRequests"].values()
        assert "does not fit" in again["params"]["message"]
        later = await assistant.call("ask", completes=True, answers=answers, state=question["requestState"])
        assert later["structuredContent"]["output"] == {"ok": True}
