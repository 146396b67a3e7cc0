"""The stream of changes: which executions of a tenant moved, each once, and nothing missed after a cut."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from penstock.operations.catalogue.capability import StreamEvent
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.running import run


@asynccontextmanager
async def following(caller: Caller, /, **arguments: Any) -> AsyncIterator[AsyncIterator[StreamEvent]]:
    stream = await caller.stream("execution.changes", **arguments)
    try:
        yield stream.events
    finally:
        await stream.events.aclose()  # type: ignore[attr-defined]


async def changes(events: AsyncIterator[StreamEvent], wanted: set[str]) -> tuple[set[str], str | None]:
    """Read until some executions were named; return all that were, and the id of the last event."""
    named: set[str] = set()
    last: str | None = None
    async for event in events:
        if event.event == "changed":
            data: Any = event.data
            named |= {*data["executions"]}
            last = event.id
        if wanted <= named:
            break
    return named, last


def test_a_reader_hears_of_what_moves_and_continues_where_it_was_cut_off(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with following(caller) as events:
            await caller.call("workflow.execute", workflow_id="wait", execution_id="x")
            named, last = await changes(events, {"x"})
            assert named == {"x"}
        await caller.call("workflow.execute", workflow_id="wait", execution_id="y")
        async with following(caller, last_event_id=last) as events:
            assert "y" in (await changes(events, {"y"}))[0]
        assert caller.gate.services.open_streams.count == 0

    run(open_caller, test)


def test_nobody_hears_of_executions_of_another_tenant(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        made = await caller.call("key.create", name="theirs", scopes=["workflow:*", "execution:*"], tenant="acme")
        other = caller.with_key(made["secret"])
        document = {"penstock": "v1", "name": "own", "nodes": [{"id": "done", "type": "end"}]}
        await other.call("workflow.create", document=document)
        async with following(other) as events:
            await caller.call("workflow.execute", workflow_id="wait", execution_id="x")
            await other.call("workflow.execute", workflow_id="own", execution_id="z")
            assert (await changes(events, {"z"}))[0] == {"z"}

    run(open_caller, test)


def test_a_stream_ends_with_its_key(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        made = await caller.call("key.create", name="eyes", kind="person", scopes=["execution:read"])
        reader = caller.with_key(made["secret"])
        async with following(reader) as events:
            await anext(events)
            await caller.call("key.revoke", key_id=made["key"]["id"])
            told = [event.event async for event in events]
            assert told[-1] == "closed"

    run(open_caller, test)
