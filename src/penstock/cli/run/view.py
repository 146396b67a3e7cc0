"""A run for people: its visits together with its workflow, in the marks and notes that are drawn.

The visits of the run say what happened. This module adds words for people, and facts from the document: the type of a
node, what it calls, how often it may be tried.

Above it: `rendering` draws it, `follower` feeds it. Below it: `engine.visits`. It neither prints nor reads a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import ActivityDetail, Node, NodeType, Workflow
from penstock.definitions.nodes import NODE_KINDS
from penstock.engine.records import Record, commands, events, given
from penstock.engine.state import COMPENSATION_PREFIX, Key
from penstock.engine.transitions import RunStatus
from penstock.engine.visits import RunVisits, Visit, VisitError, VisitScope, VisitStatus, Wait, WaitKind, extend
from penstock.engine.walk.questions import interrupt_id_of

__all__ = ["Mark", "Question", "RunView", "called", "error_text", "mark_of", "outside_wait"]

_NAMING_FIELDS = ("server", "tool", "handler", "method", "url", "model", "agent_id")
# Nodes whose results are worth a look on their own line.
_SHOWING = frozenset(kind.type for kind in NODE_KINDS.values() if kind.run_end is not None)


class Mark(StrEnum):
    """How a visit, a scope or a run is drawn."""

    GOING = "going"
    WAITING = "waiting"
    RETRYING = "retrying"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"


_MARKS = {
    VisitStatus.RUNNING: Mark.GOING,
    VisitStatus.WAITING: Mark.WAITING,
    VisitStatus.RETRYING: Mark.RETRYING,
    VisitStatus.COMPLETED: Mark.DONE,
    VisitStatus.FAILED: Mark.FAILED,
    VisitStatus.CANCELLED: Mark.DROPPED,
}
_RUN_MARKS = {
    RunStatus.PENDING: Mark.GOING,
    RunStatus.RUNNING: Mark.GOING,
    RunStatus.COMPLETED: Mark.DONE,
    RunStatus.FAILED: Mark.FAILED,
    RunStatus.CANCELLED: Mark.DROPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a person that is open."""

    run_id: str
    prompt: str
    schema: JsonObject
    interrupt_id: str
    decline: JsonValue = None
    """The answer that declines, if the document declares one."""

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the question."""
        return self.run_id, self.interrupt_id


@dataclass(slots=True, kw_only=True)
class RunView:
    """The whole run."""

    workflow: Workflow
    name: str = ""
    """The id by which the user named it."""
    visits: RunVisits = field(default_factory=RunVisits)
    outputs: dict[Key, JsonValue] = field(default_factory=dict)
    """The results that are shown; those of other visits stay in the history."""

    @property
    def run_id(self) -> str:
        """Its id, as its history has it."""
        return self.visits.run_id or self.name

    @property
    def seq(self) -> int:
        """How many of its records are known."""
        return self.visits.seq

    @property
    def mark(self) -> Mark:
        """The mark of the run."""
        return _RUN_MARKS[self.visits.status]

    @property
    def ended(self) -> bool:
        """True when the run has ended."""
        return self.visits.end is not None

    @property
    def continued_as(self) -> str | None:
        """The run that continues this one."""
        end = self.visits.end
        return _text(end.successor_execution_id) if isinstance(end, events.ExecutionContinued) else None

    def take(self, records: Sequence[Record]) -> None:
        """Fold the next records in."""
        extend(self.visits, records)
        for record in records:
            done = record.body_as(commands.CompleteNode)
            node = None if done is None else self.workflow.nodes.get(done.node_id)
            if done is not None and node is not None and node.type in _SHOWING:
                visit = self.visits.visit(done.node_id, done.visit)
                if visit is not None:
                    self.outputs[visit.key] = done.output

    def walk(self) -> Iterator[Visit]:
        """The visits at the top level, in order: those of the walk, then compensations."""
        return (self.visits.visits[key] for scope in self.visits.roots() for key in scope.visits)

    def visits_in(self, scope: VisitScope) -> Iterator[Visit]:
        """The visits of a branch, an item or a round, in order."""
        return (self.visits.visits[key] for key in scope.visits)

    def questions(self) -> list[Question]:
        """The questions that are open, oldest first."""
        found = (self.question(visit) for visit in self.visits.open.values())
        return [question for question in found if question is not None]

    def question(self, visit: Visit) -> Question | None:
        """The open question of a visit, if it has one."""
        cause = None if visit.wait is None else visit.wait.cause
        if not isinstance(cause, events.InterruptRaised | events.ActivityAsked):
            return None
        return Question(
            run_id=self.run_id,
            prompt=prompt_of(cause),
            schema=cause.answer_schema if isinstance(cause.answer_schema, dict) else {},
            interrupt_id=cause.interrupt_id or interrupt_id_of(visit.node_id, visit.ordinal),
            decline=cause.decline if isinstance(cause, events.InterruptRaised) else None,
        )

    def children(self) -> list[str]:
        """The child runs that were started, oldest first."""
        return [visit.child_run_id for visit in self.visits.visits.values() if visit.child_run_id is not None]

    def node(self, visit: Visit) -> Node | None:
        """The node of a visit, as the document has it; of one that undoes another, the other."""
        return self.workflow.nodes.get(visit.node_id.removeprefix(COMPENSATION_PREFIX))

    def node_type(self, visit: Visit) -> str:
        """The type of the node of a visit."""
        node = self.node(visit)
        return "" if node is None else str(node.type)

    def called(self, visit: Visit) -> str:
        """What a visit calls, in a few words."""
        node = self.node(visit)
        if visit.child_run_id is not None or visit.url is not None or node is None:
            return _text(visit.child_workflow if visit.child_run_id is not None else visit.url)
        return called(node, undo=visit.node_id.startswith(COMPENSATION_PREFIX))

    def attempts_max(self, visit: Visit) -> int:
        """How often a visit may be tried."""
        node = self.node(visit)
        retry = None if node is None else node.retry
        detail = None if node is None else node.detail
        undoes = visit.node_id.startswith(COMPENSATION_PREFIX)
        if undoes and isinstance(detail, ActivityDetail) and detail.compensate is not None:
            retry = detail.compensate.retry
        return 1 if retry is None else retry.max_attempts

    def output(self, visit: Visit) -> JsonValue:
        """The output of a visit, if it is shown: an answer, or the result of certain node types."""
        if visit.answer is not None and self.node_type(visit) == NodeType.INTERRUPT:
            return given(visit.answer.answer)
        return self.outputs.get(visit.key)

    def note(self, visit: Visit) -> str:
        """A short note on how a visit went."""
        if visit.error is not None:
            route = f" → {visit.next or 'end of body'}" if visit.routed else ""
            return error_text(visit.error) + route
        if visit.status is VisitStatus.COMPLETED and self.node_type(visit) == NodeType.SWITCH:
            return f"→ {visit.next or 'end of body'}"
        if visit.timed_out:
            return "timed out"
        if visit.fallback is not None:
            return f"fallback after {visit.fallback}"
        if visit.signal is not None:
            return f"signal {visit.signal}"
        return "" if visit.answer is None else _answered(visit.answer)


def _answered(answer: commands.ResumeInterrupt) -> str:
    noted = f" (note: {answer.note})" if answer.note else ""
    return (f"answered by {answer.answered_by}" if answer.answered_by else "answered") + noted


def mark_of(part: Visit | VisitScope) -> Mark:
    """The mark of a visit or a scope. A visit whose child run is working, or that is being retried, counts as going."""
    if part.status is VisitStatus.WAITING and isinstance(part, Visit) and _kind(part) is WaitKind.CHILD:
        return Mark.GOING
    if part.status is VisitStatus.RETRYING and isinstance(part, Visit) and part.wait is None:
        return Mark.GOING
    return _MARKS[part.status]


def _kind(visit: Visit) -> WaitKind | None:
    return None if visit.wait is None else visit.wait.kind


def outside_wait(visit: Visit) -> Wait | None:
    """What a visit waits for, unless that is its own work."""
    return None if visit.wait is None or visit.wait.kind is WaitKind.ACTIVITY else visit.wait


def prompt_of(asked: events.InterruptRaised | events.ActivityAsked) -> str:
    """The text of a question."""
    if isinstance(asked, events.ActivityAsked):
        return _text(asked.prompt)
    return _text(asked.prompt) or _text(asked.prompt_ref)


def called(node: Node, *, undo: bool = False) -> str:
    """What an activity calls, in a few words: `shop.get_order`, `shop.payments:refund`."""
    detail = node.detail
    if not isinstance(detail, ActivityDetail):
        return ""
    config = detail.compensate.config if undo and detail.compensate is not None else detail.config
    named = [str(config[name]) for name in _NAMING_FIELDS if isinstance(config.get(name), str)]
    separator = "." if "tool" in config else " "
    return separator.join(named)


def error_text(error: VisitError) -> str:
    """A failure by its code and its message; a message that only repeats the code is left out."""
    code, text = error.code or "FAILED", _text(error.message)
    return code if text in ("", code) else f"{code}: {text}"


def _text(value: JsonValue) -> str:
    return "" if value is None else str(value)
