"""`replay`: decide a recorded history again and compare it, command by command.

Every input of a run left a record, so a history can be turned back into inputs and fed through `decide`. The resulting
commands must match the recorded ones by name and node. The first one that does not is a divergence, reported with its
index and both identities. Histories written by other engines are accepted: events may be missing or unnumbered, because
only commands are compared. Records that a history lacks at its end (it was cut inside a decision) are returned as
`missing`.

Above it: verification, import of foreign histories, the conformance harness. Below it: `decide`. Loading our own
histories needs no replay: `fold` is enough and much faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.expressions import Evaluator, InProcessEvaluator
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.decide import decide
from penstock.engine.folding.evolve import apply
from penstock.engine.folding.reading import secrets_of
from penstock.engine.outcomes import Refused
from penstock.engine.records import Body, Record, VisitBody, commands, events, given, identity
from penstock.engine.state import RunState
from penstock.engine.transitions import Phase
from penstock.engine.walk.activities import without_own_keys
from penstock.engine.walk.timers import timers_of

__all__ = ["Diverged", "ReplayOutcome", "Replayed", "replay"]

NONDETERMINISM = "NONDETERMINISM_DETECTED"


@dataclass(frozen=True, slots=True)
class Replayed:
    """The history fits the workflow. `missing` holds the records that belong at its end and are not there.

    `records` is the whole history as this engine writes it. Use it to import a history from another engine.
    """

    state: RunState
    missing: tuple[Record, ...]
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Diverged:
    """The history and the workflow disagree at a command; `index` counts commands from 1."""

    index: int
    expected: JsonObject | None
    actual: JsonObject | None

    @property
    def message(self) -> str:
        """The published wording: the position, the recorded command, and the command that the workflow wants."""
        return (
            f"nondeterminism at command index {self.index}: history has {_describe(self.expected)}, "
            f"the workflow wants {_describe(self.actual)}"
        )

    def body(self) -> events.ExecutionFailed:
        """Return the record that reports the divergence."""
        context: JsonObject = {"expected": self.expected, "actual": self.actual}
        return events.ExecutionFailed(error=self.message, code=NONDETERMINISM, context=context)


ReplayOutcome: TypeAlias = Replayed | Diverged | Refused


def replay(
    workflow: Workflow,
    records: Sequence[Record],
    *,
    start: inputs.StartRun | None = None,
    evaluator: Evaluator | None = None,
) -> ReplayOutcome:
    """Replay a history. `start` is used if the history does not contain the input of the run."""
    beginning = _beginning(workflow, records, start)
    if beginning is None:
        return Refused("EXECUTION_NOT_FOUND", "the history has no ExecutionStarted with an input")
    walk = _Walk(workflow=workflow, recorded=records, evaluator=evaluator or InProcessEvaluator())
    refused = walk.feed(beginning)
    if refused is not None:
        return refused
    for position, record in enumerate(records):
        if walk.diverged is not None or walk.state.terminal:
            break
        body = record.body
        reader = _READERS.get(type(body))
        found = reader(walk, _At(record, position), body) if reader is not None else None
        if found is not None:
            walk.feed(found)
    return walk.outcome()


def _beginning(workflow: Workflow, records: Sequence[Record], start: inputs.StartRun | None) -> inputs.StartRun | None:
    for record in records:
        if record.name == events.ExecutionStarted.__name__:
            body = record.body
            if isinstance(body, events.ExecutionStarted) and body.input is not UNSET:
                return replace(_start_of(workflow, body, record.at), recorded=_recorded(records))
    return start


def _recorded(records: Sequence[Record]) -> inputs.Recorded:
    """Return whether the run failed at once, and why: a masked input cannot be checked again."""
    second = records[1].body_as(events.ExecutionFailed) if len(records) > 1 else None
    if second is None:
        return inputs.Recorded()
    return inputs.Recorded(refusal=str(second.error), code=second.code)


def _start_of(workflow: Workflow, body: events.ExecutionStarted, at: int) -> inputs.StartRun:
    return inputs.StartRun(
        at=at,
        run_id=body.execution_id,
        input=given(body.input),
        mode=body.activity_execution_mode or "in_process",
        run_attempt=1 if body.run_attempt is None else body.run_attempt,
        parent_run_id=body.parent_execution_id,
        depth=body.depth or 0,
        timeout_ms=_timeout(workflow, body, at),
        predecessor=_predecessor(body),
        tenant=body.tenant or DEFAULT_TENANT,
        client_kinds=_texts(body.client_kinds),
        started_by=body.started_by,
        starter=body.starter,
        untrusted=body.untrusted,
        sealed=secrets_of(body.secrets),
    )


def _timeout(workflow: Workflow, body: events.ExecutionStarted, at: int) -> int | None:
    """Return the timeout that the caller gave. A deadline that follows from the document is not one."""
    if body.chain_deadline is not None:
        return body.chain_deadline - at
    if body.deadline is None or body.deadline - at == workflow.timeout_ms:
        return None
    return body.deadline - at


def _predecessor(body: events.ExecutionStarted) -> inputs.Predecessor | None:
    taken_over = (body.continued_from, body.runs_without_wait, body.carried_signals, body.carried_signal_ids)
    if all(value is None for value in taken_over):
        return None
    signals = body.carried_signals
    return inputs.Predecessor(
        run_id=body.continued_from or "",  # a fork keeps what its original carried over, but has no predecessor
        deadline=body.chain_deadline,
        runs_without_wait=body.runs_without_wait or 0,
        signals=tuple(item for item in signals if isinstance(item, dict)) if isinstance(signals, list) else (),
        signal_ids=_texts(body.carried_signal_ids),
    )


def _texts(value: JsonValue) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _describe(command: JsonObject | None) -> str:
    if command is None:
        return "nothing"
    node = command.get("nodeId")
    return f"{command['name']}({node})" if node else str(command["name"])


@dataclass(slots=True, kw_only=True)
class _Walk:
    workflow: Workflow
    recorded: Sequence[Record]
    evaluator: Evaluator
    state: RunState = field(default_factory=RunState)
    produced: list[Record] = field(default_factory=list)
    commands: list[JsonObject] = field(init=False)
    matched: int = 0
    diverged: Diverged | None = None

    def __post_init__(self) -> None:
        self.commands = [identity(record) for record in self.recorded if record.kind == "command"]

    def feed(self, given: inputs.Input) -> Refused | None:
        """Feed one input to `decide` and compare the resulting commands."""
        decision = decide(self.workflow, self.state, given, evaluator=self.evaluator)
        if isinstance(decision, Refused):
            return decision
        self.state = decision.state
        for record in decision.records:
            self.produced.append(record)
            if record.kind == "command" and self.matched < len(self.commands) and self.diverged is None:
                self._compare(identity(record))
        return None

    def _compare(self, wanted: JsonObject) -> None:
        recorded = self.commands[self.matched]
        self.matched += 1
        if recorded != wanted:
            self.diverged = Diverged(self.matched, recorded, wanted)

    def outcome(self) -> ReplayOutcome:
        """Return the result of the comparison."""
        if self.diverged is not None:
            return self.diverged
        if self.matched < len(self.commands):
            return Diverged(self.matched + 1, self.commands[self.matched], None)
        last = self.recorded[-1] if self.recorded else None
        if last is not None and last.name == events.ExecutionFailed.__name__ and not self.state.terminal:
            draft = self.state.copy()
            ended = replace(last, seq=draft.seq + 1, kind=events.ExecutionFailed.record_kind)
            apply(draft, ended)
            return Replayed(draft, (), (*self.produced, ended))
        return Replayed(self.state, tuple(self._missing()), tuple(self.produced))

    def _missing(self) -> list[Record]:
        """Return the produced records that come after everything recorded."""
        if not self.recorded:
            return self.produced
        suffix = self.produced[_index_after_commands(self.produced, self.matched) :]
        tail = self.recorded[_index_after_commands(self.recorded, len(self.commands)) :]
        known = Counter(_event_key(record) for record in tail)
        missing: list[Record] = []
        for record in suffix:
            if missing and any(item.kind == "command" for item in missing):
                missing.append(record)
            elif record.kind == "event" and known[_event_key(record)] > 0:
                known[_event_key(record)] -= 1
            else:
                missing.append(record)
        return missing


def _index_after_commands(records: Sequence[Record], count: int) -> int:
    seen = 0
    for position, record in enumerate(records):
        if seen == count:
            return position
        seen += record.kind == "command"
    return len(records)


def _event_key(record: Record) -> tuple[str, str, str]:
    payload = record.payload
    return record.name, str(payload.get("nodeId")), str(payload.get("branchName", payload.get("index")))


# --- from records back to inputs -----------------------------------------------------------------


class _At(NamedTuple):
    """A record and its position in the history."""

    record: Record
    position: int

    @property
    def time(self) -> int:
        return self.record.at


def _visit(walk: _Walk, body: VisitBody) -> int:
    return walk.state.visits.get(body.node_id, 0) if body.visit is None else body.visit


def _completed(walk: _Walk, at: _At, body: events.ActivityCompleted) -> inputs.Input:
    own = {"nodeId", "visit", "attempt", "result", "executionId"}
    extra = {name: value for name, value in at.record.payload.items() if name not in own}
    return inputs.CompleteActivity(
        at=at.time, node_id=body.node_id, visit=body.visit, result=body.result, extra=extra or None
    )


def _failed(walk: _Walk, at: _At, body: events.ActivityFailed) -> inputs.Input:
    return inputs.FailActivity(
        at=at.time,
        node_id=body.node_id,
        visit=body.visit,
        error="" if body.error is None else str(body.error),
        code=body.code,
        retryable=body.will_retry,
        extra=without_own_keys(at.record.payload) or None,
    )


def _leased(walk: _Walk, at: _At, body: events.ActivityLeased) -> inputs.Input:
    lease_ms = 0 if body.lease_until is None else max(body.lease_until - at.time, 0)
    return inputs.LeaseActivity(
        at=at.time, node_id=body.node_id, visit=_visit(walk, body), holder=str(body.holder), lease_ms=lease_ms
    )


def _asked(walk: _Walk, at: _At, body: events.ActivityAsked) -> inputs.Input:
    return inputs.AskInActivity(
        at=at.time,
        node_id=body.node_id,
        visit=body.visit,
        question=body.prompt or "",
        answer_schema=body.answer_schema or {},
        resume=body.resume,
        ask=body.ask,
    )


def _requested(walk: _Walk, at: _At, body: events.ActivityRequested | events.SubworkflowStarted) -> inputs.Input | None:
    """Handle another attempt in a foreign history, which has no record of the back-off timer."""
    visit = _visit(walk, body)
    activation = walk.state.activation(body.node_id, visit)
    if activation is None or activation.phase is not Phase.BACKING_OFF:
        return None
    due_at = max(at.time, activation.due_at or 0)
    return inputs.FireTimer(at=due_at, kind="retry", node_id=body.node_id, visit=visit)


def _timer_fired(walk: _Walk, at: _At, body: events.TimerFired) -> inputs.Input | None:
    kind = body.kind if body.kind in ("retry", "timeout", "run") else "wait"
    node_id, visit = ("", 0) if kind == "run" else (body.node_id, _visit(walk, body))
    for timer in timers_of(walk.state):
        if (timer.kind, timer.node_id, timer.visit) == (kind, node_id, visit):
            due_at = max(at.time, timer.due_at)
            return inputs.FireTimer(at=due_at, kind=kind, node_id=node_id, visit=visit)
    return None


def _escalated(walk: _Walk, at: _At, body: events.InterruptEscalated) -> inputs.Input | None:
    visit = _visit(walk, body)
    activation = walk.state.activation(body.node_id, visit)
    if activation is None or activation.due_at is None:
        return None
    due_at = max(at.time, activation.due_at)
    return inputs.FireTimer(at=due_at, kind="escalation", node_id=body.node_id, visit=visit)


def _answered(walk: _Walk, at: _At, body: commands.ResumeInterrupt | events.InterruptVoted) -> inputs.Input:
    answer, approver = body.answer, body.approver or {}
    kind, owner, subject = approver.get("kind"), approver.get("owner"), approver.get("subject")
    name = approver.get("name")
    return inputs.AnswerInterrupt(
        at=at.time,
        answer=_later_output(walk, at, body.node_id) if answer is UNSET else answer,
        node_id=body.node_id,
        visit=body.visit,
        by=body.answered_by,
        kind=kind if isinstance(kind, str) else None,
        groups=_texts(approver.get("groups")) or None,
        owner=owner if isinstance(owner, str) else None,
        acting_for=_texts(approver.get("actingFor")),
        subject=subject if isinstance(subject, str) else None,
        lineage=_texts(approver.get("lineage")),
        name=name if isinstance(name, str) else None,
        note=body.note,
        untrusted=body.untrusted,
        sealed=secrets_of(body.secrets) if isinstance(body, commands.ResumeInterrupt) else None,
        is_recorded=True,
    )


def _later_output(walk: _Walk, at: _At, node_id: str) -> JsonValue:
    """Return the output of the node. In the published format only the node's completion contains the answer."""
    for record in walk.recorded[at.position + 1 :]:
        body = record.body
        if isinstance(body, commands.CompleteNode) and body.node_id == node_id:
            return body.output
    return None


