"""Answers that come through httpx, which the library for A2A agents uses, bounded while they are read.

    httpx.AsyncClient(event_hooks=bounding_hooks(AGENT_ANSWER))

Above it: `a2a_agents`. Below it: httpx, `bodies`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx

from penstock.runtime.executors.bounded.bodies import (
    ACCEPTED_ENCODING,
    BodyTooLarge,
    BodyUndecodable,
    BoundedBody,
    Bounds,
    Shape,
    taken_encoding,
)

__all__ = ["bounding_hooks"]

_EVENTS = "text/event-stream"


class _TooLarge(httpx.DecodingError, BodyTooLarge):
    """There is more than anybody wants to keep, or to decode."""


def bounding_hooks(bounds: Bounds) -> dict[str, list[Callable[[Any], Awaitable[None]]]]:
    """Event hooks of a client whose answers are bounded; unlike a transport they leave its proxies alone."""

    async def asked(request: httpx.Request) -> None:
        request.headers["accept-encoding"] = ACCEPTED_ENCODING

    async def answered(response: httpx.Response) -> None:
        # Events that nobody asked for are read as a whole, so they are bounded as a whole.
        events = all(_EVENTS in headers for headers in _kinds(response))
        try:
            encoding = taken_encoding(response.headers)
        except BodyUndecodable as error:
            raise httpx.DecodingError(str(error)) from error
        assert isinstance(response.stream, httpx.AsyncByteStream)
        shape = Shape.EVENTS if events else Shape.WHOLE
        response.stream = _Bounded(response.stream, bounds, shape, encoding)

    return {"request": [asked], "response": [answered]}


def _kinds(response: httpx.Response) -> tuple[str, str]:
    return response.request.headers.get("accept", "").lower(), response.headers.get("content-type", "").lower()


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, bounds: Bounds, shape: Shape, encoding: str) -> None:
        self._inner = inner
        self._body = BoundedBody(inner, bounds, shape, encoding)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._body.parts():
                yield part
        except BodyTooLarge as error:
            raise _TooLarge(str(error)) from error
        except BodyUndecodable as error:
            raise httpx.DecodingError(str(error)) from error

    async def aclose(self) -> None:
        """Close it."""
        await self._inner.aclose()
