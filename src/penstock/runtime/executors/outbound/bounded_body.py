"""Bodies of HTTP responses, limited while they are read: decompressed in small steps, and never beyond the limit.

    BoundedBody(stream, ResponseLimits(bytes_max=…, tokens_max=…), BodyMode.WHOLE, "gzip")

In a stream of events each event is limited, otherwise the whole body. It does not depend on an HTTP library.

Above it: `httpx2_limits`, `httpx_limits`. Below it: `json_tokens`, `message_rate`.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator, MutableMapping
from dataclasses import dataclass
from enum import Enum, auto

from penstock.runtime.executors.outbound.json_tokens import TokenCounter
from penstock.runtime.executors.outbound.message_rate import MessageRateLimiter

__all__ = [
    "ACCEPTED_ENCODING",
    "TOO_LARGE",
    "BodyMode",
    "BodyTooLarge",
    "BodyUndecodable",
    "BoundedBody",
    "ResponseLimits",
    "take_encoding",
    "was_too_large",
]

ACCEPTED_ENCODING = "gzip"
TOO_LARGE = "the server sent more at once than is taken"
"""How every error about a response that is too large starts."""
_STEP_BYTES = 65_536
# Events are processed line by line.
_EVENT_STEP_BYTES = 8_192
_EVENT_END = b"\n\n"
# The minimum size a piece counts as: a body in tiny pieces has a cost too.
_PART_BYTES_MIN = 64
_PARTS_AT_ONCE = 8
# How much is processed before other tasks run.
_BYTES_AT_ONCE = 524_288
_WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseLimits:
    """How much of one response, or of one event, is accepted: decompressed bytes, and JSON values."""

    bytes_max: int
    tokens_max: int | None = None
    """None if the body may be anything; then its decoder counts the values."""

    def exceeded_message(self) -> str:
        """The error message for a response beyond the limits."""
        most = f"{self.bytes_max} bytes"
        return f"{TOO_LARGE}: {most}" + (f" or {self.tokens_max} values" if self.tokens_max is not None else "")


class BodyMode(Enum):
    """How a body is passed on."""

    WHOLE = auto()
    """In one piece when it is complete: a body of a million pieces would cost a million objects."""
    EVENTS = auto()
    """As it arrives, with a limit on each event."""
    PIECES = auto()
    """As it arrives, for callers that want only the start."""


class BodyTooLarge(Exception):
    """The body is larger than its limits."""


class BodyUndecodable(Exception):
    """The body is not compressed as its headers say, or in a way that was not requested."""


def was_too_large(error: BaseException | None) -> bool:
    """True if an error that a library raised was caused by a response that was too large."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, BodyTooLarge):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def take_encoding(headers: MutableMapping[str, str]) -> str:
    """Remove the encoding from the headers, as the body is decoded here. Raises `BodyUndecodable` if it is unknown."""
    encoding = headers.pop("content-encoding", "identity").strip().lower() or "identity"
    if encoding != "identity" and encoding not in _WINDOWS:
        raise BodyUndecodable(f"the answer is encoded with {encoding[:30]!r}, which was not asked for")
    headers.pop("content-length", None)  # the size of what is sent, not of what is read
    return encoding


class BoundedBody:
    """The body that a server sends. It raises when a response or event exceeds the limits."""

    def __init__(self, inner: AsyncIterable[bytes], bounds: ResponseLimits, shape: BodyMode, encoding: str) -> None:
        self._inner = inner
        self._bounds = bounds
        self._shape = shape
        self._encoding = encoding
        self._inflater = zlib.decompressobj(_WINDOWS[encoding]) if encoding in _WINDOWS else None
        self._kept = bytearray()
        self._counter = TokenCounter()
        self._size = 0
        self._half_end = False
        self._trailing_cr = False
        self._step_bytes = _EVENT_STEP_BYTES if shape is BodyMode.EVENTS else _STEP_BYTES

    async def parts(self) -> AsyncIterator[bytes]:
        """The decompressed body. `BodyTooLarge` or `BodyUndecodable` may be raised in the middle of it."""
        pace, parts, size = MessageRateLimiter(), 0, 0
        async for received in self._inner:
            for part in self._inflated(received):
                parts, size = parts + 1, size + len(part)
                if parts >= _PARTS_AT_ONCE or size >= _BYTES_AT_ONCE:
                    parts = size = 0
                    await asyncio.sleep(0)
                ended = self._taken(part)
                if self._shape is BodyMode.EVENTS:
                    await pace.count(ended)
                if self._shape is not BodyMode.WHOLE:
                    yield part
        if self._shape is BodyMode.WHOLE:
            await asyncio.sleep(0)  # decoding it is the next step
            yield bytes(self._kept)

    def _inflated(self, received: bytes) -> Iterator[bytes]:
        if self._inflater is None:
            for start in range(0, len(received), self._step_bytes):
                yield received[start : start + self._step_bytes]
            return
        waiting = received
        while waiting and not self._inflater.eof:
            part = self._step(waiting)
            waiting = self._inflater.unconsumed_tail
            if part:
                yield part

    def _step(self, waiting: bytes) -> bytes:
        assert self._inflater is not None
        try:
            return self._inflater.decompress(waiting, self._step_bytes)
        except zlib.error as error:
            if self._encoding != "deflate" or self._size:
                raise BodyUndecodable(str(error)) from error
        # Some servers send deflate without the header that the standard requires.
        self._inflater, self._encoding = zlib.decompressobj(-zlib.MAX_WBITS), "raw"
        return self._step(waiting)

    def _taken(self, part: bytes) -> int:
        """Count a piece. Returns the number of events that end in it."""
        if self._shape is not BodyMode.EVENTS:
            self._keep(part)
            return 0
        # A line end, or a blank line, may be split between two pieces.
        text = (b"\r" if self._trailing_cr else b"") + part
        self._trailing_cr = text.endswith(b"\r")
        text = text.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ended, rest = ((b"\n" if self._half_end else b"") + text).split(_EVENT_END)
        for event in ended:
            self._keep(event)
            self._counter.clear()
            self._size = 0
        self._half_end = rest.endswith(b"\n")
        self._keep(rest)
        return len(ended)

    def _keep(self, part: bytes) -> None:
        self._size += max(len(part), _PART_BYTES_MIN if part else 0)
        if self._size > max(self._bounds.bytes_max, _PART_BYTES_MIN):
            raise BodyTooLarge(self._bounds.exceeded_message())
        most = self._bounds.tokens_max
        if most is not None:
            count = self._counter.feed_lines if self._shape is BodyMode.EVENTS else self._counter.feed
            if count(part) > most:
                raise BodyTooLarge(self._bounds.exceeded_message())
        if self._shape is BodyMode.WHOLE:
            self._kept += part
