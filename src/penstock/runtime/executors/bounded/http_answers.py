"""Bodies of HTTP answers, bounded while they are read: decompressed in small steps, never more than is taken.

    response = await client.send(request, stream=True)
    bound_answer(response, limits.UPSTREAM_ANSWER_BYTES_MAX)

Of an answer that is a stream of events each event is bounded, of any other the whole body. What is too large raises
`AnswerTooLarge`, which the library takes for a stream that broke.

Above it: the clients of MCP servers and of agents. Below it: httpx2, `json_tokens`, `pace`.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator

import httpx2

from penstock.base import limits
from penstock.runtime.executors.bounded.json_tokens import has_more_tokens
from penstock.runtime.executors.bounded.pace import Pace

__all__ = ["ACCEPTED_ENCODING", "TOO_LARGE", "AnswerTooLarge", "UnknownEncoding", "bound_answer"]

ACCEPTED_ENCODING = "gzip"
TOO_LARGE = "the server sent more at once than is taken"
"""How the text of an `AnswerTooLarge` begins."""
_STEP_BYTES = 65_536
_EVENT_END = b"\n\n"
# What a piece costs beside its bytes, so that a body in tiny pieces is none that is free.
_PART_BYTES = 64
_PARTS_AT_ONCE = 100


class AnswerTooLarge(httpx2.SSEError):
    """There is more than anybody wants to keep, or to decode."""

    def __init__(self, bytes_max: int) -> None:
        most = f"{bytes_max} bytes or {limits.UPSTREAM_ANSWER_TOKENS_MAX} values"
        super().__init__(f"{TOO_LARGE}: {most}")


class UnknownEncoding(httpx2.DecodingError):
    """The answer is compressed in a way that nobody asked for."""


def bound_answer(response: httpx2.Response, bytes_max: int) -> None:
    """Bound what is read of an answer that nobody has begun to read."""
    encoding = response.headers.pop("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip", "x-gzip"):
        raise UnknownEncoding(f"the answer is encoded with {encoding[:30]!r}, which was not asked for")
    response.headers.pop("content-length", None)  # of what is sent, not of what is read
    events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Bounded(
            response.stream, bytes_max=bytes_max, events=events, inflates=encoding.endswith("gzip")
        )


class _Bounded(httpx2.AsyncByteStream):
    """What a server sends, as long as no answer or event of it is unreasonably large: it would be kept in memory."""

    def __init__(self, inner: httpx2.AsyncByteStream, *, bytes_max: int, events: bool, inflates: bool) -> None:
        self._inner = inner
        self._bytes_max = bytes_max
        self._events = events
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 16) if inflates else None
        self._kept = bytearray()
        self._size = 0
        self._half_end = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pace, parts = Pace(), 0
        async for received in self._inner:
            for part in self._inflated(received):
                parts += 1
                if parts % _PARTS_AT_ONCE == 0:
                    await asyncio.sleep(0)
                ended = self._taken(part)
                if self._events:
                    await pace.count(ended)
                    yield part
        self._check_tokens()
        if not self._events:  # in one piece: a body of a million pieces costs a million objects
            yield bytes(self._kept)

    async def aclose(self) -> None:
        """Close it."""
        await self._inner.aclose()

    def _inflated(self, received: bytes) -> Iterator[bytes]:
        if self._inflater is None:
            yield received
            return
        waiting = received
        while waiting and not self._inflater.eof:
            try:
                part = self._inflater.decompress(waiting, _STEP_BYTES)
            except zlib.error as error:
                raise httpx2.DecodingError(str(error)) from error
            waiting = self._inflater.unconsumed_tail
            if part:
                yield part

    def _taken(self, part: bytes) -> int:
        """Count what came; how many events ended with it."""
        if not self._events:
            self._keep(part)
            return 0
        # A blank line may be cut in two.
        plain = (b"\n" if self._half_end else b"") + part.replace(b"\r", b"")
        *ended, rest = plain.split(_EVENT_END)
        for event in ended:
            self._keep(event)
            self._check_tokens()
            self._kept.clear()
            self._size = 0
        self._half_end = rest.endswith(b"\n")
        self._keep(rest.removesuffix(b"\n"))
        return len(ended)

    def _keep(self, part: bytes) -> None:
        self._size += len(part) + _PART_BYTES
        if self._size > self._bytes_max + _PART_BYTES:
            raise AnswerTooLarge(self._bytes_max)
        self._kept += part

    def _check_tokens(self) -> None:
        if has_more_tokens(bytes(self._kept), limits.UPSTREAM_ANSWER_TOKENS_MAX):
            raise AnswerTooLarge(self._bytes_max)
