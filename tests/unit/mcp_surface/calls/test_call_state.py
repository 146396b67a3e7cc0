"""What a client carries from a question to its answer: unchanged, its own, for the same call, in time, and once."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.mcp_surface.callers import ProtocolFault
from penstock.mcp_surface.questions.signing import RequestState, state_signer
from tests.unit.mcp_surface.assistants import Assistant, accept, assisted, exposed
from tests.unit.operations.conftest import Caller as GateCaller

pytestmark = pytest.mark.anyio

NAME = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
TALK = exposed(
    "talk",
    {"id": "who", "type": "interrupt", "message": "Who are you?", "answer": NAME},
    {"id": "done", "type": "end", "output": "${ .who }"},
)
FILLED = {"who": accept(name="Ada")}


async def refused(assistant: Assistant, state: str, **arguments: Any) -> ProtocolFault:
    """The fault of a call that must be one, after which the question is as open as before."""
    with pytest.raises(ProtocolFault) as fault:
        await assistant.call("talk", arguments, state=state, answers=FILLED)
    assert fault.value.code == -32602
    return fault.value


def opened(assistant: Assistant, state: str) -> RequestState:
    found = state_signer(assistant.caller.gate.services.pepper).verify(state, now_ms=0)
    assert found is not None
    return found


def resealed(assistant: Assistant, state: RequestState, **changes: Any) -> str:
    """What only the server itself could write."""
    fields = {name: getattr(state, name) for name in RequestState.__struct_fields__}
    return state_signer(assistant.caller.gate.services.pepper).sign(RequestState(**{**fields, **changes}))


async def test_what_is_not_ours_or_not_for_this_is_refused_in_the_same_words(tmp_path: Path) -> None:
    async with assisted(tmp_path, TALK) as assistant:
        state = (await assistant.call("talk"))["requestState"]
        known = opened(assistant, state)
        body = base64.urlsafe_b64decode(state)[32:]
        forged = base64.urlsafe_b64encode(bytes(32) + body).decode()
        now = assistant.caller.gate.services.clock.now_ms()
        wrong = {
            "tampered": state + "-TAMPERED",
            "cut": state[:-8],
            "forged": forged,
            "empty": "",
            "expired": resealed(assistant, known, until_ms=now),
            "of somebody else": resealed(assistant, known, principal="key:somebody"),
            "of another tenant": resealed(assistant, known, tenant="other"),
            "of another call": resealed(assistant, known, digest="0" * 64),
        }
        faults = {name: await refused(assistant, text) for name, text in wrong.items()}
        faults["with other arguments"] = await refused(assistant, state, more=1)
        assert {(fault.message, str(fault.data)) for fault in faults.values()} == {
            ("Invalid or expired requestState", "{'reason': 'invalid_request_state'}")
        }
        done = await assistant.call("talk", state=state, answers=FILLED)
        assert done["structuredContent"]["output"] == {"name": "Ada"}
        assert len(await assistant.executions()) == 1


async def test_a_state_is_nothing_to_others_not_even_with_every_scope(tmp_path: Path) -> None:
    async with assisted(tmp_path, TALK) as assistant:
        state = (await assistant.call("talk"))["requestState"]
        colleague = await assistant.other()
        assert (await refused(colleague, state)).data == {"reason": "invalid_request_state"}
        stranger = await assistant.other(tenant="elsewhere")
        await stranger.caller.call("workflow.create", document=TALK)
        assert (await refused(stranger, state)).data == {"reason": "invalid_request_state"}
        assert await stranger.executions() == []
        assert len(await assistant.executions()) == 1


async def test_a_state_that_was_used_is_refused_and_nothing_is_executed_again(tmp_path: Path) -> None:
    async with assisted(tmp_path, TALK) as assistant:
        state = (await assistant.call("talk"))["requestState"]
        await assistant.call("talk", state=state, answers=FILLED)
        fault = await refused(assistant, state)
        assert "was used" in fault.message
        [execution] = await assistant.executions()
        history = await assistant.caller.call("execution.history", execution_id=execution["execution_id"])
        assert len([row for row in history["items"] if row["name"] == "ResumeInterrupt"]) == 1


async def test_who_was_slower_gets_what_came_of_the_answer_that_counts(tmp_path: Path) -> None:
    async with assisted(tmp_path, TALK) as assistant:
        state = (await assistant.call("talk"))["requestState"]
        [execution] = await assistant.executions()
        colleague = await assistant.other()
        answer = {"execution_id": execution["execution_id"], "answer": {"name": "Grace"}}
        await colleague.caller.call("execution.answer", **answer)
        for _ in range(2):
            late = await assistant.call("talk", state=state, answers=FILLED)
            assert late["structuredContent"]["output"] == {"name": "Grace"}
        assert len(await assistant.executions()) == 1


async def test_who_has_answered_in_another_way_has_used_the_state(tmp_path: Path) -> None:
    async with assisted(tmp_path, TALK) as assistant:
        state = (await assistant.call("talk"))["requestState"]
        [execution] = await assistant.executions()
        execution_id = execution["execution_id"]
        await assistant.caller.call("execution.answer", execution_id=execution_id, answer={"name": "Grace"})
        await assistant.caller.call("execution.wait", execution_id=execution_id)
        fault = await refused(assistant, state)
        assert fault.data == {"execution_id": execution_id, "status": "completed"}


async def test_a_state_outlives_the_server_that_gave_it(tmp_path: Path) -> None:
    async with assisted(tmp_path, TALK) as assistant:
        state = (await assistant.call("talk"))["requestState"]
        who = assistant.caller.who
    async with Penstock.open(tmp_path / "penstock.db") as penstock, open_gate(penstock) as gate:
        later = Assistant(GateCaller(gate, who, penstock))
        done = await later.call("talk", state=state, answers=FILLED)
        assert done["structuredContent"]["output"] == {"name": "Ada"}
        assert len(await later.executions()) == 1
