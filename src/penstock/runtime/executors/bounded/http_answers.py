"""Answers that come through httpx2, bounded while they are read.

    response = await client.send(request, stream=True)
    bound_answer(response, MCP_ANSWER)

    httpx2.AsyncClient(event_hooks=bounding_hooks(LLM_ANSWER))

What is too large raises `AnswerTooLarge`, which the libraries take for a stream that broke.

Above it: the clients of MCP servers, models and task hosts, the http executor. Below it: httpx2, `bodies`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2

from penstock.runtime.executors.bounded.bodies import (
    ACCEPTED_ENCODING,
    BodyTooLarge,
    BodyUndecodable,
    BoundedBody,
    Bounds,
    Shape,
    taken_encoding,
)

__all__ = ["AnswerTooLarge", "AnswerUndecodable", "bound_answer", "bounding_hooks", "is_events"]


class AnswerTooLarge(httpx2.SSEError, BodyTooLarge):
    """There is more than anybody wants to keep, or to decode."""


class AnswerUndecodable(httpx2.DecodingError):
    """The answer is compressed in a way that nobody asked for, or not as it says."""


def is_events(response: httpx2.Response) -> bool:
    """Whether an answer is a stream of events."""
    return response.headers.get("content-type", "").lower().startswith("text/event-stream")


def bound_answer(response: httpx2.Response, bounds: Bounds, shape: Shape = Shape.WHOLE) -> None:
    """Bound what is read of an answer that nobody has begun to read."""
    try:
        encoding = taken_encoding(response.headers)
    except BodyUndecodable as error:
        raise AnswerUndecodable(str(error)) from error
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Bounded(response.stream, bounds, shape, encoding)


def bounding_hooks(bounds: Bounds) -> dict[str, list[Callable[[Any], Awaitable[None]]]]:
    """Event hooks of a client that takes every answer as a whole; unlike a transport they leave its proxies alone."""

    async def asked(request: httpx2.Request) -> None:
        request.headers["accept-encoding"] = ACCEPTED_ENCODING

    async def answered(response: httpx2.Response) -> None:
        bound_answer(response, bounds)

    return {"request": [asked], "response": [answered]}


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, bounds: Bounds, shape: Shape, encoding: str) -> None:
        self._inner = inner
        self._body = BoundedBody(inner, bounds, shape, encoding)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._body.parts():
                yield part
        except BodyTooLarge as error:
            raise AnswerTooLarge(str(error)) from error
        except BodyUndecodable as error:
            raise AnswerUndecodable(str(error)) from error

    async def aclose(self) -> None:
        """Close it."""
        await self._inner.aclose()
