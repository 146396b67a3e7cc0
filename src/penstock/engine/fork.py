"""`fork`: start a new run from the first records of another.

The first records of a history are copied under a new run id; everything recorded up to there counts as done. Work that
was in progress at the cut (an activity, a question, a child run) is in progress in the fork too, under its own ids.

Above it: the runtime stores the records and continues with `decide(..., ContinueRun)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.base.errors import CorruptHistory, Rejected
from penstock.base.ids import chain_of, next_in_chain
from penstock.base.json import JsonObject
from penstock.engine.inputs import Initiator
from penstock.engine.records import Record, changed, events

__all__ = ["fork"]


def fork(
    records: Sequence[Record],
    *,
    at_seq: int,
    run_id: str,
    at: int | None = None,
    by: Initiator | None = None,
    untrusted: bool = False,
) -> tuple[Record, ...]:
    """Return the records of a new run: those of another up to and including `at_seq`.

    `at` is when the fork begins: the run gets its full timeout from then on, and work in progress keeps the time it had
    left. `by` is who makes the fork; without it, the fork belongs to the principal who started the original. The fork
    is `untrusted` if its maker is or if the copied records are.
    """
    if not records or not 1 <= at_seq <= records[-1].seq:
        last = records[-1].seq if records else 0
        raise Rejected("FORK_POINT_INVALID", f"row {at_seq} does not exist", f"choose a row from 1 to {last}")
    if chain_of(run_id) != run_id:
        message = f"the run id {run_id} ends in ~ and a number, as only runs do that continue others"
        raise Rejected("VALIDATION_ERROR", message, "choose another id")
    first = records[0].body
    if not isinstance(first, events.ExecutionStarted):
        raise CorruptHistory("HISTORY_IMPOSSIBLE", f"the history begins with {records[0].name}")
    carried = [_renamed(record, first.execution_id, run_id) for record in records[:at_seq]]
    if at is not None:
        carried = [_later(record, at - carried[-1].at) for record in carried]
    carried[0] = changed(carried[0], **_origin(records[0], first, at_seq=at_seq, at=at))
    if by is not None:
        carried[0] = changed(carried[0], started_by=by.principal, starter=by.to_json())
    if untrusted:
        carried[0] = changed(carried[0], untrusted=True)
    return tuple(carried)


def _origin(record: Record, first: events.ExecutionStarted, *, at_seq: int, at: int | None) -> dict[str, Any]:
    """Return the new fields of the first record: the origin of the fork, and its deadlines."""
    source: JsonObject = {"executionId": first.execution_id, "seq": at_seq}
    # The fork is the first run of its own chain.
    origin: dict[str, Any] = {"continued_from": None, "generation": None, "forked_from": source}
    if at is not None:
        source["at"] = at
        later = at - _began_at(record, first)
        for name, deadline in (("deadline", first.deadline), ("chain_deadline", first.chain_deadline)):
            if deadline is not None:
                origin[name] = deadline + later
    return origin


def _began_at(record: Record, first: events.ExecutionStarted) -> int:
    """Return when the run began. The first record of a fork is a copy, so its time is that of the original."""
    begun = first.forked_from.get("at") if first.forked_from is not None else None
    return begun if isinstance(begun, int) else record.at


def _later(record: Record, by: int) -> Record:
    """Shift the deadlines of a record, so that its work keeps the time it had left at the cut."""
    body = record.body
    if body is None or not body.times_out:
        return record
    found = {name: getattr(body, name, None) for name in ("deadline", "escalates_at")}
    shifted = {name: moment + by for name, moment in found.items() if moment is not None}
    return changed(record, **shifted) if shifted else record


def _renamed(record: Record, original: str, run_id: str) -> Record:
    body = record.body
    if body is None:
        raise CorruptHistory("RECORD_UNKNOWN", f"row {record.seq} has the unknown name {record.name}")
    values: dict[str, Any] = {"execution_id": run_id}
    match body:
        case events.ActivityAsked():
            # `resume` refers to external work of the original, which must not get two answers. The fork starts its own.
            values["resume"] = None
        case events.ExecutionContinued():
            values["successor_execution_id"] = next_in_chain(run_id)
        case _:
            for name in body.derived_ids:
                derived = _derived(getattr(body, name), original, run_id)
                if derived is not None:
                    values[name] = derived
    return changed(record, **values)


def _derived(value: str | None, original: str, run_id: str) -> str | None:
    if value is not None and (value == original or value.startswith(f"{original}:")):
        return run_id + value[len(original) :]
    return value
