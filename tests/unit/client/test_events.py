"""Lines become events however they are cut, and a reader that was cut off sees nothing twice."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.errors import CallDenied, CallFailed, CallNotFound, CallUnavailable
from penstock.client.events import EventParser, StreamEvent, StreamPosition, with_completion

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
EVENTS = st.builds(
    StreamEvent,
    event=st.sampled_from(["status", "node", "output", "complete"]),
    data=st.dictionaries(TEXTS, TEXTS, max_size=3),
    id=st.none() | st.integers(1, 999).map(str),
)


def frame(event: StreamEvent) -> bytes:
    head = "" if event.id is None else f"id: {event.id}\n"
    return f"{head}event: {event.event}\ndata: {json.dumps(event.data, ensure_ascii=False)}\n\n".encode()


@given(st.lists(EVENTS, max_size=5), st.integers(1, 7), st.booleans())
def test_events_are_the_same_however_the_bytes_are_cut(events: list[StreamEvent], size: int, with_cr: bool) -> None:
    wire = b"retry: 1500\n\n: ping\n\n" + b"".join(map(frame, events))
    wire = wire.replace(b"\n", b"\r\n") if with_cr else wire
    parser = EventParser()
    found = [event for start in range(0, len(wire), size) for event in parser.feed(wire[start : start + size])]
    assert found == events
    assert parser.retry_seconds == 1.5
    assert parser.signs_of_life == len(events) + 1


def test_a_line_separator_in_a_text_does_not_end_a_line() -> None:
    event = StreamEvent(event="output", data={"output": "one\u2028two\x0bthree"}, id="3")
    assert EventParser().feed(frame(event)) == [event]


def test_data_that_is_no_object_is_an_error() -> None:
    with pytest.raises(CallFailed, match="ANSWER_UNREADABLE"):
        EventParser().feed(b"event: status\ndata: [1\n\n")


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.data())
def test_a_reader_that_is_cut_off_anywhere_sees_every_event_once(sizes: list[int], data: st.DataObject) -> None:
    history: list[StreamEvent] = []
    for seq, size in enumerate(sizes, 1):
        history.extend(event("node", seq, part=part) for part in range(size))
        history.append(event("status", seq, identity=str(seq)))
    history.append(StreamEvent(event="complete", data={"sequence": len(sizes) + 1}, id=str(len(sizes) + 1)))
    position, seen = StreamPosition(), []
    while not position.ended:
        position.reconnected()
        rest = [item for item in history if item.data["sequence"] > int(position.last_id or 0)]
        # Every connection gets a little further, or the reader would never arrive.
        for item in rest[: data.draw(st.integers(len(seen_since(position)) + 1, len(rest)))]:
            taken = position.take(item)
            if taken is not None:
                seen.append(taken)
    assert seen == history


def seen_since(position: StreamPosition) -> list[StreamEvent]:
    return position._since


def event(name: str, seq: int, identity: str | None = None, **more: Any) -> StreamEvent:
    return StreamEvent(event=name, data={"sequence": seq, **more}, id=identity)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("KEY_REVOKED", CallDenied),
        ("EXECUTION_NOT_FOUND", CallNotFound),
        ("SERVER_STOPPING", CallUnavailable),
    ],
)
def test_a_stream_that_is_closed_is_an_error_of_its_kind(code: str, kind: type[CallFailed]) -> None:
    with pytest.raises(kind) as caught:
        StreamPosition().take(StreamEvent(event="closed", data={"code": code, "message": "it is over"}))
    assert caught.value.code == code


def test_the_end_is_always_asked_for_but_handed_on_only_if_wanted() -> None:
    assert with_completion(None) == (None, None)
    assert with_completion("status, node") == ("status,node,complete", frozenset({"status", "node"}))
    assert with_completion(["complete"]) == ("complete", frozenset({"complete"}))
