"""How each record changes the visits of its run.

Above it: `fold`, which maps record types to these handlers. Below it: `model`. A record about a visit that is unknown
or over changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import UNSET

from penstock.definitions.model import NodeType
from penstock.engine.records import Body, Record, VisitBody, commands, events, given
from penstock.engine.transitions import RUN_TRANSITIONS
from penstock.engine.visits.model import (
    FanOut,
    NodeVisits,
    RunEnd,
    RunVisits,
    Visit,
    VisitError,
    VisitScope,
    VisitStatus,
    Wait,
    WaitCause,
    WaitKind,
)

__all__ = ["Handler", "nothing", "on"]

# Looking up an enum member costs several times as much as a module-level name, and there are many lookups.
_RUNNING: Final = VisitStatus.RUNNING
_WAITING: Final = VisitStatus.WAITING
_RETRYING: Final = VisitStatus.RETRYING
_COMPLETED: Final = VisitStatus.COMPLETED
_FAILED: Final = VisitStatus.FAILED
_CANCELLED: Final = VisitStatus.CANCELLED
_ACTIVITY: Final = WaitKind.ACTIVITY
_HTTP: Final = str(NodeType.HTTP)

B = TypeVar("B", bound=Body)
Handler: TypeAlias = Callable[[RunVisits, Record, Any], None]


def on(body: B, handler: Callable[[RunVisits, Record, B], None]) -> Handler:
    """Return the handler, typed to fit a body."""
    return handler


def nothing(draft: RunVisits, record: Record, body: Body) -> None:
    """Ignore a record that changes nothing about any visit."""


def _open_visit(draft: RunVisits, body: VisitBody) -> Visit | None:
    """Return the visit that a record is about, if it is not over; without a number, the newest of its node."""
    ordinal = body.visit
    if ordinal is None:
        node = draft.nodes.get(body.node_id)
        ordinal = 0 if node is None else node.visits
    return draft.open.get((body.node_id, ordinal))


def _continue_visit(visit: Visit, status: VisitStatus = _RUNNING) -> None:
    visit.status, visit.wait = status, None


def _wait(visit: Visit, kind: WaitKind, at: int, until: int | None, cause: WaitCause) -> None:
    visit.status, visit.wait = _WAITING, Wait(kind, at, until, cause)


def _failing_attempt(visit: Visit, record: Record, body: events.ActivityFailed | events.SubworkflowCompleted) -> None:
    """Record a failed attempt; if another follows, the visit waits for it."""
    visit.failures = (*visit.failures, VisitError(body.code, body.error))
    if body.will_retry:
        visit.status = _RETRYING
        visit.wait = Wait(WaitKind.RETRY, record.at, body.retry_at, body)
    else:
        _continue_visit(visit)


# --- the run -------------------------------------------------------------------------------------


def run_started(draft: RunVisits, record: Record, body: events.ExecutionStarted) -> None:
    """Begin the run at its root."""
    draft.run_id, draft.begun_at = body.execution_id, record.at
    draft.mode = body.activity_execution_mode or draft.mode
    draft.status = RUN_TRANSITIONS[type(body)][1]
    draft.scopes[0] = VisitScope(0, begun_at=record.at)


def run_ended(draft: RunVisits, record: Record, body: RunEnd) -> None:
    """End the run and everything in progress."""
    draft.status, draft.end = RUN_TRANSITIONS[type(body)][1], body
    _drop_everything(draft, record)


def run_paused(draft: RunVisits, record: Record, body: commands.PauseExecution | events.ExecutionPaused) -> None:
    """Mark the run as paused."""
    draft.paused = True


def run_resumed(draft: RunVisits, record: Record, body: commands.ResumeExecution | events.ExecutionResumed) -> None:
    """Mark the run as resumed."""
    draft.paused = False


def run_cancelling(draft: RunVisits, record: Record, body: commands.CancelExecution) -> None:
    """Mark the run as being cancelled. A paused run ends like any other."""
    draft.ending, draft.paused = "cancelled", False


def run_failing(draft: RunVisits, record: Record, body: events.HistoryLimitReached) -> None:
    """Mark the run as failing."""
    draft.ending, draft.paused = "failed", False


def compensating(draft: RunVisits, record: Record, body: commands.StartCompensation) -> None:
    """Cancel everything in progress and open a separate root for the compensations."""
    _drop_everything(draft, record)
    draft.compensating = True
    serial = max(draft.scopes, default=-1) + 1
    draft.scopes[serial] = VisitScope(serial, begun_at=record.at)


def _drop_everything(draft: RunVisits, record: Record) -> None:
    for visit in draft.open.values():
        _end_visit(visit, _CANCELLED, record)
    for opened in draft.open_scopes.values():
        for serial in opened.values():
            _end_scope(draft.scopes[serial], _CANCELLED, record)
    draft.open.clear()
    draft.open_scopes.clear()


# --- the walk ------------------------------------------------------------------------------------


def visit_begun(draft: RunVisits, record: Record, body: commands.ScheduleNode) -> None:
    """Begin a visit of a node."""
    node_id, scope = body.node_id, draft.scopes.get(body.scope)
    if scope is None:
        scope = draft.scopes[body.scope] = VisitScope(body.scope, begun_at=record.at)
    node = draft.nodes.get(node_id)
    if node is None:
        node = draft.nodes[node_id] = NodeVisits()
    node.visits += 1
    node.attempts, node.status, node.begun_at = 0, _RUNNING, record.at
    node.ended_at = node.code = node.error = None
    visit = Visit(node_id, node.visits, body.scope, record.seq, record.at)
    key = (node_id, node.visits)
    draft.visits[key] = draft.open[key] = visit
    scope.visits.append(key)


def visit_completed(draft: RunVisits, record: Record, body: commands.CompleteNode) -> None:
    """Complete a visit."""
    visit = _open_visit(draft, body)
    if visit is None:
        return
    _ended(draft, visit, _COMPLETED, record)
    visit.next = body.next
    if body.timed_out:
        visit.timed_out = True
    if body.fallback is not None:
        visit.fallback = str(body.fallback.get("code"))
    node = draft.nodes[visit.node_id]
    node.status, node.ended_at, node.code, node.error = _COMPLETED, record.at, None, None


def visit_failed(draft: RunVisits, record: Record, body: commands.FailNode) -> None:
    """Fail a visit. If a limit ends the run, the visit may already have completed."""
    visit = draft.visit(body.node_id, body.visit)
    if visit is None:
        return
    _ended(draft, visit, _FAILED, record)
    visit.error, visit.routed, visit.next = (
        VisitError(body.code, body.message),
        body.next is not UNSET,
        given(body.next),
    )
    node = draft.nodes[visit.node_id]
    node.status, node.ended_at = _FAILED, record.at
    node.code, node.error = body.code or node.code, body.message or node.error
    ends_the_run = body.fatal or draft.scopes[visit.scope].owner is None
    if ends_the_run and not visit.routed and not draft.compensating and draft.ending is None:
        draft.ending = "failed"


def checkpointed(draft: RunVisits, record: Record, body: events.CheckpointWritten) -> None:
    """Open a question that waited for its checkpoint."""
    visit = _open_visit(draft, body)
    if visit is not None and visit.wait is not None and visit.wait.kind.is_question:
        visit.status = _WAITING


def _ended(draft: RunVisits, visit: Visit, status: VisitStatus, record: Record) -> None:
    _drop_bodies(draft, visit, record)
    _end_visit(visit, status, record)
    draft.open.pop((visit.node_id, visit.ordinal), None)


def _end_visit(visit: Visit, status: VisitStatus, record: Record) -> None:
    visit.status, visit.wait = status, None
    visit.ended_seq, visit.ended_at = record.seq, record.at


# --- activities ----------------------------------------------------------------------------------


def attempt_requested(draft: RunVisits, record: Record, body: events.ActivityRequested) -> None:
    """Begin an attempt: work waits for an executor."""
    visit = _open_visit(draft, body)
    if visit is None:
        return
    visit.attempts = visit.attempts + 1 if body.attempt is None else body.attempt
    visit.status, visit.wait = _RUNNING, Wait(_ACTIVITY, record.at, body.deadline)
    if body.node_type == _HTTP and isinstance(body.arguments, dict):
        url = body.arguments.get("url")
        visit.url = url if isinstance(url, str) else None
    draft.nodes[visit.node_id].attempts = visit.attempts


def attempt_completed(draft: RunVisits, record: Record, body: events.ActivityCompleted) -> None:
    """Complete an attempt."""
    if body.usage is not None:
        draft.usage.append(body.usage)
    visit = _open_visit(draft, body)
    if visit is not None:
        visit.status, visit.wait = _RUNNING, None


def attempt_failed(draft: RunVisits, record: Record, body: events.ActivityFailed) -> None:
    """Record a failed attempt."""
    if body.usage is not None:
        draft.usage.append(body.usage)
    visit = _open_visit(draft, body)
    if visit is not None:
        _failing_attempt(visit, record, body)
    _node_failing(draft, body)


def _node_failing(draft: RunVisits, body: events.ActivityFailed | events.SubworkflowCompleted) -> None:
    node = draft.nodes.get(body.node_id)
    if node is not None and isinstance(body.error, str):
        node.code, node.error = body.code, body.error


def attempt_asked(draft: RunVisits, record: Record, body: events.ActivityAsked) -> None:
    """Wait for a person's answer, which the attempt needs to continue."""
    visit = _open_visit(draft, body)
    if visit is not None:
        _wait(visit, WaitKind.INPUT, record.at, body.deadline, body)


