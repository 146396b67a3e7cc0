"""Results of activities coming in: which attempt they belong to, whether they fit, and whether to try again.

Above it: `decide`. Below it: `turn`, `retries`. A result for an attempt that is over, or for a node that is not
waiting, is refused with the published code and changes nothing.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, exceeds_depth
from penstock.definitions.json_schemas import is_valid
from penstock.definitions.model import ActivityDetail, Node, Retry
from penstock.engine.completion import describe_violations
from penstock.engine.inputs import CompleteActivity, FailActivity, ReportOutcomeUnknown, RetryActivity
from penstock.engine.outcomes import Refused
from penstock.engine.retries import GiveUp, RetryAt, next_attempt
from penstock.engine.state import COMPENSATION_PREFIX, Activation, RunState
from penstock.engine.transitions import Phase
from penstock.engine.turn import Turn, node_of

__all__ = ["complete_activity", "fail_activity", "report_outcome_unknown", "retry_activity"]

_UNDER_WAY = (Phase.REQUESTED, Phase.OUTCOME_UNKNOWN)


def _pending(state: RunState, node_id: str, visit: int | None, attempt: int | None) -> Activation | Refused:
    under_way = [item for item in state.activations() if item.phase in _UNDER_WAY]
    if not under_way:
        return Refused("ACTIVITY_SUBMIT_NOT_AWAITING", f"run {state.run_id} waits for no activity")
    named = [item for item in under_way if item.node_id == node_id and visit in (None, item.visit)]
    if not named:
        waiting = ", ".join(sorted({item.node_id for item in under_way}))
        code = (
            "ACTIVITY_SUBMIT_NOT_AWAITING" if _was_visited(state, node_id, visit) else "ACTIVITY_SUBMIT_NODE_MISMATCH"
        )
        return Refused(code, f"{node_id} is not waiting for a result; waiting: {waiting}")
    activation = named[0]
    if attempt is not None and attempt != activation.attempt:
        told = f"attempt {attempt} of {node_id} is over; attempt {activation.attempt} is under way"
        return Refused("ACTIVITY_SUBMIT_NOT_AWAITING", told)
    return activation


def _was_visited(state: RunState, node_id: str, visit: int | None) -> bool:
    """True for a result that names a visit which exists: it is late, not misdirected."""
    return visit is not None and visit <= state.visits.get(node_id, 0)


def complete_activity(turn: Turn, given: CompleteActivity) -> Refused | None:
    """Record a result, or a failed attempt where the result does not fit its schema."""
    activation = _pending(turn.state, given.node_id, given.visit, given.attempt)
    if isinstance(activation, Refused):
        return activation
    if exceeds_depth(given.result, limits.JSON_DEPTH_MAX):
        return Refused("SUBMIT_VALIDATION_ERROR", f"the result nests deeper than {limits.JSON_DEPTH_MAX} levels")
    node = node_of(turn.workflow, activation)
    undo = activation.node_id.startswith(COMPENSATION_PREFIX)
    if node.output_schema is not None and not undo and not is_valid(node.output_schema, given.result):
        told = f"the result of {node.id} does not fit: {describe_violations(node.output_schema, given.result)}"
        _record_failure(turn, activation, node, "OUTPUT_SCHEMA_VIOLATION", told, retryable=True)
        return None
    result: JsonValue = given.result
    if not turn.state.native and not isinstance(result, dict):
        result = {}  # as published: a result that is no object writes nothing
    payload: JsonObject = {
        "nodeId": activation.node_id,
        "visit": activation.visit,
        "attempt": activation.attempt,
        "result": result,
    }
    turn.event("ActivityCompleted", {**payload, **given.extra} if given.extra else payload)
    return None


def fail_activity(turn: Turn, given: FailActivity) -> Refused | None:
    """Record a failed attempt and whether another follows."""
    activation = _pending(turn.state, given.node_id, given.visit, given.attempt)
    if isinstance(activation, Refused):
        return activation
    node = node_of(turn.workflow, activation)
    _record_failure(turn, activation, node, given.code or "", given.error, retryable=given.retryable)
    return None


def _record_failure(turn: Turn, activation: Activation, node: Node, code: str, error: str, *, retryable: bool) -> None:
    decision = next_attempt(
        _retry_of(node, activation),
        attempt=activation.attempt,
        code=code,
        began_at=activation.scheduled_at,
        now=turn.at,
        identity=f"{turn.state.run_id}/{activation.node_id}/{activation.visit}",
    )
    payload: JsonObject = {
        "nodeId": activation.node_id,
        "visit": activation.visit,
        "attempt": activation.attempt,
        "error": error,
    }
    if code:
        payload["code"] = code
    match decision if retryable else GiveUp():
        case RetryAt(at=at):
            payload["willRetry"] = True
            if at > turn.at:
                payload["retryAt"] = at
        case GiveUp():
            pass
    turn.event("ActivityFailed", payload)


def _retry_of(node: Node, activation: Activation) -> Retry:
    detail = node.detail
    if activation.node_id.startswith(COMPENSATION_PREFIX) and isinstance(detail, ActivityDetail) and detail.compensate:
        return detail.compensate.retry
    return node.retry


def report_outcome_unknown(turn: Turn, given: ReportOutcomeUnknown) -> Refused | None:
    """Record that an attempt may or may not have taken effect."""
    activation = _pending(turn.state, given.node_id, given.visit, given.attempt)
    if isinstance(activation, Refused):
        return activation
    if activation.phase is Phase.OUTCOME_UNKNOWN:
        return None
    payload: JsonObject = {"nodeId": activation.node_id, "visit": activation.visit, "attempt": activation.attempt}
    turn.event("ActivityOutcomeUnknown", payload)
    return None


def retry_activity(turn: Turn, given: RetryActivity) -> Refused | None:
    """Try an attempt of unknown outcome again, because somebody decided so."""
    activation = _pending(turn.state, given.node_id, given.visit, None)
    if isinstance(activation, Refused):
        return activation
    if activation.phase is not Phase.OUTCOME_UNKNOWN:
        return Refused("ACTIVITY_RETRY_NOT_ALLOWED", f"the outcome of {given.node_id} is not in doubt")
    payload: JsonObject = {"nodeId": activation.node_id, "visit": activation.visit}
    turn.event("ActivityRetried", payload if given.by is None else {**payload, "decidedBy": given.by})
    return None
