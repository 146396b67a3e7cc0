"""`fork`: a new run from the beginning of another.

The first rows of a history are carried over under a new run id; everything recorded up to there counts as done. What
was under way at the cut (an activity, a question, a child run) is under way in the fork too, under ids of its own.

Above it: the runtime stores the records and goes on with `decide(..., ContinueRun)`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from penstock.base.errors import Rejected
from penstock.base.ids import chain_of, next_in_chain
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.reading import instant_of
from penstock.engine.records import Record
from penstock.engine.trust import untrusted_mark

__all__ = ["fork"]

# What the first record of a run says about the runs before it.
_OF_A_CHAIN = ("continuedFrom", "generation")
# Payload keys whose values are made from the run id.
_DERIVED = ("parentExecutionId", "childExecutionId", "delegateCorrelationId", "targetExecutionId")


# Records whose `deadline` says how long something may take; that of a timer says when it is.
_TIMED = frozenset(
    {
        "ActivityRequested",
        "ActivityAsked",
        "InterruptRaised",
        "SignalWaitStarted",
        "SubworkflowStarted",
        "ParallelForked",
        "ForEachStarted",
        "LoopStarted",
    }
)


def fork(
    records: Sequence[Record],
    *,
    at_seq: int,
    run_id: str,
    at: int | None = None,
    by: str | None = None,
    untrusted: bool = False,
) -> tuple[Record, ...]:
    """The records of a new run: those of another up to and including `at_seq`.

    `at` is when it begins: the run has all of its time from then on, and what was under way has what it had left.
    `by` is on whose behalf it runs; without it, on that of the original's principal. It is `untrusted` if whoever asks
    for it is, or what is carried over is.
    """
    if not records or not 1 <= at_seq <= records[-1].seq:
        last = records[-1].seq if records else 0
        raise Rejected("FORK_POINT_INVALID", f"row {at_seq} does not exist", f"choose a row from 1 to {last}")
    if chain_of(run_id) != run_id:
        told = f"the run id {run_id} ends in ~ and a number, as only runs do that continue others"
        raise Rejected("VALIDATION_ERROR", told, "choose another id")
    original = str(records[0].payload.get("executionId"))
    carried = [_renamed(record, original, run_id) for record in records[:at_seq]]
    first = carried[0]
    for name in _OF_A_CHAIN:
        first.payload.pop(name, None)  # the fork is the first run of a chain of its own
    source: JsonObject = {"executionId": original, "seq": at_seq}
    origin: JsonObject = {**first.payload, "forkedFrom": source, **untrusted_mark(untrusted=untrusted)}
    if by is not None:
        origin["startedBy"] = by
    if at is not None:
        source["at"] = at
        for name in ("deadline", "chainDeadline"):
            deadline = instant_of(origin.get(name))
            if deadline is not None:
                origin[name] = at + deadline - _began_at(records[0])
        carried = [_later(record, at - carried[-1].at) for record in carried]
    carried[0] = replace(first, payload=origin)
    return tuple(carried)


def _began_at(first: Record) -> int:
    """When the run began to which a first record belongs; a fork carries the first record of its original."""
    source = first.payload.get("forkedFrom")
    begun = instant_of(source.get("at")) if isinstance(source, dict) else None
    return first.at if begun is None else begun


def _later(record: Record, by: int) -> Record:
    deadline = instant_of(record.payload.get("deadline"))
    if deadline is None or record.name not in _TIMED:
        return record
    return replace(record, payload={**record.payload, "deadline": deadline + by})


def _renamed(record: Record, original: str, run_id: str) -> Record:
    payload = dict(record.payload)
    payload["executionId"] = run_id
    if record.name == "ActivityAsked":
        # It leads to work of the original elsewhere, which must not be given two answers; the fork begins its own.
        payload["resume"] = None
    if record.name == "ExecutionContinued":
        payload["successorExecutionId"] = next_in_chain(run_id)
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
