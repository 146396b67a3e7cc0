"""The seven published control-plane functions over a host: start, status, resume, submit, signal, cancel, list.

Names, parameters, results and error codes are the published ones. A run pins its definition by hash at its start:
later calls may leave definition and input out, and a definition that differs is refused. Refusals change nothing, and
every error carries the run, the node and the code it is about.

Above it: the harness now, the surfaces later. Below it: `MemoryHost`, `control_views`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build import build_workflow
from penstock.definitions.canonical import definition_hash
from penstock.definitions.check_schema import published_diagnostics
from penstock.definitions.durations import format_instant, parse_instant_ms
from penstock.definitions.findings import Severity
from penstock.definitions.model import Workflow
from penstock.definitions.outline import is_native
from penstock.definitions.validate import validate_document
from penstock.engine import inputs
from penstock.engine.outcomes import Refused
from penstock.engine.pending import pending_activities
from penstock.engine.state import RunState
from penstock.engine.status import published_phase
from penstock.engine.transitions import RunStatus
from penstock.runtime.control_views import run_body, snake_case, status_body
from penstock.runtime.memory_host import HostedRun, MemoryHost

__all__ = ["Answer", "ControlPlane", "Problem"]

_LIST_LIMIT_DEFAULT = 50
_LIST_LIMIT_MAX = 100


@dataclass(frozen=True, slots=True)
class Answer:
    """A call that was taken."""

    body: JsonObject


@dataclass(frozen=True, slots=True)
class Problem:
    """A call that was refused, or whose run failed."""

    code: str
    message: str
    details: JsonObject

    @property
    def body(self) -> JsonObject:
        """The published error body."""
        return {"error": {"code": self.code, "message": self.message, "details": self.details}}


Reply: TypeAlias = Answer | Problem


def _problem(refused: Refused, run_id: str | None = None, node_id: str | None = None) -> Problem:
    details: JsonObject = dict(refused.details or {})
    if run_id is not None:
        details["execution_id"] = run_id
    if node_id is not None:
        details["node_id"] = node_id
    if refused.hint is not None:
        details["hint"] = refused.hint
    return Problem(refused.code, refused.message, details)


def _text(arguments: JsonObject, name: str) -> str | None:
    value = arguments.get(name)
    return value if isinstance(value, str) and value else None


@dataclass(slots=True, kw_only=True)
class ControlPlane:
    """The functions by name, see `call`. `new_id` mints run ids."""

    host: MemoryHost
    new_id: Callable[[], str]

    def call(self, tool: str, arguments: JsonObject) -> Reply:
        """Call one of the seven functions."""
        handlers: dict[str, Callable[[JsonObject], Reply]] = {
            "workflow_start": self.workflow_start,
            "workflow_status": self.workflow_status,
            "workflow_resume": self.workflow_resume,
            "workflow_submit_activity": self.workflow_submit_activity,
            "workflow_signal": self.workflow_signal,
            "workflow_cancel": self.workflow_cancel,
            "workflow_list": self.workflow_list,
        }
        handler = handlers.get(tool)
        if handler is None:
            return Problem("VALIDATION_ERROR", f"there is no function {tool}", {"known": list(handlers)})
        return handler(arguments)

    def workflow_start(self, arguments: JsonObject) -> Reply:
        """Start a run; a known id is refused unless `allow_existing_execution_id`."""
        workflow = _compiled(arguments.get("definition"))
        if isinstance(workflow, Problem):
            return workflow
        run_id = _text(arguments, "execution_id") or self.new_id()
        existing = self.host.runs.get(run_id)
        if existing is not None:
            if arguments.get("allow_existing_execution_id") is not True:
                return Problem("DUPLICATE_EXECUTION_ID", f"run {run_id} exists already", {"execution_id": run_id})
            if existing.state.definition_hash != workflow.hash:
                told = f"run {run_id} was started with another definition"
                return Problem("SUBMIT_VALIDATION_ERROR", told, {"execution_id": run_id})
            return self._drive(run_id, arguments)
        given = inputs.StartRun(
            at=self.host.clock(),
            run_id=run_id,
            input=arguments.get("input"),
            mode=_text(arguments, "activity_execution_mode") or "in_process",
        )
        decision = self.host.start(workflow, given)
        if isinstance(decision, Refused):
            return _problem(decision, run_id)
        return self._drive(run_id, arguments)

    def workflow_status(self, arguments: JsonObject) -> Reply:
        """What a run is doing."""
        run = self._known(arguments)
        if isinstance(run, Problem):
            return run
        return Answer(status_body(run.workflow, run.state, self._kin(run.state.run_id)))

    def workflow_resume(self, arguments: JsonObject) -> Reply:
        """Answer the open question of a run."""
        run = self._checked(arguments, "INVALID_RESUME_PAYLOAD")
        if isinstance(run, Problem):
            return run
        given = inputs.AnswerInterrupt(
            at=self.host.clock(), answer=arguments.get("resume_payload"), node_id=_text(arguments, "node_id")
        )
        return self._send(run, given, arguments)

    def workflow_submit_activity(self, arguments: JsonObject) -> Reply:
        """Report the outcome of an activity that the caller did."""
        run = self._checked(arguments, "SUBMIT_VALIDATION_ERROR", missing="ACTIVITY_SUBMIT_NOT_AWAITING")
        if isinstance(run, Problem):
            return run
        node_id, outcome = _text(arguments, "node_id"), arguments.get("outcome")
        run_id = run.state.run_id
        if node_id is None or not isinstance(outcome, dict) or not isinstance(outcome.get("ok"), bool):
            told = "node_id and outcome {ok: true, result} or {ok: false, error} are required"
            return Problem("SUBMIT_VALIDATION_ERROR", told, {"execution_id": run_id})
        refused = _fits_pending(run, node_id, arguments.get("parallel_span"), outcome)
        if refused is not None:
            return _problem(refused, run_id, node_id)
        return self._send(run, _submitted(self.host.clock(), node_id, outcome), arguments)

    def workflow_signal(self, arguments: JsonObject) -> Reply:
        """Send a signal; it waits in the run until somebody takes it."""
        run = self._checked(arguments, "SIGNAL_VALIDATION_ERROR")
        if isinstance(run, Problem):
            return run
        name = _text(arguments, "signal_name")
        if name is None:
            return Problem("SIGNAL_VALIDATION_ERROR", "signal_name is required", {"execution_id": run.state.run_id})
        given = inputs.SendSignal(
            at=self.host.clock(),
            name=name,
            payload=arguments.get("payload"),
            signal_id=_text(arguments, "signal_id"),
        )
        return self._send(run, given, arguments)

    def workflow_cancel(self, arguments: JsonObject) -> Reply:
        """Cancel a run and its children."""
        run = self._known(arguments, invalid="CANCEL_VALIDATION_ERROR")
        if isinstance(run, Problem):
            return run
        given = inputs.CancelRun(at=self.host.clock(), reason=_text(arguments, "reason"))
        return self._send(run, given, arguments)

    def workflow_list(self, arguments: JsonObject) -> Reply:
        """Runs, newest change first."""
        limit = arguments.get("limit", _LIST_LIMIT_DEFAULT)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _LIST_LIMIT_MAX:
            return Problem("VALIDATION_ERROR", f"limit must be a number from 1 to {_LIST_LIMIT_MAX}", {})
        cursor = _cursor(arguments.get("cursor"))
        if isinstance(cursor, Problem):
            return cursor
        states = [run.state for run in self.host.runs.values() if _wanted(run.state, arguments)]
        states.sort(key=_newest_first)
        later = [state for state in states if cursor is None or _newest_first(state) > cursor]
        body: JsonObject = {"executions": [_listed(state) for state in later[:limit]]}
        if len(later) > limit:
            last = later[limit - 1]
            body["next_cursor"] = f"{format_instant(last.updated_at)}|{last.run_id}"
        return Answer(body)

    def _known(self, arguments: JsonObject, invalid: str = "VALIDATION_ERROR") -> HostedRun | Problem:
        run_id = _text(arguments, "execution_id")
        if run_id is None:
            return Problem(invalid, "execution_id is required", {})
        run = self.host.runs.get(run_id)
        if run is None:
            return Problem("EXECUTION_NOT_FOUND", f"there is no run {run_id}", {"execution_id": run_id})
        return run

    def _checked(self, arguments: JsonObject, code: str, missing: str | None = None) -> HostedRun | Problem:
        """The run, if the definition sent along (it need not be) is the one it was started with."""
        run = self._known(arguments, code)
        if isinstance(run, Problem):
            return run if missing is None or run.code == code else Problem(missing, run.message, run.details)
        definition = arguments.get("definition")
        if isinstance(definition, dict) and definition_hash(definition) != run.state.definition_hash:
            told = f"run {run.state.run_id} was started with another definition (its hash differs)"
            return Problem(code, told, {"execution_id": run.state.run_id})
        return run

    def _send(self, run: HostedRun, given: inputs.Input, arguments: JsonObject) -> Reply:
        run_id = run.state.run_id
        decision = self.host.send(run_id, given)
        if isinstance(decision, Refused):
            return _problem(decision, run_id, _text(arguments, "node_id"))
        return self._drive(run_id, arguments)

    def _drive(self, run_id: str, arguments: JsonObject) -> Reply:
        run = self.host.runs[run_id]
        mode = _text(arguments, "activity_execution_mode") or run.state.mode
        self.host.drive(run_id, activities=mode != "host_mediated")
        body = run_body(run.workflow, run.state, self._kin(run_id))
        if run.state.status is RunStatus.FAILED:
            details: JsonObject = {"execution_id": run_id, "cause": body.get("error"), "cause_code": body.get("code")}
            details.update({"node_id": body.get("node_id"), "final_state": run.state.values})
            return Problem("ENGINE_FAILURE", f"run {run_id} failed: {body.get('error')}", details)
        return Answer(body)

    def _kin(self, run_id: str) -> list[tuple[Workflow, RunState]]:
        return [
            (run.workflow, run.state)
            for name, run in self.host.runs.items()
            if name.startswith(f"{run_id}:") and not run.state.terminal
        ]


def _compiled(definition: JsonValue) -> Workflow | Problem:
    if not isinstance(definition, dict):
        return Problem("VALIDATION_ERROR", "definition is required and must be an object", {})
    findings = [item for item in validate_document(definition) if item.severity is Severity.ERROR]
    if findings:
        listed: list[JsonValue] = [item.to_json() for item in findings]
        first = findings[0]
        told = f"the definition has {len(findings)} mistakes; first: {first.path or '/'}: {first.message}"
        details: JsonObject = {"findings": listed}
        if not is_native(definition):
            details["errors"] = [
                {"instancePath": item.instance_path, "keyword": item.keyword, "message": item.message}
                for item in published_diagnostics(definition)
            ]
        return Problem("VALIDATION_ERROR", told, details)
    try:
        return build_workflow(definition)
    except PenstockError as error:
        return Problem("VALIDATION_ERROR", error.message, {})


def _fits_pending(run: HostedRun, node_id: str, span: JsonValue, outcome: JsonObject) -> Refused | None:
    """Check a submit's branch and correlation id against what is pending; other checks are the engine's."""
    activities = pending_activities(run.workflow, run.state)
    activity = next((item for item in activities if item.node_id == node_id), None)
    if activity is None:
        return None
    expected = snake_case(activity.parallel_span)
    if (span if isinstance(span, dict) else None) != expected:
        told = "parallel_span is missing" if span is None else f"parallel_span does not fit {node_id}"
        if expected is None:
            told = f"{node_id} is not on a branch, so parallel_span must be left out"
        return Refused("ACTIVITY_SUBMIT_PARALLEL_MISMATCH", told, details={"expected": expected})
    if activity.delegate is not None and outcome["ok"] is True:
        correlation = activity.delegate.get("delegateCorrelationId")
        if outcome.get("delegate_correlation_id") != correlation:
            return Refused("SUBMIT_VALIDATION_ERROR", "delegate_correlation_id does not fit the pending delegation")
    return None


def _submitted(at: int, node_id: str, outcome: JsonObject) -> inputs.Input:
    if outcome["ok"] is not True:
        return inputs.FailActivity(
            at=at, node_id=node_id, error=str(outcome.get("error", "failed")), code=_text(outcome, "code")
        )
    names = {"delegate_correlation_id": "delegateCorrelationId", "external_task_id": "externalTaskId"}
    extra = {theirs: outcome[ours] for ours, theirs in names.items() if ours in outcome}
    return inputs.CompleteActivity(at=at, node_id=node_id, result=outcome.get("result"), extra=extra or None)


def _newest_first(state: RunState) -> tuple[int, str]:
    return -state.updated_at, state.run_id


def _cursor(value: JsonValue) -> tuple[int, str] | Problem | None:
    if value is None:
        return None
    text, separator, run_id = value.partition("|") if isinstance(value, str) else ("", "", "")
    instant = parse_instant_ms(text)
    if not separator or instant is None:
        return Problem(
            "VALIDATION_ERROR", "the cursor is not one that a listing returned", {"cause": "INVALID_LIST_CURSOR"}
        )
    return -instant, run_id


def _wanted(state: RunState, arguments: JsonObject) -> bool:
    phase, name = arguments.get("phase"), arguments.get("definition_name")
    after, before = arguments.get("updated_after"), arguments.get("updated_before")
    lower = parse_instant_ms(after) if isinstance(after, str) else None
    upper = parse_instant_ms(before) if isinstance(before, str) else None
    return (
        (phase is None or published_phase(state) == phase)
        and (name is None or state.workflow_name == name)
        and (lower is None or state.updated_at > lower)
        and (upper is None or state.updated_at < upper)
    )


def _listed(state: RunState) -> JsonObject:
    return {
        "execution_id": state.run_id,
        "phase": published_phase(state),
        "definition_name": state.workflow_name,
        "updated_at": format_instant(state.updated_at),
    }
