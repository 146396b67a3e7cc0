"""Incoming results of activities: which attempt they belong to, whether they are valid, and whether to retry.

Above it: `decide`. Below it: `turn`, `retries`. A result for an attempt that is over, or for a node that is not
waiting, is refused with the published code and changes nothing.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, json_problem
from penstock.definitions.model import ActivityDetail, Node, Retry
from penstock.definitions.schemas.compiled import SchemaProblem, load_schema
from penstock.engine.inputs import AskInActivity, CompleteActivity, FailActivity, ReportOutcomeUnknown, RetryActivity
from penstock.engine.outcomes import Refused
from penstock.engine.records import events
from penstock.engine.retries import GiveUp, RetryAt, next_attempt
from penstock.engine.state import COMPENSATION_PREFIX, Activation, RunState
from penstock.engine.transitions import Phase
from penstock.engine.values import refuse_unfit
from penstock.engine.walk.completion import describe_violations
from penstock.engine.walk.leases import refuse_lost_lease
from penstock.engine.walk.questions import interrupt_id_of
from penstock.engine.walk.turn import Turn, node_of

__all__ = [
    "AT_WORK",
    "ask_in_activity",
    "complete_activity",
    "fail_activity",
    "report_outcome_unknown",
    "retry_activity",
    "without_own_keys",
]

# An attempt is in progress, in doubt, or waits for a person's answer. It can be ended from outside in any of these.
AT_WORK = (Phase.REQUESTED, Phase.OUTCOME_UNKNOWN, Phase.ASKING)

# The keys of a failed attempt's own record. Keys that an executor adds are stored beside them and override none.
_FAILURE_KEYS = frozenset(
    {"nodeId", "visit", "attempt", "error", "code", "message", "reason", "willRetry", "retryAt", "executionId"}
)

_Result: TypeAlias = CompleteActivity | FailActivity | AskInActivity | ReportOutcomeUnknown


def _addressed(state: RunState, given: _Result) -> Activation | Refused:
    """Return the activation that a result is for, or refuse a result of an attempt or round that is over."""
    activation = _pending(state, given.node_id, given.visit, given.attempt)
    if isinstance(activation, Refused) or isinstance(given, ReportOutcomeUnknown):
        return activation
    if isinstance(given, CompleteActivity | FailActivity):
        lost = refuse_lost_lease(activation, given.holder)
        if lost is not None:
            return lost
    asked = _rounds(activation)
    if given.round not in (None, asked):
        message = f"{given.node_id} has asked {asked} questions by now; this outcome is from an earlier round"
        return Refused("ACTIVITY_SUBMIT_NOT_AWAITING", message)
    return activation


def _rounds(activation: Activation) -> int:
    return activation.dialogue.round if activation.dialogue is not None else 0


def _pending(state: RunState, node_id: str, visit: int | None, attempt: int | None) -> Activation | Refused:
    expected = None if visit is None else state.activation(node_id, visit)
    if expected is not None and expected.phase is Phase.REQUESTED and attempt == expected.attempt:
        return expected  # the usual case, without scanning all other activations
    under_way = [item for item in state.activations() if item.phase in AT_WORK]
    if not under_way:
        return Refused("ACTIVITY_SUBMIT_NOT_AWAITING", f"run {state.run_id} is not waiting for an activity")
    named = [item for item in under_way if item.node_id == node_id and visit in (None, item.visit)]
    if not named:
        waiting = ", ".join(sorted({item.node_id for item in under_way}))
        code = (
            "ACTIVITY_SUBMIT_NOT_AWAITING" if _was_visited(state, node_id, visit) else "ACTIVITY_SUBMIT_NODE_MISMATCH"
        )
        return Refused(code, f"{node_id} is not waiting for a result; waiting: {waiting}")
    # Prefer an activation at work to one that asks a person.
    activation = min(named, key=lambda item: item.phase is Phase.ASKING)
    if attempt is not None and attempt != activation.attempt:
        message = f"attempt {attempt} of {node_id} has ended; attempt {activation.attempt} is running"
        return Refused("ACTIVITY_SUBMIT_NOT_AWAITING", message)
    return activation


def _was_visited(state: RunState, node_id: str, visit: int | None) -> bool:
    """Whether a result names a visit that exists: then it is late, not misdirected."""
    return visit is not None and visit <= state.visits.get(node_id, 0)


def complete_activity(turn: Turn, given: CompleteActivity) -> Refused | None:
    """Record a result, or a failed attempt if the result does not match its schema."""
    activation = _addressed(turn.state, given)
    if isinstance(activation, Refused):
        return activation
    unfit = refuse_unfit(given.result, "the result", code="SUBMIT_VALIDATION_ERROR")
    if unfit is None and given.extra is not None:
        unfit = refuse_unfit(given.extra, "the metadata of the result", code="SUBMIT_VALIDATION_ERROR")
    if unfit is not None:
        return unfit
    node = node_of(turn.workflow, activation)
    undo = activation.node_id.startswith(COMPENSATION_PREFIX)
    schema = None if undo else node.output_schema
    if schema is not None and (found := turn.evaluator.violations(schema, given.result)):
        message = f"the result of {node.id} does not fit: {describe_violations(found)}"
        failed = FailActivity(
            at=given.at, node_id=given.node_id, error=message, code="OUTPUT_SCHEMA_VIOLATION", extra=given.extra
        )
        _record_failure(turn, activation, failed)
        return None
    result: JsonValue = given.result
    if not turn.state.native and not isinstance(result, dict):
        result = {}  # as published: a result that is not an object writes nothing
    completed = events.ActivityCompleted(*activation.key, attempt=activation.attempt, result=result)
    turn.record_with(completed, given.extra, behind="result")
    return None


def fail_activity(turn: Turn, given: FailActivity) -> Refused | None:
    """Record a failed attempt and whether it is retried."""
    activation = _addressed(turn.state, given)
    if isinstance(activation, Refused):
        return activation
    unfit = refuse_unfit(given.extra, "the error", code="SUBMIT_VALIDATION_ERROR")
    if unfit is not None:
        return unfit
    _record_failure(turn, activation, given)
    return None


def ask_in_activity(turn: Turn, given: AskInActivity) -> Refused | None:
    """Record that an attempt asks a person; fail an attempt that asks too often."""
    activation = _addressed(turn.state, given)
    if isinstance(activation, Refused):
        return activation
    if activation.phase is Phase.ASKING:
        return Refused("ACTIVITY_SUBMIT_NOT_AWAITING", f"{given.node_id} is already waiting for an answer")
    unfit = _unfit_question(given)
    if unfit is not None:
        return Refused("SUBMIT_VALIDATION_ERROR", f"the question of {given.node_id} cannot be asked: {unfit}")
    asked = _rounds(activation) + 1
    exceeded = _questions_exceeded(turn, given, asked)
    if exceeded is not None:
        _record_failure(turn, activation, exceeded)
        return None
    turn.record(
        events.ActivityAsked(
            *activation.key,
            attempt=activation.attempt,
            round=asked,
            interrupt_id=interrupt_id_of(activation.node_id, activation.visit, asked),
            prompt=given.question,
            answer_schema=given.answer_schema,
            resume=given.resume,
            ask=given.ask,
            deadline=activation.deadline,
        )
    )
    return None


def _questions_exceeded(turn: Turn, given: AskInActivity, asked: int) -> FailActivity | None:
    """Return the failure of an attempt that asks too often, or whose run has asked its client too often."""
    if asked > limits.ACTIVITY_QUESTIONS_MAX:
        message = (
            f"{given.node_id} asked more than {limits.ACTIVITY_QUESTIONS_MAX} questions; the last: {given.question}"
        )
        code = "ACTIVITY_QUESTIONS_EXCEEDED"
    elif given.ask is not None and turn.state.client_questions >= limits.CLIENT_QUESTIONS_MAX:
        message = f"the run has asked its client {limits.CLIENT_QUESTIONS_MAX} times, which is as often as it may"
        code = "CLIENT_QUESTIONS_EXCEEDED"
    else:
        return None
    return FailActivity(at=given.at, node_id=given.node_id, error=message, code=code, retryable=False)


def _unfit_question(given: AskInActivity) -> str | None:
    """Return why a question cannot be recorded, or None."""
    problem = json_problem([given.answer_schema, given.resume, given.ask], limits.JSON_DEPTH_MAX + 1)
    if problem is not None:
        return problem.message
    compiled = load_schema(given.answer_schema)
    return f"its schema{compiled.path}: {compiled.message}" if isinstance(compiled, SchemaProblem) else None


def _record_failure(turn: Turn, activation: Activation, failed: FailActivity) -> None:
    code = failed.code or ""
    decision = next_attempt(
        _retry_of(node_of(turn.workflow, activation), activation),
        attempt=activation.attempt,
        code=code,
        began_at=activation.scheduled_at,
        now=turn.at,
        identity=f"{turn.state.run_id}/{activation.node_id}/{activation.visit}",
    )
    body = events.ActivityFailed(*activation.key, attempt=activation.attempt, error=failed.error, code=code or None)
    match decision if failed.retryable else GiveUp():
        case RetryAt(at=at):
            body = replace(body, will_retry=True, retry_at=at if at > turn.at else None)
        case GiveUp():
            pass
    turn.record_with(body, without_own_keys(failed.extra), behind="error")


def without_own_keys(extra: JsonObject | None) -> JsonObject:
    """Return what an executor adds to the record of a failed attempt, without the record's own keys."""
    return {name: value for name, value in (extra or {}).items() if name not in _FAILURE_KEYS}


