"""`replay`: walk a recorded history again and compare, command by command.

Every input of a run left a record, so a history can be turned back into inputs and fed through `decide`. The commands
that come out must be the recorded ones, by name and node; the first that is not is a divergence, reported with its
index and both identities. Histories written by other engines are welcome: events may be missing or unnumbered, only
commands are compared. What a history lacks at its end (it was cut inside a decision) comes back as `missing`.

Above it: verification, import of foreign histories, the conformance harness. Below it: `decide`.
Loading one's own histories needs no replay: `fold` is enough and much faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.expressions import Evaluator, InProcessEvaluator
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.activities import FAILURE_KEYS
from penstock.engine.decide import decide
from penstock.engine.evolve import apply
from penstock.engine.outcomes import Refused
from penstock.engine.reading import secrets_of
from penstock.engine.records import Record, identity
from penstock.engine.state import RunState
from penstock.engine.timers import timers_of
from penstock.engine.transitions import Phase
from penstock.engine.trust import says_untrusted

__all__ = ["Diverged", "ReplayOutcome", "Replayed", "replay"]

NONDETERMINISM = "NONDETERMINISM_DETECTED"
# What the first record says of a run that continues another one.
_TAKEN_OVER = frozenset({"continuedFrom", "runsWithoutWait", "carriedSignals", "carriedSignalIds"})


@dataclass(frozen=True, slots=True)
class Replayed:
    """The history fits. `missing` are the records that belong at its end and are not there.

    `records` is the whole history as this engine writes it: the way to take over a history from elsewhere.
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
        """The published wording: where, what was recorded, what the workflow wants."""
        return (
            f"nondeterminism at command index {self.index}: history has {_told(self.expected)}, "
            f"the workflow wants {_told(self.actual)}"
        )

    def payload(self) -> JsonObject:
        """The payload of the `ExecutionFailed` that reports it."""
        context: JsonObject = {"expected": self.expected, "actual": self.actual}
        return {"error": self.message, "code": NONDETERMINISM, "context": context}


ReplayOutcome: TypeAlias = Replayed | Diverged | Refused


def replay(
    workflow: Workflow,
    records: Sequence[Record],
    *,
    start: inputs.StartRun | None = None,
    evaluator: Evaluator | None = None,
) -> ReplayOutcome:
    """Walk a history again. `start` stands in where the history does not hold its own input."""
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
        reader = _READERS.get(record.name)
        given = reader(walk, record, position) if reader is not None else None
        if given is not None:
            walk.feed(given)
    return walk.outcome()


def _beginning(workflow: Workflow, records: Sequence[Record], start: inputs.StartRun | None) -> inputs.StartRun | None:
    for record in records:
        payload = record.payload
        if record.name == "ExecutionStarted" and "input" in payload:
            return inputs.StartRun(
                at=record.at,
                run_id=str(payload["executionId"]),
                input=payload["input"],
                mode=str(payload.get("activityExecutionMode", "in_process")),
                run_attempt=_number(payload.get("runAttempt"), 1),
                parent_run_id=_text(payload.get("parentExecutionId")),
                depth=_number(payload.get("depth"), 0),
                timeout_ms=_timeout(workflow, payload, record.at),
                predecessor=_predecessor(payload),
                tenant=_text(payload.get("tenant")) or DEFAULT_TENANT,
                client_kinds=_texts(payload.get("clientKinds")),
                started_by=_text(payload.get("startedBy")),
                untrusted=says_untrusted(record),
            )
    return start


def _timeout(workflow: Workflow, payload: JsonObject, at: int) -> int | None:
    """What the starter gave; a deadline that follows from the document says nothing about it."""
    deadline = payload.get("chainDeadline", payload.get("deadline"))
    if not isinstance(deadline, int) or ("chainDeadline" not in payload and deadline - at == workflow.timeout_ms):
        return None
    return deadline - at


def _predecessor(payload: JsonObject) -> inputs.Predecessor | None:
    if not _TAKEN_OVER & payload.keys():
        return None
    signals, known = payload.get("carriedSignals"), payload.get("carriedSignalIds")
    return inputs.Predecessor(
        run_id=_text(payload.get("continuedFrom"))
        or "",  # a fork has what its original took over, and nobody before it
        deadline=_optional_number(payload.get("chainDeadline")),
        runs_without_wait=_number(payload.get("runsWithoutWait"), 0),
        signals=tuple(item for item in signals if isinstance(item, dict)) if isinstance(signals, list) else (),
        signal_ids=tuple(map(str, known)) if isinstance(known, list) else (),
    )


