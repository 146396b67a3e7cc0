"""A run as a Python object: watch it, answer it, signal it, cancel it, fork it.

Above it: `app.penstock.Penstock` hands these out. Below it: `EmbeddedHost`. It holds no state of its own beyond the id:
two objects for one run are as good as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from penstock.base import limits
from penstock.base.errors import Conflict, NotFound, PenstockError, Rejected, Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.expressions import EvaluationFailed, ExpressionProblem, compile_expression
from penstock.engine import inputs
from penstock.engine.evolve import fold
from penstock.engine.fork import fork
from penstock.engine.outcomes import Decision, Refused
from penstock.engine.records import Record
from penstock.engine.state import RunState, Scope
from penstock.engine.status import run_status
from penstock.engine.transitions import RunStatus
from penstock.engine.turn import Turn
from penstock.runtime.embedded_host import EmbeddedHost

__all__ = ["Run", "RunFailed", "refusal_error"]

_NOT_FOUND = frozenset({"EXECUTION_NOT_FOUND", "WORKFLOW_NOT_FOUND"})
_REJECTED = frozenset({"VALIDATION_ERROR", "INVALID_RESUME_PAYLOAD", "SUBMIT_VALIDATION_ERROR"})
# How long one look at a run that does not move lasts before the watcher checks whether it is still wanted.
_LOOK_SECONDS = 30.0


class RunFailed(PenstockError):
    """A run that was waited for did not complete."""


def refusal_error(refused: Refused) -> PenstockError:
    """The exception for a refusal, by whose fault it is."""
    kind = NotFound if refused.code in _NOT_FOUND else Rejected if refused.code in _REJECTED else Conflict
    return kind(refused.code, refused.message, refused.hint, refused.details)


@dataclass(frozen=True, slots=True)
class Run:
    """One run. Every method speaks to the store; nothing is remembered here."""

    id: str
    host: EmbeddedHost
    new_id: Callable[[], str]

    async def state(self) -> RunState:
        """Everything known about the run."""
        state = await self.host.read(self.id)
        if state is None:
            raise NotFound("EXECUTION_NOT_FOUND", f"there is no run {self.id}")
        return state

    async def status(self) -> str:
        """What the run is doing, in one word."""
        return run_status(await self.state())

    async def result(self, *, timeout_seconds: float | None = None) -> JsonValue:
        """Wait for the end; the result of a completed run, `RunFailed` for any other end."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_seconds is None else loop.time() + timeout_seconds
        state = await self.state()
        while not state.terminal:
            nap = _LOOK_SECONDS if deadline is None else min(_LOOK_SECONDS, deadline - loop.time())
            if nap <= 0:
                told = f"run {self.id} is still {run_status(state)} after {timeout_seconds} s"
                raise Unavailable("RUN_NOT_FINISHED", told, "wait again, or look at what it waits for")
            later = await self.host.wait_for_end(self.id, timeout_seconds=nap)
            if later is None:
                raise NotFound("EXECUTION_NOT_FOUND", f"run {self.id} is gone")
            state = later
        if state.status is RunStatus.COMPLETED:
            return state.result
        failure = state.failure
        code = failure.code if failure else "CANCELLED"
        told = failure.message if failure else (state.cancel_reason or "cancelled")
        details: JsonObject = {"run_id": self.id, "node_id": failure.node_id if failure else state.last_node_id}
        raise RunFailed(code, f"run {self.id} {state.status}: {told}", details=details)

    async def stream(self, *, after_seq: int = 0) -> AsyncIterator[Record]:
        """Every record from a point on, until the run has ended."""
        seen = after_seq
        while True:
            records = await self.host.history(self.id, after_seq=seen)
            for record in records:
                seen = record.seq
                yield record
            if len(records) >= limits.HISTORY_PAGE_MAX:
                continue
            state = await self.host.wait(self.id, after_seq=seen, timeout_seconds=_LOOK_SECONDS)
            if state is None or (state.terminal and state.seq <= seen):
                return

    async def history(self, *, after_seq: int = 0) -> list[Record]:
        """The records of the run so far."""
        found: list[Record] = []
        while True:
            page = await self.host.history(self.id, after_seq=found[-1].seq if found else after_seq)
            found.extend(page)
            if len(page) < limits.HISTORY_PAGE_MAX:
                return found

    async def answer(
        self, answer: JsonValue, *, node: str | None = None, visit: int | None = None, by: str | None = None
    ) -> None:
        """Answer the open question (name the node, and its visit, if there are several)."""
        await self._send(inputs.AnswerInterrupt(at=self._now(), answer=answer, node_id=node, visit=visit, by=by))

    async def signal(self, name: str, payload: JsonValue = None, *, signal_id: str | None = None) -> None:
        """Send a signal; it waits in the run until somebody takes it."""
        await self._send(inputs.SendSignal(at=self._now(), name=name, payload=payload, signal_id=signal_id))

    async def update(
        self, name: str, payload: JsonValue = None, *, query: str = ".state", timeout_seconds: float = 30.0
    ) -> JsonValue:
        """Send a signal, wait until somebody in the run has taken it and gone on, and look at what came of it."""
        signal_id = self.new_id()
        before = (await self.state()).seq
        await self.signal(name, payload, signal_id=signal_id)
        async with asyncio.timeout(timeout_seconds):
            taken: tuple[JsonValue, JsonValue] | None = None
            async for record in self.stream(after_seq=before):
                place = record.payload.get("nodeId"), record.payload.get("visit")
                if record.name == "DeliverSignal" and record.payload.get("signalId") == signal_id:
                    taken = place
                elif record.name in ("CompleteNode", "FailNode") and place == taken:
                    break
        return await self.query(query)

    async def submit(
        self,
        node: str,
        result: JsonValue = None,
        *,
        error: str | None = None,
        code: str | None = None,
        visit: int | None = None,
    ) -> None:
        """Report the outcome of an activity that was done elsewhere (name its visit if there are several)."""
        at = self._now()
        if error is not None:
            await self._send(inputs.FailActivity(at=at, node_id=node, error=error, code=code, visit=visit))
        else:
            await self._send(inputs.CompleteActivity(at=at, node_id=node, result=result, visit=visit))

    async def cancel(self, reason: str | None = None) -> None:
        """Stop the run; what must be undone is undone first."""
        await self._send(inputs.CancelRun(at=self._now(), reason=reason))

    async def pause(self, reason: str | None = None) -> None:
        """Make no new moves until resumed."""
        await self._send(inputs.PauseRun(at=self._now(), reason=reason))

    async def resume(self) -> None:
        """Go on after a pause."""
        await self._send(inputs.ResumeRun(at=self._now()))

    async def retry_activity(self, node: str, *, visit: int | None = None, by: str | None = None) -> None:
        """Try an activity of unknown outcome again."""
        await self._send(inputs.RetryActivity(at=self._now(), node_id=node, visit=visit, by=by))

    async def query(self, expression: str) -> JsonValue:
        """Evaluate jq where the run's root stands now, or stood when it ended."""
        compiled = compile_expression(expression)
        if isinstance(compiled, ExpressionProblem):
            raise Rejected("JQ_INVALID", compiled.message, compiled.hint)
        state = await self.state()
        workflow = await self.host.workflow(state.definition_hash)
        if workflow is None:
            raise NotFound("WORKFLOW_NOT_FOUND", f"the definition of run {self.id} is not in the store")
        if state.terminal:
            state = fold((await self.history())[:-1])  # the last record clears what the nodes gave
        turn = Turn(workflow=workflow, state=state, at=self._now(), evaluator=self.host.evaluator)
        outcome = self.host.evaluator.evaluate(compiled, turn.root(_root_scope(state)))
        if isinstance(outcome, EvaluationFailed):
            raise Rejected("JQ_FAILED", outcome.message)
        return outcome.value

    async def fork(self, *, at_seq: int, run_id: str | None = None) -> Run:
        """A new run that begins where this one was after a record, with the same labels."""
        row = await self.host.store.row(self.id)
        if row is None:
            raise NotFound("EXECUTION_NOT_FOUND", f"there is no run {self.id}")
        records = fork(await self.history(), at_seq=at_seq, run_id=run_id or self.new_id())
        state = fold(records)
        refused = await self.host.adopt(state, records, labels=dict(row.labels))
        if refused is not None:
            raise refusal_error(refused)
        return Run(state.run_id, self.host, self.new_id)

    def _now(self) -> int:
        return self.host.clock.now_ms()

    async def _send(self, given: inputs.Input) -> Decision:
        decision = await self.host.send(self.id, given)
        if isinstance(decision, Refused):
            raise refusal_error(decision)
        return decision


def _root_scope(state: RunState) -> Scope:
    """Where the walk began; a run that is undoing has left it, and what the nodes gave is gone with it."""
    return state.scopes.get(0) or Scope(serial=0, body="")
