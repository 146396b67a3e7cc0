"""Where a failed run is retried: the record to fork from, so that the node that failed runs once more.

The cause of a failure is followed inwards, from the run to the node whose attempt failed first: a failed branch is not
repeated as a whole if repeating one activity inside it is enough.

Above it: `execution.retry`. Below it: records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import UNSET

from penstock.base.errors import Conflict
from penstock.engine.records import Record, commands, events

__all__ = ["RetryPoint", "retry_point"]

_BY_WORKFLOW = "failed_by_workflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPoint:
    """Fork after the record `seq`: then `node_id`, which failed with `code`, is next."""

    seq: int
    node_id: str
    code: str


def retry_point(records: Sequence[Record]) -> RetryPoint:
    """Return where to fork a failed run; raise `Conflict` if continuing would build on work that was undone."""
    ended = records[-1].body_as(events.ExecutionFailed) if records else None
    if ended is None:
        raise Conflict("RETRY_NOT_ALLOWED", "only a failed run can be retried from its failure")
    if any(record.body_type is commands.StartCompensation for record in records):
        message = "the run undid its earlier steps, so it cannot continue from the failure"
        raise Conflict(
            "RETRY_NOT_ALLOWED", message, "start a new run, or fork an earlier record with `penstock runs fork`"
        )
    failure = _cause(records)
    if failure is not None and failure.reason == _BY_WORKFLOW:
        message = f"the document ends the run at {failure.node_id}, and no failure led there"
        raise Conflict("RETRY_NOT_ALLOWED", message, "fork an earlier record with `penstock runs fork`")
    if failure is None:
        message = f"the run failed as a whole: {ended.error}"
        raise Conflict("RETRY_NOT_ALLOWED", message, "fork an earlier record with `penstock runs fork`")
    seq = _cut(records, failure.node_id, failure.visit)
    return RetryPoint(seq=seq, node_id=failure.node_id, code=str(failure.code))


def _cause(records: Sequence[Record]) -> commands.FailNode | None:
    """Return the failure of the innermost node that caused the failure of the run."""
    found: commands.FailNode | None = None
    wanted: str | None = None
    for record in reversed(records):
        failed, scope = record.body_as(commands.FailNode), record.body_as(events.ScopeFailed)
        if failed is not None and failed.next is UNSET:
            if found is None or failed.node_id == wanted:
                found, wanted = failed, None
        elif failed is not None and found is not None and found.reason == _BY_WORKFLOW:
            # A `fail` node only ends the run; the actual failure is that of the node whose error led there.
            found, wanted = failed, None
        elif scope is not None and found is not None and wanted is None and _inside(scope, found):
            # The branch that failed last decided the failure; the run had coped with the others until then.
            wanted = scope.failed_node_id
    return found


def _inside(scope: events.ScopeFailed, failed: commands.FailNode) -> bool:
    return (scope.node_id, scope.visit) == (failed.node_id, failed.visit)


def _cut(records: Sequence[Record], node_id: str, visit: int | None) -> int:
    """Return the last record to keep, of those about one visit.

    Outside a body, the whole visit is repeated, with all its attempts. Inside a body, that would lose everything that
    has happened beside it since, so only the last attempt is repeated. An attempt with a deadline must be requested
    again.
    """
    scheduled, in_a_body, failed_seq, asked = 0, False, 0, None
    for record in records:
        body = record.body
        if (getattr(body, "node_id", None), getattr(body, "visit", None)) != (node_id, visit):
            continue
        match body:
            case commands.ScheduleNode(scope=scope):
                in_a_body = scope != 0
            case events.NodeScheduled():
                scheduled = record.seq
            case events.ActivityRequested():
                asked, failed_seq = body, 0
            case events.ActivityFailed():
                failed_seq = failed_seq or record.seq
            case _:
                pass
    is_free = in_a_body and asked is not None and asked.deadline is None and failed_seq > 0
    return failed_seq - 1 if is_free else scheduled