def _signalled(walk: _Walk, at: _At, body: commands.DeliverSignal | events.SignalBuffered) -> inputs.Input | None:
    if isinstance(body, commands.DeliverSignal) and body.buffered:
        return None
    return inputs.SendSignal(
        at=at.time,
        name=str(body.signal_name),
        payload=body.payload,
        signal_id=body.signal_id,
        by=body.sent_by,
        note=body.note,
        untrusted=body.untrusted,
    )


def _child_finished(walk: _Walk, at: _At, body: events.SubworkflowCompleted) -> inputs.Input:
    final_state = body.merged_output if body.child_final_state is UNSET else body.child_final_state
    return inputs.FinishChild(
        at=at.time,
        child_id=str(body.child_execution_id),
        status="failed" if body.failed else "completed",
        result=body.child_result,
        final_state=given(final_state),
        error=body.error if isinstance(body.error, str) else None,
        code=body.code,
        untrusted=body.untrusted,
    )


def _acknowledged(walk: _Walk, at: _At, body: events.SignalEmitted) -> inputs.Input:
    return inputs.AcknowledgeEmit(
        at=at.time,
        node_id=body.node_id,
        visit=_visit(walk, body),
        delivered=body.delivered is not False,
        code=body.code,
        error=body.error,
    )


def _cancelled(walk: _Walk, at: _At, body: commands.CancelExecution | events.ExecutionCancelled) -> inputs.Input | None:
    return None if walk.state.ending is not None else inputs.CancelRun(at=at.time, reason=body.reason)