def outcome_unknown(draft: RunVisits, record: Record, body: events.ActivityOutcomeUnknown) -> None:
    """Wait for a person's decision about the unknown outcome."""
    visit = _open_visit(draft, body)
    if visit is not None:
        _wait(visit, WaitKind.DECISION, record.at, None, body)


def retried(draft: RunVisits, record: Record, body: events.ActivityRetried) -> None:
    """Retry, because a person decided so."""
    visit = _open_visit(draft, body)
    if visit is not None:
        _continue_visit(visit, _RETRYING)


# --- waiting -------------------------------------------------------------------------------------


def asked(draft: RunVisits, record: Record, body: events.InterruptRaised) -> None:
    """Ask a person. If a checkpoint must be written first, the question opens after it."""
    visit = _open_visit(draft, body)
    if visit is None:
        return
    kind = WaitKind.INPUT if body.approvers is None else WaitKind.APPROVAL
    _wait(visit, kind, record.at, body.deadline, body)
    if body.checkpoint:
        visit.status = _RUNNING


def answered(draft: RunVisits, record: Record, body: commands.ResumeInterrupt) -> None:
    """Record the answer to a question."""
    visit = _open_visit(draft, body)
    if visit is not None:
        visit.answer = body
        _continue_visit(visit)


def attempt_resumed(draft: RunVisits, record: Record, body: events.InterruptResumed) -> None:
    """Continue an activity that asked. A node that asked performs no work."""
    visit = _open_visit(draft, body)
    if visit is not None and visit.attempts:
        visit.wait = Wait(_ACTIVITY, record.at, body.deadline)