def _retry_of(node: Node, activation: Activation) -> Retry:
    detail = node.detail
    if activation.node_id.startswith(COMPENSATION_PREFIX) and isinstance(detail, ActivityDetail) and detail.compensate:
        return detail.compensate.retry
    return node.retry


def report_outcome_unknown(turn: Turn, given: ReportOutcomeUnknown) -> Refused | None:
    """Record that an attempt may or may not have taken effect."""
    activation = _addressed(turn.state, given)
    if isinstance(activation, Refused):
        return activation
    if activation.phase is Phase.ASKING:
        return Refused("ACTIVITY_SUBMIT_NOT_AWAITING", f"{given.node_id} is not in progress: it waits for an answer")
    if activation.phase is Phase.OUTCOME_UNKNOWN:
        return None
    turn.record(events.ActivityOutcomeUnknown(*activation.key, attempt=activation.attempt))
    return None


def retry_activity(turn: Turn, given: RetryActivity) -> Refused | None:
    """Retry an attempt of unknown outcome, because a person decided so."""
    activation = _pending(turn.state, given.node_id, given.visit, None)
    if isinstance(activation, Refused):
        return activation
    if activation.phase is not Phase.OUTCOME_UNKNOWN:
        return Refused("ACTIVITY_RETRY_NOT_ALLOWED", f"the outcome of {given.node_id} is not in doubt")
    turn.record(events.ActivityRetried(*activation.key, decided_by=given.by, note=given.note))
    return None
