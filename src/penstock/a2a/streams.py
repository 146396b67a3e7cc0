"""Streams of the A2A wire: a task and its updates, from the events of its execution.

What a model writes is sent as pieces of the artifact `result`; each text restarts the artifact, and the last one is the
answer. Calls of tools, and what is said before them, are messages of the status. A stream ends when its task has ended
or asks; if it is cut off, the run continues, and a new stream begins with the current status.

Above it: `methods`. Below it: the events that operations answer with, `tasks`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.a2a.errors import REFUSED, RpcError
from penstock.a2a.tasks import WORKING, RunningArtifact, is_at_rest, message_of, task_of, updates_of
from penstock.base import limits
from penstock.base.json import JsonObject, object_or_empty
from penstock.operations.catalogue.capability import EventStream, StreamEvent
from penstock.rest.sse import close_stream

__all__ = ["EVENTS", "Events", "Look", "followed"]

EVENTS: Final = "status,turn,tool,delta,complete"
"""The events of an execution that a stream is made from."""
# A run with such a status may wait for somebody: its own question, or one of a child.
_MAY_ASK: Final = frozenset({"waiting_input", "waiting_approval", "waiting_child"})

Look = Callable[[], Awaitable[dict[str, Any]]]


@dataclass(slots=True)
class Events:
    """The events of an execution, one by one, for a reader that also has other things to look at."""

    stream: EventStream
    _next: asyncio.Future[StreamEvent] | None = field(default=None)

    async def within(self, seconds: float) -> StreamEvent | None:
        """Return the next event; None if no event arrives in time. Raises `StopAsyncIteration` at the end."""
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self.stream.events))
        done, _ = await asyncio.wait({self._next}, timeout=seconds)
        if not done:
            return None
        event, self._next = self._next, None
        return event.result()

    async def close(self) -> None:
        """Stop listening."""
        if self._next is not None:
            self._next.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await self._next
        await close_stream(self.stream)


async def followed(events: Events, result: dict[str, Any], look: Look) -> AsyncIterator[JsonObject]:
    """Yield the task and its updates; an empty object keeps the stream open.

    `look` returns the current status of the execution. A call that waits for approval produces no event, so the stream
    checks for it when no event has arrived for a while.
    """
    yield {"task": task_of(result)}
    written = RunningArtifact(str(result["execution_id"]))
    while not is_at_rest(result):
        try:
            event = await events.within(limits.A2A_LOOK_SECONDS)
        except StopAsyncIteration:
            return  # the server stops; the client connects again
        if event is None or _may_rest(event):
            result = await look()
        elif event.event is None:
            yield {}
        else:
            for update in _updates(event, written):
                yield update
    for update in updates_of(result, written):
        yield update


def _may_rest(event: StreamEvent) -> bool:
    return event.event == "complete" or (
        event.event == "status" and object_or_empty(event.data).get("status") in _MAY_ASK
    )


def _updates(event: StreamEvent, written: RunningArtifact) -> list[JsonObject]:
    """Return what an event of an execution is on this wire."""
    data = object_or_empty(event.data)
    match event.event:
        case "delta":
            piece = written.piece(str(data.get("text", "")), data.get("offset"))
            return [] if piece is None else [piece]
        case "turn" if data.get("tool_calls") and data.get("text"):
            return [_working(written.task_id, data, {"text": data["text"]})]
        case "tool":
            call: JsonObject = {name: data[name] for name in ("name", "phase", "call_id", "error_code") if name in data}
            said: JsonObject = {"text": f"{data.get('name')} {data.get('phase')}"}
            return [_working(written.task_id, data, said, {"data": {"tool": call}})]
        case "closed":
            raise RpcError(REFUSED, str(data.get("message")), str(data.get("code")), "read the task again")
        case _:
            return []


def _working(task_id: str, data: JsonObject, *parts: JsonObject) -> JsonObject:
    message = message_of(task_id, f"{task_id}-{data.get('sequence')}-{data.get('call_id', 'turn')}", [*parts])
    status: JsonObject = {"state": WORKING, "message": message}
    if data.get("at") is not None:
        status["timestamp"] = data["at"]
    return {"statusUpdate": {"taskId": task_id, "contextId": task_id, "status": status}}
