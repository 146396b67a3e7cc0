"""The usual answer goes over the wire as uvicorn sends it, byte for byte; every other is sent by uvicorn itself."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from starlette.types import Message
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from penstock.rest.http_protocol import ResponseCycle

pytestmark = pytest.mark.anyio

_DATE = (b"date", b"Tue, 17 Nov 2026 04:00:00 GMT")
_JSON = (b"content-type", b"application/json")


class Wire:
    """What a transport was given."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def write_now(self, data: bytes) -> None:
        self.sent.append(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


async def outcome(
    kind: type[RequestResponseCycle], messages: list[Message], *, method: str = "GET", keep_alive: bool = True
) -> Any:
    """Everything that somebody can see of an answer: its bytes, how the cycle stands, and what was refused."""
    wire, done = Wire(), 0

    def answered() -> None:
        nonlocal done
        done += 1

    cycle = kind(
        scope={"type": "http", "method": method},  # type: ignore[typeddict-item]
        transport=wire,  # type: ignore[arg-type]
        flow=FlowControl(wire),  # type: ignore[arg-type]
        logger=logging.getLogger("test"),
        access_logger=logging.getLogger("test"),
        access_log=False,
        default_headers=[_DATE],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=answered,
    )
    refused = ""
    for message in messages:
        try:
            await cycle.send(message)  # type: ignore[arg-type]
        except RuntimeError as error:
            refused = str(error)
            break
    state = (cycle.response_started, cycle.response_complete, cycle.chunked_encoding, cycle.expected_content_length)
    return b"".join(wire.sent), wire.closed, state, done, cycle.message_event.is_set(), refused


def start(*headers: tuple[bytes, bytes], status: int = 200) -> Message:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def length(size: int) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % size


_ANSWERS: list[list[Message]] = [
    [start(length(2), _JSON), body(b"{}")],
    [start(_JSON, length(2), (b"etag", b'"1\t2"'), (b"x-request-id", b"abc"), status=404), body(b"{}")],
    [start(length(4)), body(b"ab", more=True), body(b"cd")],
    [start(length(0), status=204), body(b"")],
    [start(length(0)), {"type": "http.response.body"}],
    [start(_JSON), body(b"ab", more=True), body(b"")],
    [start(status=204), body(b"")],
    [start(length(2), (b"connection", b"close")), body(b"{}")],
    [start((b"transfer-encoding", b"chunked")), body(b"{}")],
    [start(length(2), (b"X-Other", b"1")), body(b"{}")],
    [start(length(2), (b"set-cookie", b"a=b")), body(b"{}")],
    # What must not go out does not.
    [start(length(2), (b"location", b"/a\r\nset-cookie: b")), body(b"{}")],
    [start(length(2), (b"etag", b"\x00")), body(b"{}")],
    [start(length(2), (b"x-request-id", b"a\x7f")), body(b"{}")],
    [start(length(2), (b"location", b"/a\nb")), body(b"{}")],
    [start(length(2)), body(b"longer")],
    [start(length(2)), body(b"")],
    [start(length(2)), start(length(2))],
    [start(length(2)), body(b"{}"), body(b"{}")],
    [body(b"{}")],
]


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_an_answer_is_what_uvicorn_sends(method: str, *, keep_alive: bool) -> None:
    for messages in _ANSWERS:
        expected = await outcome(RequestResponseCycle, messages, method=method, keep_alive=keep_alive)
        assert await outcome(ResponseCycle, messages, method=method, keep_alive=keep_alive) == expected, messages


async def test_the_usual_answer_is_not_sent_by_uvicorn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(cycle: RequestResponseCycle, message: Message) -> None:
        raise AssertionError(message)

    monkeypatch.setattr(RequestResponseCycle, "send", never)
    found = await outcome(ResponseCycle, [start(length(2), _JSON, (b"cache-control", b"no-store")), body(b"{}")])
    assert found[0].endswith(b"cache-control: no-store\r\n\r\n{}")
