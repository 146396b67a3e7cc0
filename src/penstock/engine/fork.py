"""`fork`: a new run from the beginning of another.

The first rows of a history are carried over under a new run id; everything recorded up to there counts as done. What
was under way at the cut (an activity, a question, a child run) is under way in the fork too, under ids of its own.

Above it: the runtime stores the records and goes on with `decide(..., ContinueRun)`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.records import Record

__all__ = ["fork"]

# Payload keys whose values are made from the run id.
_DERIVED = ("parentExecutionId", "childExecutionId", "delegateCorrelationId", "targetExecutionId")


def fork(records: Sequence[Record], *, at_seq: int, run_id: str) -> tuple[Record, ...]:
    """The records of a new run: those of another up to and including `at_seq`."""
    if not records or not 1 <= at_seq <= records[-1].seq:
        last = records[-1].seq if records else 0
        raise Rejected("FORK_POINT_INVALID", f"row {at_seq} does not exist", f"choose a row from 1 to {last}")
    original = str(records[0].payload.get("executionId"))
    carried = [_renamed(record, original, run_id) for record in records[:at_seq]]
    first = carried[0]
    origin: JsonObject = {**first.payload, "forkedFrom": {"executionId": original, "seq": at_seq}}
    carried[0] = replace(first, payload=origin)
    return tuple(carried)


def _renamed(record: Record, original: str, run_id: str) -> Record:
    payload = dict(record.payload)
    payload["executionId"] = run_id
    for name in _DERIVED:
        if record.name == "ExecutionStarted" and name == "parentExecutionId":
            continue  # the parent of the run itself stays its parent
        payload[name] = _derived(payload[name], original, run_id) if name in payload else None
        if payload[name] is None:
            del payload[name]
    return replace(record, payload=payload)


def _derived(value: JsonValue, original: str, run_id: str) -> JsonValue:
    if isinstance(value, str) and (value == original or value.startswith(f"{original}:")):
        return run_id + value[len(original) :]
    return value
