"""Sends events to registered endpoints, at least once, with retries.

Two loops run beside the runs, which never wait for them. One queues new events (`feed`). The other sends deliveries
that are due: signed, a few at a time, fewer to one receiver, and again after growing pauses. Deliveries that cannot be
delivered become dead. A server claims a delivery before it sends it, for longer than sending may take: servers on one
database never send it at the same time, and if the one that claimed it dies, it is sent again. An endpoint that fails
several times in a row is paused, so that its backlog does not hold up the others; one that answers 410 is disabled.

Above it: `app` starts and stops it. Below it: the platform's queue, a `Sender` that knows where events may go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias
from zlib import crc32

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.governance.authorship import AuthorshipRules
from penstock.governance.webhook_signatures import standard_headers
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import DeliveryRow, ResourceRow
from penstock.runtime.ports.run_memory import RunMemory
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.ports.topics import Mark, Topic
from penstock.runtime.tables.deliveries import (
    change_delivery,
    claim_delivery,
    list_due_deliveries,
    read_next_delivery_at,
)
from penstock.runtime.tables.resources import list_all_resources
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.webhooks.endpoints import ENDPOINT_KIND, Endpoint, endpoint_of, signing_secrets, why_not_sent
from penstock.runtime.webhooks.feed import DeliveryFeed

__all__ = ["DeliveryDispatcher", "DeliveryOptions", "NotSent", "OutgoingEvent", "Sender", "Sent", "ShownEvent"]

# Between two reads of the store's changes: under load, one read covers many decisions.
_FEED_PAUSE_SECONDS = 0.05
# The maximum time between two reads of the queue, to find what another process queued.
_QUEUE_LOOK_SECONDS = 5.0
# After the store failed.
_FAULT_PAUSE_SECONDS = 1.0
# How long a claim holds beside the receiver's own time: for what is read before and stored after, and for clocks of
# servers that differ.
_CLAIM_MARGIN_MS = 15_000
# How long a delivery is postponed if its receiver already has as many as it may have at once.
_BUSY_PAUSE_MS = 1_000
_FAILURES_BEFORE_REST = 3
_REST_MS_MAX = 300_000
_DELAY_FACTOR = 3
_GONE = 410
_MEDIA_TYPE = "application/cloudevents+json; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingEvent:
    """One request to a receiver."""

    url: str
    headers: dict[str, str]
    body: bytes
    timeout_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The receiver answered."""

    status: int
    retry_after_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class NotSent:
    """There was no answer, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEvent:
    """What is sent of an event."""

    content: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers beside those of every event, or in place of them."""
    is_last: bool = False
    """Whether this is the endpoint's last event, after which it is deleted."""
    is_withheld: bool = False
    """Whether to send nothing: the event is not for this receiver, or is out of date."""


class Sender(Protocol):
    """Sends requests. Returns `NotSent` for addresses that are not allowed."""

    async def send(self, event: OutgoingEvent) -> Sent | NotSent:
        """Send one request. Redirects are not followed."""

    async def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOptions:
    """The operator's choices. `source` is the address of the API, for the `source` of events."""

    source: str = ""
    user_agent: str = "penstock"
    timeout_seconds: float = limits.WEBHOOK_DELIVERY_SECONDS_MAX
    attempts_max: int = limits.WEBHOOK_ATTEMPTS_MAX
    first_delay_ms: int = limits.DELIVERY_FIRST_DELAY_MS
    delay_ms_max: int = limits.DELIVERY_DELAY_MS_MAX
    at_once_max: int = limits.DELIVERIES_AT_ONCE_MAX
    per_endpoint_max: int = limits.DELIVERIES_PER_ENDPOINT_MAX
    authorship: AuthorshipRules = field(default_factory=AuthorshipRules)
    """Whose endpoints have to be accepted before anything is sent to them."""


_EndpointName: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class _Health:
    """The state of an endpoint: failures in a row, the end of its pause, and the number of deliveries in progress."""

    failures: int = 0
    rests_until: int = 0
    sending: int = 0


