"""Queues deliveries: one for each event of each run and each endpoint that subscribes to it.

A run does not move when a call that it made is held for approval: the run of that call does. Subscribers of the first
run are notified then, too.

The store lists what any process stored, in order. A mark records how far this was read. The mark moves after the
deliveries are queued, and the id of a delivery is derived from its event: after a crash in between, the same rows are
made again and skipped. It does not matter which process advanced a run, or whether that process died right after.

Above it: `dispatcher`. Below it: the store's changes, the platform's queue, `events`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.json import JsonValue
from penstock.engine.records import Record
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import DeliveryRow, ResourceRow
from penstock.runtime.ports.runs import RunChange, RunRow
from penstock.runtime.tables.deliveries import add_deliveries
from penstock.runtime.tables.resources import list_all_resources, read_mark, set_mark
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.webhooks.endpoints import ENDPOINT_KIND, Endpoint, delivery_id_of, endpoint_of
from penstock.runtime.webhooks.events import RunEvent, cloud_event, held_event, run_events

__all__ = ["DeliveryFeed"]

_MARK = "deliveries"
# The mark is written at most this often. Changes after the last written mark are read again after a crash.
_MARK_EVERY_MS = 1_000

_Receivers = Mapping[str, Sequence[tuple[ResourceRow, Endpoint]]]


def _nobody(row: RunRow) -> str | None:
    """Hold no calls."""
    return None


class _Mark(msgspec.Struct, frozen=True):
    position: str
    at: int


@dataclass(slots=True, kw_only=True)
class DeliveryFeed:
    """Queues deliveries. `source` is the prefix of every event's `source`: the address of the API, if it is known."""

    platform: Database
    store: RunStore
    clock: Clock
    source: str = ""
    caller_of: Callable[[RunRow], str | None] = _nobody
    """Returns the run whose call a run holds for approval; None for any other run."""
    _mark: _Mark | None = None
    _written: _Mark | None = None
    _opened: bool = False

    async def queue_new(self) -> tuple[int, bool]:
        """Read one page of changes. Returns the number of queued deliveries, and whether there are more changes."""
        receivers, since = await self._receivers()
        if not self._opened:
            self._mark = self._written = _mark_of(await read_mark(self.platform, _MARK))
            self._opened = True
        now = self.clock.now_ms()
        if not receivers:
            await self._clear_mark()
            return 0, False
        page = await self.store.changes(
            after=None if self._mark is None else self._mark.position,
            since=since if self._mark is None else self._mark.at,
            limit=limits.CHANGES_PER_READ,
        )
        queued = await self._queue(page.changes, receivers, now)
        if self._mark is None or self._mark.position != page.position:
            self._mark = _Mark(page.position, now)
        await self.write_mark(at_once=False)
        return queued, page.has_more

    async def write_mark(self, *, at_once: bool = True) -> None:
        """Store how far the changes were read."""
        mark, written = self._mark, self._written
        if mark is None or mark == written:
            return
        if at_once or written is None or mark.at - written.at >= _MARK_EVERY_MS:
            await set_mark(self.platform, _MARK, msgspec.to_builtins(mark))
            self._written = mark

    async def _clear_mark(self) -> None:
        """Clear the mark: without endpoints there is nothing to read, and a new endpoint gets only later events."""
        self._mark = None
        if self._written is not None:
            await set_mark(self.platform, _MARK, None)
            self._written = None

    async def _receivers(self) -> tuple[_Receivers, int]:
        """The enabled endpoints by tenant, and the creation time of the oldest."""
        found: dict[str, list[tuple[ResourceRow, Endpoint]]] = {}
        since = self.clock.now_ms()
        for row in await list_all_resources(self.platform, ENDPOINT_KIND):
            endpoint = endpoint_of(row)
            if endpoint.enabled:
                found.setdefault(row.tenant, []).append((row, endpoint))
                since = min(since, row.created_at)
        return found, since

    async def _queue(self, changes: Sequence[RunChange], receivers: _Receivers, now: int) -> int:
        wanted = [
            change
            for change in changes
            if any(
                endpoint.wants_run(change.row.workflow_name, change.row.run_id)
                or self._is_told_of_caller(endpoint, change.row)
                for _, endpoint in receivers.get(change.row.tenant, ())
            )
        ]
        records = await self._records(wanted)
        rows = [
            delivery
            for change in wanted
            for delivery in self._deliveries(
                change, _within(records[change.row.run_id], change), receivers[change.row.tenant], now
            )
        ]
        return await add_deliveries(self.platform, rows) if rows else 0

    async def _records(self, changes: Sequence[RunChange]) -> dict[str, tuple[Record, ...]]:
        """The records of some decisions, with one read for each run."""
        spans: dict[str, tuple[int, int]] = {}
        for change in changes:
            first, last = spans.get(change.row.run_id, (change.first_seq, change.last_seq))
            spans[change.row.run_id] = min(first, change.first_seq), max(last, change.last_seq)
        return {run_id: await self._history(run_id, first, last) for run_id, (first, last) in spans.items()}

    async def _history(self, run_id: str, first: int, last: int) -> tuple[Record, ...]:
        found: tuple[Record, ...] = ()
        after = first - 1
        while after < last:
            page = await self.store.history(run_id, after_seq=after, limit=min(last - after, limits.HISTORY_PAGE_MAX))
            if not page:
                break  # the run was deleted in the meantime
            found += page
            after = page[-1].seq
        return found

    def _deliveries(
        self,
        change: RunChange,
        records: Sequence[Record],
        receivers: Sequence[tuple[ResourceRow, Endpoint]],
        now: int,
    ) -> list[DeliveryRow]:
        row = change.row
        return [
            delivery
            for event in run_events(records)
            for receiver, endpoint in receivers
            if event.at >= receiver.created_at
            and (delivery := self._delivery(row, event, receiver, endpoint, now)) is not None
        ]

    def _delivery(
        self, row: RunRow, event: RunEvent, receiver: ResourceRow, endpoint: Endpoint, now: int
    ) -> DeliveryRow | None:
        delivery_id, about = delivery_id_of(receiver.resource_id, row.run_id, event.seq), row.run_id
        if endpoint.wants(event.type, row.workflow_name, row.run_id):
            content = cloud_event(row, event, source=self.source, include_output=endpoint.include_output)
        elif event.type == "run.waiting" and self._is_told_of_caller(endpoint, row):
            about = self.caller_of(row) or row.run_id
            content = held_event(row.tenant, about, delivery_id, source=self.source, at=event.at)
        else:
            return None
        return DeliveryRow(
            delivery_id=delivery_id,
            tenant=row.tenant,
            endpoint_id=receiver.resource_id,
            run_id=about,
            event=content,
            created_at=now,
            updated_at=now,
        )

    def _is_told_of_caller(self, endpoint: Endpoint, row: RunRow) -> bool:
        """Whether an endpoint subscribes to the run whose call this run holds."""
        told = endpoint.notification
        return told is not None and endpoint.enabled and self.caller_of(row) == told.run_id


def _within(records: Sequence[Record], change: RunChange) -> Sequence[Record]:
    return [record for record in records if change.first_seq <= record.seq <= change.last_seq]


def _mark_of(value: JsonValue) -> _Mark | None:
    """The mark as it was written. An unreadable mark counts as none, and more changes are read again."""
    try:
        return None if value is None else msgspec.convert(value, _Mark)
    except msgspec.ValidationError:
        return None
