"""The seven published control-plane functions: start, status, resume, submit, signal, cancel, list.

Names, parameters, results and error codes are the published ones. A run pins its definition by hash when it starts:
later calls may omit definition and input, and a different definition is refused. Refusals change nothing, and every
error carries the run, the node and the code it is about.

Above it: operations, the conformance harness. Below it: a `ControlHost` (see `hosts`), `views`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from penstock.base.errors import NotFound, PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.canonical import definition_hash
from penstock.definitions.checks.shape.document import published_diagnostics
from penstock.definitions.durations import parse_instant_ms
from penstock.definitions.model import Workflow
from penstock.definitions.outline.document import is_native
from penstock.definitions.source.findings import Severity, suggestion
from penstock.definitions.validate import validate_document
from penstock.engine import inputs
from penstock.engine.outcomes import Decision, Refused
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.engine.transitions import RunStatus
from penstock.runtime.control_plane.leasing import leased, read_lease
from penstock.runtime.control_plane.submits import read_submit, refuse_misfit, submit_input
from penstock.runtime.control_plane.views import run_body, status_body

__all__ = ["CallProblem", "CallResult", "ControlHost", "ControlPlane", "ControlledRun", "ListQuery", "Listing"]

_LIST_LIMIT_DEFAULT = 50
_LIST_LIMIT_MAX = 100
# How many runs of a chain one call follows before it answers with the current state.
_MODE = "activity_execution_mode"
_MODES = ("in_process", "host_mediated")
_SHOWN = 50
_RUNS_FOLLOWED_MAX = 100


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call that was accepted."""

    body: JsonObject


@dataclass(frozen=True, slots=True)
class CallProblem:
    """The error of a call that was refused, or whose run failed."""

    code: str
    message: str
    details: JsonObject

    @property
    def body(self) -> JsonObject:
        """The published error body."""
        return {"error": {"code": self.code, "message": self.message, "details": self.details}}


Reply: TypeAlias = CallResult | CallProblem