@dataclass(slots=True, kw_only=True)
class DeliveryDispatcher:
    """Queues and sends events from `start` until `stop`. `report` receives errors that no caller would see."""

    platform: Database
    store: RunStore
    runs: RunMemory
    clock: Clock
    pepper: bytes
    sender: Sender
    disable: Callable[[ResourceRow, str], Awaitable[None]]
    """Disables an endpoint that is gone for good, for a reason. A concurrent change of the endpoint wins."""
    shown: Callable[[ResourceRow, DeliveryRow], Awaitable[ShownEvent | None]] | None = None
    """Returns an event as the maker of an endpoint may see it now; None if the maker may not know of it at all."""
    caller_of: Callable[[RunRow], str | None] | None = None
    """Returns the run whose call a run holds for approval; None for any other run."""
    remove: Callable[[ResourceRow], Awaitable[None]] | None = None
    """Deletes an endpoint after its last event."""
    options: DeliveryOptions = field(default_factory=DeliveryOptions)
    report: Callable[[str, BaseException], None] = lambda where, error: None
    _feed: DeliveryFeed = field(init=False)
    _loops: list[asyncio.Task[None]] = field(default_factory=list)
    _sending: set[asyncio.Task[None] | None] = field(default_factory=set)
    _health: dict[_EndpointName, _Health] = field(default_factory=dict)
    _queue_wake: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._feed = DeliveryFeed(
            platform=self.platform, store=self.store, clock=self.clock, source=self.options.source
        )
        if self.caller_of is not None:
            self._feed.caller_of = self.caller_of

    def start(self) -> None:
        """Start queueing and sending."""
        self._loops = [asyncio.ensure_future(self._follow()), asyncio.ensure_future(self._deliver())]

    async def stop(self) -> None:
        """Stop. Deliveries in progress are abandoned and sent again after the next start."""
        tasks = [*self._loops, *(task for task in self._sending if task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self._feed.write_mark()
        except PenstockError as error:
            self.report("events", error)  # these changes are read again at the next start
        await self.sender.close()

    def nudge(self) -> None:
        """Look for work now: a delivery was requested, or a test moved the clock."""
        self._queue_wake.set()

    # --- queueing --------------------------------------------------------------------------------

    async def _follow(self) -> None:
        mark: Mark | None = None
        while True:
            try:
                newest = self.store.changed(Topic.ANYTHING)
                if newest != mark:
                    await self._queue_everything()
                    mark = newest
            except Exception as error:  # the store may be back in a moment; nothing is lost
                self.report("events", error)
                mark = None
                await asyncio.sleep(_FAULT_PAUSE_SECONDS)
            await asyncio.sleep(_FEED_PAUSE_SECONDS)
            await self.runs.next_commit(timeout_seconds=limits.FOREIGN_CHANGE_POLL_SECONDS)

    async def _queue_everything(self) -> None:
        has_more = True
        while has_more:
            queued, has_more = await self._feed.queue_new()
            if queued:
                self._queue_wake.set()

    # --- sending ---------------------------------------------------------------------------------

    async def _deliver(self) -> None:
        while True:
            self._queue_wake.clear()
            try:
                nap = await self._send_due()
            except Exception as error:  # the store may be back in a moment
                self.report("deliveries", error)
                nap = _FAULT_PAUSE_SECONDS
            try:
                async with asyncio.timeout(nap):
                    await self._queue_wake.wait()
            except TimeoutError:
                continue

    async def _send_due(self) -> float:
        """Send what is due and allowed. Returns the seconds until the next look."""
        if len(self._sending) >= self.options.at_once_max:
            return _QUEUE_LOOK_SECONDS
        now = self.clock.now_ms()
        due = await list_due_deliveries(self.platform, now=now, limit=limits.DELIVERIES_PER_LOOK)
        if due:
            await self._choose(due, now)
        upcoming = await read_next_delivery_at(self.platform)
        if upcoming is None or len(self._sending) >= self.options.at_once_max:
            return _QUEUE_LOOK_SECONDS
        # Due deliveries that remain wait for their receiver, which wakes this loop when it is free.
        return min(_QUEUE_LOOK_SECONDS, max(upcoming - self.clock.now_ms(), 50) / 1000)

    async def _choose(self, due: Sequence[DeliveryRow], now: int) -> None:
        """Start as many deliveries as allowed, and postpone deliveries whose receiver is not ready."""
        endpoints = {
            (row.tenant, row.resource_id): row for row in await list_all_resources(self.platform, ENDPOINT_KIND)
        }
        is_full_look = len(due) >= limits.DELIVERIES_PER_LOOK
        put_off: list[tuple[DeliveryRow, DeliveryRow]] = []
        chosen: list[tuple[DeliveryRow, ResourceRow]] = []
        for delivery in due:
            name = delivery.tenant, delivery.endpoint_id
            health = self._health.setdefault(name, _Health())
            row = endpoints.get(name)
            if row is None or (message := why_not_sent(row, self.options.authorship)) is not None:
                message = "the endpoint was deleted" if row is None else message
                dead = replace(delivery, state="dead", next_at=None, updated_at=now, last_error=message)
                put_off.append((delivery, dead))
            elif health.rests_until > now:
                put_off.append((delivery, replace(delivery, next_at=health.rests_until)))
            elif health.sending >= self.options.per_endpoint_max:
                if is_full_look:
                    put_off.append((delivery, replace(delivery, next_at=now + _BUSY_PAUSE_MS)))
            elif len(self._sending) + len(chosen) < self.options.at_once_max:
                health.sending += 1
                chosen.append((delivery, row))
        postponing = asyncio.gather(*(change_delivery(self.platform, seen, after) for seen, after in put_off))
        await asyncio.gather(postponing, self._claim(chosen, now))

    async def _claim(self, chosen: Sequence[tuple[DeliveryRow, ResourceRow]], now: int) -> None:
        """Claim deliveries, and send those that no other server claimed first."""
        until = now + round(self.options.timeout_seconds * 1000) + _CLAIM_MARGIN_MS
        claims = (claim_delivery(self.platform, delivery, now=now, until=until) for delivery, _ in chosen)
        failed: BaseException | None = None
        outcomes = await asyncio.gather(*claims, return_exceptions=True)
        for outcome, (delivery, row) in zip(outcomes, chosen, strict=True):
            if isinstance(outcome, DeliveryRow):
                self._sending.add(asyncio.ensure_future(self._attempt(outcome, row)))
                continue
            self._health[delivery.tenant, delivery.endpoint_id].sending -= 1
            failed = outcome or failed
        if failed is not None:
            raise failed

    async def _attempt(self, delivery: DeliveryRow, row: ResourceRow) -> None:
        health = self._health[delivery.tenant, delivery.endpoint_id]
        try:
            event = ShownEvent(content=delivery.event) if self.shown is None else await self.shown(row, delivery)
            endpoint = endpoint_of(row)
            if event is None or event.is_withheld:
                await self._drop(delivery)
                is_over = event is None and endpoint.notification is not None
            elif not self._has_time(delivery):
                return  # another server may have claimed it meanwhile
            else:
                outcome = await self._sent(delivery, row, endpoint, event)
                is_over = await self._settle(delivery, row, outcome, health) and event.is_last
            if is_over and self.remove is not None:
                await self.remove(row)
        except Exception as error:  # the claim ends, and the delivery is tried again
            self.report(f"delivery {delivery.delivery_id}", error)
        finally:
            health.sending -= 1
            # Before the loop wakes, so that it sees the free place.
            self._sending.discard(asyncio.current_task())
            self._queue_wake.set()

    def _has_time(self, delivery: DeliveryRow) -> bool:
        """Whether the receiver can take all its time before the claim ends. False after the process was suspended."""
        return self.clock.now_ms() + round(self.options.timeout_seconds * 1000) < (delivery.next_at or 0)

    async def _drop(self, delivery: DeliveryRow) -> None:
        now, message = self.clock.now_ms(), "the creator of the webhook may not see the run"
        dropped = replace(delivery, state="dead", next_at=None, updated_at=now, last_error=message)
        await change_delivery(self.platform, delivery, dropped)

    async def _sent(
        self, delivery: DeliveryRow, row: ResourceRow, endpoint: Endpoint, event: ShownEvent
    ) -> Sent | NotSent:
        now = self.clock.now_ms()
        body = encode_bytes(event.content)
        secrets = signing_secrets(self.pepper, row, endpoint, now=now)
        headers = {
            "content-type": _MEDIA_TYPE,
            "user-agent": self.options.user_agent,
            **standard_headers(secrets, delivery.delivery_id, body, now_ms=now),
            **event.headers,
        }
        return await self.sender.send(
            OutgoingEvent(url=endpoint.url, headers=headers, body=body, timeout_seconds=self.options.timeout_seconds)
        )

    async def _settle(self, delivery: DeliveryRow, row: ResourceRow, outcome: Sent | NotSent, health: _Health) -> bool:
        """Store the result of an attempt, unless the delivery was changed meanwhile; return whether it was the last."""
        now = self.clock.now_ms()
        status = outcome.status if isinstance(outcome, Sent) else None
        message = f"the receiver answered {status}" if isinstance(outcome, Sent) else outcome.reason
        after = replace(delivery, updated_at=now, last_status=status, last_error=message)
        if status is not None and 200 <= status < 300:  # noqa: PLR2004  # the statuses of success
            health.failures, health.rests_until = 0, 0
            delivered = replace(after, state="delivered", next_at=None, last_error=None)
            return await change_delivery(self.platform, delivery, delivered)
        self._failed(health, now)
        state: Literal["pending", "dead"] = "pending"
        if status == _GONE:
            await self.disable(row, "the receiver answered 410 Gone")
            state = "dead"
        elif delivery.attempts >= self.options.attempts_max:
            state = "dead"
        next_at = now + self._delay_ms(delivery, outcome) if state == "pending" else None
        is_stored = await change_delivery(self.platform, delivery, replace(after, state=state, next_at=next_at))
        return is_stored and state == "dead"

    def _failed(self, health: _Health, now: int) -> None:
        health.failures += 1
        if health.failures >= _FAILURES_BEFORE_REST:
            doublings = min(health.failures - _FAILURES_BEFORE_REST, 16)
            health.rests_until = now + min(self.options.first_delay_ms << doublings, _REST_MS_MAX)

    def _delay_ms(self, delivery: DeliveryRow, outcome: Sent | NotSent) -> int:
        """The pause after an attempt: longer each time, with some jitter, and as long as the receiver asks for."""
        factor: int = _DELAY_FACTOR ** min(delivery.attempts - 1, 20)
        delay = min(self.options.first_delay_ms * factor, self.options.delay_ms_max)
        # Derived from the delivery and the attempt: different for each delivery, the same in every process.
        spread = crc32(f"{delivery.delivery_id}/{delivery.attempts}".encode()) % 400
        delay = delay * (800 + spread) // 1000
        asked = outcome.retry_after_seconds if isinstance(outcome, Sent) else None
        return max(delay, min((asked or 0) * 1000, self.options.delay_ms_max))
