"""A run as a tree of visits, folded from its records: what the live view and the reports of runs show.

A visit is one time that the run came to a node. Nodes with bodies have scopes under them (branches, items, rounds), and
scopes have visits. The tree grows record by record; times are those of the records.

Above it: `run_lines` draws it, `following` feeds it. Below it: records. It neither prints nor reads a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import ActivityDetail, Node, Workflow
from penstock.engine.questions import interrupt_id_of
from penstock.engine.records import Record
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
            handler = _HANDLERS.get(record.name)
            if handler is not None:
                handler(self, record)

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


def _key(record: Record) -> tuple[str, int]:
    visit = record.payload.get("visit")
    return str(record.payload.get("nodeId", "")), visit if isinstance(visit, int) else 0


def _text(value: JsonValue) -> str:
    return "" if value is None else str(value)


def _whole(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _failure(payload: JsonObject, key: str = "error") -> str:
    """A failure by its code and its message; a message that only repeats the code is left out."""
    code, message = _text(payload.get("code")) or "FAILED", _text(payload.get(key))
    return code if message in ("", code) else f"{code}: {message}"


def _started(view: RunView, record: Record) -> None:
    view.run_id = str(record.payload.get("executionId", ""))
    view.mode = str(record.payload.get("activityExecutionMode", "in_process"))
    view.began_at = record.at


def _scheduled(view: RunView, record: Record) -> None:
    node_id, number = _key(record)
    undo = node_id.startswith(COMPENSATION_PREFIX)
    node = view.workflow.nodes.get(node_id.removeprefix(COMPENSATION_PREFIX))
    scope = 0 if undo else _whole(record.payload.get("scope")) or 0
    detail = node.detail if node is not None else None
    retry = node.retry if node is not None else None
    if undo and isinstance(detail, ActivityDetail) and detail.compensate is not None:
        retry = detail.compensate.retry
    view.visits[node_id, number] = VisitView(
        node_id=node_id,
        visit=number,
        node_type=str(node.type) if node is not None else "",
        called="" if node is None else called(node, undo=undo),
        began_at=record.at,
        scope=scope,
        attempts_max=retry.max_attempts if retry is not None else 1,
    )
    if scope in view.scopes:
        view.scopes[scope].visits.append((node_id, number))


_Change = Callable[[RunView, VisitView, Record], None]


def _of_visit(change: _Change) -> Callable[[RunView, Record], None]:
    """A handler for records that are about a visit; records about none that is known are let pass."""

    def handle(view: RunView, record: Record) -> None:
        visit = view.visits.get(_key(record))
        if visit is not None:
            change(view, visit, record)

    return handle


def _requested(view: RunView, visit: VisitView, record: Record) -> None:
    visit.attempt = _whole(record.payload.get("attempt")) or 1
    visit.mark, visit.wait, visit.at_work = Mark.GOING, None, True
    arguments = record.payload.get("arguments")
    if visit.node_type == "http" and isinstance(arguments, dict) and isinstance(arguments.get("url"), str):
        # The document has only its template.
        visit.called = str(arguments["url"])


def _attempt_failed(view: RunView, visit: VisitView, record: Record) -> None:
    visit.failures.append(_text(record.payload.get("code")) or "FAILED")
    visit.at_work = False
    if record.payload.get("willRetry") is True:
        visit.mark = Mark.RETRYING
        until = _whole(record.payload.get("retryAt"))
        visit.wait = Wait(kind=WaitKind.RETRY, text=_failure(record.payload), since=record.at, until=until)


def _outcome_unknown(view: RunView, visit: VisitView, record: Record) -> None:
    visit.mark = Mark.WAITING
    visit.at_work = False
    told = "the outcome is unknown: retry it, or report what came of it"
    visit.wait = Wait(kind=WaitKind.DECISION, text=told, since=record.at)


def _going(view: RunView, visit: VisitView, record: Record) -> None:
    visit.mark, visit.wait, visit.at_work = Mark.GOING, None, False


def _asked(view: RunView, visit: VisitView, record: Record) -> None:
    payload = record.payload
    prompt = _text(payload.get("prompt")) or _text(payload.get("promptRef"))
    schema, approvers = payload.get("answerSchema"), payload.get("approvers")
    deadline = _whole(payload.get("deadline"))
    visit.mark, visit.at_work = Mark.WAITING, False
    visit.wait = Wait(kind=WaitKind.PERSON, text=prompt, since=record.at, until=deadline)
    visit.question = Question(
        run_id=view.run_id,
        node_id=visit.node_id,
        visit=visit.visit,
        prompt=prompt,
        schema=schema if isinstance(schema, dict) else {},
        since=record.at,
        interrupt_id=_text(payload.get("interruptId")) or interrupt_id_of(visit.node_id, visit.visit),
        deadline=deadline,
        approvers=approvers if isinstance(approvers, dict) else None,
        decline=payload.get("decline"),
    )


def _answered(view: RunView, visit: VisitView, record: Record) -> None:
    by = _text(record.payload.get("answeredBy"))
    visit.note = f"answered by {by}" if by else "answered"
    visit.output = record.payload.get("answer")
    visit.mark, visit.wait, visit.question = Mark.GOING, None, None
    visit.at_work = visit.node_type != "interrupt"  # an activity that asked goes on


def _sleeping(view: RunView, visit: VisitView, record: Record) -> None:
    visit.mark = Mark.WAITING
    visit.wait = Wait(
        kind=WaitKind.TIMER, text="time to pass", since=record.at, until=_whole(record.payload.get("deadline"))
    )


def _awaits_signal(view: RunView, visit: VisitView, record: Record) -> None:
    visit.mark = Mark.WAITING
    name, until = _text(record.payload.get("signalName")), _whole(record.payload.get("deadline"))
    visit.wait = Wait(kind=WaitKind.SIGNAL, text=name, since=record.at, until=until)


def _signalled(view: RunView, visit: VisitView, record: Record) -> None:
    visit.note = f"signal {_text(record.payload.get('signalName'))}"
    visit.mark, visit.wait = Mark.GOING, None


def _forked(view: RunView, visit: VisitView, record: Record) -> None:
    names = record.payload.get("branchNames")
    visit.total = len(names) if isinstance(names, list) else 0


def _items(view: RunView, visit: VisitView, record: Record) -> None:
    items = record.payload.get("items")
    visit.items = items if isinstance(items, list) else []
    visit.total = len(visit.items)


def _rounds(view: RunView, visit: VisitView, record: Record) -> None:
    visit.total = _whole(record.payload.get("maxIterations"))


def _scope_opened(view: RunView, visit: VisitView, record: Record) -> None:
    serial, index = _whole(record.payload.get("scope")), _whole(record.payload.get("index"))
    if serial is None:
        return
    name = _text(record.payload.get("branchName"))
    view.scopes[serial] = ScopeView(
        serial=serial, owner=_key(record), index=index or 0, name=name, began_at=record.at, visits=[]
    )
    visit.scopes.append(serial)


def _scope_closed(mark: Mark) -> _Change:
    def change(view: RunView, visit: VisitView, record: Record) -> None:
        index = _whole(record.payload.get("index"))
        for serial in reversed(visit.scopes):
            scope = view.scopes[serial]
            if scope.index == index and scope.ended_at is None:
                scope.mark, scope.ended_at = mark, record.at
                scope.note = _failure(record.payload) if mark is Mark.FAILED else ""
                _drop(view, scope, record.at)
                return

    return change


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


def _child_started(view: RunView, visit: VisitView, record: Record) -> None:
    visit.attempt += 1
    visit.child_id = _text(record.payload.get("childExecutionId"))
    visit.called = _text(record.payload.get("workflowRef"))
    visit.mark = Mark.GOING
    visit.wait = Wait(
        kind=WaitKind.CHILD, text=visit.child_id, since=record.at, until=_whole(record.payload.get("deadline"))
    )


def _child_ended(view: RunView, visit: VisitView, record: Record) -> None:
    visit.wait = None
    if record.payload.get("failed") is True:
        _attempt_failed(view, visit, record)


def _end(visit: VisitView, mark: Mark, at: int) -> None:
    visit.mark, visit.ended_at, visit.wait, visit.question, visit.at_work = mark, at, None, None, False


def _completed(view: RunView, visit: VisitView, record: Record) -> None:
    _end(visit, Mark.DONE, record.at)
    payload = record.payload
    if visit.node_type != "interrupt":
        visit.output = payload.get("output")
    if visit.node_type == "switch":
        visit.note = f"→ {payload.get('next') or 'end of body'}"
    elif payload.get("timedOut"):
        visit.note = "timed out"
    elif isinstance(fallback := payload.get("fallback"), dict):
        visit.note = f"fallback after {fallback.get('code')}"


def _failed(view: RunView, visit: VisitView, record: Record) -> None:
    _end(visit, Mark.FAILED, record.at)
    route = f" → {record.payload['next'] or 'end of body'}" if "next" in record.payload else ""
    visit.note = _failure(record.payload, "message") + route


def _paused(view: RunView, record: Record) -> None:
    view.paused = record.name == "ExecutionPaused"


def _ending(view: RunView, record: Record) -> None:
    view.ending, view.paused = True, False
    if record.name == "StartCompensation":
        _drop(view, view.scopes[0], record.at)


def _run_completed(view: RunView, record: Record) -> None:
    view.mark, view.result = Mark.DONE, record.payload.get("result")
    _drop(view, view.scopes[0], record.at)


def _run_continued(view: RunView, record: Record) -> None:
    view.mark, view.continued_as = Mark.DONE, _text(record.payload.get("successorExecutionId"))
    _drop(view, view.scopes[0], record.at)


def _run_failed(view: RunView, record: Record) -> None:
    view.mark = Mark.FAILED
    payload = record.payload
    view.error = {"code": payload.get("code"), "message": payload.get("error"), "node": payload.get("nodeId")}
    _drop(view, view.scopes[0], record.at)


def _run_cancelled(view: RunView, record: Record) -> None:
    view.mark, view.cancel_reason = Mark.DROPPED, _text(record.payload.get("reason")) or None
    _drop(view, view.scopes[0], record.at)


_HANDLERS: dict[str, Callable[[RunView, Record], None]] = {
    "ExecutionStarted": _started,
    "ScheduleNode": _scheduled,
    "ActivityRequested": _of_visit(_requested),
    "ActivityFailed": _of_visit(_attempt_failed),
    "ActivityOutcomeUnknown": _of_visit(_outcome_unknown),
    "ActivityRetried": _of_visit(_going),
    "ActivityCompleted": _of_visit(_going),
    "InterruptRaised": _of_visit(_asked),
    "ActivityAsked": _of_visit(_asked),
    "ResumeInterrupt": _of_visit(_answered),
    "TimerStarted": _of_visit(_sleeping),
    "TimerFired": _of_visit(_going),
    "SignalWaitStarted": _of_visit(_awaits_signal),
    "SignalReceived": _of_visit(_signalled),
    "ParallelForked": _of_visit(_forked),
    "ForEachStarted": _of_visit(_items),
    "LoopStarted": _of_visit(_rounds),
    "ScopeOpened": _of_visit(_scope_opened),
    "ScopeCompleted": _of_visit(_scope_closed(Mark.DONE)),
    "ScopeFailed": _of_visit(_scope_closed(Mark.FAILED)),
    "ParallelBranchCancelled": _of_visit(_scope_closed(Mark.DROPPED)),
    "SubworkflowStarted": _of_visit(_child_started),
    "SubworkflowCompleted": _of_visit(_child_ended),
    "CompleteNode": _of_visit(_completed),
    "FailNode": _of_visit(_failed),
    "CancelExecution": _ending,
    "StartCompensation": _ending,
    "ExecutionPaused": _paused,
    "ExecutionResumed": _paused,
    "ExecutionCompleted": _run_completed,
    "ExecutionContinued": _run_continued,
    "ExecutionFailed": _run_failed,
    "ExecutionCancelled": _run_cancelled,
}
