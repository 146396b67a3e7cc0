"""The harness's `kernel` surface: run, submit and resume on history rows that a driver appended.

The rows are replayed against the definition. What is missing at their end is appended, and the run continues there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.canonical import definition_hash
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.outcomes import Refused
from penstock.engine.records import Record, made, record_of, row_of
from penstock.engine.replay import Diverged, Replayed, replay
from penstock.engine.transitions import RunStatus
from penstock.runtime.control_plane.functions import ControlHost, ControlledRun
from penstock.runtime.control_plane.submits import read_submit, refuse_misfit, submit_input
from penstock.runtime.control_plane.views import run_body

__all__ = ["Kernel"]


def _failed(code: str, message: str) -> JsonObject:
    return {"status": "failed", "code": code, "error": message}


@dataclass(slots=True, kw_only=True)
class Kernel:
    """Histories by run id, and the host that walks them."""

    host: ControlHost
    _rows: dict[str, list[Record]] = field(default_factory=dict)

    def append(self, run_id: str, rows: list[JsonValue]) -> int:
        """Append given rows to a history."""
        records = self._rows.setdefault(run_id, [])
        for row in rows:
            if isinstance(row, dict):
                records.append(record_of(row, seq=len(records) + 1, at=self.host.now_ms()))
        return len(rows)

    async def history(self, run_id: str) -> list[JsonValue]:
        """The whole history of a run, given and new."""
        records = await self.host.history(run_id) or tuple(self._rows.get(run_id, ()))
        return [row_of(run_id, record) for record in records]

    async def run(self, given: JsonObject) -> JsonObject:
        """Start or continue a run from its rows."""
        run_id, definition = str(given.get("execution_id")), given.get("definition")
        workflow = build_workflow(definition if isinstance(definition, dict) else {})
        mode = str(given.get("mode") or "in_process")
        if await self.host.find(run_id) is None:
            refusal = await self._adopt(run_id, workflow, given, mode)
            if refusal is not None:
                return refusal
        return await self._drive(run_id, mode)

    async def _adopt(self, run_id: str, workflow: Workflow, given: JsonObject, mode: str) -> JsonObject | None:
        rows = self._rows.get(run_id, [])
        pinned = _pinned_hash(rows)
        if pinned is not None and pinned != workflow.hash:
            return _failed("SUBMIT_VALIDATION_ERROR", "the history was written for another definition (hash differs)")
        start = inputs.StartRun(at=self.host.now_ms(), run_id=run_id, input=given.get("input"), mode=mode)
        if not rows:
            decision = await self.host.start(workflow, start)
            return _failed(decision.code, decision.message) if isinstance(decision, Refused) else None
        outcome = replay(workflow, rows, start=start)
        match outcome:
            case Refused(code=code, message=message):
                return _failed(code, message)
            case Diverged(message=message):
                rows.append(made(len(rows) + 1, outcome.body(), self.host.now_ms(), run_id))
                return _failed("NONDETERMINISM_DETECTED", message)
            case Replayed(state=state, records=records):
                await self.host.adopt(workflow, state, records)
                return None

    async def submit(self, given: JsonObject) -> JsonObject:
        """Report an activity's outcome."""
        run = await self._checked(given, "SUBMIT_VALIDATION_ERROR")
        if not isinstance(run, ControlledRun):
            return run
        submit = read_submit(given)
        if isinstance(submit, Refused):
            return _failed(submit.code, submit.message)
        refused = refuse_misfit(run.workflow, run.state, submit)
        if refused is not None:
            return _failed(refused.code, refused.message)
        return await self._send(run, submit_input(self.host.now_ms(), submit), given)

    async def resume(self, given: JsonObject) -> JsonObject:
        """Answer the open question."""
        run = await self._checked(given, "INVALID_RESUME_PAYLOAD")
        if not isinstance(run, ControlledRun):
            return run
        return await self._send(run, inputs.AnswerInterrupt(at=self.host.now_ms(), answer=given.get("payload")), given)

    async def _checked(self, given: JsonObject, code: str) -> ControlledRun | JsonObject:
        run = await self.host.find(str(given.get("execution_id")))
        if run is None:
            missing = "ACTIVITY_SUBMIT_NOT_AWAITING" if code == "SUBMIT_VALIDATION_ERROR" else code
            return _failed(missing, "there is no such run")
        definition = given.get("definition")
        if isinstance(definition, dict) and definition_hash(definition) != run.state.definition_hash:
            return _failed(code, "the definition is not the one the run was started with")
        return run

    async def _send(self, run: ControlledRun, submitted: inputs.Input, given: JsonObject) -> JsonObject:
        run_id = run.state.run_id
        decision = await self.host.send(run_id, submitted)
        if isinstance(decision, Refused):
            return _failed(decision.code, decision.message)
        return await self._drive(run_id, str(given.get("mode") or run.state.mode))

    async def _drive(self, run_id: str, mode: str) -> JsonObject:
        await self.host.run_until_waiting(run_id, activities=mode != "host_mediated")
        run = await self.host.find(run_id)
        if run is None:
            return _failed("EXECUTION_NOT_FOUND", f"run {run_id} is gone")
        body = run_body(run.workflow, run.state)
        if run.state.status is RunStatus.FAILED:
            body.setdefault("code", "ENGINE_FAILURE")
        return body


def _pinned_hash(rows: list[Record]) -> str | None:
    for record in reversed(rows):
        pinned = getattr(record.body, "definition_hash", None)
        if isinstance(pinned, str):
            return pinned
    return None
