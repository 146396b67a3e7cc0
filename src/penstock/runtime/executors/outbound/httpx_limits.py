"""Responses of httpx, which the A2A library uses, limited while they are read.

    httpx.AsyncClient(event_hooks=limiting_hooks(AGENT_ANSWER))

The library splits a stream of events where Python splits lines, but the standard for events has fewer line ends. All
other characters that Python treats as line ends are replaced by their JSON escapes, so that no value is cut in two.

Above it: `agents.a2a`. Below it: httpx, `bounded_body`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx

from penstock.runtime.executors.outbound.bounded_body import (
    ACCEPTED_ENCODING,
    BodyMode,
    BodyTooLarge,
    BodyUndecodable,
    BoundedBody,
    ResponseLimits,
    take_encoding,
)

__all__ = ["limiting_hooks"]

_EVENTS = "text/event-stream"
# Line ends for Python but not for a stream of events, in UTF-8; and prefixes of them at the end of a piece.
_NO_LINE_ENDS = re.compile(rb"\xe2\x80[\xa8\xa9]|\xc2\x85|[\x0b\x0c\x1c-\x1e]")
_BEGUN = (b"\xe2\x80", b"\xe2", b"\xc2")


class _TooLarge(httpx.DecodingError, BodyTooLarge):
    """The response is larger than its limits."""


def limiting_hooks(bounds: ResponseLimits) -> dict[str, list[Callable[[Any], Awaitable[None]]]]:
    """Event hooks for a client whose responses are limited. Unlike a transport, they keep its proxies."""

    async def asked(request: httpx.Request) -> None:
        request.headers["accept-encoding"] = ACCEPTED_ENCODING

    async def answered(response: httpx.Response) -> None:
        # Events that were not requested are read as a whole, so they are limited as a whole.
        events = all(_EVENTS in headers for headers in _kinds(response))
        try:
            encoding = take_encoding(response.headers)
        except BodyUndecodable as error:
            raise httpx.DecodingError(str(error)) from error
        assert isinstance(response.stream, httpx.AsyncByteStream)
        shape = BodyMode.EVENTS if events else BodyMode.WHOLE
        response.stream = _Bounded(response.stream, bounds, shape, encoding)
        if events:
            response.encoding = "utf-8"  # whatever the headers say: events are always UTF-8

    return {"request": [asked], "response": [answered]}


def _kinds(response: httpx.Response) -> tuple[str, str]:
    return response.request.headers.get("accept", "").lower(), response.headers.get("content-type", "").lower()


def _escaped(found: re.Match[bytes]) -> bytes:
    return f"\\u{ord(found[0].decode()):04x}".encode()


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, bounds: ResponseLimits, shape: BodyMode, encoding: str) -> None:
        self._inner = inner
        self._body = BoundedBody(inner, bounds, shape, encoding)
        self._is_events = shape is BodyMode.EVENTS

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begun = b""
        try:
            async for part in self._body.parts():
                if self._is_events:
                    whole = begun + part
                    begun = next((end for end in _BEGUN if whole.endswith(end)), b"")
                    yield _NO_LINE_ENDS.sub(_escaped, whole.removesuffix(begun))
                else:
                    yield part
            if begun:
                yield begun
        except BodyTooLarge as error:
            raise _TooLarge(str(error)) from error
        except BodyUndecodable as error:
            raise httpx.DecodingError(str(error)) from error

    async def aclose(self) -> None:
        """Close the body."""
        await self._inner.aclose()
