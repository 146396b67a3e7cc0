"""`fold`: read records as visits.

A `match` over all record types, which the type checker keeps exhaustive, chooses the handler of each type. The choice
is made once per type and cached: making it for every record would cost more than all the rest.

Above it: every view of a run. Below it: `handlers`, which apply the changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never, cast

from penstock.engine.folding.evolve import apply_body
from penstock.engine.records import Body, Record, commands, events
from penstock.engine.records.union import (
    ActivityBody,
    AnyBody,
    ChildRunBody,
    QuestionBody,
    RunBody,
    ScopeBody,
    SignalBody,
    TimerBody,
    WalkBody,
)
from penstock.engine.state import RunState
from penstock.engine.visits import handlers
from penstock.engine.visits.handlers import Handler, nothing, on
from penstock.engine.visits.model import RunVisits

__all__ = ["apply", "extend", "fold", "fold_with_state", "visits_of"]

# The handlers chosen so far, by record name.
_CHOSEN: Final[dict[str, Handler]] = {}


def visits_of(records: Iterable[Record]) -> RunVisits:
    """Return the visits of a whole history."""
    visits = RunVisits()
    extend(visits, records)
    return visits


def fold(visits: RunVisits, records: Iterable[Record]) -> RunVisits:
    """Return the visits after some more records; `visits` is not changed."""
    draft = visits.copy()
    extend(draft, records)
    return draft


def extend(draft: RunVisits, records: Iterable[Record]) -> None:
    """Fold more records into visits that the caller owns."""
    record = None
    for record in records:
        handler = _CHOSEN.get(record.name)
        if handler is nothing:
            continue  # skip it without decoding the body
        body = record.body
        if body is not None:
            (handler or _choose(record.name, body))(draft, record, body)
    if record is not None:
        draft.seq, draft.updated_at = record.seq, record.at


def fold_with_state(records: Iterable[Record]) -> tuple[RunState, RunVisits]:
    """Return state and visits of a whole history. Each record is decoded once for both."""
    state, visits = RunState(), RunVisits()
    for record in records:
        body = record.body
        apply_body(state, record, body)
        if body is not None:
            (_CHOSEN.get(record.name) or _choose(record.name, body))(visits, record, body)
    visits.seq, visits.updated_at = state.seq, state.updated_at
    return state, visits


def apply(draft: RunVisits, record: Record, body: Body | None) -> None:
    """Fold one record whose body the caller has already decoded. Records with unknown names are skipped."""
    if body is not None:
        (_CHOSEN.get(record.name) or _choose(record.name, body))(draft, record, body)
    draft.seq, draft.updated_at = record.seq, record.at


def _choose(name: str, body: Body) -> Handler:
    handler = _CHOSEN[name] = _handler(cast("AnyBody", body))
    return handler


# --- which handler takes which record ------------------------------------------------------------


def _handler(body: AnyBody) -> Handler:
    if isinstance(body, WalkBody):
        return _walk_handler(body)
    if isinstance(body, ActivityBody):
        return _activity_handler(body)
    if isinstance(body, ScopeBody):
        return _scope_handler(body)
    if isinstance(body, RunBody):
        return _run_handler(body)
    if isinstance(body, QuestionBody):
        return _question_handler(body)
    if isinstance(body, TimerBody):
        return _timer_handler(body)
    if isinstance(body, SignalBody):
        return _signal_handler(body)
    if isinstance(body, ChildRunBody):
        return _child_run_handler(body)
    assert_never(body)


def _run_handler(body: RunBody) -> Handler:
    match body:
        case events.ExecutionStarted():
            return on(body, handlers.run_started)
        case (
            events.ExecutionCompleted()
            | events.ExecutionFailed()
            | events.ExecutionCancelled()
            | events.ExecutionContinued()
        ):
            return on(body, handlers.run_ended)
        case commands.PauseExecution() | events.ExecutionPaused():
            return on(body, handlers.run_paused)
        case commands.ResumeExecution() | events.ExecutionResumed():
            return on(body, handlers.run_resumed)
        case commands.CancelExecution():
            return on(body, handlers.run_cancelling)
        case events.HistoryLimitReached():
            return on(body, handlers.run_failing)
        case commands.StartCompensation():
            return on(body, handlers.compensating)
        case _:
            assert_never(body)


def _walk_handler(body: WalkBody) -> Handler:
    match body:
        case commands.ScheduleNode():
            return on(body, handlers.visit_begun)
        case commands.CompleteNode():
            return on(body, handlers.visit_completed)
        case commands.FailNode():
            return on(body, handlers.visit_failed)
        case events.CheckpointWritten():
            return on(body, handlers.checkpointed)
        case events.NodeScheduled() | events.StateUpdated():
            return nothing
        case _:
            assert_never(body)


def _activity_handler(body: ActivityBody) -> Handler:
    match body:
        case events.ActivityRequested():
            return on(body, handlers.attempt_requested)
        case events.ActivityCompleted():
            return on(body, handlers.attempt_completed)
        case events.ActivityFailed():
            return on(body, handlers.attempt_failed)
        case events.ActivityAsked():
            return on(body, handlers.attempt_asked)
        case events.ActivityOutcomeUnknown():
            return on(body, handlers.outcome_unknown)
        case events.ActivityRetried():
            return on(body, handlers.retried)
        case events.ActivityLeased():
            return nothing
        case _:
            assert_never(body)


def _question_handler(body: QuestionBody) -> Handler:
    match body:
        case events.InterruptRaised():
            return on(body, handlers.asked)
        case commands.ResumeInterrupt():
            return on(body, handlers.answered)
        case events.InterruptResumed():
            return on(body, handlers.attempt_resumed)
        case commands.RaiseInterrupt() | events.InterruptVoted() | events.InterruptEscalated():
            return nothing
        case _:
            assert_never(body)


def _timer_handler(body: TimerBody) -> Handler:
    match body:
        case events.TimerStarted():
            return on(body, handlers.timer_started)
        case events.TimerFired():
            return on(body, handlers.timer_fired)
        case commands.StartTimer():
            return nothing
        case _:
            assert_never(body)


def _signal_handler(body: SignalBody) -> Handler:
    match body:
        case events.SignalWaitStarted():
            return on(body, handlers.signal_awaited)
        case commands.DeliverSignal():
            return on(body, handlers.signal_delivered)
        case (
            commands.StartSignalWait()
            | commands.EmitSignal()
            | events.SignalReceived()
            | events.SignalBuffered()
            | events.SignalEmitted()
        ):
            return nothing
        case _:
            assert_never(body)


def _scope_handler(body: ScopeBody) -> Handler:
    match body:
        case events.ParallelForked() | events.ForEachStarted() | events.LoopStarted():
            return on(body, handlers.fanned_out)
        case events.ScopeOpened():
            return on(body, handlers.scope_opened)
        case events.ScopeCompleted():
            return on(body, handlers.scope_completed)
        case events.ScopeFailed():
            return on(body, handlers.scope_failed)
        case commands.CancelParallelBranch():
            return on(body, handlers.branch_cancelled)
        case (
            commands.StartParallel()
            | commands.JoinParallel()
            | events.ParallelJoined()
            | events.ParallelBranchCancelled()
        ):
            return nothing
        case _:
            assert_never(body)


def _child_run_handler(body: ChildRunBody) -> Handler:
    match body:
        case commands.StartSubworkflow():
            return on(body, handlers.child_requested)
        case events.SubworkflowStarted():
            return on(body, handlers.child_started)
        case events.SubworkflowCompleted():
            return on(body, handlers.child_ended)
        case commands.CompleteSubworkflow():
            return nothing
        case _:
            assert_never(body)
