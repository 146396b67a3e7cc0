"""One request and its answer, as uvicorn has it, with less work for the usual answer.

The usual answer has headers of known names, says how long it is, and is sent as a head and one body. Its head is made
in one piece and looked through once; everything else (streams, other headers, connections that end, values that no
header may have) is uvicorn's own way.

Above it: `guarded` makes one for each request. Below it: uvicorn's cycle. It decides nothing about an answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from penstock.rest.coalesced_writes import CoalescedWrites

__all__ = ["ResponseCycle"]

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


class ResponseCycle(RequestResponseCycle):
    """One request and its answer."""

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
