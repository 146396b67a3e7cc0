"""Runs the cases of an evaluation: each is a run whose id is derived from the case, so it is started once.

A case that has ended is only read, so an interrupted evaluation continues where it was, and one that is repeated
with the same id costs nothing. A case that asks a person something is answered from its script; if there is no answer
there, it stays as it is and counts as waiting. So does one that waits for an approval. One that takes too long is
cancelled. Nothing is waited for without a bound.

Above it: `command`. Below it: operations of a `place`; `expectations`, `judging`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from penstock.base.errors import Conflict, Denied, LimitExceeded, PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.evaluation.dataset import Case
from penstock.cli.evaluation.expectations import Check, JudgeWanted, Outcome, checks_of
from penstock.cli.evaluation.judging import judge_input, verdict_check
from penstock.cli.evaluation.places import EvaluationRuns
from penstock.cli.evaluation.report import CaseResult, Spent, spent_of
from penstock.cli.run.source import AsyncCall
from penstock.cli.terminal.values import UsageError
from penstock.definitions.durations import parse_instant_ms
from penstock.definitions.jq.expressions import Evaluator
from penstock.runtime.simulation.dry_run import nth_scripted

__all__ = ["NOT_RUN", "Bounds", "CaseRunner"]

NOT_RUN = "not_run"
_CHANGED: Final = "AGENT_CHANGED"
_ENDED: Final = ("completed", "failed", "cancelled")
# A call that waits for approval does not end a wait, so the first waits are short.
_WAITS_SECONDS: Final = (1.0, 2.0, 5.0, 20.0)
_CANCELLING_SECONDS: Final = 60.0
_LIMITED_SECONDS: Final = (1.0, 30.0)
_TOO_LARGE: Final = 413
_ANSWERS_MAX: Final = 100
_DEPTH_MAX: Final = 10
_PROMPT_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much is done at once, what all of it may cost, and how long a case may take."""

    at_once: int
    cost: Decimal | None
    timeout_seconds: float