def _number(value: JsonValue, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _optional_number(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: JsonValue) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _told(command: JsonObject | None) -> str:
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
        """Give the walk one input and compare the commands it leads to."""
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
        """What the walk found."""
        if self.diverged is not None:
            return self.diverged
        if self.matched < len(self.commands):
            return Diverged(self.matched + 1, self.commands[self.matched], None)
        last = self.recorded[-1] if self.recorded else None
        if last is not None and last.name == "ExecutionFailed" and not self.state.terminal:
            draft = self.state.copy()
            ended = Record(draft.seq + 1, "event", last.name, last.payload, last.at)
            apply(draft, ended)
            return Replayed(draft, (), (*self.produced, ended))
        return Replayed(self.state, tuple(self._missing()), tuple(self.produced))

    def _missing(self) -> list[Record]:
        """The produced records that stand behind everything recorded."""
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


# --- records back into inputs --------------------------------------------------------------------


def _where(walk: _Walk, record: Record) -> tuple[str, int]:
    node_id = str(record.payload.get("nodeId"))
    return node_id, _number(record.payload.get("visit"), walk.state.visits.get(node_id, 0))


def _completed(walk: _Walk, record: Record, position: int) -> inputs.Input:
    payload = record.payload
    kept = ("nodeId", "visit", "attempt", "result", "executionId")
    extra = {name: value for name, value in payload.items() if name not in kept}
    return inputs.CompleteActivity(
        at=record.at,
        node_id=str(payload.get("nodeId")),
        visit=_optional_number(payload.get("visit")),
        result=payload.get("result"),
        extra=extra or None,
    )


def _failed(walk: _Walk, record: Record, position: int) -> inputs.Input:
    payload = record.payload
    return inputs.FailActivity(
        at=record.at,
        node_id=str(payload.get("nodeId")),
        visit=_optional_number(payload.get("visit")),
        error=str(payload.get("error", "")),
        code=_text(payload.get("code")),
        retryable=payload.get("willRetry") is True,
        extra={name: value for name, value in payload.items() if name not in FAILURE_KEYS} or None,
    )


def _leased(walk: _Walk, record: Record, position: int) -> inputs.Input:
    node_id, visit = _where(walk, record)
    payload = record.payload
    lease_ms = max(_number(payload.get("leaseUntil"), record.at) - record.at, 0)
    holder = str(payload.get("holder"))
    return inputs.LeaseActivity(at=record.at, node_id=node_id, visit=visit, holder=holder, lease_ms=lease_ms)


def _asked(walk: _Walk, record: Record, position: int) -> inputs.Input:
    payload = record.payload
    schema, ask = payload.get("answerSchema"), payload.get("ask")
    return inputs.AskInActivity(
        at=record.at,
        node_id=str(payload.get("nodeId")),
        visit=_optional_number(payload.get("visit")),
        question=str(payload.get("prompt", "")),
        answer_schema=schema if isinstance(schema, dict) else {},
        resume=payload.get("resume"),
        ask=ask if isinstance(ask, dict) else None,
    )


def _requested(walk: _Walk, record: Record, position: int) -> inputs.Input | None:
    """A further attempt in a foreign history, which has no record of the back-off timer."""
    node_id, visit = _where(walk, record)
    activation = walk.state.activation(node_id, visit)
    if activation is None or activation.phase is not Phase.BACKING_OFF:
        return None
    at = max(record.at, activation.due_at or 0)
    return inputs.FireTimer(at=at, kind="retry", node_id=node_id, visit=visit)


def _timer_fired(walk: _Walk, record: Record, position: int) -> inputs.Input | None:
    named = str(record.payload.get("kind"))
    kind = named if named in ("retry", "timeout", "run") else "wait"
    node_id, visit = ("", 0) if kind == "run" else _where(walk, record)
    for timer in timers_of(walk.state):
        if (timer.kind, timer.node_id, timer.visit) == (kind, node_id, visit):
            at = max(record.at, timer.due_at)
            return inputs.FireTimer(at=at, kind=kind, node_id=node_id, visit=visit)
    return None


def _answered(walk: _Walk, record: Record, position: int) -> inputs.Input:
    payload = record.payload
    answer = payload.get("answer")
    if "answer" not in payload:
        # As published, only the completion of the node holds the answer.
        later = walk.recorded[position + 1 :]
        node_id = payload.get("nodeId")
        answer = next(
            (
                item.payload.get("output")
                for item in later
                if item.name == "CompleteNode" and item.payload.get("nodeId") == node_id
            ),
            None,
        )
    return inputs.AnswerInterrupt(
        at=record.at,
        answer=answer,
        node_id=_text(payload.get("nodeId")),
        visit=_optional_number(payload.get("visit")),
        by=_text(payload.get("answeredBy")),
        untrusted=says_untrusted(record),
        sealed=secrets_of(payload.get("secrets")),
        is_recorded=True,
    )


def _signalled(walk: _Walk, record: Record, position: int) -> inputs.Input | None:
    payload = record.payload
    if payload.get("buffered") is True:
        return None
    return inputs.SendSignal(
        at=record.at,
        name=str(payload.get("signalName")),
        payload=payload.get("payload"),
        signal_id=_text(payload.get("signalId")),
        by=_text(payload.get("sentBy")),
        untrusted=says_untrusted(record),
    )


def _child_finished(walk: _Walk, record: Record, position: int) -> inputs.Input:
    payload = record.payload
    return inputs.FinishChild(
        at=record.at,
        child_id=str(payload.get("childExecutionId")),
        status="failed" if payload.get("failed") is True else "completed",
        result=payload.get("childResult"),
        final_state=payload.get("childFinalState", payload.get("mergedOutput")),
        error=_text(payload.get("error")),
        code=_text(payload.get("code")),
        untrusted=says_untrusted(record),
    )


def _acknowledged(walk: _Walk, record: Record, position: int) -> inputs.Input:
    payload = record.payload
    return inputs.AcknowledgeEmit(
        at=record.at,
        node_id=str(payload.get("nodeId")),
        visit=_where(walk, record)[1],
        delivered=payload.get("delivered") is not False,
        code=_text(payload.get("code")),
        error=_text(payload.get("error")),
    )


def _cancelled(walk: _Walk, record: Record, position: int) -> inputs.Input | None:
    if walk.state.ending is not None:
        return None
    return inputs.CancelRun(at=record.at, reason=_text(record.payload.get("reason")))


def _paused(walk: _Walk, record: Record, position: int) -> inputs.Input:
    return inputs.PauseRun(at=record.at, reason=_text(record.payload.get("reason")))


def _resumed(walk: _Walk, record: Record, position: int) -> inputs.Input:
    return inputs.ResumeRun(at=record.at)


def _unknown(walk: _Walk, record: Record, position: int) -> inputs.Input:
    node_id, visit = _where(walk, record)
    return inputs.ReportOutcomeUnknown(at=record.at, node_id=node_id, visit=visit)


def _retried(walk: _Walk, record: Record, position: int) -> inputs.Input:
    node_id, visit = _where(walk, record)
    by = _text(record.payload.get("decidedBy"))
    return inputs.RetryActivity(at=record.at, node_id=node_id, visit=visit, by=by)


_Reader = Callable[[_Walk, Record, int], "inputs.Input | None"]
_READERS: dict[str, _Reader] = {
    "ActivityCompleted": _completed,
    "ActivityFailed": _failed,
    "ActivityRequested": _requested,
    "SubworkflowStarted": _requested,
    "ActivityAsked": _asked,
    "ActivityLeased": _leased,
    "ActivityOutcomeUnknown": _unknown,
    "ActivityRetried": _retried,
    "TimerFired": _timer_fired,
    "ResumeInterrupt": _answered,
    "DeliverSignal": _signalled,
    "SignalBuffered": _signalled,
    "SubworkflowCompleted": _child_finished,
    "SignalEmitted": _acknowledged,
    "CancelExecution": _cancelled,
    "ExecutionCancelled": _cancelled,
    "PauseExecution": _paused,
    "ResumeExecution": _resumed,
}
