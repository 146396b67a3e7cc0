"""`execution.stream`: follow a run until it ends.

Above it: the catalogue; surfaces render and close it. Below it: `runs.streams.reader`.
"""

from __future__ import annotations

import re

from penstock.base.errors import Rejected
from penstock.operations.catalogue.capability import Capability, EventStream, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.executions.inputs import StreamExecution
from penstock.operations.gate.context import Context
from penstock.operations.runs.events import EVENT_TYPES
from penstock.operations.runs.handles import visible_run
from penstock.operations.runs.streams.reader import open_stream
from penstock.runtime.ports.runs import RunRow

__all__ = ["OPERATIONS"]

_EVENT_ID = re.compile(r"(0|[1-9][0-9]{0,15})(?:\.([1-9][0-9]{0,3}))?")


@operation(
    "execution.stream",
    route=Route(
        method="GET",
        path="/executions/{execution_id}/stream",
        query=("events", "after"),
        headers={"Last-Event-ID": "last_event_id"},
    ),
    scopes=("execution:read",),
    reads=True,
    subject="execution_id",
    errors=("EXECUTION_NOT_FOUND", "STREAM_EVENTS_UNKNOWN", "STREAM_POSITION_INVALID", "STREAMS_LIMITED"),
    examples=(Example(arguments={"execution_id": "order-1042", "events": "status,complete"}),),
)
async def execution_stream(context: Context, given: StreamExecution) -> EventStream:
    """Follow a run.

    Streams events of type status, node, output, error and complete, from the start or after a sequence number;
    `complete` is the last. A reader that was disconnected sends the id of the last event it got, and misses nothing.
    For an agent, `turn` is what its model said, `tool` a call that begins or ends, and `delta` what the model is
    writing now.
    """
    row = await visible_run(context, given.execution_id)
    wanted = _wanted(given.events)
    after, already_sent = _position(given, row)
    return open_stream(context, row, wanted=wanted, after=after, already_sent=already_sent)


def _wanted(text: str | None) -> frozenset[str]:
    if text is None:
        return frozenset(EVENT_TYPES)
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    unknown = sorted(names.difference(EVENT_TYPES))
    if unknown or not names:
        message = f"there are no events of type {', '.join(unknown)[:100]}" if unknown else "no event type is named"
        raise Rejected("STREAM_EVENTS_UNKNOWN", message, f"choose from {', '.join(EVENT_TYPES)}")
    return names


def _position(given: StreamExecution, row: RunRow) -> tuple[int, int]:
    """Return the record to continue after, and how many events of the next record were sent before.

    The id of the last event that the reader got takes precedence over `after`.
    """
    last, after, events = given.last_event_id, given.after, 0
    if last:
        found = _EVENT_ID.fullmatch(last)
        if found is None:
            message = f"{last[:32]!r} is not the id of an event of this stream"
            raise Rejected("STREAM_POSITION_INVALID", message, "leave it out to start from the beginning")
        after, events = int(found[1]), int(found[2] or 0)
    if after > row.seq:
        message = f"the run has {row.seq} records; there is nothing after {after}"
        raise Rejected(
            "STREAM_POSITION_INVALID", message, "leave it out to start from the beginning", {"sequence": row.seq}
        )
    return (after - 1, events) if events else (after, 0)


OPERATIONS: tuple[Capability, ...] = (execution_stream,)
