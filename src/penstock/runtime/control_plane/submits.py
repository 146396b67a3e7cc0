"""A submit: the outcome of an activity that a host performed, parsed and checked against what is pending.

The branch and the correlation id are checked here, once for every surface. The rest (which attempt, whose lease, does
the result match its schema) is up to the engine. Keys are accepted in the spelling of the published control plane,
snake_case, and in that of histories, camelCase.

Above it: `functions`, the harness. Below it: the engine's pending activities, `views`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.outcomes import Refused
from penstock.engine.pending import pending_activities
from penstock.engine.state import RunState
from penstock.runtime.control_plane.views import camel_case, snake_case

__all__ = ["Submit", "read_submit", "refuse_misfit", "submit_input"]

_INVALID = "SUBMIT_VALIDATION_ERROR"
# Additional keys that a host may send with the outcome; the history stores them beside it.
_EXTRA = ("delegateCorrelationId", "externalTaskId", "usage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """The outcome of one activity; visit, attempt and holder only if the host names them."""

    node_id: str
    ok: bool
    result: JsonValue
    error: str
    code: str | None
    extra: JsonObject
    span: JsonObject | None
    visit: int | None
    attempt: int | None
    holder: str | None


def read_submit(arguments: JsonObject) -> Submit | Refused:
    """Parse the arguments of `workflow_submit_activity`, or return why they are invalid."""
    node_id, given = arguments.get("node_id"), arguments.get("outcome")
    outcome = camel_case(given) if isinstance(given, dict) else {}
    if not isinstance(node_id, str) or not node_id or not isinstance(outcome.get("ok"), bool):
        message = "node_id and outcome {ok: true, result} or {ok: false, error} are required"
        return Refused(_INVALID, message)
    numbers: dict[str, int | None] = {}
    for name in ("visit", "attempt"):
        number = arguments.get(name)
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
            return Refused(_INVALID, f"{name} must be a whole number, at least 1")
        numbers[name] = number
    holder = arguments.get("lease_holder")
    if holder is not None and not isinstance(holder, str):
        return Refused(_INVALID, "lease_holder must be a text")
    span, code = arguments.get("parallel_span"), outcome.get("code")
    return Submit(
        node_id=node_id,
        ok=outcome["ok"] is True,
        result=outcome.get("result"),
        error=str(outcome.get("error", "failed")),
        code=code if isinstance(code, str) and code else None,
        extra={name: outcome[name] for name in _EXTRA if name in outcome},
        span=camel_case(span) if isinstance(span, dict) else None,
        visit=numbers["visit"],
        attempt=numbers["attempt"],
        holder=holder,
    )


def refuse_misfit(workflow: Workflow, state: RunState, submit: Submit) -> Refused | None:
    """Refuse a submit for another branch or another delegation than the pending one."""
    activities = (
        item
        for item in pending_activities(workflow, state)
        if item.node_id == submit.node_id and submit.visit in (None, item.visit)
    )
    activity = next(activities, None)
    if activity is None:
        return None  # the engine will refuse it
    if submit.span != activity.parallel_span:
        message = f"parallel_span does not fit {submit.node_id}" if submit.span else "parallel_span is missing"
        if activity.parallel_span is None:
            message = f"{submit.node_id} is not on a branch, so parallel_span must be left out"
        expected: JsonObject = {"expected": snake_case(activity.parallel_span)}
        return Refused("ACTIVITY_SUBMIT_PARALLEL_MISMATCH", message, details=expected)
    if activity.delegate is not None and submit.ok:
        correlation = activity.delegate.get("delegateCorrelationId")
        if correlation not in (None, submit.extra.get("delegateCorrelationId")):
            return Refused(_INVALID, "delegate_correlation_id does not fit the pending delegation")
    return None


def submit_input(at: int, submit: Submit) -> inputs.CompleteActivity | inputs.FailActivity:
    """Return the input for the run."""
    extra = submit.extra or None
    if submit.ok:
        return inputs.CompleteActivity(
            at=at,
            node_id=submit.node_id,
            result=submit.result,
            visit=submit.visit,
            attempt=submit.attempt,
            holder=submit.holder,
            extra=extra,
        )
    return inputs.FailActivity(
        at=at,
        node_id=submit.node_id,
        error=submit.error,
        code=submit.code,
        visit=submit.visit,
        attempt=submit.attempt,
        holder=submit.holder,
        extra=extra,
    )
