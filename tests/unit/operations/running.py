"""Short words for tests that start executions and wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from penstock.operations.catalogue.capability import EventStream, StreamEvent
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import ASK, BOTH_ASK, DOUBLE, PARENT, WAIT
from tests.waiting import SECONDS_MAX

__all__ = ["ended", "read_stream", "run", "status", "streaming"]


def run(open_caller: OpenGate, test: Callable[[Caller], Awaitable[None]], **choices: Any) -> None:
    """Run a test at an open gate that knows the workflows of `documents`."""

    async def body() -> None:
        async with asyncio.timeout(SECONDS_MAX), open_caller(**choices) as caller:
            for document in (DOUBLE, ASK, BOTH_ASK, PARENT, WAIT):
                await caller.call("workflow.import", workflows=[document])
            await test(caller)

    asyncio.run(body())


async def ended(caller: Caller, execution_id: str) -> dict[str, Any]:
    """Wait for the end of an execution."""
    await caller.penstock.host.wait_for_end(execution_id, timeout_seconds=SECONDS_MAX)
    found: dict[str, Any] = await caller.call("execution.status", execution_id=execution_id)
    return found


async def status(caller: Caller, execution_id: str, wanted: str) -> dict[str, Any]:
    """Wait until an execution has a status; its id is the one it is stored under."""
    while True:
        row = await caller.penstock.store.row(execution_id)
        if row is not None and row.status == wanted:
            found: dict[str, Any] = await caller.call("execution.status", execution_id=execution_id)
            return found
        await caller.penstock.run_memory.next_commit(timeout_seconds=0.05)


@asynccontextmanager
async def streaming(caller: Caller, /, **arguments: Any) -> AsyncIterator[AsyncIterator[StreamEvent]]:
    """An open stream, which is closed at the end."""
    stream: EventStream = await caller.stream("execution.stream", **arguments)
    try:
        yield stream.events
    finally:
        await stream.events.aclose()  # type: ignore[attr-defined]


async def read_stream(caller: Caller, /, **arguments: Any) -> list[StreamEvent]:
    """Every event of a stream, to its end."""
    async with streaming(caller, **arguments) as events:
        return [event async for event in events]
