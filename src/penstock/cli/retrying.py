"""Where a failed run can be taken up again: the record to fork from, so that what failed is tried once more.

Above it: `penstock runs retry`. Below it: records. The cause of a failure is followed inwards, from the run to the node
whose attempt failed first: a failed branch is not tried again as a whole if one activity inside of it will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.base.errors import Conflict
from penstock.base.json import JsonValue
from penstock.engine.records import Record

__all__ = ["RetryPoint", "retry_point"]

_BY_WORKFLOW = "failed_by_workflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPoint:
    """Fork after the record `seq`: then `node_id`, which failed with `code`, is next."""

    seq: int
    node_id: str
    code: str


def retry_point(records: Sequence[Record]) -> RetryPoint:
    """Where to fork a failed run; `Conflict` when going on would build on what was undone."""
    if not records or records[-1].name != "ExecutionFailed":
        raise Conflict("RETRY_NOT_ALLOWED", "only a failed run can be tried again from its failure")
    if any(record.name == "StartCompensation" for record in records):
        told = "what the run had done was undone again; going on would build on it"
        raise Conflict(
            "RETRY_NOT_ALLOWED", told, "start a new run, or fork an earlier record with `penstock runs fork`"
        )
    failure = _cause(records)
    if failure is not None and failure.payload.get("reason") == _BY_WORKFLOW:
        told = f"the document ends the run at {failure.payload.get('nodeId')}, and no failure led there"
        raise Conflict("RETRY_NOT_ALLOWED", told, "fork an earlier record with `penstock runs fork`")
    if failure is None:
        told = f"the run failed as a whole: {records[-1].payload.get('error')}"
        raise Conflict("RETRY_NOT_ALLOWED", told, "fork an earlier record with `penstock runs fork`")
    where = failure.payload.get("nodeId"), failure.payload.get("visit")
    mine = [record for record in records if (record.payload.get("nodeId"), record.payload.get("visit")) == where]
    return RetryPoint(seq=_cut(mine), node_id=str(where[0]), code=str(failure.payload.get("code")))


def _cause(records: Sequence[Record]) -> Record | None:
    """The failure of the innermost node that the run's failure came from."""
    found: Record | None = None
    wanted: JsonValue = None
    for record in reversed(records):
        if record.name == "FailNode" and "next" not in record.payload:
            if found is None or record.payload.get("nodeId") == wanted:
                found, wanted = record, None
        elif record.name == "FailNode" and _is_by_workflow(found):
            # A `fail` node only says how a run ends; what failed is the node whose error led there.
            found, wanted = record, None
        elif record.name == "ScopeFailed" and found is not None and wanted is None and _inside(record, found):
            # The last branch that failed is the one that decided; the others had been coped with until then.
            wanted = record.payload.get("failedNodeId")
    return found


def _is_by_workflow(found: Record | None) -> bool:
    return found is not None and found.payload.get("reason") == _BY_WORKFLOW


def _inside(scope_failed: Record, failed: Record) -> bool:
    names = ("nodeId", "visit")
    return all(scope_failed.payload.get(name) == failed.payload.get(name) for name in names)


def _cut(records: Sequence[Record]) -> int:
    """The last record to keep, of those about one visit.

    Outside of bodies the visit begins anew, with all its attempts. Inside of them everything that happened beside it
    since would be lost, so only the last attempt is tried again; an attempt with a deadline must be asked for anew.
    """
    scheduled = next(record for record in records if record.name == "NodeScheduled")
    begins = next(record for record in records if record.name == "ScheduleNode")
    last = records[-1]
    for record in reversed(records):
        if record.name == "ActivityFailed":
            last = record
        if record.name == "ActivityRequested":
            is_free = "scope" in begins.payload and "deadline" not in record.payload and last.name == "ActivityFailed"
            return last.seq - 1 if is_free else scheduled.seq
    return scheduled.seq
