"""One seed, from beginning to end: random workflows, a time of faults, a time of rest, and all the checks.

`simulate_seed` is the whole of it; equal seeds do equal things. Above it: the command line and the tests. Below it:
`world` (what can happen), `workflows` (to what), `invariants` and `cuts` (what must hold).
"""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.base.json import JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.model import Workflow
from penstock.definitions.source.findings import Severity
from penstock.definitions.validate import validate_document
from penstock.engine import inputs
from penstock.engine.outcomes import Refused
from penstock.engine.pending import next_wake_up_at
from penstock.engine.state import RunState
from penstock.engine.transitions import Phase
from penstock.engine.walk.timers import timers_of
from tests.simulation.cuts import check_cut
from tests.simulation.invariants import check_chains, check_children, check_frames, check_history
from tests.simulation.ledger import InvariantBroken, require
from tests.simulation.workflows import SIGNALS, family
from tests.simulation.world import Crashed, Faults, Flight, World

__all__ = ["Report", "lived", "simulate_seed"]

_MAIN = "main"
_SIBLING = "sibling"
_REST_ROUNDS_MAX = 5_000
_CUTS_PER_RUN = 3
_DEEP: JsonValue = {"deep": []}
for _ in range(80):
    _DEEP = [_DEEP]


@dataclass(kw_only=True)
class Report:
    """What a seed came to."""

    seed: int
    torn: bool
    failure: str | None = None
    details: str = ""
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)


def simulate_seed(
    seed: int, *, torn: bool = False, every_cut: bool = False, tell: Callable[[str], None] | None = None
) -> Report:
    """Run one seed; a broken invariant or an exception of the engine is its failure."""
    report = Report(seed=seed, torn=torn)
    began = time.perf_counter()
    world: World | None = None
    try:
        scenario = _Scenario(seed=seed, torn=torn, tell=tell or (lambda line: None))
        world = scenario.world
        scenario.live()
        scenario.check(every_cut=every_cut)
    except InvariantBroken as broken:
        report.failure = str(broken)
        report.details = traceback.format_exc()
    except Exception as error:  # whatever the engine raises is a finding, and the next seed must run
        report.failure = f"{type(error).__name__}: {error}"
        report.details = traceback.format_exc()
    if world is not None:
        report.counts = dict(world.counts)
        report.counts["records"] = sum(len(run.ledger.rows) for run in world.runs.values())
        report.counts["runs"] = len(world.runs)
        report.statuses = world.statuses()
    report.seconds = time.perf_counter() - began
    return report


def lived(seed: int, *, torn: bool = False) -> World:
    """The world of a seed after its life, with the histories of all its runs."""
    scenario = _Scenario(seed=seed, torn=torn, tell=lambda line: None)
    scenario.live()
    return scenario.world


def _compiled(document: dict[str, JsonValue]) -> Workflow:
    errors = [item for item in validate_document(document) if item.severity is Severity.ERROR]
    require(not errors, f"the generator wrote an invalid document: {errors[:2]}")
    return build_workflow(document)


