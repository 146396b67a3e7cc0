"""How the published control plane shows a run: the bodies of its answers, built from the state.

Names are the published ones, snake_case. Fields that upstream's answers lack (state, span, timeout, attempt, prompt,
schema, every pending activity) are added; nothing is renamed.

Above it: `functions`. Below it: the engine's state and pending effects.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import Workflow
from penstock.engine.effects import PerformActivity
from penstock.engine.pending import pending_activities
from penstock.engine.state import Activation, RunState
from penstock.engine.status import current_activation, published_phase
from penstock.engine.transitions import Phase, RunStatus
from penstock.engine.walk.questions import open_questions

__all__ = ["camel_case", "run_body", "snake_case", "status_body"]

_UPPER = re.compile(r"([A-Z])")
_AFTER_UNDERSCORE = re.compile(r"_([a-z])")


def snake_case(value: JsonObject | None) -> JsonObject | None:
    """Convert the keys of a history object to snake_case, as on the wire."""
    if value is None:
        return None
    return {_UPPER.sub(lambda match: "_" + match[1].lower(), key): item for key, item in value.items()}


def camel_case(value: JsonObject) -> JsonObject:
    """Convert the keys of an object from the wire to camelCase, as in histories; camelCase keys stay unchanged."""
    return {_AFTER_UNDERSCORE.sub(lambda match: match[1].upper(), key): item for key, item in value.items()}


def run_body(workflow: Workflow, state: RunState, child_runs: Sequence[tuple[Workflow, RunState]] = ()) -> JsonObject:
    """Build the answer of start, resume, submit and signal. Activities of `child_runs` are listed too."""
    body: JsonObject = {"execution_id": state.run_id, "status": published_phase(state)}
    match state.status:
        case RunStatus.COMPLETED:
            body.update({"result": state.result, "final_state": state.values, "continued_as": state.continued_as})
        case RunStatus.FAILED:
            failure = state.failure
            body.update({"final_state": state.values, "error": failure.message if failure else "failed"})
            body.update({"code": failure.code if failure else "FAILED"})
            if failure is not None and failure.node_id is not None:
                body["node_id"] = failure.node_id
        case RunStatus.CANCELLED:
            body.update({"final_state": state.values, "reason": state.cancel_reason})
            if state.last_node_id is not None:
                body["node_id"] = state.last_node_id
        case RunStatus.RUNNING | RunStatus.PENDING:
            body["state"] = state.values
            body.update(_waiting(workflow, state))
            listed = _pending_list(workflow, state, child_runs)
            if listed:
                body["pending_activities"] = listed
    return {key: value for key, value in body.items() if value is not None or key == "result"}


def _pending_list(
    workflow: Workflow, state: RunState, child_runs: Sequence[tuple[Workflow, RunState]]
) -> list[JsonValue]:
    return [
        _pending(run, activity)
        for owner, run in ((workflow, state), *child_runs)
        for activity in pending_activities(owner, run)
    ]


def _pending(state: RunState, activity: PerformActivity) -> JsonObject:
    lease = activity.lease
    entry: JsonObject = {
        "execution_id": state.run_id,
        "node_id": activity.node_id,
        "node_type": activity.node_type,
        "visit": activity.visit,
        "attempt": activity.attempt,
        "idempotency_key": activity.idempotency_key,
        "config": activity.config,
        "arguments": activity.arguments,
        "timeout_ms": activity.timeout_ms,
        "deadline": activity.deadline,
        "output_schema": activity.output_schema,
        "parallel_span": snake_case(activity.parallel_span),
        "lease": {"holder": lease.holder, "until": lease.until} if lease is not None else None,
    }
    return {key: value for key, value in entry.items() if value is not None}


def _waiting(workflow: Workflow, state: RunState) -> JsonObject:
    """Return what the run waits for, with the published keys."""
    activation = current_activation(state)
    if activation is None:
        return {}
    found: JsonObject = {"node_id": activation.node_id}
    match activation.phase:
        case Phase.REQUESTED | Phase.OUTCOME_UNKNOWN:
            found.update(_activity(workflow, state, activation))
        case Phase.AWAITING_SIGNAL:
            found["signal_name"] = (activation.external or {}).get("signalName")
        case Phase.INTERRUPTED | Phase.ASKING:
            asked = next(item for item in open_questions(state) if (item.node_id, item.visit) == activation.key)
            found.update({"prompt": asked.prompt, "resume_schema": asked.answer_schema, "prompt_ref": asked.prompt_ref})
            found["interrupt_id"] = asked.interrupt_id
            found["deadline"] = asked.deadline
        case Phase.CHILD_RUNNING:
            found["child_execution_id"] = (activation.external or {}).get("childExecutionId")
        case _:
            pass
    return {key: value for key, value in found.items() if value is not None}


def _activity(workflow: Workflow, state: RunState, activation: Activation) -> JsonObject:
    activity = next(item for item in pending_activities(workflow, state) if item.node_id == activation.node_id)
    found: JsonObject = {
        "attempt": activity.attempt,
        "timeout_ms": activity.timeout_ms,
        "parallel_span": snake_case(activity.parallel_span),
    }
    if activity.delegate is not None:
        found.update(snake_case(activity.delegate) or {})
    return found


def status_body(
    workflow: Workflow, state: RunState, child_runs: Sequence[tuple[Workflow, RunState]] = ()
) -> JsonObject:
    """Build the answer of `workflow_status`."""
    body: JsonObject = {"execution_id": state.run_id, "phase": published_phase(state)}
    if state.last_node_id is not None:
        body["current_node_id"] = state.last_node_id
    for remembered in (state.last_delegate, state.last_child):
        body.update(snake_case(remembered) or {})
    for name in ("workflow_ref",):
        body.pop(name, None)
    if state.parent_run_id is not None:
        body["parent_execution_id"] = state.parent_run_id
    body["state"] = state.values
    match state.status:
        case RunStatus.COMPLETED:
            body.update({"result": state.result, "continued_as": state.continued_as})
        case RunStatus.FAILED:
            body["last_error"] = state.failure.message if state.failure else "failed"
            body["code"] = state.failure.code if state.failure else "FAILED"
        case RunStatus.CANCELLED:
            body["last_error"] = state.cancel_reason
        case RunStatus.RUNNING | RunStatus.PENDING:
            waiting = _waiting(workflow, state)
            body["current_node_id"] = waiting.pop("node_id", body.get("current_node_id"))
            body.update(waiting)
            listed = _pending_list(workflow, state, child_runs)
            if listed:
                body["pending_activities"] = listed
    return {key: value for key, value in body.items() if value is not None or key == "result"}
