"""Runs the cases of an evaluation: each is a run whose id is derived from the case, so it is started once.

A case that has ended is only read, so an evaluation that was interrupted goes on where it was, and one that is repeated
with the same id costs nothing. A case that asks a person something is answered from its script; if there is no answer
there, it stays as it is and counts as waiting. One that takes too long is cancelled.

Above it: `command`. Below it: operations, called through the gate of this process; `expectations`, `judging`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from penstock.base.errors import Conflict, NotFound, PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.evaluation.dataset import Case
from penstock.cli.evaluation.expectations import Check, JudgeWanted, Outcome, checks_of
from penstock.cli.evaluation.judging import judge_input, verdict_check, verdict_run_id
from penstock.cli.evaluation.report import CaseResult, Spent, spent_of
from penstock.cli.run.source import AsyncCall
from penstock.cli.terminal.values import UsageError
from penstock.definitions.durations import parse_instant_ms
from penstock.definitions.jq.expressions import Evaluator
from penstock.definitions.model import Workflow
from penstock.operations.runs.starting import CALLER_LABEL
from penstock.runtime.simulation.dry_run import nth_scripted

__all__ = ["NOT_RUN", "Bounds", "CaseRunner"]

NOT_RUN = "not_run"
_ENDED: Final = ("completed", "failed", "cancelled")
_WAIT_SECONDS: Final = 20.0
_PAGE: Final = 100
_ANSWERS_MAX: Final = 100
_DEPTH_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much is done at once, what all of it may cost, and how long a case may take."""

    at_once: int
    cost: Decimal | None
    timeout_seconds: float


