"""A small HTTP/1.1 load client: keep-alive connections, each sending its next request when it has the last answer.

Much cheaper than a general client, so that the server is what is measured. Answers have a Content-Length, or come in
chunks. Any status but the expected ones counts as a failure.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

__all__ = ["Measured", "load", "percentile", "request_bytes"]


def request_bytes(method: str, path: str, *, port: int, headers: dict[str, str], body: bytes = b"") -> bytes:
    """A request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{port}"]
    lines.extend(f"{name}: {value}" for name, value in headers.items())
    if body:
        lines.extend(("content-type: application/json", f"content-length: {len(body)}"))
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass(slots=True)
class Measured:
    """What a load showed."""

    seconds: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    failures: int = 0

    @property
    def per_second(self) -> float:
        """Requests answered in a second."""
        return len(self.latencies_ms) / self.seconds if self.seconds else 0.0


def percentile(values: list[float], share: float) -> float:
    """The value that a share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


# What is missing of a body that comes in chunks: nobody knows.
_CHUNKS = -1
_LAST_CHUNK = b"\r\n0\r\n\r\n"


def _length(head: bytes) -> int:
    lower = head.lower()
    if b"\ntransfer-encoding: chunked" in lower:
        return _CHUNKS
    at = lower.index(b"content-length:") + len(b"content-length:")
    end = lower.find(b"\r\n", at)
    return int(lower[at : end if end >= 0 else None])


class _Client(asyncio.Protocol):
    """One connection in a closed loop."""

    def __init__(self, next_request: Callable[[], bytes], statuses: tuple[bytes, ...], until: float) -> None:
        self._next = next_request
        self._statuses = statuses
        self._until = until
        self._head = b""
        self._missing = 0
        self._tail = b""
        self._began = 0.0
        self.measured = Measured()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: the transports of uvloop have another base.
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        if self._began >= self._until:
            self._transport.close()
            if not self.done.done():
                self.done.set_result(None)
            return
        self._transport.write(self._next())

    def data_received(self, data: bytes) -> None:
        if self._missing == _CHUNKS:
            self._missing = self._after_chunks(data)
        elif self._missing:
            # Of a body only the length counts: large ones must not cost the client more than the server.
            self._missing -= len(data)
        else:
            self._head += data
            head, separator, rest = self._head.partition(b"\r\n\r\n")
            if not separator:
                return
            length = _length(head)
            self._missing = self._after_chunks(rest) if length == _CHUNKS else length - len(rest)
            self._head = head
        if self._missing:
            return
        self.measured.latencies_ms.append((time.perf_counter() - self._began) * 1000)
        if not self._head[9:12].startswith(self._statuses):
            self.measured.failures += 1
        self._head = b""
        self._send()

    def _after_chunks(self, data: bytes) -> int:
        """What is missing after some chunks."""
        self._tail = (self._tail + data)[-len(_LAST_CHUNK) :]
        if self._tail != _LAST_CHUNK:
            return _CHUNKS
        self._tail = b""
        return 0

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.measured.failures += 1
            self.done.set_result(None)


async def load(
    port: int, next_request: Callable[[], bytes], *, connections: int, seconds: float, statuses: tuple[bytes, ...]
) -> Measured:
    """Load a server on 127.0.0.1 for a while."""
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    clients = [
        (await loop.create_connection(lambda: _Client(next_request, statuses, began + seconds), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(client.done for client in clients))
    total = Measured(seconds=time.perf_counter() - began)
    for client in clients:
        total.latencies_ms.extend(client.measured.latencies_ms)
        total.failures += client.measured.failures
    return total
