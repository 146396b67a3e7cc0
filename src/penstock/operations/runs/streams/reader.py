"""The stream of a run: what happened and what happens, until it ends.

Events come from the durable history, so that a reader that was cut off continues where it was, on any server and after
any restart. The id of an event is the sequence number of its record. If a record has several events, only the last has
the plain number; those before it have the number and their position (`7.1`). An idle stream holds a few hundred bytes
and reads nothing. A slow reader slows down only its own stream.

Above it: `execution.stream`, and operations that start a run and answer with its events. Below it: `runs.events`, the
host port.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonValue
from penstock.engine.records import Record
from penstock.operations.catalogue.capability import EventStream, StreamEvent
from penstock.operations.gate.context import Context
from penstock.operations.gate.open_streams import HeldStream
from penstock.operations.runs.events import EVENT_TYPES, EventFold, progress_data
from penstock.runtime.activities.progress import Progress, ProgressNews
from penstock.runtime.ports.host import Moved
from penstock.runtime.ports.runs import RunRow

__all__ = ["open_stream"]

_HEARTBEAT = StreamEvent(event=None)


def open_stream(
    context: Context,
    row: RunRow,
    *,
    wanted: frozenset[str] = frozenset(EVENT_TYPES),
    after: int = 0,
    already_sent: int = 0,
    first: StreamEvent | None = None,
) -> EventStream:
    """Return the events of a run after a record of it; `first` comes before them.

    `already_sent` is how many events of the next record were sent on an earlier connection. Raises if the caller has
    too many streams open.
    """
    services, chosen = context.services, context.services.limits
    services.open_streams.take(context.principal, at_most=chosen.streams_max, of_one=chosen.streams_per_key)
    reader = _Reader(
        context=context, run_id=row.run_id, tenant=row.tenant, wanted=wanted, seen=after, already_sent=already_sent
    )
    # Now, and not when the first event is asked for: a model that is asked in between is to know that somebody reads.
    listening = ExitStack()
    news = listening.enter_context(reader.listening())
    events = reader.events(news) if first is None else _after(first, reader.events(news))
    return EventStream(
        events=HeldStream(events, services.open_streams, context.principal, also=listening.close),
        retry_ms=chosen.stream_retry_ms,
        execution_id=id_for_callers(row.tenant, row.run_id),
    )


async def _after(first: StreamEvent, events: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
    yield first
    async for event in events:
        yield event


def _closed(code: str, message: str) -> StreamEvent:
    """Return the last event of a stream that ends before its run. It has no id, so that a reader can continue."""
    return StreamEvent(event="closed", data={"code": code, "message": message})


_GONE = _closed("EXECUTION_NOT_FOUND", "the run was deleted")
_REVOKED = _closed("KEY_REVOKED", "the key that the stream was opened with is no longer valid")
_TOKEN_ENDED = _closed("TOKEN_EXPIRED", "the token that the stream was opened with has expired or was revoked")
_LAST = (_GONE, _REVOKED, _TOKEN_ENDED)


def _visit_of(event: StreamEvent) -> tuple[JsonValue, JsonValue]:
    data = event.data if isinstance(event.data, dict) else {}
    return data.get("node_id"), data.get("visit")


@dataclass(slots=True, kw_only=True)
class _Reader:
    """One reader of one run, and how far it is."""

    context: Context
    run_id: str
    tenant: str
    wanted: frozenset[str]
    seen: int
    already_sent: int = 0
    """How many events of the record after `seen` were sent on an earlier connection."""
    fold: EventFold | None = None
    """Dropped while the run is idle, and rebuilt from the history when something happens."""
    untrusted: bool = False
    """Whether the run has read untrusted data, as far as the stream has read it. It never becomes False again."""
    pieces: list[Progress] = field(default_factory=list)
    """Pieces of texts that were not sent yet."""
    ended: bool = False
    waits: Moved | None = None
    """The current watch; done when the run has moved."""
    nudged: bool = True
    """Whether the reader was woken for another reason: time is up, a key was revoked, an activity reported progress.

    True at first, because whatever happened between authentication and the first look was not reported to this reader.
    """

    def listening(self) -> AbstractContextManager[ProgressNews]:
        """Return the subscription to what the activities of the run report, which the stream needs until its end."""
        progress = self.context.services.host.progress
        return progress.subscribe(self.run_id, wake=self._nudge, texts="delta" in self.wanted)

    async def events(self, news: ProgressNews) -> AsyncIterator[StreamEvent]:
        """Yield everything after `seen`, with heartbeats in between, until the run has ended or is gone."""
        services = self.context.services
        services.open_streams.listen(self._nudge)
        try:
            self.ended = (await self._folded()).ended
            heartbeat_at = self._next_heartbeat_at()
            while not self.ended and not services.open_streams.ending:
                for event in await self._fresh(news, heartbeat_at):
                    going_on = event in _LAST or await self._may_go_on()
                    yield event if going_on else self._not_valid()
                    if not going_on or event in _LAST:
                        return
                    heartbeat_at = self._next_heartbeat_at()
        finally:
            services.open_streams.leave(self._nudge)

    def _next_heartbeat_at(self) -> float:
        return asyncio.get_running_loop().time() + self.context.services.limits.stream_heartbeat_seconds

    async def _fresh(self, news: ProgressNews, heartbeat_at: float) -> list[StreamEvent]:
        """Return the next events; wait for them, but no longer than until the next heartbeat is due."""
        seconds = heartbeat_at - asyncio.get_running_loop().time()
        before = self.seen
        events = await self._next_events(seconds)
        nudged, self.nudged = self.nudged, False
        if events is None:
            return [_GONE]
        reports = self._progress_of(news)
        events = [*(await self._with_pieces(events) if self.pieces else events), *reports]
        if events:
            return events
        is_still = self.seen == before
        if is_still:
            self.fold = None
        if (nudged or is_still) and not await self._may_go_on():
            return [self._not_valid()]
        heartbeat_is_due = asyncio.get_running_loop().time() >= heartbeat_at and not self.ended
        return [_HEARTBEAT] if heartbeat_is_due else []

    def _not_valid(self) -> StreamEvent:
        return _REVOKED if self.context.principal.token is None else _TOKEN_ENDED

    async def _may_go_on(self) -> bool:
        return await self.context.services.still_valid(self.context.principal)

    async def _next_events(self, seconds: float) -> list[StreamEvent] | None:
        """Return the events of the next records; wait until there are some.

        Returns an empty list after a nudge or when time is up, and None if the run is gone.
        """
        services, before = self.context.services, self.seen
        with services.host.watched(self.run_id, after_seq=before) as self.waits:
            events = await self._read()
            if self.seen > before or seconds <= 0 or self._was_nudged():
                return events
            timer = asyncio.get_running_loop().call_later(seconds, self._nudge)
            try:
                await self.waits
            finally:
                timer.cancel()
        if self._was_nudged():
            return []
        events = await self._read()
        return events if self.seen > before or await services.store.row(self.run_id) else None

    def _was_nudged(self) -> bool:
        return self.nudged

    def _nudge(self) -> None:
        self.nudged = True
        if self.waits is not None and not self.waits.done():
            self.waits.set_result(None)

    async def _read(self) -> list[StreamEvent]:
        """Read some of the next records and return their events.

        Readers take turns. A reader that waits for its turn holds no records. Only a thread or two decode records at a
        time, so that the event loop does not compete with one thread per reader for the interpreter.
        """
        async with self.context.services.open_streams.reading:
            records = await self.context.services.host.history(
                self.run_id, after_seq=self.seen, limit=limits.STREAM_RECORDS_PER_READ
            )
            events = await self._events_of(records)
            if len(records) >= limits.STREAM_RECORDS_PER_READ:
                await asyncio.sleep(0)  # there is more: let other readers go first
            return events

    async def _folded(self) -> EventFold:
        """Return the run as it was at `seen`."""
        if self.fold is None:
            self.fold = EventFold(tenant=self.tenant, execution_id=id_for_callers(self.tenant, self.run_id))
            while (at := self.fold.state.seq) < self.seen:
                size = min(self.seen - at, limits.HISTORY_PAGE_MAX)
                records = await self.context.services.host.history(self.run_id, after_seq=at, limit=size)
                if not records:
                    break
                self.fold.skip(records)
        self.untrusted = self.untrusted or self.fold.state.untrusted
        return self.fold

    async def _events_of(self, records: tuple[Record, ...]) -> list[StreamEvent]:
        if not records:
            return []
        fold, events = await self._folded(), []
        if fold.state.seq < self.seen:
            # The run was deleted after these records were read. `_next_events` finds that it is gone.
            self.fold = None
            return []
        for record in records:
            # Positions count all events, so that an id means the same whichever types the reader wants.
            placed = [(place, *event) for place, event in enumerate(fold.take(record), 1) if event[0] in self.wanted]
            for place, name, data in placed:
                event_id = str(record.seq) if place == placed[-1][0] else f"{record.seq}.{place}"
                if place > self.already_sent:
                    events.append(StreamEvent(event=name, data=data, id=event_id))
            self.already_sent = 0
        self.seen, self.ended, self.untrusted = records[-1].seq, fold.ended, fold.state.untrusted
        return events

    def _progress_of(self, news: ProgressNews) -> list[StreamEvent]:
        """Return the progress of attempts that are still running, and keep the pieces of texts.

        Neither has an id, because it is not stored.
        """
        reports: list[StreamEvent] = []
        for item in news.take():
            if item.text is not None:
                self.pieces.append(item)
            elif "progress" in self.wanted and not self.ended and self._is_under_way(item):
                data = progress_data(self.tenant, item, untrusted=self.untrusted)
                reports.append(StreamEvent(event="progress", data=data))
        return reports

    async def _with_pieces(self, events: list[StreamEvent]) -> list[StreamEvent]:
        """Return events with pieces of texts where they belong: after the begin of their turn, and before its end.

        A piece may arrive before the record of what it belongs to was read; it waits for that.
        """
        fold = await self._folded()
        ordered: list[StreamEvent] = []
        for event in events:
            if event.event == "turn":
                ended = [piece for piece in self.pieces if (piece.node_id, piece.visit) == _visit_of(event)]
                ordered += map(self._delta, ended)
                self.pieces = [piece for piece in self.pieces if piece not in ended]
            ordered.append(event)
        for piece in self.pieces:
            if fold.is_under_way(piece.node_id, piece.visit, piece.attempt):
                ordered.append(self._delta(piece))
        self.pieces = [piece for piece in self.pieces if fold.is_to_come(piece.node_id, piece.visit, piece.attempt)]
        return ordered

    def _delta(self, piece: Progress) -> StreamEvent:
        return StreamEvent(event="delta", data=progress_data(self.tenant, piece, untrusted=self.untrusted))

    def _is_under_way(self, item: Progress) -> bool:
        return self.fold is None or self.fold.is_under_way(item.node_id, item.visit, item.attempt)
