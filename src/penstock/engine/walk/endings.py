"""How a run ends as failed or cancelled, after compensating the nodes that need it.

Compensation walks the completed nodes that have a `compensate`, newest first, each as an activity of its own under the
id ``compensate:<node>``. A compensation that fails for good is noted and the rest continues: a partial undo is better
than none, and the run's last record says which part is missing.

Above it: `advance`. Below it: `turn`. Completed runs end in the modules of `nodes`.
"""

from __future__ import annotations

from penstock.base.json import JsonValue
from penstock.engine.records import commands, events
from penstock.engine.state import COMPENSATION_PREFIX, Failure, Scope
from penstock.engine.walk.turn import Turn

__all__ = ["compensate_next", "end_run"]


def end_run(turn: Turn) -> None:
    """Start compensating if there is something to compensate, otherwise write the last record."""
    if not turn.state.compensations:
        _last_record(turn)
        return
    ending = turn.state.ending
    nodes: list[JsonValue] = [entry.node_id for entry in reversed(turn.state.compensations)]
    turn.record(commands.StartCompensation(outcome=ending.outcome if ending else "failed", node_ids=nodes))


def compensate_next(turn: Turn, scope: Scope) -> None:
    """Compensate the newest remaining node, or end the run."""
    state = turn.state
    if not state.compensations:
        _last_record(turn)
        return
    node_id = COMPENSATION_PREFIX + state.compensations[-1].node_id
    visit, undone = state.visits.get(node_id, 0) + 1, state.compensations[-1].visit
    turn.record(commands.ScheduleNode(node_id, visit, scope=scope.serial, compensates=undone))
    turn.record(events.NodeScheduled(node_id, visit))


def _last_record(turn: Turn) -> None:
    state = turn.state
    ending = state.ending
    if ending is None:
        raise TypeError("a run without an ending cannot end")
    failures: list[JsonValue] = [
        {"nodeId": failure.node_id, "code": failure.code, "error": failure.message}
        for failure in state.compensation_failures
    ]
    match ending.outcome:
        case "cancelled":
            turn.record(events.ExecutionCancelled(ending.node_id, failures or None, ending.reason))
        case "failed":
            failure = ending.failure or Failure("FAILED", "failed", "failed")
            turn.record(
                events.ExecutionFailed(
                    node_id=ending.node_id,
                    compensation_failures=failures or None,
                    error=failure.message,
                    code=failure.code,
                    details=failure.details,
                )
            )