@dataclass(slots=True, kw_only=True)
class CaseRunner:
    """Runs the cases of one evaluation."""

    runs: EvaluationRuns
    evaluator: Evaluator
    bounds: Bounds
    done: Callable[[CaseResult], None]
    """Told of every case that has ended."""
    spent: Spent = field(default_factory=Spent)
    stopped: str | None = None
    _results: dict[str, CaseResult] = field(default_factory=dict)

    async def run(self, cases: Sequence[Case]) -> tuple[CaseResult, ...]:
        """Run all cases, as far as the bounds allow, and return their results, in order."""
        known = await self._known(cases)
        # What has ended already is read first: it costs nothing, and what it cost counts.
        waiting = iter(sorted(cases, key=lambda case: self.runs.run_id(case) not in known))

        async def work() -> None:
            for case in waiting:
                self._stop_if_spent()
                is_known = self.runs.run_id(case) in known
                if self.stopped is not None and not is_known:
                    continue
                try:
                    result = await self._case(case, is_known=is_known)
                except LimitExceeded as limited:
                    self.stopped = self.stopped or f"{limited.code}: {limited.message}"
                    continue
                except Conflict as changed:
                    if changed.code != _CHANGED:
                        raise
                    self.stopped = f"{changed.message}; the cases so far are of the version before"
                    continue
                self._results[case.case_id] = result
                self.spent += result.spent
                self.done(result)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self.bounds.at_once, len(cases))):
                group.create_task(work())
        return tuple(self._results.get(case.case_id) or self._not_run(case) for case in cases)

    def _stop_if_spent(self) -> None:
        most, cost = self.bounds.cost, self.spent.cost
        if most is None or self.stopped is not None:
            return
        if cost is None:
            self.stopped = "the price of a model is not known, so --max-cost cannot be kept; give it `prices`"
        elif cost >= most:
            self.stopped = f"{cost.normalize():f} of {most.normalize():f} US dollars are spent"

    async def _known(self, cases: Sequence[Case]) -> frozenset[str]:
        """Return the existing runs; refuse to continue an evaluation of something else."""
        found = await self.runs.known(cases)
        for view in found.values():
            if not self.runs.is_of_target(view):
                was = f"{view['workflow_id']} {view['workflow_version']} ({view['definition_hash'][:19]})"
                raise UsageError(f"this evaluation is one of {was}, and the target has changed; choose another --id")
        return frozenset(found)

    async def _case(self, case: Case, *, is_known: bool) -> CaseResult:
        try:
            view = await self._ended(self.runs.case(case), case.answers, is_known=is_known)
        except Rejected as refusal:  # an input that does not fit fails this case, and no other
            if refusal.code == "IDEMPOTENCY_KEY_REUSED":
                raise _other_input(case) from None
            view = _refused(refusal)
        except LimitExceeded as limited:
            if getattr(limited, "status", None) != _TOO_LARGE:
                raise
            view = _refused(limited)
        except Conflict as conflict:
            if conflict.code != "EXECUTION_ID_TAKEN":
                raise
            raise _other_input(case) from None
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
            run_id=run_id or self.runs.run_id(case),
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
        started = self.runs.verdict(wanted.rubric, case, judge_input(case.input, outcome.output))
        view = await self._ended(started, {})
        found = _outcome(view)
        check = verdict_check(wanted, found.status, found.output, found.error)
        return check, view["execution_id"], await self._spent_by(view["execution_id"])

    async def _ended(self, started: tuple[str, JsonObject], answers: JsonObject, *, is_known: bool = False) -> Any:
        """Start a run, unless it was started before, and return it when it has ended or waits for somebody."""
        operation, arguments = started
        handle = await self._handle(operation, arguments)
        run_id, held = str(handle["execution_id"]), handle.get("held")
        if held is not None:
            # The start waits for approval. The run of the draft says how that stands.
            draft = await self._latest(run_id)
            if draft["status"] != "completed" and not is_known:
                return {**draft, "waits_for": f"the start waits for approval, draft {held['draft_id']}"}
            run_id = str(arguments["execution_id"])
        try:
            async with asyncio.timeout(self.bounds.timeout_seconds):
                told = await self._at_rest(run_id, answers)
        except TimeoutError:
            told = await self._cancelled(run_id)
        view = await self._latest(run_id)
        if told is None or view["status"] in _ENDED:
            return view
        # A run whose call of a tool is held has the status of any activity.
        status = "waiting_approval" if view["status"] == "waiting_activity" else view["status"]
        return {**view, "status": status, "waits_for": told}

    async def _handle(self, operation: str, arguments: JsonObject) -> Any:
        """Start a run; where a limit is reached, try again for as long as a case may take."""
        clock = asyncio.get_running_loop().time
        give_up = clock() + self.bounds.timeout_seconds
        delay, longest = _LIMITED_SECONDS
        while True:
            try:
                return await self.call(operation, arguments)
            except LimitExceeded as limited:
                if getattr(limited, "status", None) == _TOO_LARGE or clock() + delay > give_up:
                    raise
            await asyncio.sleep(delay)
            delay = min(delay * 2, longest)

    async def _cancelled(self, run_id: str) -> str | None:
        """Cancel a run that takes too long; say what keeps it, if it does not end."""
        told = f"it took longer than the {self.bounds.timeout_seconds:g} seconds of the evaluation"
        try:
            await self.call("execution.cancel", {"execution_id": run_id, "reason": told})
        except Denied:
            return f"{told}, and this key may not cancel it"
        except Conflict:  # it has ended just now
            return None
        try:
            async with asyncio.timeout(_CANCELLING_SECONDS):
                return await self._at_rest(run_id, {})
        except TimeoutError:
            return f"{told}, and is being cancelled"

    async def _at_rest(self, run_id: str, answers: JsonObject) -> str | None:
        """Wait until a run has ended, or waits for what the script has no answer to; say what for."""
        asked: dict[str, int] = {}
        for number in itertools.count():
            seconds = _WAITS_SECONDS[min(number, len(_WAITS_SECONDS) - 1)]
            result = await self.call("execution.wait", {"execution_id": run_id, "wait_seconds": seconds})
            if result["status"] in _ENDED:
                return None
            if result["status"] == "paused":
                return "it is paused"
            held = result.get("held_calls")
            if held:
                return f"a call of {held[0]['operation']} waits for approval, draft {held[0]['draft_id']}"
            for question in result.get("questions") or []:
                node_id = str(question["node_id"])
                given = asked[node_id] = asked.get(node_id, 0) + 1
                if node_id not in answers or given > _ANSWERS_MAX:
                    return f"{node_id} asks {_prompt(question)}"
                # The visits of a node are counted from 1, also after a restart.
                answer: JsonValue = nth_scripted(answers[node_id], int(question["visit"]) - 1)
                to = question.get("execution_id") or result["execution_id"]
                named: JsonObject = {"execution_id": to, "interrupt_id": question["interrupt_id"]}
                try:
                    await self.call("execution.answer", {**named, "answer": answer})
                except Denied as denied:
                    return f"{node_id} asks, and the answer of the script is refused: {denied.message}"
        return None

    @property
    def call(self) -> AsyncCall:
        """Calls operations where the runs are."""
        return self.runs.call

    async def _latest(self, run_id: str) -> Any:
        """Return a run, or the last one of those that continue it."""
        view = await self.call("execution.status", {"execution_id": run_id})
        while view.get("continued_as"):
            view = await self.call("execution.status", {"execution_id": view["continued_as"]})
        return view

    async def _spent_by(self, run_id: str, depth: int = 0) -> Spent:
        """Return what a run used, with everything below it, and with the runs that it continues."""
        view = await self.call("execution.status", {"execution_id": run_id})
        spent = spent_of(view.get("usage"))
        if depth < _DEPTH_MAX and view.get("continued_from"):
            spent += await self._spent_by(view["continued_from"], depth + 1)
        return spent

    def _not_run(self, case: Case) -> CaseResult:
        return CaseResult(
            case_id=case.case_id,
            line=case.line,
            run_id=self.runs.run_id(case),
            given=case.input,
            expect=case.expect,
            status=NOT_RUN,
        )


def _outcome(view: Any) -> Outcome:
    error = view.get("error")
    told: JsonObject | None = None
    if error:
        told = {name: error.get(name) for name in ("code", "message", "node_id")}
    return Outcome(status=view["status"], output=view.get("output"), error=told, waits_for=view.get("waits_for"))


def _refused(error: PenstockError) -> JsonObject:
    told: JsonObject = {"code": error.code, "message": error.message, "node_id": None}
    return {"execution_id": None, "status": "failed", "error": told}


def _other_input(case: Case) -> UsageError:
    return UsageError(f"the evaluation has a case {case.case_id} with another input; choose another --id")


def _prompt(question: Any) -> str:
    prompt = question.get("prompt")
    text = json.dumps(prompt, ensure_ascii=False)
    return text if len(text) <= _PROMPT_CHARACTERS_MAX else f"{text[:_PROMPT_CHARACTERS_MAX]}…"


def _took(view: Any) -> int | None:
    begun, ended = (parse_instant_ms(view.get(name) or "") for name in ("created_at", "ended_at"))
    return None if begun is None or ended is None else ended - begun