@dataclass(slots=True, kw_only=True)
class CaseRunner:
    """Runs the cases of one evaluation."""

    call: AsyncCall
    workflow: Workflow
    judges: Mapping[str, Workflow]
    """By rubric."""
    evaluator: Evaluator
    bounds: Bounds
    done: Callable[[CaseResult], None]
    """Told of every case that has ended."""
    spent: Spent = field(default_factory=Spent)
    stopped: str | None = None
    _results: dict[str, CaseResult] = field(default_factory=dict)

    async def run(self, cases: Sequence[Case]) -> tuple[CaseResult, ...]:
        """Run all cases, as far as the bounds allow, and return what came of them, in order."""
        known = await self._known(cases)
        # What has ended already is read first: it costs nothing, and what it cost counts.
        waiting = iter(sorted(cases, key=lambda case: case.run_id not in known))

        async def work() -> None:
            for case in waiting:
                self._stop_if_spent()
                if self.stopped is not None and case.run_id not in known:
                    continue
                result = await self._case(case)
                self._results[case.case_id] = result
                self.spent += result.spent
                self.done(result)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self.bounds.at_once, len(cases))):
                group.create_task(work())
        return tuple(self._results.get(case.case_id) or _not_run(case) for case in cases)

    def _stop_if_spent(self) -> None:
        most, cost = self.bounds.cost, self.spent.cost
        if most is None or self.stopped is not None:
            return
        if cost is None:
            self.stopped = "the price of a model is not known, so --max-cost cannot be kept; give it `prices`"
        elif cost >= most:
            self.stopped = f"{cost.normalize():f} of {most.normalize():f} US dollars are spent"

    async def _known(self, cases: Sequence[Case]) -> frozenset[str]:
        """Return the runs that there are; refuse to go on with an evaluation of something else."""
        found = set()
        for case in cases:
            try:
                view = await self.call("execution.status", {"execution_id": case.run_id})
            except NotFound:
                continue
            if view["definition_hash"] != self.workflow.hash:
                was = f"{view['workflow_id']} {view['workflow_version']} ({view['definition_hash'][:19]})"
                raise UsageError(f"this evaluation is one of {was}, and the target has changed; choose another --id")
            found.add(case.run_id)
        return frozenset(found)

    async def _case(self, case: Case) -> CaseResult:
        started: JsonObject = {
            "workflow_id": self.workflow.name,
            "hash": self.workflow.hash,
            "input": case.input,
            "execution_id": case.run_id,
        }
        try:
            view = await self._ended(started, case.answers)
        except Rejected as refusal:  # an input that does not fit fails this case, and no other
            view = {"execution_id": None, "status": "failed", "error": _told(refusal)}
        except Conflict as conflict:
            if conflict.code != "EXECUTION_ID_TAKEN":
                raise
            message = f"the evaluation has a case {case.case_id} with another input; choose another --id"
            raise UsageError(message) from None
        outcome = _outcome(view)
        checks = await asyncio.to_thread(checks_of, case.wanted, case.input, outcome, self.evaluator)
        run_id = view["execution_id"]
        spent = Spent() if run_id is None else await self._spent_by(run_id)
        judge, judge_run_id = case.wanted.judge, None
        if judge is not None and checks[0].passed:
            check, judge_run_id, cost = await self._judged(judge, case, outcome)
            checks.append(check)
            spent += cost
        return CaseResult(
            case_id=case.case_id,
            line=case.line,
            run_id=case.run_id,
            given=case.input,
            expect=case.expect,
            status=outcome.status,
            checks=tuple(checks),
            output=outcome.output,
            error=outcome.error,
            judge_run_id=judge_run_id,
            milliseconds=_took(view),
            spent=spent,
        )

    async def _judged(self, wanted: JudgeWanted, case: Case, outcome: Outcome) -> tuple[Check, str, Spent]:
        judge = self.judges[wanted.rubric]
        given = judge_input(case.input, outcome.output)
        run_id = verdict_run_id(judge, case.run_id, given)
        started: JsonObject = {
            "workflow_id": judge.name,
            "hash": judge.hash,
            "input": given,
            "execution_id": run_id,
        }
        view = await self._ended(started, {})
        found = _outcome(view)
        check = verdict_check(wanted, found.status, found.output, found.error)
        return check, run_id, await self._spent_by(run_id)

    async def _ended(self, started: JsonObject, answers: JsonObject) -> Any:
        """Start a run, unless it was started before, and return it when it has ended or waits for somebody."""
        handle = await self.call("workflow.execute", started)
        run_id = str(handle["execution_id"])
        try:
            async with asyncio.timeout(self.bounds.timeout_seconds):
                await self._at_rest(run_id, answers)
        except TimeoutError:
            reason = f"it took longer than the {self.bounds.timeout_seconds:g} seconds of the evaluation"
            await self.call("execution.cancel", {"execution_id": run_id, "reason": reason})
            await self._at_rest(run_id, {})
        return await self._latest(run_id)

    async def _at_rest(self, run_id: str, answers: JsonObject) -> None:
        """Wait until a run has ended, or asks what the script has no answer to."""
        asked: dict[str, int] = {}
        while True:
            arguments: JsonObject = {"execution_id": run_id, "wait_seconds": _WAIT_SECONDS}
            result = await self.call("execution.wait", arguments)
            if result["status"] in (*_ENDED, "paused"):
                return
            for question in result.get("questions") or []:
                node_id = str(question["node_id"])
                given = asked[node_id] = asked.get(node_id, 0) + 1
                if node_id not in answers or given > _ANSWERS_MAX:
                    return
                # The visits of a node are counted from 1, also after a restart.
                answer: JsonValue = nth_scripted(answers[node_id], int(question["visit"]) - 1)
                to = question.get("execution_id") or result["execution_id"]
                named: JsonObject = {"execution_id": to, "interrupt_id": question["interrupt_id"]}
                await self.call("execution.answer", {**named, "answer": answer})

    async def _latest(self, run_id: str) -> Any:
        """Return a run, or the last one of those that continue it."""
        view = await self.call("execution.status", {"execution_id": run_id})
        while view.get("continued_as"):
            view = await self.call("execution.status", {"execution_id": view["continued_as"]})
        return view

    async def _spent_by(self, run_id: str, depth: int = 0) -> Spent:
        """Return what a run used, with its children, those that it called and those that it continues."""
        view = await self.call("execution.status", {"execution_id": run_id})
        spent = spent_of(view.get("usage"))
        if depth >= _DEPTH_MAX:
            return spent
        others: list[str] = [view["continued_from"]] if view.get("continued_from") else []
        for chosen in ({"parent_id": run_id}, {"label": f"{CALLER_LABEL}={run_id}"}):
            others += await self._listed(dict(chosen))
        for other in others:
            spent += await self._spent_by(other, depth + 1)
        return spent

    async def _listed(self, chosen: JsonObject) -> list[str]:
        found: list[str] = []
        cursor: JsonValue = None
        while True:
            page = await self.call("execution.list", {**chosen, "limit": _PAGE, "cursor": cursor})
            found += [item["execution_id"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                return found


def _outcome(view: Any) -> Outcome:
    error = view.get("error")
    told: JsonObject | None = None
    if error:
        told = {name: error.get(name) for name in ("code", "message", "node_id")}
    return Outcome(status=view["status"], output=view.get("output"), error=told)


def _told(error: PenstockError) -> JsonObject:
    return {"code": error.code, "message": error.message, "node_id": None}


def _took(view: Any) -> int | None:
    begun, ended = (parse_instant_ms(view.get(name) or "") for name in ("created_at", "ended_at"))
    return None if begun is None or ended is None else ended - begun


def _not_run(case: Case) -> CaseResult:
    return CaseResult(
        case_id=case.case_id,
        line=case.line,
        run_id=case.run_id,
        given=case.input,
        expect=case.expect,
        status=NOT_RUN,
    )