def timer_started(draft: RunVisits, record: Record, body: events.TimerStarted) -> None:
    """Sleep, unless the timer is already due."""
    visit = _open_visit(draft, body)
    if visit is not None and (body.deadline is None or body.deadline > record.at):
        _wait(visit, WaitKind.TIMER, record.at, body.deadline, body)


def timer_fired(draft: RunVisits, record: Record, body: events.TimerFired) -> None:
    """End a sleep, a back-off or a timeout. The timeout of the run makes the whole run fail."""
    if body.kind == "run":
        draft.ending = draft.ending or "failed"
        return
    visit = _open_visit(draft, body)
    if visit is None:
        return
    _continue_visit(visit, _RETRYING if body.kind == "retry" else _RUNNING)
    if body.kind == "timeout":
        _drop_bodies(draft, visit, record)


def signal_awaited(draft: RunVisits, record: Record, body: events.SignalWaitStarted) -> None:
    """Wait for a signal."""
    visit = _open_visit(draft, body)
    if visit is not None:
        _wait(visit, WaitKind.SIGNAL, record.at, body.deadline, body)


def signal_delivered(draft: RunVisits, record: Record, body: commands.DeliverSignal) -> None:
    """Receive the signal."""
    visit = _open_visit(draft, body)
    if visit is not None:
        visit.signal = body.signal_name
        _continue_visit(visit)