@dataclass(frozen=True, slots=True)
class ControlledRun:
    """A run as the control plane sees it."""

    workflow: Workflow
    state: RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """Which runs `workflow_list` returns."""

    phase: str | None
    workflow_name: str | None
    updated_after: int | None
    updated_before: int | None
    limit: int
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of runs in the published form."""

    executions: list[JsonObject]
    next_cursor: str | None


class ControlHost(Protocol):
    """What the control plane needs from a host."""

    def now_ms(self) -> int:
        """Return the current time."""

    async def start(self, workflow: Workflow, given: inputs.StartRun) -> Decision:
        """Start a run."""

    async def send(self, run_id: str, given: inputs.Input) -> Decision:
        """Give a run an input."""

    async def find(self, run_id: str) -> ControlledRun | None:
        """Return a run by id."""

    async def adopt(self, workflow: Workflow, state: RunState, records: tuple[Record, ...]) -> None:
        """Take over a run whose history came from elsewhere."""

    async def history(self, run_id: str) -> tuple[Record, ...]:
        """Return the whole history of a run."""

    async def run_until_waiting(self, run_id: str, *, activities: bool) -> None:
        """Let a run and its children proceed until they wait for somebody outside, or until a time limit."""

    async def newest(self, run_id: str) -> str:
        """Return the last run of the chain that a run belongs to."""

    async def child_runs(self, run_id: str) -> Sequence[ControlledRun]:
        """Return the live child runs of a run, and theirs."""

    async def list_runs(self, query: ListQuery) -> Listing:
        """Return runs by filter."""


def _problem(refused: Refused, run_id: str | None = None, node_id: str | None = None) -> CallProblem:
    details: JsonObject = dict(refused.details or {})
    if run_id is not None:
        details["execution_id"] = run_id
    if node_id is not None:
        details["node_id"] = node_id
    if refused.hint is not None:
        details["hint"] = refused.hint
    return CallProblem(refused.code, refused.message, details)


def _text(arguments: JsonObject, name: str) -> str | None:
    value = arguments.get(name)
    return value if isinstance(value, str) and value else None


def _unknown_mode(mode: JsonValue) -> CallProblem | None:
    """Return why a mode is refused. A mistyped one must not let this server do, and pay for, what the caller does."""
    if mode is None or mode in _MODES:
        return None
    near = suggestion(mode, _MODES) if isinstance(mode, str) else None
    message = f"{_MODE} must be {' or '.join(_MODES)}, not {str(mode)[:_SHOWN]!r}"
    return CallProblem("VALIDATION_ERROR", f"{message}; {near}" if near else message, {"allowed": list(_MODES)})


@dataclass(slots=True, kw_only=True)
class ControlPlane:
    """The functions by name, see `call`. `new_id` generates run ids."""

    host: ControlHost
    new_id: Callable[[], str]
    by: str | None = None
    """The caller, if known."""
    answerer: inputs.Answerer = field(default_factory=inputs.Answerer)
    """Which questions the caller may answer."""

    async def call(self, tool: str, arguments: JsonObject) -> Reply:
        """Call one of the seven functions."""
        handlers: dict[str, Callable[[JsonObject], Awaitable[Reply]]] = {
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
            return CallProblem("VALIDATION_ERROR", f"there is no function {tool}", {"known": list(handlers)})
        return _unknown_mode(arguments.get(_MODE)) or await handler(arguments)

    async def workflow_start(self, arguments: JsonObject) -> Reply:
        """Start a run; an existing id is refused unless `allow_existing_execution_id`."""
        # Checking a long definition takes long; the thread keeps it from blocking others.
        workflow = await asyncio.to_thread(_compiled, arguments.get("definition"))
        if isinstance(workflow, CallProblem):
            return workflow
        run_id = _text(arguments, "execution_id") or self.new_id()
        existing = await self.host.find(run_id)
        if existing is not None:
            if arguments.get("allow_existing_execution_id") is not True:
                return CallProblem("DUPLICATE_EXECUTION_ID", f"run {run_id} already exists", {"execution_id": run_id})
            if existing.state.definition_hash != workflow.hash:
                message = f"run {run_id} was started with another definition"
                return CallProblem("SUBMIT_VALIDATION_ERROR", message, {"execution_id": run_id})
            return await self._drive(run_id, arguments)
        given = inputs.StartRun(
            at=self.host.now_ms(),
            run_id=run_id,
            input=arguments.get("input"),
            mode=_text(arguments, "activity_execution_mode") or "in_process",
        )
        decision = await self.host.start(workflow, given)
        if isinstance(decision, Refused):
            return _problem(decision, run_id)
        return await self._drive(run_id, arguments)

    async def workflow_status(self, arguments: JsonObject) -> Reply:
        """Return what a run is doing, after leasing an activity if asked to.

        `lease` is {node_id, holder, seconds, visit?, extend?}.
        """
        run = await self._known(arguments)
        if isinstance(run, CallProblem):
            return run
        if "lease" in arguments:
            refused = await self._lease(run.state.run_id, arguments["lease"])
            if refused is not None:
                return refused
            run = await self._found(run.state.run_id)
        return CallResult(status_body(run.workflow, run.state, await self._child_runs(run.state.run_id)))

    async def _lease(self, run_id: str, wanted: JsonValue) -> CallProblem | None:
        given = read_lease(self.host.now_ms(), wanted)
        if isinstance(given, Refused):
            return _problem(given, run_id)
        decision = await self.host.send(run_id, given)
        outcome = decision if isinstance(decision, Refused) else leased(decision, given)
        return _problem(outcome, run_id, given.node_id) if isinstance(outcome, Refused) else None

    async def workflow_resume(self, arguments: JsonObject) -> Reply:
        """Answer the open question of a run."""
        run = await self._checked(arguments, "INVALID_RESUME_PAYLOAD")
        if isinstance(run, CallProblem):
            return run
        given = inputs.AnswerInterrupt(
            at=self.host.now_ms(),
            answer=arguments.get("resume_payload"),
            node_id=_text(arguments, "node_id"),
            interrupt_id=_text(arguments, "interrupt_id"),
            by=self.by,
            by_model=self.answerer.by_model,
            groups=self.answerer.groups,
            kind=self.answerer.kind,
            owner=self.answerer.owner,
            acting_for=self.answerer.acting_for,
            subject=self.answerer.subject,
            lineage=self.answerer.lineage,
            name=self.answerer.name,
        )
        return await self._send(run, given, arguments)

    async def workflow_submit_activity(self, arguments: JsonObject) -> Reply:
        """Report the outcome of an activity that the caller performed; visit, attempt and lease_holder are optional."""
        run = await self._checked(arguments, "SUBMIT_VALIDATION_ERROR", missing="ACTIVITY_SUBMIT_NOT_AWAITING")
        if isinstance(run, CallProblem):
            return run
        run_id = run.state.run_id
        submit = read_submit(arguments)
        if isinstance(submit, Refused):
            return _problem(submit, run_id, _text(arguments, "node_id"))
        refused = refuse_misfit(run.workflow, run.state, submit)
        if refused is not None:
            return _problem(refused, run_id, submit.node_id)
        return await self._send(run, submit_input(self.host.now_ms(), submit), arguments)

    async def workflow_signal(self, arguments: JsonObject) -> Reply:
        """Send a signal; the run buffers it until a node waits for it."""
        run = await self._checked(arguments, "SIGNAL_VALIDATION_ERROR")
        if isinstance(run, CallProblem):
            return run
        name = _text(arguments, "signal_name")
        if name is None:
            return CallProblem("SIGNAL_VALIDATION_ERROR", "signal_name is required", {"execution_id": run.state.run_id})
        given = inputs.SendSignal(
            at=self.host.now_ms(),
            name=name,
            payload=arguments.get("payload"),
            signal_id=_text(arguments, "signal_id"),
        )
        return await self._send(run, given, arguments)

    async def workflow_cancel(self, arguments: JsonObject) -> Reply:
        """Cancel a run and its children."""
        run = await self._known(arguments, invalid="CANCEL_VALIDATION_ERROR")
        if isinstance(run, CallProblem):
            return run
        given = inputs.CancelRun(at=self.host.now_ms(), reason=_text(arguments, "reason"))
        return await self._send(run, given, arguments)

    async def workflow_list(self, arguments: JsonObject) -> Reply:
        """List runs, newest change first."""
        limit = arguments.get("limit", _LIST_LIMIT_DEFAULT)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _LIST_LIMIT_MAX:
            return CallProblem("VALIDATION_ERROR", f"limit must be a number from 1 to {_LIST_LIMIT_MAX}", {})
        query = ListQuery(
            phase=_text(arguments, "phase"),
            workflow_name=_text(arguments, "definition_name"),
            updated_after=_instant(arguments.get("updated_after")),
            updated_before=_instant(arguments.get("updated_before")),
            limit=limit,
            cursor=_text(arguments, "cursor"),
        )
        try:
            listing = await self.host.list_runs(query)
        except Rejected as error:
            return CallProblem("VALIDATION_ERROR", error.message, {"cause": error.code})
        body: JsonObject = {"executions": list(listing.executions)}
        if listing.next_cursor is not None:
            body["next_cursor"] = listing.next_cursor
        return CallResult(body)

    async def _known(self, arguments: JsonObject, invalid: str = "VALIDATION_ERROR") -> ControlledRun | CallProblem:
        run_id = _text(arguments, "execution_id")
        if run_id is None:
            return CallProblem(invalid, "execution_id is required", {})
        run = await self.host.find(run_id)
        if run is None:
            return CallProblem("EXECUTION_NOT_FOUND", f"there is no run {run_id}", {"execution_id": run_id})
        return run

    async def _checked(
        self, arguments: JsonObject, code: str, missing: str | None = None
    ) -> ControlledRun | CallProblem:
        """Return the run, if a definition sent along (it is optional) is the one it was started with."""
        run = await self._known(arguments, code)
        if isinstance(run, CallProblem):
            return run if missing is None or run.code == code else CallProblem(missing, run.message, run.details)
        definition = arguments.get("definition")
        if isinstance(definition, dict) and definition_hash(definition) != run.state.definition_hash:
            message = f"run {run.state.run_id} was started with another definition (its hash differs)"
            return CallProblem(code, message, {"execution_id": run.state.run_id})
        return run

    async def _send(self, run: ControlledRun, given: inputs.Input, arguments: JsonObject) -> Reply:
        run_id = run.state.run_id
        decision = await self.host.send(run_id, given)
        if isinstance(decision, Refused):
            return _problem(decision, run_id, _text(arguments, "node_id"))
        return await self._drive(decision.state.run_id, arguments)  # a run that was continued forwards some inputs

    async def _drive(self, run_id: str, arguments: JsonObject) -> Reply:
        run = await self._found(run_id)
        mode = _text(arguments, "activity_execution_mode") or run.state.mode
        for _ in range(_RUNS_FOLLOWED_MAX):
            await self.host.run_until_waiting(run_id, activities=mode != "host_mediated")
            run = await self._found(run_id)
            if run.state.continued_as is None:
                break
            run_id = await self.host.newest(run_id)
        run = await self._found(run_id)
        body = run_body(run.workflow, run.state, await self._child_runs(run_id))
        if run.state.status is RunStatus.FAILED:
            details: JsonObject = {"execution_id": run_id, "cause": body.get("error"), "cause_code": body.get("code")}
            details.update({"node_id": body.get("node_id"), "final_state": run.state.values})
            return CallProblem("ENGINE_FAILURE", f"run {run_id} failed: {body.get('error')}", details)
        return CallResult(body)

    async def _found(self, run_id: str) -> ControlledRun:
        run = await self.host.find(run_id)
        if run is None:
            raise NotFound("EXECUTION_NOT_FOUND", f"run {run_id} is gone")
        return run

    async def _child_runs(self, run_id: str) -> list[tuple[Workflow, RunState]]:
        return [(run.workflow, run.state) for run in await self.host.child_runs(run_id)]


def _compiled(definition: JsonValue) -> Workflow | CallProblem:
    if not isinstance(definition, dict):
        return CallProblem("VALIDATION_ERROR", "definition is required and must be an object", {})
    findings = [item for item in validate_document(definition) if item.severity is Severity.ERROR]
    if findings:
        listed: list[JsonValue] = [item.to_json() for item in findings]
        first = findings[0]
        message = f"the definition has {len(findings)} mistakes; first: {first.path or '/'}: {first.message}"
        details: JsonObject = {"findings": listed}
        if not is_native(definition):
            details["errors"] = [
                {"instancePath": item.instance_path, "keyword": item.keyword, "message": item.message}
                for item in published_diagnostics(definition)
            ]
        return CallProblem("VALIDATION_ERROR", message, details)
    try:
        return build_workflow(definition)
    except PenstockError as error:
        return CallProblem("VALIDATION_ERROR", error.message, {})


def _instant(value: JsonValue) -> int | None:
    return parse_instant_ms(value) if isinstance(value, str) else None
