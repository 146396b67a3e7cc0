"""A receiver of webhooks on this machine: keeps what it gets, and answers as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.a2a.notifications import NOTIFICATIONS
from penstock.governance.webhook_signatures import Verified, verify_request
from penstock.operations.webhooks.disabling import disable_through, remove_through
from penstock.operations.webhooks.showing import held_caller, shown_through
from penstock.runtime.executors.http.webhook_sender import WebhookSender
from penstock.runtime.webhooks.dispatcher import DeliveryDispatcher, DeliveryOptions
from tests.connections import hang_up
from tests.unit.operations.conftest import Caller
from tests.waiting import SECONDS_MAX

__all__ = ["Received", "Receiver", "dispatching", "receiving"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        """What was sent."""
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found

    def is_signed_with(self, secret: str) -> bool:
        """Whether the signature is right."""
        now_ms = int(self.headers["webhook-timestamp"]) * 1_000
        found = verify_request("standard", secret, self.headers, self.body, now_ms=now_ms, skew_ms=1_000)
        return isinstance(found, Verified)


@dataclass(slots=True)
class Receiver:
    """Answers with the next of `statuses`; with the last one again and again."""

    url: str = ""
    statuses: list[int] = field(default_factory=lambda: [204])
    headers: dict[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    hold: asyncio.Event | None = None
    at_once: int = 0
    at_once_most: int = 0
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def events(self, count: int) -> list[dict[str, Any]]:
        """What was received, once it is so much."""
        await self.until(lambda: len(self.received) >= count)
        return [item.event for item in self.received]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(SECONDS_MAX), self._news:
            await self._news.wait_for(holds)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, with one request after the other."""
        self._writers.append(writer)
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def hang_up(self) -> None:
        """Close every connection, and wait until the loop has seen it."""
        await hang_up(self._writers)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.at_once += 1
        self.at_once_most = max(self.at_once_most, self.at_once)
        async with self._news:
            self.received.append(Received(path=head[0].split(" ")[1], headers=headers, body=body))
            self._news.notify_all()
        if self.hold is not None:
            await self.hold.wait()
        self.at_once -= 1
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        more = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        writer.write(f"HTTP/1.1 {status} Any\r\ncontent-length: 0\r\n{more}\r\n".encode())
        await writer.drain()
        return True


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver that listens."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver.take, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    receiver.url = f"http://127.0.0.1:{port}/events"
    try:
        yield receiver
    finally:
        server.close()
        await receiver.hang_up()


@asynccontextmanager
async def dispatching(
    caller: Caller, *, allow_private: bool = True, **options: Any
) -> AsyncIterator[DeliveryDispatcher]:
    """Events are queued and sent while the block lasts."""
    services = caller.gate.services
    dispatcher = DeliveryDispatcher(
        platform=services.platform,
        store=services.store,
        runs=services.run_memory,
        clock=services.clock,
        pepper=services.pepper,
        disable=disable_through(caller.gate),
        shown=shown_through(caller.gate, NOTIFICATIONS),
        caller_of=held_caller,
        remove=remove_through(caller.gate),
        sender=WebhookSender(allow_private=allow_private),
        options=DeliveryOptions(**{"first_delay_ms": 1, "source": "https://penstock.example/api/v0", **options}),
    )
    services.nudge_deliveries.listen(dispatcher.nudge)
    dispatcher.start()
    try:
        yield dispatcher
    finally:
        await dispatcher.stop()
