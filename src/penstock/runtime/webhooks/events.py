"""Public events of runs, derived from a history, as CloudEvents.

Events are a function of the records alone: reading a history again gives the same events with the same ids. They do not
contain inputs, state and prompts, which the API returns. The output is included for endpoints that ask for it.

Above it: `feed`. Below it: the engine's records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import format_instant
from penstock.engine.records import Record, events
from penstock.engine.visits import Change, change_of
from penstock.runtime.chains import own_labels
from penstock.runtime.ports.runs import RunRow

__all__ = [
    "ENDINGS",
    "EVENT_TYPES",
    "HELD_EVENT",
    "TEST_EVENT",
    "EventType",
    "RunEvent",
    "cloud_event",
    "held_event",
    "probe_event",
    "run_events",
]

EventType: TypeAlias = Literal[
    "run.started",
    "run.waiting",
    "run.paused",
    "run.resumed",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.continued",
]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)
ENDINGS: tuple[EventType, ...] = ("run.completed", "run.failed", "run.cancelled")
TEST_EVENT = "webhook.test"
HELD_EVENT = "penstock.execution.held"
"""The type of what is queued for a subscriber of one run when a call that the run made waits for approval."""

_TYPES: dict[Change, tuple[EventType, str]] = {
    Change.RUN_STARTED: ("run.started", "running"),
    Change.ASKED: ("run.waiting", "waiting_input"),
    Change.ATTEMPT_ASKED: ("run.waiting", "waiting_input"),
    Change.ESCALATED: ("run.waiting", "waiting_approval"),
    Change.OUTCOME_UNKNOWN: ("run.waiting", "waiting_decision"),
    Change.SIGNAL_AWAITED: ("run.waiting", "waiting_signal"),
    Change.RUN_PAUSED: ("run.paused", "paused"),
    Change.RUN_RESUMED: ("run.resumed", "running"),
    Change.RUN_COMPLETED: ("run.completed", "completed"),
    Change.RUN_FAILED: ("run.failed", "failed"),
    Change.RUN_CANCELLED: ("run.cancelled", "cancelled"),
    Change.RUN_CONTINUED: ("run.continued", "completed"),
}
# The members of a record that an event contains, by their names in the event.
_EVENT_MEMBERS = {
    "nodeId": "node_id",
    "visit": "visit",
    "interruptId": "interrupt_id",
    "signalName": "signal",
    "reason": "reason",
    "successorExecutionId": "continued_as",
}


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a run. `details` is part of it; `output` is included for endpoints that ask for it."""

    type: EventType
    status: str
    seq: int
    at: int
    details: JsonObject
    output: JsonValue = None


def run_events(records: Sequence[Record]) -> list[RunEvent]:
    """The events of one decision. Records that a fork copied from another run happened there, and give no events."""
    carried, forked_at = _carried(records)
    taken = {_place(record) for record in records if change_of(record.name) is Change.SIGNALLED}
    found_events: list[RunEvent] = []
    for record in records:
        change = change_of(record.name)
        found = None if change is None else _TYPES.get(change)
        if found is None or (1 < record.seq <= carried):
            continue
        if change is Change.SIGNAL_AWAITED and _place(record) in taken:
            continue  # the signal arrived before the run waited for it
        event_type, status = found
        if change is Change.ASKED and record.payload.get("approvers") is not None:
            status = "waiting_approval"
        found_events.append(
            RunEvent(
                type=event_type,
                status=status,
                seq=record.seq,
                at=forked_at if carried and record.seq == 1 and forked_at is not None else record.at,
                details=_details(event_type, record),
                output=record.payload.get("result") if event_type == "run.completed" else None,
            )
        )
    return found_events


def _carried(records: Sequence[Record]) -> tuple[int, int | None]:
    """The last record that a fork copied from its original, and when the fork started; 0 if it is not a fork."""
    first = records[0].body_as(events.ExecutionStarted) if records and records[0].seq == 1 else None
    source = None if first is None else first.forked_from
    if source is None:
        return 0, None
    seq, at = source.get("seq"), source.get("at")
    return seq if isinstance(seq, int) else 0, at if isinstance(at, int) else None


def _place(record: Record) -> tuple[JsonValue, JsonValue]:
    return record.payload.get("nodeId"), record.payload.get("visit")


def _details(kind: EventType, record: Record) -> JsonObject:
    payload = record.payload
    details: JsonObject = {
        ours: payload[theirs] for theirs, ours in _EVENT_MEMBERS.items() if payload.get(theirs) is not None
    }
    if change_of(record.name) is Change.ESCALATED:
        details["reason"] = "escalated"
    if kind == "run.failed":
        message = payload.get("error")
        error: JsonObject = {"code": payload.get("code"), "message": message if isinstance(message, str) else None}
        details["error"] = {**error, "node_id": details.pop("node_id", None)}
    return details


def cloud_event(row: RunRow, event: RunEvent, *, source: str, include_output: bool) -> JsonObject:
    """An event in the format of CloudEvents 1.0. It is equal for equal records, so it can be rebuilt after a crash."""
    public = id_for_callers(row.tenant, row.run_id)
    data: JsonObject = {
        "execution_id": public,
        "workflow_id": row.workflow_name,
        "workflow_version": row.workflow_version,
        "definition_hash": row.definition_hash,
        "status": event.status,
        "sequence": event.seq,
        "created_at": format_instant(row.created_at),
        "parent_id": None if row.parent_run_id is None else id_for_callers(row.tenant, row.parent_run_id),
        "labels": dict(own_labels(row.labels)),
        **event.details,
    }
    if isinstance(data.get("continued_as"), str):
        data["continued_as"] = id_for_callers(row.tenant, str(data["continued_as"]))
    if include_output and event.type == "run.completed":
        data.update(_output(event.output))
    return {
        "specversion": "1.0",
        "id": f"{public}/{event.seq}",
        "source": f"{source}/workflows/{row.workflow_name}",
        "type": f"penstock.{event.type}",
        "subject": public,
        "time": format_instant(event.at),
        "datacontenttype": "application/json",
        "penstocktenant": row.tenant,
        "data": data,
    }


def _output(value: JsonValue) -> JsonObject:
    if len(encode_bytes(value)) > limits.EVENT_OUTPUT_BYTES_MAX:
        return {"output_omitted": True}
    return {"output": value}


def probe_event(tenant: str, endpoint_id: str, delivery_id: str, *, source: str, at: int) -> JsonObject:
    """A test event, which only shows that events arrive."""
    return {
        "specversion": "1.0",
        "id": delivery_id,
        "source": f"{source}/webhooks/{endpoint_id}",
        "type": f"penstock.{TEST_EVENT}",
        "subject": endpoint_id,
        "time": format_instant(at),
        "datacontenttype": "application/json",
        "penstocktenant": tenant,
        "data": {"message": "This is a test: events of runs arrive here."},
    }


def held_event(tenant: str, run_id: str, delivery_id: str, *, source: str, at: int) -> JsonObject:
    """The event for a call of a run that waits for approval.

    It contains nothing of the call: what the receiver may see is decided later.
    """
    public = id_for_callers(tenant, run_id)
    return {
        "specversion": "1.0",
        "id": delivery_id,
        "source": f"{source}/executions/{public}",
        "type": HELD_EVENT,
        "subject": public,
        "time": format_instant(at),
        "datacontenttype": "application/json",
        "penstocktenant": tenant,
        "data": {"execution_id": public},
    }
