"""A run as a Python object: watch it, answer it, signal it, cancel it, fork it.

Above it: `app.penstock.Penstock` returns these objects. Below it: the host port. A `Run` holds no state beyond the id,
so two objects for the same run are interchangeable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import msgspec
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Conflict, Denied, NotFound, PenstockError, Rejected, Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.expressions import EvaluationFailed, ExpressionProblem, NotAnExpression, load_expression
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.effects import PerformActivity
from penstock.engine.folding.trust import from_outside
from penstock.engine.fork import fork
from penstock.engine.inputs import Initiator
from penstock.engine.outcomes import Accepted, Refused
from penstock.engine.pending import pending_activities
from penstock.engine.records import Record, commands
from penstock.engine.state import RunState, Scope
from penstock.engine.status import run_status
from penstock.engine.transitions import RunStatus
from penstock.engine.values import NOT_JSON
from penstock.engine.walk.questions import OpenQuestion, open_questions
from penstock.engine.walk.turn import Turn
from penstock.runtime.activities.progress import Progress, ProgressNews
from penstock.runtime.chains import own_labels
from penstock.runtime.control_plane.leasing import lease_ms_of, leased, leased_activity
from penstock.runtime.ports.host import RunHost
from penstock.runtime.ports.platform import CallRecord

__all__ = ["Run", "RunFailed", "refusal_error"]

_NOT_FOUND = frozenset({"EXECUTION_NOT_FOUND", "WORKFLOW_NOT_FOUND"})
_DENIED = frozenset({"PERSON_REQUIRED", "APPROVER_REQUIRED", "VERSION_PROPOSED"})
_REJECTED = frozenset(
    {
        "VALIDATION_ERROR",
        "INVALID_RESUME_PAYLOAD",
        "SUBMIT_VALIDATION_ERROR",
        "SIGNATURE_REQUIRED",
        "SIGNATURE_INVALID",
        "SIGNER_NOT_TRUSTED",
        NOT_JSON,
    }
)
# How long one wait for a run that does not move lasts before the watcher checks whether it is still wanted.
_LOOK_SECONDS = 30.0


class RunFailed(PenstockError):
    """A run that the caller waited for did not complete."""


def refusal_error(refused: Refused) -> PenstockError:
    """Return the exception for a refusal, depending on whose fault it is."""
    kind: type[PenstockError] = Conflict
    for codes, chosen in ((_NOT_FOUND, NotFound), (_REJECTED, Rejected), (_DENIED, Denied)):
        kind = chosen if refused.code in codes else kind
    return kind(refused.code, refused.message, refused.hint, refused.details)


class Run(msgspec.Struct, frozen=True):
    """One run. Every method reads from the store; nothing is cached here."""

    id: str
    host: RunHost
    new_id: Callable[[], str]
    caller: str = ""
    """Who asks. Queries of the same caller share its capacity."""
    untrusted: bool = False
    """Whether the caller is outside. Data from outside marks the run as untrusted, see `engine.folding.trust`."""
    call: CallRecord | None = None
    """The record of the caller's call, stored together with what it changes."""

    def __repr__(self) -> str:
        """Show the run id only, not the host."""
        return f"Run(id={self.id!r})"

    async def state(self) -> RunState:
        """Return everything known about the run."""
        state = await self.host.read(self.id)
        if state is None:
            raise NotFound("EXECUTION_NOT_FOUND", f"there is no run {self.id}")
        return state

    async def status(self) -> str:
        """Return what the run is doing, in one word."""
        return run_status(await self.state())

    async def result(self, *, timeout_seconds: float | None = None) -> JsonValue:
        """Wait for the end and return the result of a completed run; raise `RunFailed` for any other end.

        A run that continues as a new one ends where the last run of its chain does.
        """
        loop = asyncio.get_running_loop()
        deadline = None if timeout_seconds is None else loop.time() + timeout_seconds
        run_id, nap = self.id, _LOOK_SECONDS
        while True:
            if deadline is not None:
                nap = min(_LOOK_SECONDS, deadline - loop.time())
            state = await self.host.wait_for_end(run_id, timeout_seconds=nap)
            if state is None:
                raise NotFound("EXECUTION_NOT_FOUND", f"there is no run {run_id}")
            if state.terminal and state.continuation is None:
                break
            run_id = state.run_id
            if deadline is not None and deadline <= loop.time():
                message = f"run {run_id} is still {run_status(state)} after {timeout_seconds} s"
                raise Unavailable("RUN_NOT_FINISHED", message, "wait again, or look at what it waits for")
        if state.status is RunStatus.COMPLETED:
            return state.result
        failure = state.failure
        code = failure.code if failure else "CANCELLED"
        message = failure.message if failure else (state.cancel_reason or "cancelled")
        details: JsonObject = {"run_id": state.run_id, "node_id": failure.node_id if failure else state.last_node_id}
        raise RunFailed(code, f"run {state.run_id} {state.status}: {message}", details=details)

    async def newest(self) -> Run:
        """Return the last run of the chain that this run belongs to, often this run itself."""
        return replace(self, id=await self.host.newest(self.id))

    async def stream(self, *, after_seq: int = 0) -> AsyncIterator[Record]:
        """Yield every record after a sequence number until the run has ended.

        A run that continues it has its own records.
        """
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

    async def live(self, *, after_seq: int = 0) -> AsyncIterator[Record | Progress]:
        """Yield the records as `stream` does, and between them the progress that the run's activities report.

        Records are stored and can be read any number of times. Progress is delivered only live, in the process that
        performs the run.
        """
        seen = after_seq
        with self.host.progress.subscribe(self.id) as news:
            while True:
                records = await self.host.history(self.id, after_seq=seen)
                for record in records:
                    seen = record.seq
                    yield record
                if len(records) >= limits.HISTORY_PAGE_MAX:
                    continue
                moving = asyncio.ensure_future(self.host.wait(self.id, after_seq=seen, timeout_seconds=_LOOK_SECONDS))
                try:
                    while not moving.done():
                        await _moved_or_reported(moving, news)
                        for item in news.take():
                            yield item
                    state = await moving
                finally:
                    moving.cancel()
                if state is None or (state.terminal and state.seq <= seen):
                    return

    async def progress(self) -> AsyncIterator[Progress]:
        """Yield the progress that the run's activities report, from now on until the run has ended.

        It is not stored.
        """
        async for item in self.live(after_seq=(await self.state()).seq):
            if isinstance(item, Progress):
                yield item

    async def history(self, *, after_seq: int = 0) -> list[Record]:
        """Return the records of the run so far."""
        found: list[Record] = []
        while True:
            page = await self.host.history(self.id, after_seq=found[-1].seq if found else after_seq)
            found.extend(page)
            if len(page) < limits.HISTORY_PAGE_MAX:
                return found

    async def questions(self) -> list[OpenQuestion]:
        """Return the open questions to people, each with its prompt and the schema of its answer."""
        return open_questions(await self.state())

    async def answer(
        self,
        answer: JsonValue,
        *,
        node: str | None = None,
        visit: int | None = None,
        interrupt_id: str | None = None,
        by: str | None = None,
        answerer: inputs.Answerer | None = None,
    ) -> None:
        """Answer the open question. If there are several, give the node, its visit, or the interrupt id."""
        who = answerer or inputs.Answerer()
        await self._send(
            inputs.AnswerInterrupt(
                at=self._now(),
                answer=answer,
                node_id=node,
                visit=visit,
                interrupt_id=interrupt_id,
                by=by,
                note=who.note,
                by_model=who.by_model,
                groups=who.groups,
                kind=who.kind,
                owner=who.owner,
                acting_for=who.acting_for,
                subject=who.subject,
                lineage=who.lineage,
                name=who.name,
            )
        )

    async def signal(
        self,
        name: str,
        payload: JsonValue = None,
        *,
        signal_id: str | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> None:
        """Send a signal. The run buffers it until a node waits for it. `by` is the sender, for the history."""
        sent = inputs.SendSignal(at=self._now(), name=name, payload=payload, signal_id=signal_id, by=by, note=note)
        await self._send(sent)

    async def update(
        self,
        name: str,
        payload: JsonValue = None,
        *,
        query: str = ".state",
        timeout_seconds: float = 30.0,
        signal_id: str | None = None,
    ) -> JsonValue:
        """Send a signal, wait until a node has received and handled it, and return the result of a query.

        A signal with an id counts once; it may have been received before.
        """
        run = await self.newest()
        before = (await run.state()).seq if signal_id is None else 0
        signal_id = signal_id or self.new_id()
        await run.signal(name, payload, signal_id=signal_id)
        return await run.outcome_of_signal(signal_id, query=query, timeout_seconds=timeout_seconds, after_seq=before)

    async def outcome_of_signal(
        self, signal_id: str, *, query: str = ".state", timeout_seconds: float = 30.0, after_seq: int = 0
    ) -> JsonValue:
        """Wait until a node has received and handled a signal sent to this run, and return the result of a query.

        This run must be the one that was the newest of its chain before the signal was sent.
        """
        run = self
        async with asyncio.timeout(timeout_seconds):
            # A run that ended without it may have been continued: the next run has the signal.
            while not await run._handled(signal_id, after_seq) and (later := await run.newest()).id != run.id:
                run, after_seq = later, 0
        return await run.query(query)

    async def _handled(self, signal_id: str, after_seq: int) -> bool:
        """Wait until a node has received a signal and the visit is over; return False if the run ended first."""
        taken: tuple[str, int | None] | None = None
        async for record in self.stream(after_seq=after_seq):
            match record.body:
                case commands.DeliverSignal(node_id=node_id, visit=visit, signal_id=delivered):
                    taken = (node_id, visit) if delivered == signal_id else taken
                case commands.CompleteNode(node_id=node_id, visit=visit) if (node_id, visit) == taken:
                    return True
                case commands.FailNode(node_id=node_id, visit=visit) if (node_id, visit) == taken:
                    return True
                case _:
                    pass
        return taken is not None

    async def activities(self) -> list[PerformActivity]:
        """Return the activities that wait to be performed: arguments, schema, attempt, deadline, lease, key."""
        state = await self.state()
        return pending_activities(await self._workflow(state), state)

    async def lease_activity(
        self, node: str, holder: str, seconds: float, *, visit: int | None = None, extend: bool = False
    ) -> PerformActivity:
        """Lease a host-mediated activity, so that nobody else performs it; 0 seconds give it back.

        Without a visit, lease one that is free. With `extend`, the holder must already have the lease. Raises
        `Conflict`: the code ACTIVITY_LEASED says who holds it and until when, ACTIVITY_LEASE_LOST that somebody else
        took it meanwhile.
        """
        given = inputs.LeaseActivity(
            at=self._now(), node_id=node, holder=holder, lease_ms=lease_ms_of(seconds), visit=visit, extend=extend
        )
        decision = await self._send(given)
        lease = leased(decision, given)
        if isinstance(lease, Refused):
            raise refusal_error(lease)
        return leased_activity(await self._workflow(decision.state), decision.state, lease)

    async def submit(  # noqa: PLR0913  # each names the activity a little more
        self,
        node: str,
        result: JsonValue = None,
        *,
        error: str | None = None,
        code: str | None = None,
        visit: int | None = None,
        attempt: int | None = None,
        holder: str | None = None,
    ) -> None:
        """Report the outcome of an activity that was performed elsewhere. If there are several, give its visit.

        With an attempt, the result of an earlier attempt is refused; with a holder, the result of a holder that lost
        the lease.
        """
        at = self._now()
        if error is not None:
            failed = inputs.FailActivity(
                at=at, node_id=node, error=error, code=code, visit=visit, attempt=attempt, holder=holder
            )
            await self._send(failed)
            return
        done = inputs.CompleteActivity(at=at, node_id=node, result=result, visit=visit, attempt=attempt, holder=holder)
        await self._send(done)

    async def cancel(self, reason: str | None = None) -> None:
        """Cancel the run; completed nodes are compensated first."""
        await self._send(inputs.CancelRun(at=self._now(), reason=reason))

    async def pause(self, reason: str | None = None) -> None:
        """Pause the run: it makes no new moves until it is resumed."""
        await self._send(inputs.PauseRun(at=self._now(), reason=reason))

    async def resume(self) -> None:
        """Resume a paused run."""
        await self._send(inputs.ResumeRun(at=self._now()))

    async def retry_activity(
        self, node: str, *, visit: int | None = None, by: str | None = None, note: str | None = None
    ) -> None:
        """Retry an activity whose outcome is unknown."""
        await self._send(inputs.RetryActivity(at=self._now(), node_id=node, visit=visit, by=by, note=note))

    async def query(self, expression: str) -> JsonValue:
        """Evaluate jq in the context of the run's root, as it is now or as it was when the run ended."""
        compiled = load_expression(expression)
        if isinstance(compiled, ExpressionProblem):
            raise Rejected("JQ_INVALID", compiled.message, compiled.hint)
        state = await self.state()
        workflow = await self._workflow(state)
        if state.terminal:
            state = await self.host.fold((await self.history())[:-1])  # the last record clears the outputs of the nodes
        turn = Turn(workflow=workflow, state=state, at=self._now(), evaluator=self.host.evaluator)
        root = turn.root(_root_scope(state))
        outcome = await self.host.evaluate_for(self.caller, compiled, root)
        if isinstance(outcome, NotAnExpression):
            raise Rejected("JQ_INVALID", outcome.message, outcome.hint)
        if isinstance(outcome, EvaluationFailed):
            raise Rejected("JQ_FAILED", outcome.message)
        return outcome.value

    async def fork(
        self,
        *,
        at_seq: int,
        run_id: str | None = None,
        by: Initiator | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Run:
        """Start a new run from the history of this one up to a record, with its full timeout.

        It has the same labels, and `labels` beside or instead of them.
        """
        row = await self.host.row(self.id)
        if row is None:
            raise NotFound("EXECUTION_NOT_FOUND", f"there is no run {self.id}")
        chosen = run_id or self.new_id()
        # In a thread: a long history takes long.
        records = await asyncio.to_thread(
            fork, await self.history(), at_seq=at_seq, run_id=chosen, at=self._now(), by=by, untrusted=self.untrusted
        )
        state = await self.host.fold(records)
        refused = await self.host.adopt(
            state, records, labels={**own_labels(row.labels), **(labels or {})}, call=self.call
        )
        if refused is not None:
            raise refusal_error(refused)
        return replace(self, id=state.run_id)

    def _now(self) -> int:
        return self.host.clock.now_ms()

    async def _workflow(self, state: RunState) -> Workflow:
        workflow = await self.host.workflow(state.definition_hash)
        if workflow is None:
            raise NotFound("WORKFLOW_NOT_FOUND", f"the definition of run {self.id} is not in the store")
        return workflow

    async def _send(self, given: inputs.Input) -> Accepted:
        theirs = from_outside(given) if self.untrusted else given
        decision = await self.host.send(self.id, theirs, call=self.call)
        if isinstance(decision, Refused):
            raise refusal_error(decision)
        return decision


def _root_scope(state: RunState) -> Scope:
    """Return the root scope. A run that compensates has left it, and the outputs of its nodes are gone."""
    return state.scopes.get(0) or Scope(serial=0, body="")


async def _moved_or_reported(moving: asyncio.Future[RunState | None], news: ProgressNews) -> None:
    """Wait until a run has moved, or one of its activities has reported progress."""
    arrival = asyncio.ensure_future(news.arrived())
    try:
        await asyncio.wait((moving, arrival), return_when=asyncio.FIRST_COMPLETED)
    finally:
        arrival.cancel()