# --- branches, items and rounds ------------------------------------------------------------------


def fanned_out(draft: RunVisits, record: Record, body: FanOut) -> None:
    """Allow branches, items or rounds to begin."""
    visit = _open_visit(draft, body)
    if visit is not None:
        visit.fan_out = body


def scope_opened(draft: RunVisits, record: Record, body: events.ScopeOpened) -> None:
    """Begin a branch, item or round."""
    visit = _open_visit(draft, body)
    if visit is None or body.scope is None:
        return
    key, index = (visit.node_id, visit.ordinal), body.index or 0
    draft.scopes[body.scope] = VisitScope(body.scope, key, index, body.branch_name, record.at)
    draft.open_scopes.setdefault(key, {})[index] = body.scope
    draft.bodies.setdefault(key, []).append(body.scope)


def scope_completed(draft: RunVisits, record: Record, body: events.ScopeCompleted) -> None:
    """Complete a branch, item or round."""
    _close(draft, record, body, _COMPLETED)


def scope_failed(draft: RunVisits, record: Record, body: events.ScopeFailed) -> None:
    """Fail a branch, item or round."""
    scope = _close(draft, record, body, _FAILED)
    if scope is not None:
        scope.error = VisitError(body.code, body.error)


def branch_cancelled(draft: RunVisits, record: Record, body: commands.CancelParallelBranch) -> None:
    """Cancel a branch that is no longer needed."""
    _close(draft, record, body, _CANCELLED)


def _close(
    draft: RunVisits,
    record: Record,
    body: events.ScopeCompleted | events.ScopeFailed | commands.CancelParallelBranch,
    status: VisitStatus,
) -> VisitScope | None:
    visit = _open_visit(draft, body)
    opened = None if visit is None else draft.open_scopes.get((visit.node_id, visit.ordinal))
    serial = None if opened is None else opened.pop(body.index or 0, None)
    if serial is None:
        return None
    scope = draft.scopes[serial]
    _drop_current(draft, scope, record)
    _end_scope(scope, status, record)
    return scope


def _end_scope(scope: VisitScope, status: VisitStatus, record: Record) -> None:
    scope.status, scope.ended_at = status, record.at


def _drop_bodies(draft: RunVisits, visit: Visit, record: Record) -> None:
    """Cancel what is still open inside a visit that continues without it."""
    opened = None if visit.fan_out is None else draft.open_scopes.pop(visit.key, None)
    for serial in () if opened is None else opened.values():
        scope = draft.scopes[serial]
        _drop_current(draft, scope, record)
        _end_scope(scope, _CANCELLED, record)


def _drop_current(draft: RunVisits, scope: VisitScope, record: Record) -> None:
    """Cancel the current visit of a scope, which is always its last one and would never end by itself."""
    visit = draft.open.pop(scope.visits[-1], None) if scope.visits else None
    if visit is not None:
        _drop_bodies(draft, visit, record)
        _end_visit(visit, _CANCELLED, record)


# --- child runs ----------------------------------------------------------------------------------


def child_requested(draft: RunVisits, record: Record, body: commands.StartSubworkflow) -> None:
    """Begin an attempt to start a child run."""
    visit = _open_visit(draft, body)
    if visit is not None:
        visit.attempts += 1
        draft.nodes[visit.node_id].attempts += 1
        _continue_visit(visit)


def child_started(draft: RunVisits, record: Record, body: events.SubworkflowStarted) -> None:
    """Wait for the child run."""
    visit = _open_visit(draft, body)
    if visit is not None:
        visit.child_run_id, visit.child_workflow = body.child_execution_id, body.workflow_ref
        _wait(visit, WaitKind.CHILD, record.at, body.deadline, body)


def child_ended(draft: RunVisits, record: Record, body: events.SubworkflowCompleted) -> None:
    """End the child run. A visit that no longer waits for it is not changed, but its node records the error."""
    _node_failing(draft, body)
    visit = _open_visit(draft, body)
    if visit is None or visit.child_run_id != body.child_execution_id:
        return
    if body.failed:
        _failing_attempt(visit, record, body)
    else:
        _continue_visit(visit)
