"""The methods of the A2A wire: each is a call of one or two operations.

    SendMessage, SendStreamingMessage    agent.execute, or execution.answer for a task that asks
    GetTask                              execution.wait
    SubscribeToTask                      execution.wait, execution.stream
    ListTasks                            execution.list
    CancelTask                           execution.cancel
    …TaskPushNotificationConfig(s)       notification.set, get, list, delete

A task of another agent is not found here.

Above it: `endpoint`. Below it: `exchange`, `messages`, `tasks`. Who may do what is decided by the gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, TypeAlias

from penstock.a2a.errors import INVALID_PARAMS, TASK_NOT_FOUND, UNSUPPORTED_OPERATION, RpcError, rpc_error
from penstock.a2a.exchange import Exchange
from penstock.a2a.listing import list_tasks
from penstock.a2a.messages import ReceivedMessage, answer_to, read_message
from penstock.a2a.notifications import delete_config, get_config, list_configs, set_config
from penstock.a2a.streams import EVENTS, Events, Look, followed
from penstock.a2a.tasks import has_ended, is_at_rest, open_question, task_of
from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import EventStream

__all__ = ["METHODS", "STREAMS", "Method", "Stream"]

Method: TypeAlias = Callable[[Exchange, JsonObject], Awaitable[JsonObject]]
Stream: TypeAlias = Callable[[Exchange, JsonObject], AsyncGenerator[JsonObject, None]]


async def _waited(exchange: Exchange, task_id: str, seconds: float) -> dict[str, Any]:
    """Return how the execution of a task stands, once it rests or the time is up."""
    result = await exchange.call("execution.wait", {"execution_id": task_id, "wait_seconds": seconds})
    if result["workflow_id"] not in (exchange.agent_id, f"agent:{exchange.agent_id}") and result.get("held") is None:
        message = f"the agent {exchange.agent_id} has no task {task_id}"
        raise RpcError(TASK_NOT_FOUND, message, "EXECUTION_NOT_FOUND", "ask the agent that got the task")
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
        await _answered(exchange, message, await _waited(exchange, message.task_id, 0))
        task_id = message.task_id
    else:
        begun = await exchange.call("agent.execute", _work(exchange, message), key=message.key)
        task_id = str(begun["execution_id"])
    await _told(exchange, message, task_id)
    return task_id


async def _told(exchange: Exchange, message: ReceivedMessage, task_id: str) -> None:
    """Set up the push notifications that a message asks for."""
    if message.push is None:
        return
    try:
        await set_config(exchange, task_id, message.push)
    except PenstockError as error:
        refusal = rpc_error(error)
        said = f"the task {task_id} has the message, but its push notifications failed: {refusal.message}"
        raise RpcError(refusal.code, said, refusal.reason, refusal.hint) from error


async def _answered(exchange: Exchange, message: ReceivedMessage, result: dict[str, Any]) -> None:
    """Answer what an execution asks."""
    question = open_question(result)
    if question is None:
        said = f"the task {message.task_id} is not waiting for an answer"
        raise RpcError(UNSUPPORTED_OPERATION, said, "NOTHING_ASKED", "start a new task")
    answer: JsonObject = {
        "execution_id": question.get("execution_id") or message.task_id,
        "interrupt_id": question["interrupt_id"],
        "answer": answer_to(question, message),
    }
    await exchange.call("execution.answer", answer, key=message.key)


def _work(exchange: Exchange, message: ReceivedMessage) -> JsonObject:
    if not message.text.strip():
        raise RpcError(INVALID_PARAMS, "a new task needs a text", "INVALID_MESSAGE", "describe the task in a text part")
    work: JsonObject = {"agent_id": exchange.agent_id, "prompt": message.text}
    return work if message.context is None else {**work, "context": message.context}


async def _send(exchange: Exchange, params: JsonObject) -> JsonObject:
    message = read_message(params)
    task_id = await _accepted(exchange, message)
    seconds = limits.A2A_WAIT_SECONDS if message.waits else 0
    return {"task": task_of(await _rested(exchange, task_id, seconds))}


async def _get(exchange: Exchange, params: JsonObject) -> JsonObject:
    return task_of(await _waited(exchange, _task_id(params), 0))


async def _list(exchange: Exchange, params: JsonObject) -> JsonObject:
    return await list_tasks(exchange, params, lambda task_id: _waited(exchange, task_id, 0))


async def _cancel(exchange: Exchange, params: JsonObject) -> JsonObject:
    task_id = _task_id(params)
    await _waited(exchange, task_id, 0)
    await exchange.call("execution.cancel", {"execution_id": task_id, "reason": "cancelled over A2A"})
    return task_of(await _waited(exchange, task_id, limits.A2A_WAIT_SECONDS))


async def _send_stream(exchange: Exchange, params: JsonObject) -> AsyncGenerator[JsonObject, None]:
    message = read_message(params)
    if message.task_id is not None:
        result = await _waited(exchange, message.task_id, 0)
        events = await _events_of(exchange, result)  # before the answer: all that follows from it is heard
        answering = _answered(exchange, message, result)
    else:
        begun = await exchange.begun("agent.execute", _work(exchange, message), key=message.key)
        if not isinstance(begun, EventStream):  # the message was sent before
            await _told(exchange, message, str(begun["execution_id"]))
            async with aclosing(_subscribed(exchange, str(begun["execution_id"]))) as going_on:
                async for event in going_on:
                    yield event
            return
        events, answering = Events(begun), None
    try:
        if answering is not None:
            await answering
        task_id = str(events.stream.execution_id)
        await _told(exchange, message, task_id)
        async for event in followed(events, await _waited(exchange, task_id, 0), _look(exchange, task_id)):
            yield event
    finally:
        await events.close()


async def _subscribe(exchange: Exchange, params: JsonObject) -> AsyncGenerator[JsonObject, None]:
    task_id = _task_id(params)
    result = await _waited(exchange, task_id, 0)
    if has_ended(result):
        said = f"the task {task_id} has ended, so there is nothing to follow"
        raise RpcError(UNSUPPORTED_OPERATION, said, "EXECUTION_ENDED", "read it with GetTask")
    async with aclosing(_subscribed(exchange, task_id, result)) as events:
        async for event in events:
            yield event


async def _subscribed(
    exchange: Exchange, task_id: str, result: dict[str, Any] | None = None
) -> AsyncGenerator[JsonObject, None]:
    """Yield the current task, then its updates."""
    result = result or await _waited(exchange, task_id, 0)
    events = await _events_of(exchange, result)
    try:
        async for event in followed(events, result, _look(exchange, task_id)):
            yield event
    finally:
        await events.close()


async def _events_of(exchange: Exchange, result: dict[str, Any]) -> Events:
    """Return the events of an execution that come after a look at it."""
    where: JsonObject = {"execution_id": result["execution_id"], "events": EVENTS, "after": result["sequence"]}
    opened = await exchange.begun("execution.stream", where)
    if not isinstance(opened, EventStream):
        raise TypeError("execution.stream answers without a stream")
    return Events(opened)


def _look(exchange: Exchange, task_id: str) -> Look:
    return lambda: _waited(exchange, task_id, 0)


def _task_id(params: JsonObject, member: str = "id") -> str:
    found = params.get(member)
    if not isinstance(found, str) or not found:
        said = f"`{member}` must be the id of a task"
        raise RpcError(INVALID_PARAMS, said, "INVALID_MESSAGE", "send the id of the task")
    return found


async def _set_push(exchange: Exchange, params: JsonObject) -> JsonObject:
    task_id = _task_id(params, "taskId")
    await _waited(exchange, task_id, 0)
    return await set_config(exchange, task_id, params)


def _of_task(method: Method) -> Method:
    """Return a method on what belongs to a task, which has to be one of the agent."""

    async def checked(exchange: Exchange, params: JsonObject) -> JsonObject:
        await _waited(exchange, _task_id(params, "taskId"), 0)
        return await method(exchange, params)

    return checked


METHODS: Final[dict[str, Method]] = {
    "SendMessage": _send,
    "GetTask": _get,
    "ListTasks": _list,
    "CancelTask": _cancel,
    "CreateTaskPushNotificationConfig": _set_push,
    "GetTaskPushNotificationConfig": _of_task(get_config),
    "ListTaskPushNotificationConfigs": _of_task(list_configs),
    "DeleteTaskPushNotificationConfig": _of_task(delete_config),
}
STREAMS: Final[dict[str, Stream]] = {"SendStreamingMessage": _send_stream, "SubscribeToTask": _subscribe}
