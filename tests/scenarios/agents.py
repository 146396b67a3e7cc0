"""Agents for tests: a model that says the same at the same point of a conversation, however often it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.performing import ActivityCall, ActivityOutcome, AsyncPerformer
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.mock import MockProvider, script_from_json
from penstock.runtime.executors.llm.port import LlmAnswer, LlmRequest
from tests.scenarios.office import Office
from tests.waiting import until_found

__all__ = ["FIND", "Dying", "ScriptedModel", "agent", "calls", "conversation", "ended", "executors", "waiting_for"]

FIND: JsonObject = {
    "penstock": "v1",
    "name": "find_order",
    "description": "Finds an order.",
    "input": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
    "expose": {"tool": True},
    "nodes": [{"id": "done", "type": "end", "output": {"id": "${ .input.id }", "status": "shipped"}}],
}


@dataclass(slots=True)
class ScriptedModel:
    """Replies by the number of turns that it has taken before, so that it does not matter who asks it again."""

    turns: Sequence[JsonValue]
    models: Mapping[str, str] = field(default_factory=lambda: {"fast": "fast"})
    requests: list[LlmRequest] = field(default_factory=list)

    async def ask(self, request: LlmRequest) -> LlmAnswer:
        self.requests.append(request)
        taken = sum(message.role == "assistant" for message in request.messages)
        mock = MockProvider(script_from_json([self.turns[taken]]) or [])
        return await mock.ask(request)

    async def close(self) -> None:
        pass


@dataclass(slots=True)
class Dying:
    """Performs activities until the process is dead, as far as the test is concerned.

    From then on nothing begins, and what a tool did is not heard of: only a model that was asked gets to be recorded.
    """

    performer: AsyncPerformer
    died: asyncio.Event

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        if self.died.is_set():
            await asyncio.Event().wait()
        outcome = await self.performer.perform(call)
        if self.died.is_set() and call.activity.node_type != "llm_call":
            await asyncio.Event().wait()
        return outcome


def executors(model: ScriptedModel) -> dict[str, LlmExecutor]:
    return {"llm_call": LlmExecutor({"scripted": model})}


def agent(*tools: JsonValue, name: str = "support", **block: Any) -> JsonObject:
    """The document of an agent."""
    more = block.pop("document", {})
    return {
        "penstock": "v1",
        "name": name,
        **more,
        "agent": {"model": "fast", "instructions": "Help.", "tools": list(tools), **block},
    }


def calls(*made: tuple[str, JsonObject]) -> JsonValue:
    """A turn in which the model calls tools."""
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in made]}


async def ended(office: Office, document: JsonObject, who: Any = None, **given: Any) -> Any:
    """How a run of an agent ended."""
    await office.call(office.owner, "workflow.create", document=document)
    answer = await office.call(
        who or office.owner,
        "workflow.execute",
        workflow_id=document["name"],
        input=given.pop("input", {"prompt": "Help me."}),
        sync=True,
        wait_seconds=200,
        **given,
    )
    assert answer["status"] in ("completed", "failed", "cancelled"), answer
    return answer


async def waiting_for(office: Office, execution_id: str, *statuses: str) -> Any:
    """The execution, as soon as it has one of these statuses."""

    async def look() -> Any:
        found = await office.call(office.owner, "execution.status", execution_id=execution_id)
        return found if found["status"] in statuses else None

    return await until_found(look)


async def conversation(office: Office, execution_id: str) -> Any:
    """What was said in a run."""
    state = await office.gate.services.host.read(execution_id)
    assert state is not None
    assert isinstance(state.values, dict)
    return state.values["conversation"]
