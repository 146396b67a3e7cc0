"""The methods of the A2A wire: each is a call of one or two operations.

    SendMessage, SendStreamingMessage    agent.execute, or execution.answer for a task that asks
    GetTask, SubscribeToTask             execution.wait
    CancelTask                           execution.cancel

A task of another agent is not found here. What is not offered (lists of tasks, notifications) is refused by name.

Above it: `endpoint`. Below it: `exchange`, `messages`, `tasks`. Who may do what is decided by the gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeAlias

from penstock.a2a.errors import INVALID_PARAMS, TASK_NOT_FOUND, UNSUPPORTED_OPERATION, RpcError
from penstock.a2a.exchange import Exchange
from penstock.a2a.messages import ReceivedMessage, answer_to, read_message
from penstock.a2a.tasks import is_at_rest, open_question, task_of, updates_of
from penstock.base import limits
from penstock.base.json import JsonObject

__all__ = ["METHODS", "STREAMS", "Method", "Stream"]

Method: TypeAlias = Callable[[Exchange, JsonObject], Awaitable[JsonObject]]
Stream: TypeAlias = Callable[[Exchange, JsonObject], AsyncIterator[JsonObject]]


async def _waited(exchange: Exchange, task_id: str, seconds: float) -> dict[str, Any]:
    """Return how the execution of a task stands, once it rests or the time is up."""
    result = await exchange.call("execution.wait", {"execution_id": task_id, "wait_seconds": seconds})
    if result["workflow_id"] not in (exchange.agent_id, f"agent:{exchange.agent_id}") and result.get("held") is None:
        message = f"the agent {exchange.agent_id} has no task {task_id}"
        raise RpcError(TASK_NOT_FOUND, message, "EXECUTION_NOT_FOUND", "ask the agent that it was given to")
    found: dict[str, Any] = result
    return found


async def _rested(exchange: Exchange, task_id: str, seconds: float) -> dict[str, Any]:
    """Like `_waited`, but looks from time to time whether calls of the agent wait for approval."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        remaining = max(deadline - loop.time(), 0)
        result = await _waited(exchange, task_id, min(remaining, limits.A2A_LOOK_SECONDS))
        if is_at_rest(result) or loop.time() >= deadline:
            return result


async def _accepted(exchange: Exchange, message: ReceivedMessage) -> str:
    """Start an execution, or answer the one that asks; return its id."""
    if message.task_id is not None:
        result = await _waited(exchange, message.task_id, 0)
        question = open_question(result)
        if question is None:
            said = f"the task {message.task_id} asks nothing, so it takes no message"
            raise RpcError(UNSUPPORTED_OPERATION, said, "NOTHING_ASKED", "begin another task")
        answer: JsonObject = {
            "execution_id": question.get("execution_id") or message.task_id,
            "interrupt_id": question["interrupt_id"],
            "answer": answer_to(question, message),
        }
        await exchange.call("execution.answer", answer, key=message.key)
        return message.task_id
    if not message.text.strip():
        raise RpcError(INVALID_PARAMS, "a new task needs a text", "INVALID_MESSAGE", "say in words what to do")
    work: JsonObject = {"agent_id": exchange.agent_id, "prompt": message.text}
    if message.context is not None:
        work["context"] = message.context
    begun = await exchange.call("agent.execute", work, key=message.key)
    return str(begun["execution_id"])


async def _send(exchange: Exchange, params: JsonObject) -> JsonObject:
    message = read_message(params)
    task_id = await _accepted(exchange, message)
    seconds = limits.A2A_WAIT_SECONDS if message.waits else 0
    return {"task": task_of(await _rested(exchange, task_id, seconds))}


async def _get(exchange: Exchange, params: JsonObject) -> JsonObject:
    return task_of(await _waited(exchange, _task_id(params), 0))


async def _cancel(exchange: Exchange, params: JsonObject) -> JsonObject:
    task_id = _task_id(params)
    await _waited(exchange, task_id, 0)
    await exchange.call("execution.cancel", {"execution_id": task_id, "reason": "cancelled over A2A"})
    return task_of(await _waited(exchange, task_id, limits.A2A_WAIT_SECONDS))


async def _send_stream(exchange: Exchange, params: JsonObject) -> AsyncIterator[JsonObject]:
    task_id = await _accepted(exchange, read_message(params))
    async for event in _followed(exchange, task_id):
        yield event


async def _subscribe(exchange: Exchange, params: JsonObject) -> AsyncIterator[JsonObject]:
    async for event in _followed(exchange, _task_id(params)):
        yield event


async def _followed(exchange: Exchange, task_id: str) -> AsyncIterator[JsonObject]:
    """Yield the task, and what becomes of it; end when it has ended or asks. An empty event keeps the stream open."""
    result = await _waited(exchange, task_id, 0)
    yield {"task": task_of(result)}
    if is_at_rest(result):
        return
    while not is_at_rest(result):
        result = await _rested(exchange, task_id, limits.A2A_HEARTBEAT_SECONDS)
        if not is_at_rest(result):
            yield {}
    for update in updates_of(result):
        yield update


def _task_id(params: JsonObject) -> str:
    found = params.get("id")
    if not isinstance(found, str) or not found:
        raise RpcError(INVALID_PARAMS, "`id` must be the id of a task", "INVALID_MESSAGE", "send the id of the task")
    return found


METHODS: Final[dict[str, Method]] = {"SendMessage": _send, "GetTask": _get, "CancelTask": _cancel}
STREAMS: Final[dict[str, Stream]] = {"SendStreamingMessage": _send_stream, "SubscribeToTask": _subscribe}
