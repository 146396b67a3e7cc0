"""A dry run in memory: mocked activities, scripted answers and signals, and a clock that jumps.

Nothing is called, nothing is stored. An activity without a mock is not invented: the run stops there and the report
says which mock is missing. Time passes only where the run sleeps or backs off; a question waits for its answer unless
the script lets it time out. A run that continues as a new one ends here: the report has the input of the next run,
which can be simulated separately.

Above it: ``penstock workflow simulate``, the tests of documents. Below it: `MemoryHost`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import format_instant
from penstock.definitions.jq.expressions import Evaluator, InProcessEvaluator
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.effects import PerformActivity
from penstock.engine.outcomes import Refused
from penstock.engine.records import Record, commands
from penstock.engine.state import Activation, Child, Continuation, RunState
from penstock.engine.status import run_status
from penstock.engine.transitions import Phase
from penstock.engine.visits import visits_of
from penstock.engine.walk.timers import Timer, timers_of
from penstock.runtime.activities.performing import (
    ActivityAsks,
    ActivityDeferred,
    ActivityDone,
    ActivityError,
    ActivityOutcome,
)
from penstock.runtime.host.memory import HostedRun, MemoryHost
from penstock.runtime.simulation.tracing import TraceLine, trace_lines

__all__ = [
    "Script",
    "Signal",
    "SimulationRefused",
    "SimulationReport",
    "mocked_outcome",
    "nth_scripted",
    "simulate",
]

_RUN_ID = "simulated"
# A fixed start time makes two simulations of one document equal.
_BEGIN_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
_QUESTIONS = (Phase.INTERRUPTED, Phase.ASKING)
_GENERATIONS_MAX = 100  # runs of one chain of child runs: with constant mocks it may be endless
_ROUNDS_MAX = 100_000  # more rounds than any run has steps: a safety net against an endless simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A signal that the script sends: when the run waits for it, or at a time of its own.

    That time is the completion of the node `after_node`, or `after_ms` after the start; it is sent then whether the run
    waits for it or not.
    """

    name: str
    payload: JsonValue = None
    after_node: str | None = None
    after_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What the outside world answers in a dry run.

    A mock is the output of a node, ``{"error": {"code", "message"}}``, a question to a person as ``{"asks":
    {"question", "answer_schema"}}``, or ``{"sequence": [...]}`` of these, one per attempt, round or visit; the last one
    repeats. An answer may be a sequence too, one per time that the question is asked. Signals are sent in the order in
    which they are listed.
    """

    mocks: Mapping[str, JsonValue] = field(default_factory=dict)
    answers: Mapping[str, JsonValue] = field(default_factory=dict)
    signals: Sequence[Signal] = ()
    time_outs: frozenset[str] = frozenset()
    workflows: Mapping[str, Workflow] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    """The outcome of a dry run."""

    status: str
    result: JsonValue
    error: JsonObject | None
    path: tuple[str, ...]
    state: JsonValue
    trace: tuple[TraceLine, ...]
    records: tuple[Record, ...]
    elapsed_ms: int
    waiting_for: tuple[JsonObject, ...]
    continuation: Continuation | None = None

    def to_json(self) -> JsonObject:
        """Return the report as one JSON object."""
        report: JsonObject = {
            "status": self.status,
            "result": self.result,
            "path": list(self.path),
            "state": self.state,
            "elapsed_ms": self.elapsed_ms,
            "records": len(self.records),
            "waiting_for": list(self.waiting_for),
            "trace": [line.to_json() for line in self.trace],
        }
        if self.error is not None:
            report["error"] = self.error
        if self.continuation is not None:
            report["continues_with"] = self.continuation.input
        return report


@dataclass(frozen=True, slots=True)
class SimulationRefused:
    """The run could not be started."""

    code: str
    message: str
    hint: str | None = None


def simulate(
    workflow: Workflow, given: JsonValue, script: Script, *, evaluator: Evaluator | None = None
) -> SimulationReport | SimulationRefused:
    """Run a workflow in memory with a scripted world."""
    world = _World(script=script, evaluator=evaluator or InProcessEvaluator())
    started = world.host.start(workflow, inputs.StartRun(at=world.now, run_id=_RUN_ID, input=given))
    if isinstance(started, Refused):
        return SimulationRefused(started.code, started.message, started.hint)
    for _ in range(_ROUNDS_MAX):
        world.host.drive(_RUN_ID)
        if world.run.state.terminal or not world.help_along():
            break
    return world.report()


@dataclass(slots=True, kw_only=True)
class _World:
    script: Script
    evaluator: Evaluator
    now: int = _BEGIN_MS
    host: MemoryHost = field(init=False)
    used: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    log: list[tuple[str, Record]] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        self.host = MemoryHost(
            clock=lambda: self.now,
            performer=self,
            resolve=lambda reference, pin: self.script.workflows.get(reference),
            evaluator=self.evaluator,
            stand_in_child=self._stand_in_child,
            stand_in_target=lambda state, effect: effect.target_run_id not in self.host.runs,
            follows=lambda state: state.parent_run_id is not None and state.generation < _GENERATIONS_MAX,
            observe=lambda run_id, records: self.log.extend((run_id, record) for record in records),
        )

    @property
    def run(self) -> HostedRun:
        """The simulated run."""
        return self.host.runs[_RUN_ID]

    def perform(self, state: RunState, activity: PerformActivity) -> ActivityOutcome:
        """Answer an activity from the script; without a mock it stays open."""
        return self._mocked(activity.node_id) or ActivityDeferred()

    def _mocked(self, node_id: str) -> ActivityOutcome | None:
        if node_id not in self.script.mocks:
            return None
        count = self.used.get(node_id, 0)
        self.used[node_id] = count + 1
        return mocked_outcome(nth_scripted(self.script.mocks[node_id], count))

    def _stand_in_child(self, state: RunState, child: Child) -> ActivityOutcome | None:
        return self._mocked(child.node_id)

    def help_along(self) -> bool:
        """Answer a question, send a signal or let time pass; return False if the script has nothing more to offer."""
        if self._send_due_signal():
            return True
        for hosted in self._live_runs():
            for activation in hosted.state.activations():
                if self._help(hosted.state.run_id, activation):
                    return True
        timer, signal = self._next_timer(), self._next_signal()
        moments = [] if timer is None else [timer.due_at]
        if signal is not None and signal.after_ms is not None:
            moments.append(_BEGIN_MS + signal.after_ms)
        if not moments:
            return False
        self.now = max(self.now, min(moments))
        return True

    def _next_signal(self) -> Signal | None:
        return self.script.signals[self.sent] if self.sent < len(self.script.signals) else None

    def _send_due_signal(self) -> bool:
        """Send the next signal if it has a time of its own and is due."""
        signal = self._next_signal()
        if signal is None or (signal.after_ms is None and signal.after_node is None):
            return False
        if signal.after_ms is not None:
            is_due = self.now >= _BEGIN_MS + signal.after_ms
        else:
            completed = (record.body_as(commands.CompleteNode) for _, record in self.log)
            is_due = any(body is not None and body.node_id == signal.after_node for body in completed)
        return is_due and self._send(self._listener(signal.name), signal)

    def _listener(self, name: str) -> str:
        """Return the run that waits for a signal, or the simulated run itself."""
        waiting = (
            hosted.state.run_id
            for hosted in self._live_runs()
            for activation in hosted.state.activations()
            if _awaited(activation) == name
        )
        return next(waiting, _RUN_ID)

    def _send(self, run_id: str, signal: Signal) -> bool:
        self.sent += 1
        given = inputs.SendSignal(at=self.now, name=signal.name, payload=signal.payload)
        return not isinstance(self.host.send(run_id, given), Refused)

    def _live_runs(self) -> list[HostedRun]:
        return [run for run in self.host.runs.values() if not run.state.terminal]

    def _help(self, run_id: str, activation: Activation) -> bool:
        node_id = activation.node_id
        if activation.phase in _QUESTIONS and node_id in self.script.answers:
            asked = self.asked.get(node_id, 0)
            answer = inputs.AnswerInterrupt(
                at=self.now,
                answer=nth_scripted(self.script.answers[node_id], asked),
                node_id=node_id,
                visit=activation.visit,
                by="simulation",
            )
            if isinstance(self.host.send(run_id, answer), Refused):
                return False
            self.asked[node_id] = asked + 1
            return True
        signal = self._next_signal()
        if signal is None or signal.after_ms is not None or signal.after_node is not None:
            return False
        return _awaited(activation) == signal.name and self._send(run_id, signal)

    def _next_timer(self) -> Timer | None:
        """Return the next timer that may fire: sleeps and back-offs always, timeouts only if the script says so."""
        blocked = self._blocked()
        timers = [
            timer
            for hosted in self._live_runs()
            for timer in timers_of(hosted.state)
            if timer.kind in ("wait", "retry") or timer.node_id in self.script.time_outs
        ]
        if blocked and not any(timer.node_id in self.script.time_outs for timer in timers):
            timers = [timer for timer in timers if timer.kind in ("wait", "retry")]
        return min(timers, default=None)

    def _blocked(self) -> bool:
        phases = (Phase.REQUESTED, Phase.AWAITING_SIGNAL, *_QUESTIONS)
        return any(item.phase in phases for hosted in self._live_runs() for item in hosted.state.activations())

    def report(self) -> SimulationReport:
        """Return what happened."""
        state = self.run.state
        failure = state.failure
        error: JsonObject | None = None
        if failure is not None:
            error = {"code": failure.code, "message": failure.message, "node": failure.node_id}
        own = [record for run_id, record in self.log if run_id == _RUN_ID]
        path = tuple(node_id for node_id, _ in visits_of(own).visits)
        return SimulationReport(
            status=run_status(state),
            result=state.result,
            error=error,
            path=path,
            state=state.values,
            trace=tuple(trace_lines(self.log, {run.state.run_id: run.workflow for run in self.host.runs.values()})),
            records=tuple(own),
            elapsed_ms=self.now - _BEGIN_MS,
            continuation=state.continuation,
            waiting_for=tuple(
                item for hosted in self._live_runs() for item in map(_waiting, hosted.state.activations()) if item
            ),
        )


def nth_scripted(scripted: JsonValue, index: int) -> JsonValue:
    """Return the value of a mock or an answer for its next use; the last one of a sequence repeats."""
    if isinstance(scripted, dict) and set(scripted) == {"sequence"} and isinstance(scripted["sequence"], list):
        sequence = scripted["sequence"]
        return sequence[min(index, len(sequence) - 1)] if sequence else None
    return scripted


def _awaited(activation: Activation) -> JsonValue:
    """Return the name of the signal that an activation waits for, or None."""
    waits = activation.phase is Phase.AWAITING_SIGNAL
    return (activation.external or {}).get("signalName") if waits else None


def mocked_outcome(mock: JsonValue) -> ActivityOutcome:
    """Return what a mock stands for: an error, a question, or a result."""
    if isinstance(mock, dict) and set(mock) == {"error"} and isinstance(mock["error"], dict):
        error = mock["error"]
        code = str(error.get("code", "FAILED"))
        return ActivityError(str(error.get("message", code)), code, retryable=error.get("retryable") is not False)
    if isinstance(mock, dict) and set(mock) == {"asks"} and isinstance(mock["asks"], dict):
        asks, schema = mock["asks"], mock["asks"].get("answer_schema")
        return ActivityAsks(str(asks.get("question", "?")), schema if isinstance(schema, dict) else {})
    return ActivityDone(mock)


def _waiting(activation: Activation) -> JsonObject | None:
    named = activation.external or {}
    base: JsonObject = {"node": activation.node_id, "visit": activation.visit}
    match activation.phase:
        case Phase.REQUESTED:
            hint = f"give it a result with --mock {activation.node_id}=JSON"
            return {**base, "for": "activity", "arguments": activation.arguments, "hint": hint}
        case Phase.INTERRUPTED | Phase.ASKING:
            hint = (
                f"answer it with --answer {activation.node_id}=JSON or let it pass with --time-out {activation.node_id}"
            )
            prompt = activation.dialogue.prompt if activation.dialogue is not None else named.get("prompt")
            return {**base, "for": "answer", "prompt": prompt, "hint": hint}
        case Phase.AWAITING_SIGNAL:
            name = named.get("signalName")
            return {**base, "for": "signal", "signal": name, "hint": f"send it with --signal {name}=JSON"}
        case Phase.SLEEPING | Phase.BACKING_OFF:
            until = None if activation.due_at is None else format_instant(activation.due_at)
            return {**base, "for": "timer", "until": until}
        case _:
            return None
