"""Runs as JSON: the objects that `--json` prints, each with the keys that the help of its command lists.

Above it: the commands that work on runs. Below it: the engine's state, `run_view`. Instants are ISO timestamps.
"""

from __future__ import annotations

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.run_view import RunView, VisitView, WaitKind
from penstock.definitions.durations import format_instant
from penstock.definitions.model import Workflow
from penstock.engine.effects import PerformActivity
from penstock.engine.pending import pending_activities
from penstock.engine.state import RunState
from penstock.engine.status import run_status
from penstock.engine.transitions import Phase
from penstock.runtime.ports import RunRow

__all__ = ["activities_json", "error_json", "row_json", "run_json", "waits_json"]


def run_json(view: RunView, state: RunState) -> JsonObject:
    """A run and how it stands."""
    return {
        "ok": run_status(state) == "completed",
        "run_id": state.run_id,
        "workflow": state.workflow_name,
        "version": state.workflow_version,
        "hash": state.definition_hash,
        "status": run_status(state),
        "result": state.result,
        "error": error_json(state),
        "waiting_for": waits_json(view),
        "records": state.seq,
        "elapsed_ms": state.updated_at - state.started_at,
        "continued_as": state.continued_as,
        "should_continue": state.should_continue and not state.terminal,
    }


def error_json(state: RunState) -> JsonObject | None:
    """Why a run did not complete."""
    failure = state.failure
    if failure is not None:
        return {"code": failure.code, "message": failure.message, "node": failure.node_id}
    if str(state.status) == "cancelled":
        return {"code": "CANCELLED", "message": state.cancel_reason or "cancelled", "node": state.last_node_id}
    return None


def row_json(row: RunRow) -> JsonObject:
    """A run in a list."""
    return {
        "run_id": row.run_id,
        "workflow": row.workflow_name,
        "version": row.workflow_version,
        "hash": row.definition_hash,
        "status": row.status,
        "created_at": format_instant(row.created_at),
        "updated_at": format_instant(row.updated_at),
        "records": row.seq,
        "parent": row.parent_run_id,
        "labels": dict(row.labels),
    }


def waits_json(view: RunView) -> list[JsonValue]:
    """What a run waits for that is not work of its own."""
    if view.ended:
        return []
    return [_wait(visit) for visit in view.open_visits() if visit.wait is not None]


def _wait(visit: VisitView) -> JsonObject:
    wait = visit.wait
    if wait is None:
        return {}
    told: JsonObject = {
        "for": str(wait.kind),
        "node": visit.node_id,
        "visit": visit.visit,
        "since": format_instant(wait.since),
        "until": None if wait.until is None else format_instant(wait.until),
    }
    match wait.kind:
        case WaitKind.PERSON:
            question = visit.question
            schema: JsonObject | None = question.schema if question is not None else None
            told |= {"prompt": wait.text, "schema": schema, "approvers": question.approvers if question else None}
            told["interrupt_id"] = question.interrupt_id if question is not None else None
        case WaitKind.SIGNAL:
            told["signal"] = wait.text
        case WaitKind.CHILD:
            told["run_id"] = wait.text
        case WaitKind.RETRY:
            told |= {"attempt": visit.attempt, "error": wait.text}
        case WaitKind.DECISION:
            told |= {"attempt": visit.attempt, "hint": wait.text}
        case WaitKind.TIMER:
            pass
    return told


def activities_json(workflow: Workflow, state: RunState) -> list[JsonValue]:
    """The activities that are to be done, with everything somebody needs who does them elsewhere."""
    unknown = {item.key for item in state.activations() if item.phase is Phase.OUTCOME_UNKNOWN}
    return [_activity(item, (item.node_id, item.visit) in unknown) for item in pending_activities(workflow, state)]


def _activity(activity: PerformActivity, outcome_unknown: bool) -> JsonObject:
    lease = activity.lease
    return {
        "node": activity.node_id,
        "visit": activity.visit,
        "type": activity.node_type,
        "attempt": activity.attempt,
        "idempotency_key": activity.idempotency_key,
        "config": activity.config,
        "arguments": activity.arguments,
        "deadline": None if activity.deadline is None else format_instant(activity.deadline),
        "at_most_once": activity.at_most_once,
        "outcome_unknown": outcome_unknown,
        "output_schema": activity.output_schema,
        "lease": None if lease is None else {"holder": lease.holder, "until": format_instant(lease.until)},
    }
