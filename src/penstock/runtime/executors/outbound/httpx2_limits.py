"""Responses of httpx2, limited while they are read.

    response = await client.send(request, stream=True)
    limit_response(response, MCP_ANSWER)

    httpx2.AsyncClient(event_hooks=limiting_hooks(LLM_ANSWER))

A response that is too large raises `ResponseTooLarge`, which the libraries treat as a broken stream.

Above it: the clients of MCP servers, models and task hosts, the http executor. Below it: `bounded_body`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2

from penstock.runtime.executors.outbound.bounded_body import (
    ACCEPTED_ENCODING,
    BodyMode,
    BodyTooLarge,
    BodyUndecodable,
    BoundedBody,
    ResponseLimits,
    take_encoding,
)

__all__ = ["ResponseTooLarge", "ResponseUndecodable", "is_event_stream", "limit_response", "limiting_hooks"]


class ResponseTooLarge(httpx2.SSEError, BodyTooLarge):
    """The response is larger than its limits."""


class ResponseUndecodable(httpx2.DecodingError):
    """The response is not compressed as it says, or in a way that was not requested."""


def is_event_stream(response: httpx2.Response) -> bool:
    """True if a response is a stream of events."""
    return response.headers.get("content-type", "").lower().startswith("text/event-stream")


def limit_response(response: httpx2.Response, bounds: ResponseLimits, shape: BodyMode = BodyMode.WHOLE) -> None:
    """Limit how much of an unread response is read."""
    try:
        encoding = take_encoding(response.headers)
    except BodyUndecodable as error:
        raise ResponseUndecodable(str(error)) from error
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Bounded(response.stream, bounds, shape, encoding)


def limiting_hooks(
    bounds: ResponseLimits, *, events: bool = False
) -> dict[str, list[Callable[[Any], Awaitable[None]]]]:
    """Event hooks for a client that reads every response as a whole. Unlike a transport, they keep its proxies.

    With `events`, a stream of events is read as it arrives, with the bounds for each event; its reader bounds the sum.
    """

    async def asked(request: httpx2.Request) -> None:
        request.headers["accept-encoding"] = ACCEPTED_ENCODING

    async def answered(response: httpx2.Response) -> None:
        shape = BodyMode.EVENTS if events and is_event_stream(response) else BodyMode.WHOLE
        limit_response(response, bounds, shape)

    return {"request": [asked], "response": [answered]}


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, bounds: ResponseLimits, shape: BodyMode, encoding: str) -> None:
        self._inner = inner
        self._body = BoundedBody(inner, bounds, shape, encoding)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._body.parts():
                yield part
        except BodyTooLarge as error:
            raise ResponseTooLarge(str(error)) from error
        except BodyUndecodable as error:
            raise ResponseUndecodable(str(error)) from error

    async def aclose(self) -> None:
        """Close the body."""
        await self._inner.aclose()
