"""A small HTTP/1.1 load client: keep-alive connections, each sending its next request when it has the last answer.

Much cheaper than a general client, so that the server is what is measured. Answers must have a Content-Length. Any
status but the expected ones counts as a failure.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

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


class _Client(asyncio.Protocol):
    """One connection in a closed loop."""

    def __init__(self, next_request: Callable[[], bytes], statuses: tuple[bytes, ...], until: float) -> None:
        self._next = next_request
        self._statuses = statuses
        self._until = until
        self._buffer = b""
        self._began = 0.0
        self.measured = Measured()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
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
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        lower = head.lower()
        at = lower.find(b"content-length:")
        length = int(lower[at + 15 : (lower.find(b"\r\n", at) if lower.find(b"\r\n", at) >= 0 else None)])
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        self.measured.latencies_ms.append((time.perf_counter() - self._began) * 1000)
        if not head[9:12].startswith(self._statuses):
            self.measured.failures += 1
        self._send()

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
