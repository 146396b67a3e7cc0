"""How a run ends: completed elsewhere, failed or cancelled here, after undoing what must be undone.

Compensation walks the completed nodes that have a `compensate`, newest first, each as an activity of its own under the
id ``compensate:<node>``. An undo step that fails for good is noted and the rest goes on: half an undo is better than
none, and the run's last record says which part is missing.

Above it: `advance`. Below it: `turn`.
"""

from __future__ import annotations

from penstock.base.json import JsonObject, JsonValue
from penstock.engine.state import COMPENSATION_PREFIX, Scope
from penstock.engine.turn import Turn

__all__ = ["compensate_next", "end_run"]


def end_run(turn: Turn) -> None:
    """Begin undoing if there is something to undo, else write the last record."""
    if not turn.state.compensations:
        _last_record(turn)
        return
    ending = turn.state.ending
    nodes: list[JsonValue] = [entry.node_id for entry in reversed(turn.state.compensations)]
    payload: JsonObject = {"outcome": ending.outcome if ending else "failed", "nodeIds": nodes}
    turn.command("StartCompensation", payload)


def compensate_next(turn: Turn, scope: Scope) -> None:
    """Undo the newest node that is left, or end the run."""
    state = turn.state
    if not state.compensations:
        _last_record(turn)
        return
    node_id = COMPENSATION_PREFIX + state.compensations[-1].node_id
    payload: JsonObject = {"nodeId": node_id, "visit": state.visits.get(node_id, 0) + 1, "scope": scope.serial}
    turn.command("ScheduleNode", {**payload, "compensates": state.compensations[-1].visit})
    turn.event("NodeScheduled", {"nodeId": node_id, "visit": state.visits[node_id]})


def _last_record(turn: Turn) -> None:
    state = turn.state
    ending = state.ending
    if ending is None:
        raise TypeError("a run without an ending cannot end")
    payload: JsonObject = {}
    if ending.node_id is not None:
        payload["nodeId"] = ending.node_id
    if state.compensation_failures:
        payload["compensationFailures"] = [
            {"nodeId": failure.node_id, "code": failure.code, "error": failure.message}
            for failure in state.compensation_failures
        ]
    match ending.outcome:
        case "cancelled":
            if ending.reason is not None:
                payload["reason"] = ending.reason
            turn.event("ExecutionCancelled", payload)
        case "failed":
            failure = ending.failure
            payload["error"] = failure.message if failure else "failed"
            payload["code"] = failure.code if failure else "FAILED"
            if failure is not None and failure.details is not None:
                payload["details"] = failure.details
            turn.event("ExecutionFailed", payload)
