"""A simulated shell around the pure engine: durable logs, a virtual clock, deliveries, crashes.

The world knows only what a real shell knows: it loads a run by folding its log, gives it inputs, appends the move that
a plan makes of them, or else what `decide` answers, and performs what `pending` lists. Faults come from the seed,
through `Faults`; who sends what and when is decided in `scenario`. What must always hold is checked here and in
`ledger`, while it happens.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.base.json import JsonValue
from penstock.definitions.jq.expressions import InProcessEvaluator
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.decide import decide
from penstock.engine.effects import (
    CancelChild,
    DeliverSignal,
    Effect,
    PerformActivity,
    StartChild,
    StartSuccessor,
    WakeUp,
    WithdrawTask,
)
from penstock.engine.moves.plan import Plan
from penstock.engine.moves.taking import take
from penstock.engine.outcomes import Accepted, Decision, Refused
from penstock.engine.pending import pending
from penstock.engine.state import RunState
from penstock.engine.status import run_status
from penstock.engine.walk.starting import successor_start
from tests.simulation.ledger import Ledger, require

__all__ = ["SECRET_VALUE", "Crashed", "Faults", "Flight", "SimulatedRun", "World"]

SECRET_VALUE = "hunter2-the-resolved-secret"
_QUESTION_SHARE = 0.08  # of attempts that do not fail
_BEGINNING_MS = 1_760_000_000_000


class Crashed(Exception):
    """The simulated process died; everything that was not durable is gone."""


@dataclass(kw_only=True)
class Faults:
    """How often things go wrong; all zero when the world is to come to rest."""

    append: float = 0.0
    lost: float = 0.0
    duplicate: float = 0.0
    during_activity: float = 0.0
    torn: bool = False


@dataclass(kw_only=True)
class Flight:
    """An input on its way to a run."""

    run_id: str
    given: inputs.Input
    ready_at: int
    effect_id: str | None = None
    from_outside: bool = False  # its sender does not die with the process and sends it again
    must_be_refused: bool = False


@dataclass(kw_only=True)
class SimulatedRun:
    """A run: its log survives a crash, its state does not."""

    workflow: Workflow
    ledger: Ledger
    state: RunState | None = None


@dataclass(kw_only=True)
class World:
    """Runs by id, a clock, and inputs under way."""

    seed: str
    rng: random.Random
    registry: dict[str, Workflow]
    faults: Faults
    failure_share: float = 0.2
    now: int = _BEGINNING_MS
    plans: dict[str, Plan] = field(default_factory=dict)
    runs: dict[str, SimulatedRun] = field(default_factory=dict)
    flights: list[Flight] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)
    attempted_once: set[str] = field(default_factory=set)  # durable: at-most-once work that was begun
    counts: Counter[str] = field(default_factory=Counter)
    tell: Callable[[str], None] = lambda line: None

    # --- runs ------------------------------------------------------------------------------------

    def start(self, run_id: str, workflow: Workflow, given: inputs.StartRun) -> Decision:
        """Start a run; nothing of it exists unless its first row was written."""
        run = SimulatedRun(workflow=workflow, ledger=Ledger(run_id=run_id), state=RunState())
        decision = self._decided(workflow, RunState(), given)
        if isinstance(decision, Accepted):
            try:
                self._keep(run, given, decision)
            finally:
                if run.ledger.rows:
                    self.runs[run_id] = run
        return decision

    def loaded(self, run_id: str) -> RunState:
        """The state of a run, folded and continued if the process lost it."""
        run = self.runs[run_id]
        if run.state is None:
            run.state = run.ledger.recovered()
            given = inputs.ContinueRun(at=self.now)
            decision = decide(run.workflow, run.state, given)
            if isinstance(decision, Accepted) and decision.records:
                self.tell(f"{self.now} {run_id} continued with {len(decision.records)} records")
                self._keep(run, given, decision)
        if run.state is None:
            raise Crashed
        return run.state

    def submit(self, run_id: str, given: inputs.Input) -> Decision:
        """Give a run an input and write what follows; a continued run hands on what is meant for it as a whole."""
        if isinstance(given, inputs.FORWARDED_TO_SUCCESSOR):
            run_id = self.newest(run_id)
        state = self.loaded(run_id)
        run = self.runs[run_id]
        decision = self._decided(run.workflow, state, given)
        self._told(run_id, given, decision)
        match decision:
            case Refused():
                self.counts["refused"] += 1
                require(state == run.ledger.state, f"a refused {type(given).__name__} changed the state")
            case Accepted():
                self.counts["accepted"] += 1
                self._keep(run, given, decision)
        return decision

    def _decided(self, workflow: Workflow, state: RunState, given: inputs.Input) -> Decision:
        """What a shell decides: a plain move by the plan, all else by `decide`, which must say the same of the move."""
        plan = self.plans.setdefault(workflow.hash, Plan(workflow))
        decision = decide(workflow, state, given)
        taken = take(plan, state, given, InProcessEvaluator())
        if taken is None:
            return decision
        self.counts["moves"] += 1
        require(isinstance(decision, Accepted), "a move was taken of an input that is to be refused")
        if isinstance(decision, Accepted):
            require(taken.records == decision.records, "a move stands for other records than were decided")
            require(taken.state == decision.state, "a move leads to another state than was decided")
        require(taken.effects == tuple(pending(workflow, taken.state, given.at)), "a move has other effects")
        return taken

    def newest(self, run_id: str) -> str:
        """The last run of a chain; what is due and not started yet is started."""
        while (successor_id := self.loaded(run_id).continued_as) is not None:
            if successor_id not in self.runs:
                self._start_successor(run_id)
            run_id = successor_id
        return run_id

    def _start_successor(self, run_id: str) -> None:
        run, state = self.runs[run_id], self.loaded(run_id)
        given = successor_start(run.workflow, state, at=self.now)
        if given.run_id not in self.runs:
            self.counts["continued"] += 1
            decision = self.start(given.run_id, run.workflow, given)
            require(isinstance(decision, Accepted), f"the next run after {run_id} was refused: {decision}")

    def _keep(self, run: SimulatedRun, given: inputs.Input, decision: Accepted) -> None:
        records = decision.records
        crash = bool(records) and self.rng.random() < self.faults.append
        written = len(records)
        if crash:
            written = self.rng.randint(0, len(records)) if self.faults.torn else self.rng.choice([0, len(records)])
        if 0 < written < len(records):
            run.ledger.cuts += 1
        run.ledger.append(records[:written])
        run.ledger.taken.append((given, written, len(records)))
        if crash:
            self.counts["crashes"] += 1
            self.tell(f"{self.now} {run.ledger.run_id} CRASH, {written} of {len(records)} records written")
            raise Crashed
        run.state = decision.state
        require(run.state == run.ledger.state, "the live state is not the state of the stored history")

    def crash(self) -> None:
        """Lose everything that is not durable. What others send, they send again; some results still arrive."""
        for run in self.runs.values():
            run.state = None
        self.busy.clear()
        self.flights = [item for item in self.flights if item.from_outside or self.rng.random() < 0.4]

    def _told(self, run_id: str, given: inputs.Input, decision: Decision) -> None:
        told = f"REFUSED {decision.code}" if isinstance(decision, Refused) else ""
        if isinstance(decision, Accepted):
            told = " ".join(f"{record.name}({record.payload.get('nodeId', '')})" for record in decision.records)
        self.tell(f"{self.now} {run_id} {_short(given)} -> {told or 'nothing'}")

    # --- effects ---------------------------------------------------------------------------------

    def due(self, run_id: str) -> list[Effect]:
        """What a run wants done now and nobody is doing."""
        run, state = self.runs[run_id], self.loaded(run_id)
        effects = pending(run.workflow, state, self.now)
        require(
            effects == pending(run.workflow, run.ledger.state, self.now),
            "what is due differs between the live state and the stored history",
        )
        return [effect for effect in effects if effect.effect_id not in self.busy and not self._is_over(effect)]

    def _is_over(self, effect: Effect) -> bool:
        """Whether an effect that is due for ever was performed; that it was is durable."""
        return isinstance(effect, StartSuccessor) and effect.successor_id in self.runs

    def perform(self, run_id: str, effect: Effect) -> None:
        """Do what a run wants done."""
        self.runs[run_id].ledger.require_recorded(effect)
        self.counts["effects"] += 1
        match effect:
            case PerformActivity():
                self._perform_activity(run_id, effect)
            case WakeUp(kind=kind, node_id=node_id, visit=visit):
                fired = inputs.FireTimer(at=self.now, kind=kind, node_id=node_id, visit=visit)
                self._fly(run_id, fired, effect.effect_id, delay_ms=self.rng.choice([0, 0, 50, 4000]))
            case DeliverSignal():
                self._deliver(run_id, effect)
            case StartChild():
                self._start_child(run_id, effect)
            case StartSuccessor():
                self._start_successor(run_id)
            case CancelChild():
                self._cancel_child(run_id, effect)
            case WithdrawTask():
                self.busy.add(effect.effect_id)

    def _fly(self, run_id: str, given: inputs.Input, effect_id: str, delay_ms: int = 0) -> None:
        """Send an answer on its way; it may be lost (then the effect is due again) or arrive twice."""
        if self.rng.random() < self.faults.lost:
            self.counts["lost"] += 1
            return
        self.busy.add(effect_id)
        copies = 2 if self.rng.random() < self.faults.duplicate else 1
        for copy in range(copies):
            ready_at = self.now + delay_ms + copy * self.rng.choice([0, 10, 20_000])
            self.flights.append(Flight(run_id=run_id, given=given, ready_at=ready_at, effect_id=effect_id))

    def _perform_activity(self, run_id: str, effect: PerformActivity) -> None:
        if effect.at_most_once:
            if effect.effect_id in self.attempted_once:
                unknown = inputs.ReportOutcomeUnknown(
                    at=self.now, node_id=effect.node_id, visit=effect.visit, attempt=effect.attempt
                )
                self._fly(run_id, unknown, effect.effect_id)
                return
            self.attempted_once.add(effect.effect_id)
        self._check_secrets(effect)
        if self.rng.random() < self.faults.during_activity:
            self.counts["crashes"] += 1
            self.tell(f"{self.now} {run_id} CRASH during {effect.effect_id}")
            raise Crashed
        delay_ms = self.rng.choice([0, 5, 200, 1500, 6000])
        self._fly(run_id, self.outcome(effect), effect.effect_id, delay_ms)

    def _check_secrets(self, effect: PerformActivity) -> None:
        arguments = effect.arguments
        if isinstance(arguments, dict) and "token" in arguments and effect.node_type == "step":
            require(arguments["token"] == "***", "a secret stands in the arguments")
            named = (effect.secrets or {}).get("/token")
            require(named == "Bearer ${secret:API_KEY}", f"the executor cannot know which secret to use: {named}")

    def outcome(self, effect: PerformActivity) -> inputs.Input:
        """What an attempt comes to: the same every time it is asked for."""
        rng = random.Random(f"{self.seed}/{effect.effect_id}")
        holder = effect.lease.holder if effect.lease is not None else None
        if rng.random() < self.failure_share:
            code = rng.choice(["E_BUSY", "E_TEMPORARY", "FATAL", "E_ODD", None])
            return inputs.FailActivity(
                at=self.now,
                node_id=effect.node_id,
                visit=effect.visit,
                attempt=effect.attempt,
                error=f"attempt {effect.attempt} failed",
                code=code,
                retryable=rng.random() < 0.9,
                round=effect.round,
                holder=holder,
                extra={"usage": {"tokens": 2}} if rng.random() < 0.1 else None,
            )
        if rng.random() < _QUESTION_SHARE:
            return inputs.AskInActivity(
                at=self.now,
                node_id=effect.node_id,
                visit=effect.visit,
                attempt=effect.attempt,
                round=effect.round,
                question=f"question {effect.round + 1}?",
                answer_schema={"type": "object"},
                resume={"left at": effect.effect_id},
            )
        if effect.resume is not None:
            require(effect.answer is not None, f"{effect.effect_id} goes on without the answer it asked for")
        values: list[JsonValue] = [
            {"value": rng.randint(0, 9)},
            {"value": rng.randint(0, 9)},
            {"value": 1, "log": [rng.randint(0, 9)], "facts": {"seen": {effect.node_id: True}}},
            {"text": "é ☃"},
            "plain",
            None,
        ]
        return inputs.CompleteActivity(
            at=self.now,
            node_id=effect.node_id,
            visit=effect.visit,
            attempt=effect.attempt,
            round=effect.round,
            holder=holder,
            result=rng.choice(values),
            extra={"usage": {"tokens": 3}} if rng.random() < 0.1 else None,
        )

    def _deliver(self, run_id: str, effect: DeliverSignal) -> None:
        acknowledged = inputs.AcknowledgeEmit(at=self.now, node_id=effect.node_id, visit=effect.visit)
        if effect.target_run_id not in self.runs:
            acknowledged = replace(acknowledged, delivered=False, code="EXECUTION_NOT_FOUND", error="no such run")
        else:
            signal = inputs.SendSignal(
                at=self.now, name=effect.signal_name, payload=effect.payload, signal_id=effect.effect_id
            )
            decision = self.submit(effect.target_run_id, signal)
            if isinstance(decision, Refused):
                acknowledged = replace(acknowledged, delivered=False, code=decision.code, error=decision.message)
        self._fly(run_id, acknowledged, effect.effect_id, delay_ms=self.rng.choice([0, 100]))

    def _start_child(self, run_id: str, effect: StartChild) -> None:
        if effect.child_id not in self.runs:
            workflow = self.registry[effect.workflow_ref]
            given = inputs.StartRun(
                at=self.now,
                run_id=effect.child_id,
                input=effect.input,
                mode=self.loaded(run_id).mode,
                parent_run_id=run_id,
                depth=effect.depth,
            )
            decision = self.start(effect.child_id, workflow, given)
            if isinstance(decision, Refused):
                failed = inputs.FinishChild(
                    at=self.now, child_id=effect.child_id, status="failed", error=decision.message, code=decision.code
                )
                self._fly(run_id, failed, effect.effect_id)
                return
        self._report_child(run_id, effect.child_id, effect.effect_id)

    def _report_child(self, run_id: str, child_id: str, effect_id: str) -> None:
        state = self.loaded(self.newest(child_id))
        if state.terminal:
            failure = state.failure
            finished = inputs.FinishChild(
                at=self.now,
                child_id=child_id,
                status=str(state.status),
                result=state.result,
                final_state=state.values,
                error=failure.message if failure else state.cancel_reason,
                code=failure.code if failure else None,
            )
            self._fly(run_id, finished, effect_id, delay_ms=self.rng.choice([0, 300]))

    def _cancel_child(self, run_id: str, effect: CancelChild) -> None:
        parent_ended = self.loaded(run_id).terminal
        if effect.child_id not in self.runs:
            if not parent_ended:
                gone = inputs.FinishChild(at=self.now, child_id=effect.child_id, status="cancelled")
                self._fly(run_id, gone, effect.effect_id)
            return
        child = self.loaded(self.newest(effect.child_id))
        if not child.terminal and child.ending is None:
            cancel = inputs.CancelRun(at=self.now, reason="the parent run no longer needs it")
            self._fly(effect.child_id, cancel, effect.effect_id)
        elif child.terminal and not parent_ended:
            self._report_child(run_id, effect.child_id, effect.effect_id)

    # --- deliveries ------------------------------------------------------------------------------

    def deliver(self, flight: Flight) -> None:
        """Let an input arrive."""
        self.flights.remove(flight)
        if flight.from_outside:
            self.flights.append(flight)  # until it is known to be taken, its sender keeps it
        decision = self.submit(flight.run_id, replace(flight.given, at=self.now))
        if flight.from_outside:
            self.flights.remove(flight)
        if flight.effect_id is not None:
            self.busy.discard(flight.effect_id)
        if flight.must_be_refused:
            require(isinstance(decision, Refused), f"an invalid {_short(flight.given)} was taken")

    def statuses(self) -> dict[str, str]:
        """Every run with its status, for messages."""
        return {run_id: run_status(run.ledger.state) for run_id, run in self.runs.items()}


def _short(given: inputs.Input) -> str:
    parts = [type(given).__name__]
    for name in ("kind", "name", "node_id", "visit", "attempt", "child_id", "code"):
        value = getattr(given, name, None)
        if value not in (None, "", 0):
            parts.append(f"{name}={value}")
    return " ".join(parts)
