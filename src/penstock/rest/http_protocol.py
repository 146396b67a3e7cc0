"""HTTP/1.1 on uvicorn, with limits that uvicorn does not set, and less work for the usual response.

A request head that never ends, a body that trickles in, or a connection that sends nothing could each hold memory or a
connection forever. Here they are refused with a problem document, and so is input that is not HTTP. Requests that
arrive in one piece, as nearly all do, start no timer. The usual response (known headers, a length, one body) is written
in one piece; every other response takes uvicorn's own path.

uvicorn has no hook for either, so this module subclasses its protocol and its request cycle. It is the only module that
depends on uvicorn's internals: `test_http_protocol.py` notices when they change, and pyproject.toml bounds the version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from enum import Enum
from secrets import token_hex
from typing import Any, TypeAlias, cast
from urllib.parse import unquote

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from penstock.base import limits
from penstock.base.errors import LimitExceeded, PenstockError, Rejected
from penstock.rest.coalesced_writes import CoalescedWrites
from penstock.rest.problems import PROBLEM_MEDIA_TYPE, problem_body, problem_status
from penstock.rest.requests import note_arrival

__all__ = ["BoundedHttpProtocol", "RecordUnparsed"]

_KNOWN_NAMES = frozenset(
    {
        b"allow",
        b"cache-control",
        b"content-length",
        b"content-type",
        b"date",
        b"etag",
        b"idempotency-replayed",
        b"location",
        b"retry-after",
        b"vary",
        b"x-content-type-options",
        b"x-request-id",
    }
)
# The control characters that uvicorn refuses in a header value; a tab is allowed.
_CONTROLS = bytes([*range(0x09), *range(0x0A, 0x20), 0x7F])
_LINE_END = b"\r\n"
# A larger body is written separately: copying it would cost more than the saved system call.
_JOINED_BYTES_MAX = 16_384

# The application answers 408 when a body does not arrive; this much later the connection is closed in any case.
_GRACE_SECONDS = 5.0


RecordUnparsed: TypeAlias = Callable[[PenstockError, str, str | None], None]
"""Records a request refused before it was parsed: the error, the request id sent back, the client's address."""


def _note_nothing(error: PenstockError, request_id: str, remote: str | None) -> None:
    """Record nothing: the default for a server without an audit log."""


class _Phase(Enum):
    """The part of a request that is arriving."""

    NOTHING = "nothing"
    HEAD = "head"
    BODY = "body"


# Module-level names: looking up an enum member takes ten times as long, and every request needs it several times.
_NOTHING, _HEAD, _BODY = _Phase.NOTHING, _Phase.HEAD, _Phase.BODY
_SECONDS = {
    _HEAD: limits.REQUEST_HEAD_SECONDS_MAX,
    _BODY: limits.REQUEST_BODY_SECONDS_MAX + _GRACE_SECONDS,
}


