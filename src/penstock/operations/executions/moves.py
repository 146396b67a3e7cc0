"""`execution.changes`: which runs of a tenant move, as long as somebody listens.

A stream of ids, not of contents: a reader who wants to know more reads the run, so no order of messages can show a run
as it no longer is. Several moves of one run within a moment are one event. An event's id is a position in the store; a
reader that was cut off continues from it and misses nothing, also what other processes stored.

Above it: the catalogue; surfaces render and close the stream. Below it: the changes of the run store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonValue
from penstock.operations.catalogue.capability import Capability, EventStream, Example, Route, StreamEvent
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.gate.open_streams import HeldStream
from penstock.operations.runs.held_access import without_unseen
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.ports.topics import Topic

__all__ = ["OPERATIONS"]

_HEARTBEAT = StreamEvent(event=None)
_ENDED = StreamEvent(
    event="closed",
    data={"code": "KEY_REVOKED", "message": "what the stream was opened with is no longer valid"},
)


class FollowChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to begin."""

    last_event_id: Annotated[
        Annotated[str, Meta(max_length=80)] | None,
        Meta(description="The id of the last event that you got, to continue after it."),
    ] = None


@operation(
    "execution.changes",
    route=Route(method="GET", path="/changes", headers={"Last-Event-ID": "last_event_id"}),
    scopes=("execution:read",),
    reads=True,
    errors=("STREAMS_LIMITED",),
    examples=(Example(arguments={}),),
)
async def execution_changes(context: Context, given: FollowChanges) -> EventStream:
    """Follow which runs change.

    Streams `changed` events with the ids of runs that moved, at most ten a second; `many` says that there were more
    than the event names. The stream starts with the changes of the last minute. Read the runs to see their present
    state.
    """
    services, chosen = context.services, context.services.limits
    services.open_streams.take(context.principal, at_most=chosen.streams_max, of_one=chosen.streams_per_key)
    listener = _Listener(context=context, position=given.last_event_id)
    return EventStream(
        events=HeldStream(listener.events(), services.open_streams, context.principal),
        retry_ms=chosen.stream_retry_ms,
    )


@dataclass(slots=True, kw_only=True)
class _Listener:
    """One reader, and how far it is."""

    context: Context
    position: str | None
    nudged: bool = True

    async def events(self) -> AsyncIterator[StreamEvent]:
        """Yield what moves, with heartbeats in between, until the server stops or the caller may listen no more."""
        services, loop = self.context.services, asyncio.get_running_loop()
        services.open_streams.listen(self._nudge)
        began, mark = self.context.now_ms(), None
        heartbeat_at = loop.time()  # the first one says at once that the stream is open
        try:
            while not services.open_streams.ending:
                if self.nudged:
                    self.nudged = False
                    if not await services.still_valid(self.context.principal):
                        yield _ENDED
                        return
                newest = services.store.changed(Topic.ANYTHING)
                if newest != mark:
                    mark = newest
                    event = await self._changed(began)
                    if event is not None:
                        yield event
                if loop.time() >= heartbeat_at:
                    heartbeat_at = loop.time() + min(
                        services.limits.stream_heartbeat_seconds, limits.CHANGES_HEARTBEAT_SECONDS
                    )
                    self.nudged = True  # keys may also be revoked by another process
                    yield _HEARTBEAT
                await asyncio.sleep(limits.CHANGES_PAUSE_SECONDS)
        finally:
            services.open_streams.leave(self._nudge)

    def _nudge(self) -> None:
        self.nudged = True

    async def _changed(self, since: int) -> StreamEvent | None:
        """Return everything that was stored since the last look as one event; None if nothing concerns the reader."""
        moved: dict[str, RunRow] = {}
        has_more = True
        while has_more:
            page = await self.context.services.store.changes(
                after=self.position, since=since, limit=limits.CHANGES_STREAMED_PER_READ
            )
            moved |= {
                change.row.run_id: change.row for change in page.changes if change.row.tenant == self.context.tenant
            }
            self.position, has_more = page.position, page.has_more
        named = list(moved.values())[-limits.CHANGES_NAMED_MAX :]
        seen = await without_unseen(self.context.services, self.context.principal, named)
        if not seen:
            return None
        ids: list[JsonValue] = [id_for_callers(row.tenant, row.run_id) for row in seen]
        return StreamEvent(event="changed", data={"executions": ids, "many": len(moved) > len(named)}, id=self.position)


OPERATIONS: tuple[Capability, ...] = (execution_changes,)