class _Scenario:
    def __init__(self, *, seed: int, torn: bool, tell: Callable[[str], None]) -> None:
        self.rng = random.Random(f"penstock-{seed}-{torn}")
        rng = self.rng
        # How much time goes by is not the same after a tear, so policies that count it would decide differently.
        documents = family(rng, timed_retries=not torn)
        self.main = _compiled(documents.main)
        self.sibling = _compiled(documents.sibling)
        registry = {name: _compiled(document) for name, document in documents.children.items()}
        heat = rng.choice([0.0, 0.5, 1.0, 2.0])
        faults = Faults(
            append=0.05 * heat, lost=0.08 * heat, duplicate=0.15 * heat, during_activity=0.06 * heat, torn=torn
        )
        share = rng.choice([0.0, 0.0, 0.1, 0.2, 0.5])
        self.world = World(seed=str(seed), rng=rng, registry=registry, faults=faults, failure_share=share, tell=tell)
        self.heat = heat
        self.unanswered = rng.random() < 0.1
        self.rows_seen = 0

    # --- a life ----------------------------------------------------------------------------------

    def live(self) -> None:
        """Start, live through the faults, and come to rest."""
        world, rng = self.world, self.rng
        given: JsonValue = {"n": rng.randint(0, 4), "items": list(range(rng.randint(0, 4))), "odd": 3}
        mode = rng.choice(["in_process", "host_mediated"])
        main = inputs.StartRun(at=world.now, run_id=_MAIN, input=given, mode=mode)
        sibling = inputs.StartRun(at=world.now, run_id=_SIBLING, input={})
        while _MAIN not in world.runs:
            self._try(lambda: world.start(_MAIN, self.main, main))
        while _SIBLING not in world.runs:
            self._try(lambda: world.start(_SIBLING, self.sibling, sibling))
        for _ in range(rng.randint(50, 900)):
            self._try(self._something)
            self._check_growth()
            if all(run.ledger.state.terminal for run in world.runs.values()) and rng.random() < 0.2:
                break
        self._rest()

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Crashed:
            self.world.crash()

    def _something(self) -> None:
        actions: list[tuple[float, Callable[[], None]]] = [
            (10, self._dispatch),
            (12, self._arrive),
            (3, self._let_time_pass),
            (3, self._answer),
            (1, self._signal),
            (0.8 * self.heat, self._nonsense),
            (0.4 * self.heat, self._operate),
            (1, self._lease),
            (0.3 * self.heat, self._crash),
        ]
        weights = [weight for weight, _ in actions]
        self.rng.choices([action for _, action in actions], weights)[0]()

    def _check_growth(self) -> None:
        rows = sum(len(run.ledger.rows) for run in self.world.runs.values())
        if rows != self.rows_seen:
            self.rows_seen = rows
            for run in self.world.runs.values():
                check_frames(run.workflow, run.ledger.state)
            check_children(self.world.runs, at_rest=False)

    def _any_run(self) -> str:
        return self.rng.choice(list(self.world.runs))

    def _dispatch(self) -> None:
        run_id = self._any_run()
        effects = self.world.due(run_id)
        if effects:
            self.world.perform(run_id, self.rng.choice(effects))

    def _arrive(self) -> None:
        ready = [flight for flight in self.world.flights if flight.ready_at <= self.world.now]
        if ready:
            self.world.deliver(self.rng.choice(ready))

    def _let_time_pass(self) -> None:
        world, rng = self.world, self.rng
        moments = [flight.ready_at for flight in world.flights]
        moments += [moment for run in world.runs.values() if (moment := next_wake_up_at(run.ledger.state))]
        later = [moment for moment in moments if moment > world.now]
        jump = rng.random()
        if jump < 0.1 * self.heat:
            world.now += rng.randint(0, 300_000)
        elif jump < 0.15 * self.heat:
            world.now -= rng.randint(0, 2_000)
        elif later:
            world.now = rng.choice(later)
        world.tell(f"{world.now} -- the clock")

    def _crash(self) -> None:
        self.world.counts["crashes"] += 1
        self.world.tell(f"{self.world.now} -- CRASH")
        raise Crashed

    # --- people and other systems ----------------------------------------------------------------

    def _from_outside(self, run_id: str, given: inputs.Input, *, must_be_refused: bool = False) -> None:
        copies = 2 if self.rng.random() < 0.2 * self.heat else 1
        for _ in range(copies):
            ready_at = self.world.now + self.rng.choice([0, 0, 500, 30_000])
            self.world.flights.append(
                Flight(
                    run_id=run_id,
                    given=given,
                    ready_at=ready_at,
                    from_outside=True,
                    must_be_refused=must_be_refused,
                )
            )

    def _waiting(self, run_id: str, *phases: Phase) -> list[tuple[str, int]]:
        state = self.world.loaded(run_id)
        return [activation.key for activation in state.activations() if activation.phase in phases]

    def _answer(self) -> None:
        run_id = self._any_run()
        questions = self._waiting(run_id, Phase.INTERRUPTED, Phase.ASKING)
        if not questions:
            return
        node_id, visit = self.rng.choice(questions)
        answer: JsonValue = {"approve": self.rng.random() < 0.5, "count": self.rng.randint(0, 5)}
        refused = self.rng.random() < 0.2 * self.heat
        if refused:
            wrong: list[JsonValue] = ["yes", None, [True], _DEEP]
            answer = self.rng.choice(wrong)
        given = inputs.AnswerInterrupt(at=0, answer=answer, node_id=node_id, visit=visit, by="ada")
        self._from_outside(run_id, given, must_be_refused=refused)

    def _signal(self) -> None:
        run_id, rng = self._any_run(), self.rng
        name = rng.choice(SIGNALS)
        signal_id = f"signal-{rng.randint(0, 6)}" if rng.random() < 0.5 else None
        payloads: list[JsonValue] = [None, {"count": 3}, {"log": ["signalled"]}, "text"]
        sent = inputs.SendSignal(at=0, name=name, payload=rng.choice(payloads), signal_id=signal_id)
        self._from_outside(run_id, sent)

    def _lease(self) -> None:
        """A host takes, keeps or gives back an activity; a lease that somebody else has is not given."""
        run_id, rng = self._any_run(), self.rng
        waiting = self._waiting(run_id, Phase.REQUESTED)
        if not waiting:
            return
        node_id, visit = rng.choice(waiting)
        given = inputs.LeaseActivity(
            at=0,
            node_id=node_id,
            visit=rng.choice([visit, None]),
            holder=rng.choice(["ada", "bob", "cyd"]),
            lease_ms=rng.choice([0, 1_000, 5_000, 60_000]),
            extend=rng.random() < 0.2,
        )
        mediated = self.world.loaded(run_id).mode == "host_mediated"
        self._from_outside(run_id, given, must_be_refused=not mediated)

    def _nonsense(self) -> None:
        """Inputs that no run may take, whatever it is doing."""
        run_id = self._any_run()
        state = self.world.loaded(run_id)
        wrong: list[inputs.Input] = [
            inputs.CompleteActivity(at=0, node_id="no_such_node", result={}),
            inputs.FailActivity(at=0, node_id="no_such_node", error="late", visit=3),
            inputs.StartRun(at=0, run_id=run_id, input={}),
            inputs.FinishChild(at=0, child_id="no-such-child", status="completed"),
            inputs.AcknowledgeEmit(at=0, node_id="no_such_node", visit=1),
            inputs.FireTimer(at=0, kind="wait", node_id="no_such_node", visit=1),
            inputs.AnswerInterrupt(at=0, answer={"approve": True}, node_id="no_such_node"),
            inputs.RetryActivity(at=0, node_id="no_such_node"),
        ]
        for activation in state.activations():
            node_id, visit = activation.key
            wrong.append(inputs.CompleteActivity(at=0, node_id=node_id, visit=visit, attempt=99, result={}))
            wrong.append(inputs.CompleteActivity(at=0, node_id=node_id, visit=visit, result=_DEEP))
            wrong.append(inputs.FailActivity(at=0, node_id=node_id, visit=visit + 1000, error="from the future"))
        flight = Flight(
            run_id=run_id, given=self.rng.choice(wrong), ready_at=0, from_outside=True, must_be_refused=True
        )
        self.world.flights.append(flight)
        self.world.deliver(flight)
        self._early_timer(run_id)

    def _early_timer(self, run_id: str) -> None:
        early = [timer for timer in timers_of(self.world.loaded(run_id)) if timer.due_at > self.world.now]
        if early:
            timer = self.rng.choice(early)
            given = inputs.FireTimer(at=self.world.now, kind=timer.kind, node_id=timer.node_id, visit=timer.visit)
            decision = self.world.submit(run_id, given)
            require(isinstance(decision, Refused), f"the timer {timer} fired before it was due")

    def _operate(self) -> None:
        run_id, rng = self._any_run(), self.rng
        unknown = self._waiting(run_id, Phase.OUTCOME_UNKNOWN)
        if unknown and rng.random() < 0.7:
            node_id, visit = rng.choice(unknown)
            self._from_outside(run_id, inputs.RetryActivity(at=0, node_id=node_id, visit=visit, by="ada"))
        elif rng.random() < 0.12:
            self._from_outside(run_id, inputs.CancelRun(at=0, reason=rng.choice([None, "not wanted"])))
        elif rng.random() < 0.5:
            self._from_outside(run_id, inputs.PauseRun(at=0, reason="lunch"))
        else:
            self._from_outside(run_id, inputs.ResumeRun(at=0))

    # --- coming to rest --------------------------------------------------------------------------

    def _rest(self) -> None:
        """No more faults: everything under way arrives, everything due is done, people answer."""
        world = self.world
        world.faults = Faults()
        world.crash()
        world.tell(f"{world.now} -- no more faults")
        for _ in range(_REST_ROUNDS_MAX):
            before = self._rows()
            self._settle_everything()
            if self._rows() == before and not self._under_way() and not self._pass_time():
                return
        require(False, f"the world does not come to rest: {world.statuses()}")

    def _rows(self) -> int:
        return sum(len(run.ledger.rows) for run in self.world.runs.values())

    def _under_way(self) -> bool:
        return any(flight.ready_at <= self.world.now for flight in self.world.flights)

    def _settle_everything(self) -> None:
        world = self.world
        for flight in [item for item in world.flights if item.ready_at <= world.now]:
            world.deliver(flight)
        for run_id in list(world.runs):
            state = world.loaded(run_id)
            if state.paused:
                world.submit(run_id, inputs.ResumeRun(at=world.now))
            for effect in world.due(run_id):
                world.perform(run_id, effect)
            self._help(run_id, world.loaded(run_id))

    def _help(self, run_id: str, state: RunState) -> None:
        world = self.world
        for activation in state.activations():
            node_id, visit = activation.key
            match activation.phase:
                case Phase.OUTCOME_UNKNOWN:
                    world.submit(run_id, inputs.RetryActivity(at=world.now, node_id=node_id, visit=visit))
                    return
                case Phase.INTERRUPTED | Phase.ASKING if not self.unanswered:
                    answered = inputs.AnswerInterrupt(
                        at=world.now, answer={"approve": True}, node_id=node_id, visit=visit
                    )
                    world.submit(run_id, answered)
                    return
                case Phase.AWAITING_SIGNAL if not self.unanswered:
                    name = str((activation.external or {})["signalName"])
                    world.submit(run_id, inputs.SendSignal(at=world.now, name=name, payload={"late": True}))
                    return
                case _:
                    pass

    def _pass_time(self) -> bool:
        world = self.world
        moments = [flight.ready_at for flight in world.flights]
        moments += [moment for run in world.runs.values() if (moment := next_wake_up_at(run.ledger.state)) is not None]
        later = [moment for moment in moments if moment > world.now]
        if later:
            world.now = min(later)
        return bool(later)

    # --- what must hold --------------------------------------------------------------------------

    def check(self, *, every_cut: bool) -> None:
        """Every check on every history."""
        world = self.world
        for run_id, run in world.runs.items():
            require(run.ledger.state.terminal or self.unanswered, f"{run_id} did not end: {world.statuses()[run_id]}")
            try:
                check_history(run)
                rows = len(run.ledger.records)
                cuts = (
                    range(1, rows + 1)
                    if every_cut
                    else sorted(self.rng.sample(range(1, rows + 1), min(rows, _CUTS_PER_RUN)))
                )
                for cut in cuts:
                    check_cut(run.workflow, run.ledger.records, cut, exact=run.ledger.cuts == 0)
            except InvariantBroken as broken:
                raise InvariantBroken(f"{run_id}: {broken}") from broken
        check_children(world.runs, at_rest=True)
        check_chains(world.runs)