def _paused(walk: _Walk, at: _At, body: commands.PauseExecution) -> inputs.Input:
    return inputs.PauseRun(at=at.time, reason=body.reason)


def _resumed(walk: _Walk, at: _At, body: commands.ResumeExecution) -> inputs.Input:
    return inputs.ResumeRun(at=at.time)


def _unknown(walk: _Walk, at: _At, body: events.ActivityOutcomeUnknown) -> inputs.Input:
    return inputs.ReportOutcomeUnknown(at=at.time, node_id=body.node_id, visit=_visit(walk, body))


def _retried(walk: _Walk, at: _At, body: events.ActivityRetried) -> inputs.Input:
    visit, by, note = _visit(walk, body), body.decided_by, body.note
    return inputs.RetryActivity(at=at.time, node_id=body.node_id, visit=visit, by=by, note=note)


_Reader = Callable[[_Walk, _At, Any], "inputs.Input | None"]
B = TypeVar("B", bound=Body)


def _on(kind: type[B], reader: Callable[[_Walk, _At, B], inputs.Input | None]) -> tuple[type[Body], _Reader]:
    return kind, reader


# Records that came from an input. All others follow from these.
_READERS: dict[type[object], _Reader] = dict(
    (
        _on(events.ActivityCompleted, _completed),
        _on(events.ActivityFailed, _failed),
        _on(events.ActivityRequested, _requested),
        _on(events.SubworkflowStarted, _requested),
        _on(events.ActivityAsked, _asked),
        _on(events.ActivityLeased, _leased),
        _on(events.ActivityOutcomeUnknown, _unknown),
        _on(events.ActivityRetried, _retried),
        _on(events.TimerFired, _timer_fired),
        _on(events.InterruptVoted, _answered),
        _on(events.InterruptEscalated, _escalated),
        _on(commands.ResumeInterrupt, _answered),
        _on(commands.DeliverSignal, _signalled),
        _on(events.SignalBuffered, _signalled),
        _on(events.SubworkflowCompleted, _child_finished),
        _on(events.SignalEmitted, _acknowledged),
        _on(commands.CancelExecution, _cancelled),
        _on(events.ExecutionCancelled, _cancelled),
        _on(commands.PauseExecution, _paused),
        _on(commands.ResumeExecution, _resumed),
    )
)
