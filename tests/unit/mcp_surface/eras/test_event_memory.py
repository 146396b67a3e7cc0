"""What is kept of event streams: within its bounds, and for its own session only."""

from __future__ import annotations

import anyio
import pytest
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from penstock.mcp_surface.eras.event_memory import EventMemory
from penstock.mcp_surface.eras.sdk_internals import _LateMessages


def notice(text: str) -> JSONRPCMessage:
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params={"data": text})


def data(memory: EventMemory, session: str, number: int) -> list[object] | None:
    found = memory.after(session, str(number))
    if found is None:
        return None
    messages = [event.message for event in found.events]
    return [(message.params or {})["data"] for message in messages if isinstance(message, JSONRPCNotification)]


def test_the_rest_of_a_stream_comes_in_order_and_nothing_of_another() -> None:
    memory = EventMemory()
    first = memory.add("mine", "1", None)
    memory.add("mine", "1", notice("a"))
    memory.add("mine", "2", notice("of another stream"))
    memory.add("others", "1", notice("of another session"))
    second = memory.add("mine", "1", notice("b"))
    assert data(memory, "mine", first) == ["a", "b"]
    assert data(memory, "mine", second) == []
    assert data(memory, "others", first) is None
    found = memory.after("mine", str(first))
    assert found is not None
    assert (found.stream, found.ended) == ("1", False)


def test_a_stream_has_ended_with_its_answer() -> None:
    memory = EventMemory()
    first = memory.add("mine", "1", None)
    last = memory.add("mine", "1", JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
    assert [found.ended for number in (first, last) if (found := memory.after("mine", str(number)))] == [True, True]


def test_the_oldest_make_room() -> None:
    memory = EventMemory(events_max=3)
    numbers = [memory.add("mine", "1", notice(str(place))) for place in range(5)]
    assert [data(memory, "mine", number) for number in numbers] == [None, None, ["3", "4"], ["4"], []]


def test_large_events_are_kept_as_far_as_they_fit() -> None:
    memory = EventMemory(bytes_max=2_000)
    small = memory.add("mine", "1", notice("a"))
    large = memory.add("others", "1", notice("b" * 1_900))
    assert data(memory, "mine", small) is None
    assert data(memory, "others", large) is None


def test_nothing_is_left_of_a_session_that_ended() -> None:
    memory = EventMemory(events_max=2)
    number = memory.add("mine", "1", notice("a"))
    memory.forget("mine")
    memory.forget("never there")
    assert memory.after("mine", str(number)) is None
    for place in range(3):
        memory.add("others", "1", notice(str(place)))


def test_what_is_no_number_is_unknown() -> None:
    memory = EventMemory()
    memory.add("mine", "1", None)
    assert [memory.after("mine", text) for text in ("", "-1", "one", "²", "9" * 10_000)] == [None] * 5


def test_a_session_that_has_just_ended_may_be_told_something_but_not_asked() -> None:
    async def body() -> None:
        writer, reader = create_context_streams[SessionMessage | Exception](0)
        late = _LateMessages(writer._inner)
        await late.aclose()
        await late.send(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")))
        with pytest.raises(anyio.ClosedResourceError):
            await late.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")))
        reader.close()

    anyio.run(body)