class ResponseCycle(RequestResponseCycle):
    """A request and its response in uvicorn's protocol, with a fast path for the usual response."""

    transport: CoalescedWrites  # type: ignore[assignment]  # the type in `BoundedHttpProtocol`
    _head = b""
    """The head of a usual response, held until its body comes."""

    async def send(self, message: Any) -> None:
        """Send a part of the response."""
        if self.flow.write_paused or self.disconnected:
            self._send_head()
            await super().send(message)
        elif not self.response_started:
            head = self._usual_head(message)
            if head is None:
                await super().send(message)
                return
            self.response_started = True
            self.waiting_for_100_continue = False
            self.chunked_encoding = False
            self._head = head
        elif self._head and self._is_whole(message):
            self.transport.write_now(self._head + message["body"])
            self._head = b""
            self.expected_content_length = 0
            self.response_complete = True
            self.message_event.set()
            self.on_response()
        else:
            self._send_head()
            await super().send(message)

    def _send_head(self) -> None:
        if self._head and not self.disconnected:
            self.transport.write(self._head)
        self._head = b""

    def _usual_head(self, message: Any) -> bytes | None:
        """Encode status and headers; None if this is not a usual response, so that uvicorn has to send it."""
        if message["type"] != "http.response.start" or not self.keep_alive or self.scope["method"] == "HEAD":
            return None
        headers: Iterable[tuple[bytes, bytes]] = (*self.default_headers, *message["headers"])
        parts, lines, length = [STATUS_LINE[message["status"]]], 2, None
        for name, value in headers:
            if name not in _KNOWN_NAMES:
                return None
            if name == b"content-length":
                if length is not None or not value.isdigit():
                    return None
                length = int(value)
            parts += (name, b": ", value, _LINE_END)
            lines += 1
        parts.append(_LINE_END)
        head = b"".join(parts)
        if length is None or len(head.translate(None, _CONTROLS)) != len(head) - lines * len(_LINE_END):
            return None
        self.expected_content_length = length
        return head

    def _is_whole(self, message: Any) -> bool:
        """Return whether a message is the complete body for the held head, and small enough to join."""
        return (
            message["type"] == "http.response.body"
            and not message.get("more_body", False)
            and len(message.get("body", b"")) == self.expected_content_length <= _JOINED_BYTES_MAX
            and "body" in message
        )


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection, with limits on what it may send and how long it may take."""

    def __init__(self, *given: Any, refused: RecordUnparsed = _note_nothing, **named: Any) -> None:
        super().__init__(*given, **named)
        self._refused = refused
        self._phase = _NOTHING
        self._timed = _NOTHING
        self._timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._newest_bytes = 0
        self._refusal: PenstockError | None = None
        self._idle_since: float | None = None
        """When the connection began to wait for its next request."""
        self._idle_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base class
        """Start the timeout for the first request."""
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", CoalescedWrites(transport, self.loop))
        self._watch(_HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._watch(_NOTHING)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data, and enforce the size and time limits."""
        self._newest_bytes = len(data)
        self._idle_since = None
        super().data_received(data)
        phase = self._phase
        if phase is _HEAD:
            self._head_bytes += len(data)
            if self._head_bytes > limits.REQUEST_HEAD_BYTES_MAX:
                self._refuse(_head_too_large())
                return
        elif phase is _NOTHING and self._is_idle():
            # Bytes that have not begun a request yet count as the start of one.
            phase = _HEAD
        if phase is not self._timed:
            self._watch(phase)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._phase = _HEAD
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Hand over the request; refuse a head that is too large although it came in one piece."""
        self._phase = _BODY
        if len(self.url) > limits.REQUEST_TARGET_BYTES_MAX:
            self._refusal = LimitExceeded(
                "TARGET_TOO_LONG",
                f"path and query are longer than {limits.REQUEST_TARGET_BYTES_MAX} bytes",
                "shorten the query, or split it into several calls",
            )
        elif (
            # A small request cannot have a large head, so only a large one needs the exact sum.
            self._head_bytes + self._newest_bytes > limits.REQUEST_HEAD_BYTES_MAX
            and sum(len(name) + len(value) for name, value in self.headers) > limits.REQUEST_HEAD_BYTES_MAX
        ):
            self._refusal = _head_too_large()
        if self._refusal is not None:
            raise ValueError(self._refusal.message)
        self._begin_cycle()

    def _begin_cycle(self) -> None:
        """Start the application on the request, or queue it behind one that is not answered yet."""
        scope, parser = self.scope, self.parser
        http_version = parser.get_http_version()
        if http_version != "1.1":
            scope["http_version"] = http_version
        scope["method"] = parser.get_method().decode("ascii")
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = url.path
        scope["query_string"] = url.query or b""
        before: RequestResponseCycle | None = self.cycle
        self.cycle = cycle = ResponseCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=http_version != "1.0" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def on_response_complete(self) -> None:
        """Start the next queued request, or the keep-alive timeout if it does not exist."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._check_idle)

    def _check_idle(self) -> None:
        """Close the connection if it was idle for too long. One timer serves all requests of a connection."""
        self._idle_timer = None
        if self._idle_since is None:
            return  # the next response starts a new timer
        remaining = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if remaining > 0:
            self._idle_timer = self.loop.call_later(remaining, self._check_idle)
        else:
            self.timeout_keep_alive_handler()

    def on_message_complete(self) -> None:
        """Note that the whole request has arrived."""
        self._phase = _NOTHING
        note_arrival(cast("Scope", self.scope))
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse input that is not HTTP, or a request that was refused while it was parsed."""
        self._refuse(self._refusal or Rejected("MALFORMED_REQUEST", "this is not HTTP/1.1", "use an HTTP client"))

    def _is_answered(self) -> bool:
        last: RequestResponseCycle | None = self.cycle
        return last is None or last.response_complete

    def _may_answer(self) -> bool:
        """Return whether a refusal may be written now.

        The application may already have the head of a request whose body is broken; it is then told that the client
        left.
        """
        if self._is_answered():
            return True
        if self._phase is not _BODY or self.pipeline or self.cycle.response_started:
            return False
        self.cycle.disconnected = True
        return True

    def _is_idle(self) -> bool:
        return self._is_answered() and self._idle_since is None and not self.transport.is_closing()

    def _watch(self, phase: _Phase) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timed = phase
        seconds = _SECONDS.get(phase)
        if seconds is not None:
            self._timer = self.loop.call_later(seconds, self._phase_timed_out)

    def _phase_timed_out(self) -> None:
        self._timer = None
        if self._phase is _HEAD:
            message = f"the headers did not arrive within {limits.REQUEST_HEAD_SECONDS_MAX:g} s"
            self._refuse(LimitExceeded("REQUEST_TIMEOUT", message, "send the headers faster"))
        elif not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, error: PenstockError) -> None:
        """Answer with a problem document and close the connection; in the middle of another response, just close it."""
        if self.transport.is_closing():
            return
        if self._may_answer():
            request_id = token_hex(12)
            self._refused(error, request_id, self.client[0] if self.client else None)
            body = problem_body(error, request_id=request_id, instance="")
            head = (
                f"content-type: {PROBLEM_MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
                f"x-content-type-options: nosniff\r\ncache-control: no-store\r\n"
                f"x-request-id: {request_id}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(STATUS_LINE[problem_status(error)] + head.encode() + body)
        self.transport.close()


def _head_too_large() -> LimitExceeded:
    message = f"request line and headers are larger than {limits.REQUEST_HEAD_BYTES_MAX} bytes"
    return LimitExceeded("HEADERS_TOO_LARGE", message, "send fewer or shorter headers")
