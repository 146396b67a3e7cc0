"""HTTP/1.1 on uvicorn, with bounds that uvicorn leaves open, and less work for the usual answer.

A head that does not end, a body that trickles and a connection that sends nothing would each hold memory or a
connection for ever; here they are refused with a problem document, and so is what cannot be read as HTTP. Nothing is
measured for requests that arrive in one piece, as nearly all do. The usual answer (known headers, a length, one body)
is written in one piece; everything else goes uvicorn's own way.

uvicorn offers no hook for either, so this module subclasses its protocol and its request cycle. It is the only one that
knows uvicorn's insides: `test_http_protocol.py` notices when they change, and pyproject.toml bounds the version.
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
# What uvicorn refuses in a value; a tab may stand in one.
_CONTROLS = bytes([*range(0x09), *range(0x0A, 0x20), 0x7F])
_LINE_END = b"\r\n"
# What is larger is sent by itself: to copy it would cost more than the call that is saved.
_JOINED_BYTES_MAX = 16_384

# The application answers with 408 when a body does not arrive; this much later nobody is waited for any more.
_GRACE_SECONDS = 5.0


RecordUnparsed: TypeAlias = Callable[[PenstockError, str, str | None], None]
"""Hears what was refused, with the id of the answer and the address."""


def _note_nothing(error: PenstockError, request_id: str, remote: str | None) -> None:
    """For a server whose refusals nobody keeps."""


class _Phase(Enum):
    """What of a request arrives at present."""

    NOTHING = "nothing"
    HEAD = "head"
    BODY = "body"


# Bound to names: looking a member up in its class takes ten times as long, and every request does so several times.
_NOTHING, _HEAD, _BODY = _Phase.NOTHING, _Phase.HEAD, _Phase.BODY
_SECONDS = {
    _HEAD: limits.REQUEST_HEAD_SECONDS_MAX,
    _BODY: limits.REQUEST_BODY_SECONDS_MAX + _GRACE_SECONDS,
}


class ResponseCycle(RequestResponseCycle):
    """One request and its answer, as uvicorn has it."""

    transport: CoalescedWrites  # type: ignore[assignment]  # as its protocol has it
    _head = b""
    """The head of a usual answer, until its body comes."""

    async def send(self, message: Any) -> None:
        """Send a part of the answer."""
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
        """Status and headers as they go over the wire; None for those of another than the usual answer."""
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
        """Whether this is all of the body that a usual head has promised, and little enough to be sent with it."""
        return (
            message["type"] == "http.response.body"
            and not message.get("more_body", False)
            and len(message.get("body", b"")) == self.expected_content_length <= _JOINED_BYTES_MAX
            and "body" in message
        )


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection."""

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
        """Since when the next request is waited for."""
        self._idle_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base class
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", CoalescedWrites(transport, self.loop))
        self._watch(_HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._watch(_NOTHING)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, within the bounds."""
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
            # Bytes that begin no request: they count as the beginning of one.
            phase = _HEAD
        if phase is not self._timed:
            self._watch(phase)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._phase = _HEAD
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is here; refuse one that is too large although it came in one piece."""
        self._phase = _BODY
        if len(self.url) > limits.REQUEST_TARGET_BYTES_MAX:
            self._refusal = LimitExceeded(
                "TARGET_TOO_LONG",
                f"path and query are longer than {limits.REQUEST_TARGET_BYTES_MAX} bytes",
                "ask for less, or in several calls",
            )
        elif (
            # What is large as a whole may have a small head; what is small cannot have a large one.
            self._head_bytes + self._newest_bytes > limits.REQUEST_HEAD_BYTES_MAX
            and sum(len(name) + len(value) for name, value in self.headers) > limits.REQUEST_HEAD_BYTES_MAX
        ):
            self._refusal = _head_too_large()
        if self._refusal is not None:
            raise ValueError(self._refusal.message)
        self._begin_cycle()

    def _begin_cycle(self) -> None:
        """Hand the request to the application; behind one that is not answered yet, it waits."""
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
        """A request is answered: begin the next that is here, or wait for one, but not for ever."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._look_whether_idle)

    def _look_whether_idle(self) -> None:
        """Hang up on a client that has asked nothing for too long. One timer serves all requests of a connection."""
        self._idle_timer = None
        if self._idle_since is None:
            return  # the next answer sets another one
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._idle_timer = self.loop.call_later(left, self._look_whether_idle)
        else:
            self.timeout_keep_alive_handler()

    def on_message_complete(self) -> None:
        """A request is here as a whole."""
        self._phase = _NOTHING
        note_arrival(cast("Scope", self.scope))
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read as HTTP, or was refused while it was read."""
        self._refuse(self._refusal or Rejected("MALFORMED_REQUEST", "this is not HTTP/1.1", "use an HTTP client"))

    def _is_answered(self) -> bool:
        last: RequestResponseCycle | None = self.cycle
        return last is None or last.response_complete

    def _may_answer(self) -> bool:
        """Whether nobody else answers now; the application may have the head of a request whose body is broken."""
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
            self._timer = self.loop.call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        self._timer = None
        if self._phase is _HEAD:
            message = f"the request did not begin to make sense within {limits.REQUEST_HEAD_SECONDS_MAX:g} s"
            self._refuse(LimitExceeded("REQUEST_TIMEOUT", message, "send the headers in one piece"))
        elif not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, error: PenstockError) -> None:
        """Answer with a problem document and hang up; in the middle of another answer, just hang up."""
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
