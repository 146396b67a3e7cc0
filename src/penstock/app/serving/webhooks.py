"""Outgoing webhooks, for as long as a server runs.

Above it: `server`. Below it: `runtime.webhooks`, and the sender that decides where events may go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock import __version__
from penstock.a2a.notifications import NOTIFICATIONS
from penstock.base.lazy_import import lazy_import
from penstock.operations.gate.pipeline import Gate
from penstock.operations.webhooks.disabling import disable_through, remove_through
from penstock.operations.webhooks.showing import held_caller, shown_through
from penstock.runtime.webhooks.dispatcher import (
    DeliveryDispatcher,
    DeliveryOptions,
    NotSent,
    OutgoingEvent,
    Sender,
    Sent,
)

if TYPE_CHECKING:
    from penstock.runtime.executors.http import webhook_sender
else:
    webhook_sender = lazy_import("penstock.runtime.executors.http.webhook_sender")

__all__ = ["open_dispatcher"]

_LOGGER = logging.getLogger("penstock.webhooks")


@asynccontextmanager
async def open_dispatcher(
    gate: Gate, *, timeout_seconds: float, attempts_max: int
) -> AsyncIterator[DeliveryDispatcher]:
    """Queue and send events until the block ends."""
    services = gate.services
    dispatcher = DeliveryDispatcher(
        platform=services.platform,
        store=services.store,
        runs=services.run_memory,
        clock=services.clock,
        pepper=services.pepper,
        sender=_SenderOnDemand(allow_private=services.webhooks.allow_private_addresses),
        disable=disable_through(gate),
        shown=shown_through(gate, NOTIFICATIONS),
        caller_of=held_caller,
        remove=remove_through(gate),
        options=DeliveryOptions(
            source=services.webhooks.address(services.base_path),
            user_agent=f"penstock/{__version__}",
            timeout_seconds=timeout_seconds,
            attempts_max=attempts_max,
            authorship=services.holds.authorship,
        ),
        report=_report,
    )
    services.nudge_deliveries.listen(dispatcher.nudge)
    dispatcher.start()
    try:
        yield dispatcher
    finally:
        # From now on nothing is sent; queued deliveries wait for the next start.
        services.nudge_deliveries.leave(dispatcher.nudge)
        await dispatcher.stop()


@dataclass(slots=True, kw_only=True)
class _SenderOnDemand:
    """Sends events. Its libraries are loaded with the first one."""

    allow_private: bool
    _made: Sender | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def send(self, event: OutgoingEvent) -> Sent | NotSent:
        """Send one request."""
        return await (self._made or await self._ready()).send(event)

    async def _ready(self) -> Sender:
        async with self._lock:
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
            return self._made

    def _make(self) -> Sender:
        return webhook_sender.WebhookSender(allow_private=self.allow_private)

    async def close(self) -> None:
        """Close the connections, if there are any."""
        if self._made is not None:
            await self._made.close()


def _report(where: str, error: BaseException) -> None:
    _LOGGER.error("work on %s failed; trying again", where, exc_info=error)
