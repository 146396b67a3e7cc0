"""A run as a tree of visits, folded from its records: what the live view and the reports of runs show.

A visit is one time that the run came to a node. Nodes with bodies have scopes under them (branches, items, rounds), and
scopes have visits. The tree grows record by record; times are those of the records.

Above it: `run_lines` draws it, `following` feeds it. Below it: records. It neither prints nor reads a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import UNSET

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import ActivityDetail, Node, Workflow
from penstock.engine.questions import interrupt_id_of
from penstock.engine.records import Body, Record, commands, events, given
from penstock.engine.state import COMPENSATION_PREFIX

__all__ = ["Mark", "Question", "RunView", "ScopeView", "VisitView", "Wait", "WaitKind", "called"]

_NAMING_FIELDS = ("server", "tool", "handler", "method", "url", "model", "agent_id")


class Mark(StrEnum):
    """How a visit, a scope or a run stands."""

    GOING = "going"
    WAITING = "waiting"
    RETRYING = "retrying"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"


class WaitKind(StrEnum):
    """Whom or what a visit waits for."""

    PERSON = "person"
    DECISION = "decision"
    SIGNAL = "signal"
    TIMER = "timer"
    RETRY = "retry"
    CHILD = "child"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a visit waits for, since when, and when that ends by itself."""

    kind: WaitKind
    text: str
    since: int
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a person that is open."""

    run_id: str
    node_id: str
    visit: int
    prompt: str
    schema: JsonObject
    since: int
    interrupt_id: str
    deadline: int | None = None
    approvers: JsonObject | None = None
    decline: JsonValue = None
    """The answer that it is to decline, if the document says."""

    @property
    def key(self) -> tuple[str, str]:
        """What tells one question from another."""
        return self.run_id, self.interrupt_id


@dataclass(slots=True, kw_only=True)
class VisitView:
    """One visit of one node."""

    node_id: str
    visit: int
    node_type: str
    called: str
    began_at: int
    scope: int = 0
    mark: Mark = Mark.GOING
    ended_at: int | None = None
    attempt: int = 0
    at_work: bool = False  # an attempt was asked for and has not come back
    attempts_max: int = 1
    failures: list[str] = field(default_factory=list)  # codes of attempts that failed
    note: str = ""
    wait: Wait | None = None
    question: Question | None = None
    child_id: str | None = None
    items: list[JsonValue] = field(default_factory=list)
    total: int | None = None  # how many items, branches or rounds there can be
    scopes: list[int] = field(default_factory=list)
    output: JsonValue = None

    @property
    def open(self) -> bool:
        """True while the visit is not over."""
        return self.ended_at is None


@dataclass(slots=True, kw_only=True)
class ScopeView:
    """One branch, item or round."""

    serial: int
    owner: tuple[str, int]
    index: int
    name: str = ""
    began_at: int = 0
    mark: Mark = Mark.GOING
    ended_at: int | None = None
    note: str = ""
    visits: list[tuple[str, int]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class RunView:
    """The whole run."""

    workflow: Workflow
    run_id: str = ""
    seq: int = 0
    mode: str = "in_process"
    began_at: int = 0
    updated_at: int = 0
    mark: Mark = Mark.GOING
    paused: bool = False
    ending: bool = False
    result: JsonValue = None
    error: JsonObject | None = None
    cancel_reason: str | None = None
    continued_as: str | None = None  # the run that goes on in place of this one
    visits: dict[tuple[str, int], VisitView] = field(default_factory=dict)
    scopes: dict[int, ScopeView] = field(default_factory=lambda: {0: ScopeView(serial=0, owner=("", 0), index=0)})

    @property
    def ended(self) -> bool:
        """True when nothing can happen any more."""
        return self.mark in (Mark.DONE, Mark.FAILED, Mark.DROPPED)

    def take(self, records: Iterable[Record]) -> None:
        """Fold the next records in."""
        for record in records:
            self.seq, self.updated_at = record.seq, record.at
            kind = record.body_type
            handler = None if kind is None else _HANDLERS.get(kind)
            if handler is not None:
                handler(self, record.body, record.at)

    def open_visits(self) -> Iterator[VisitView]:
        """Visits that are not over and have no open visits inside of them."""
        return (visit for visit in self.visits.values() if visit.open and not self._has_open_bodies(visit))

    def _has_open_bodies(self, visit: VisitView) -> bool:
        return any(self.scopes[serial].ended_at is None for serial in visit.scopes)

    def questions(self) -> list[Question]:
        """The questions that are open, oldest first."""
        return [visit.question for visit in self.visits.values() if visit.open and visit.question is not None]

    def children(self) -> list[str]:
        """The child runs that were started, oldest first."""
        return [visit.child_id for visit in self.visits.values() if visit.child_id is not None]


def called(node: Node, *, undo: bool = False) -> str:
    """What an activity calls, in a few words: `shop.get_order`, `shop.payments:refund`."""
    detail = node.detail
    if not isinstance(detail, ActivityDetail):
        return ""
    config = detail.compensate.config if undo and detail.compensate is not None else detail.config
    named = [str(config[name]) for name in _NAMING_FIELDS if isinstance(config.get(name), str)]
    separator = "." if "tool" in config else " "
    return separator.join(named)


# --- handlers ------------------------------------------------------------------------------------


def _text(value: JsonValue) -> str:
    return "" if value is None else str(value)


def _failure(code: str | None, message: JsonValue) -> str:
    """A failure by its code and its message; a message that only repeats the code is left out."""
    code, told = code or "FAILED", _text(message)
    return code if told in ("", code) else f"{code}: {told}"


def _started(view: RunView, body: events.ExecutionStarted, at: int) -> None:
    view.run_id = body.execution_id
    view.mode = body.activity_execution_mode or "in_process"
    view.began_at = at


def _scheduled(view: RunView, body: commands.ScheduleNode, at: int) -> None:
    node_id, number = body.node_id, body.visit or 0
    undo = node_id.startswith(COMPENSATION_PREFIX)
    node = view.workflow.nodes.get(node_id.removeprefix(COMPENSATION_PREFIX))
    scope = 0 if undo else body.scope
    detail = node.detail if node is not None else None
    retry = node.retry if node is not None else None
    if undo and isinstance(detail, ActivityDetail) and detail.compensate is not None:
        retry = detail.compensate.retry
    view.visits[node_id, number] = VisitView(
        node_id=node_id,
        visit=number,
        node_type=str(node.type) if node is not None else "",
        called="" if node is None else called(node, undo=undo),
        began_at=at,
        scope=scope,
        attempts_max=retry.max_attempts if retry is not None else 1,
    )
    if scope in view.scopes:
        view.scopes[scope].visits.append((node_id, number))


def _requested(view: RunView, visit: VisitView, body: events.ActivityRequested, at: int) -> None:
    visit.attempt = body.attempt or 1
    visit.mark, visit.wait, visit.at_work = Mark.GOING, None, True
    arguments = body.arguments
    if visit.node_type == "http" and isinstance(arguments, dict) and isinstance(arguments.get("url"), str):
        # The document has only its template.
        visit.called = str(arguments["url"])


def _attempt_failed(
    view: RunView, visit: VisitView, body: events.ActivityFailed | events.SubworkflowCompleted, at: int
) -> None:
    visit.failures.append(body.code or "FAILED")
    visit.at_work = False
    if body.will_retry:
        visit.mark = Mark.RETRYING
        text = _failure(body.code, body.error)
        visit.wait = Wait(kind=WaitKind.RETRY, text=text, since=at, until=body.retry_at)


def _outcome_unknown(view: RunView, visit: VisitView, body: events.ActivityOutcomeUnknown, at: int) -> None:
    visit.mark = Mark.WAITING
    visit.at_work = False
    told = "the outcome is unknown: retry it, or report what came of it"
    visit.wait = Wait(kind=WaitKind.DECISION, text=told, since=at)


def _going(view: RunView, visit: VisitView, body: Body, at: int) -> None:
    visit.mark, visit.wait, visit.at_work = Mark.GOING, None, False


def _raised(view: RunView, visit: VisitView, body: events.InterruptRaised, at: int) -> None:
    _ask(view, visit, body, _text(body.prompt) or _text(body.prompt_ref), at)
    if visit.question is not None:
        approvers = body.approvers if isinstance(body.approvers, dict) else None
        visit.question = replace(visit.question, approvers=approvers, decline=body.decline)


def _asked(view: RunView, visit: VisitView, body: events.ActivityAsked, at: int) -> None:
    _ask(view, visit, body, _text(body.prompt), at)


def _ask(
    view: RunView, visit: VisitView, body: events.InterruptRaised | events.ActivityAsked, prompt: str, at: int
) -> None:
    visit.mark, visit.at_work = Mark.WAITING, False
    visit.wait = Wait(kind=WaitKind.PERSON, text=prompt, since=at, until=body.deadline)
    visit.question = Question(
        run_id=view.run_id,
        node_id=visit.node_id,
        visit=visit.visit,
        prompt=prompt,
        schema=body.answer_schema if isinstance(body.answer_schema, dict) else {},
        since=at,
        interrupt_id=body.interrupt_id or interrupt_id_of(visit.node_id, visit.visit),
        deadline=body.deadline,
    )


def _answered(view: RunView, visit: VisitView, body: commands.ResumeInterrupt, at: int) -> None:
    noted = f" (note: {body.note})" if body.note else ""
    visit.note = (f"answered by {body.answered_by}" if body.answered_by else "answered") + noted
    visit.output = given(body.answer)
    visit.mark, visit.wait, visit.question = Mark.GOING, None, None
    visit.at_work = visit.node_type != "interrupt"  # an activity that asked goes on


def _sleeping(view: RunView, visit: VisitView, body: events.TimerStarted, at: int) -> None:
    visit.mark = Mark.WAITING
    visit.wait = Wait(kind=WaitKind.TIMER, text="time to pass", since=at, until=body.deadline)


def _awaits_signal(view: RunView, visit: VisitView, body: events.SignalWaitStarted, at: int) -> None:
    visit.mark = Mark.WAITING
    visit.wait = Wait(kind=WaitKind.SIGNAL, text=_text(body.signal_name), since=at, until=body.deadline)


def _signalled(view: RunView, visit: VisitView, body: events.SignalReceived, at: int) -> None:
    visit.note = f"signal {_text(body.signal_name)}"
    visit.mark, visit.wait = Mark.GOING, None


def _forked(view: RunView, visit: VisitView, body: events.ParallelForked, at: int) -> None:
    visit.total = len(body.branch_names) if isinstance(body.branch_names, list) else 0


def _items(view: RunView, visit: VisitView, body: events.ForEachStarted, at: int) -> None:
    visit.items = body.items if isinstance(body.items, list) else []
    visit.total = len(visit.items)


def _rounds(view: RunView, visit: VisitView, body: events.LoopStarted, at: int) -> None:
    visit.total = body.max_iterations


def _scope_opened(view: RunView, visit: VisitView, body: events.ScopeOpened, at: int) -> None:
    serial = body.scope
    if serial is None:
        return
    owner, name = (visit.node_id, visit.visit), _text(body.branch_name)
    view.scopes[serial] = ScopeView(
        serial=serial, owner=owner, index=body.index or 0, name=name, began_at=at, visits=[]
    )
    visit.scopes.append(serial)


def _scope_completed(view: RunView, visit: VisitView, body: events.ScopeCompleted, at: int) -> None:
    _close(view, visit, body.index, Mark.DONE, at)


def _scope_failed(view: RunView, visit: VisitView, body: events.ScopeFailed, at: int) -> None:
    _close(view, visit, body.index, Mark.FAILED, at, _failure(body.code, body.error))


def _scope_dropped(view: RunView, visit: VisitView, body: events.ParallelBranchCancelled, at: int) -> None:
    _close(view, visit, body.index, Mark.DROPPED, at)


def _close(view: RunView, visit: VisitView, index: int | None, mark: Mark, at: int, note: str = "") -> None:
    for serial in reversed(visit.scopes):
        scope = view.scopes[serial]
        if scope.index == index and scope.ended_at is None:
            scope.mark, scope.ended_at, scope.note = mark, at, note
            _drop(view, scope, at)
            return


def _drop(view: RunView, scope: ScopeView, at: int) -> None:
    """What is still open inside of a scope that is closed will never end by itself."""
    for key in scope.visits:
        visit = view.visits[key]
        if visit.open:
            _end(visit, Mark.DROPPED, at)
        for serial in visit.scopes:
            inner = view.scopes[serial]
            if inner.ended_at is None:
                inner.mark, inner.ended_at = Mark.DROPPED, at
                _drop(view, inner, at)


def _child_started(view: RunView, visit: VisitView, body: events.SubworkflowStarted, at: int) -> None:
    visit.attempt += 1
    visit.child_id = _text(body.child_execution_id)
    visit.called = _text(body.workflow_ref)
    visit.mark = Mark.GOING
    visit.wait = Wait(kind=WaitKind.CHILD, text=visit.child_id, since=at, until=body.deadline)


def _child_ended(view: RunView, visit: VisitView, body: events.SubworkflowCompleted, at: int) -> None:
    visit.wait = None
    if body.failed:
        _attempt_failed(view, visit, body, at)


def _end(visit: VisitView, mark: Mark, at: int) -> None:
    visit.mark, visit.ended_at, visit.wait, visit.question, visit.at_work = mark, at, None, None, False


def _completed(view: RunView, visit: VisitView, body: commands.CompleteNode, at: int) -> None:
    _end(visit, Mark.DONE, at)
    if visit.node_type != "interrupt":
        visit.output = body.output
    if visit.node_type == "switch":
        visit.note = f"→ {body.next or 'end of body'}"
    elif body.timed_out:
        visit.note = "timed out"
    elif body.fallback is not None:
        visit.note = f"fallback after {body.fallback.get('code')}"


def _failed(view: RunView, visit: VisitView, body: commands.FailNode, at: int) -> None:
    _end(visit, Mark.FAILED, at)
    route = "" if body.next is UNSET else f" → {body.next or 'end of body'}"
    visit.note = _failure(body.code, body.message) + route


def _paused(view: RunView, body: events.ExecutionPaused, at: int) -> None:
    view.paused = True


def _resumed(view: RunView, body: events.ExecutionResumed, at: int) -> None:
    view.paused = False


def _cancelling(view: RunView, body: commands.CancelExecution, at: int) -> None:
    view.ending, view.paused = True, False


def _compensating(view: RunView, body: commands.StartCompensation, at: int) -> None:
    view.ending, view.paused = True, False
    _drop(view, view.scopes[0], at)


def _run_completed(view: RunView, body: events.ExecutionCompleted, at: int) -> None:
    view.mark, view.result = Mark.DONE, body.result
    _drop(view, view.scopes[0], at)


def _run_continued(view: RunView, body: events.ExecutionContinued, at: int) -> None:
    view.mark, view.continued_as = Mark.DONE, _text(body.successor_execution_id)
    _drop(view, view.scopes[0], at)


def _run_failed(view: RunView, body: events.ExecutionFailed, at: int) -> None:
    view.mark = Mark.FAILED
    view.error = {"code": body.code, "message": body.error, "node": body.node_id}
    _drop(view, view.scopes[0], at)


def _run_cancelled(view: RunView, body: events.ExecutionCancelled, at: int) -> None:
    view.mark, view.cancel_reason = Mark.DROPPED, body.reason or None
    _drop(view, view.scopes[0], at)


_Handler = Callable[[RunView, Any, int], None]
B = TypeVar("B", bound=Body)


def _of_run(kind: type[B], change: Callable[[RunView, B, int], None]) -> tuple[type[Body], _Handler]:
    return kind, change


def _of_visit(kind: type[B], change: Callable[[RunView, VisitView, B, int], None]) -> tuple[type[Body], _Handler]:
    """A handler for records that are about a visit; records about none that is known are let pass."""

    def handle(view: RunView, body: B, at: int) -> None:
        visit = view.visits.get((getattr(body, "node_id", ""), getattr(body, "visit", None) or 0))
        if visit is not None:
            change(view, visit, body, at)

    return kind, handle


_HANDLERS: dict[type[Body], _Handler] = dict(
    (
        _of_run(events.ExecutionStarted, _started),
        _of_run(commands.ScheduleNode, _scheduled),
        _of_visit(events.ActivityRequested, _requested),
        _of_visit(events.ActivityFailed, _attempt_failed),
        _of_visit(events.ActivityOutcomeUnknown, _outcome_unknown),
        _of_visit(events.ActivityRetried, _going),
        _of_visit(events.ActivityCompleted, _going),
        _of_visit(events.InterruptRaised, _raised),
        _of_visit(events.ActivityAsked, _asked),
        _of_visit(commands.ResumeInterrupt, _answered),
        _of_visit(events.TimerStarted, _sleeping),
        _of_visit(events.TimerFired, _going),
        _of_visit(events.SignalWaitStarted, _awaits_signal),
        _of_visit(events.SignalReceived, _signalled),
        _of_visit(events.ParallelForked, _forked),
        _of_visit(events.ForEachStarted, _items),
        _of_visit(events.LoopStarted, _rounds),
        _of_visit(events.ScopeOpened, _scope_opened),
        _of_visit(events.ScopeCompleted, _scope_completed),
        _of_visit(events.ScopeFailed, _scope_failed),
        _of_visit(events.ParallelBranchCancelled, _scope_dropped),
        _of_visit(events.SubworkflowStarted, _child_started),
        _of_visit(events.SubworkflowCompleted, _child_ended),
        _of_visit(commands.CompleteNode, _completed),
        _of_visit(commands.FailNode, _failed),
        _of_run(commands.CancelExecution, _cancelling),
        _of_run(commands.StartCompensation, _compensating),
        _of_run(events.ExecutionPaused, _paused),
        _of_run(events.ExecutionResumed, _resumed),
        _of_run(events.ExecutionCompleted, _run_completed),
        _of_run(events.ExecutionContinued, _run_continued),
        _of_run(events.ExecutionFailed, _run_failed),
        _of_run(events.ExecutionCancelled, _run_cancelled),
    )
)
