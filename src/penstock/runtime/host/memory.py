"""A host in memory: keeps histories in lists, performs effects in the calling thread, knows parents and children.

It is the basis of tests, of `penstock workflow simulate` and of the conformance harness. Nothing survives the process.
It is not a `RunHost`: it works step by step when it is called, and callers cannot wait for it.

Above it: the control plane, the simulator. Below it: the pure engine; a `Performer`; a clock and a resolver of workflow
references, both passed in. Time passes only when the clock says so: a wait that is not due returns to the caller and
never blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.base.errors import CorruptHistory
from penstock.base.ids import in_run_tree
from penstock.definitions.jq.expressions import Evaluator, InProcessEvaluator
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
from penstock.engine.outcomes import Accepted, Decision, Refused
from penstock.engine.pending import pending
from penstock.engine.records import Record
from penstock.engine.state import Child, RunState
from penstock.engine.walk.starting import successor_start
from penstock.runtime.activities.performing import (
    ActivityAsks,
    ActivityDeferred,
    ActivityDone,
    ActivityError,
    ActivityOutcome,
    Performer,
    Unconfigured,
    input_of,
)

__all__ = ["HostedRun", "MemoryHost", "Resolver"]

Resolver = Callable[[str, str | None], Workflow | None]


@dataclass(slots=True)
class HostedRun:
    """A run with its pinned workflow, its state and its whole history."""

    workflow: Workflow
    state: RunState
    records: list[Record] = field(default_factory=list)
    deferred: set[str] = field(default_factory=set)  # effects whose results will be reported from elsewhere


def _resolve_nothing(reference: str, version_pin: str | None) -> Workflow | None:
    return None


@dataclass(slots=True, kw_only=True)
class MemoryHost:
    """Runs by id. `clock` returns epoch milliseconds."""

    clock: Callable[[], int]
    performer: Performer = field(default_factory=Unconfigured)
    resolve: Resolver = _resolve_nothing
    evaluator: Evaluator = field(default_factory=InProcessEvaluator)
    runs: dict[str, HostedRun] = field(default_factory=dict)
    # Stand-ins for child runs and for the runs that receive signals. If one returns None or False, the real thing is
    # done.
    stand_in_child: Callable[[RunState, Child], ActivityOutcome | None] = lambda state, child: None
    stand_in_target: Callable[[RunState, DeliverSignal], bool] = lambda state, effect: False
    observe: Callable[[str, tuple[Record, ...]], None] = lambda run_id, records: None
    # Whether the run that continues an ended one is started.
    follows: Callable[[RunState], bool] = lambda state: True
    _moves: int = 0

    def start(self, workflow: Workflow, given: inputs.StartRun) -> Decision:
        """Start a run; an existing id is refused."""
        if given.run_id in self.runs:
            return Refused("DUPLICATE_EXECUTION_ID", f"run {given.run_id} exists already")
        decision = decide(workflow, RunState(), given, evaluator=self.evaluator)
        if isinstance(decision, Accepted):
            self.runs[given.run_id] = HostedRun(workflow, decision.state)
            self._keep(given.run_id, decision)
        return decision

    def send(self, run_id: str, given: inputs.Input, *, tenant: str | None = None) -> Decision:
        """Give a run an input and store what follows from it. A run of another tenant counts as unknown."""
        run = self.runs.get(run_id)
        if run is None or tenant not in (None, run.state.tenant):
            return Refused("EXECUTION_NOT_FOUND", f"there is no run {run_id}")
        if isinstance(given, inputs.FORWARDED_TO_SUCCESSOR):
            run = self.newest(run_id)
            run_id = run.state.run_id
        decision = decide(run.workflow, run.state, given, evaluator=self.evaluator)
        if isinstance(decision, Accepted):
            self._keep(run_id, decision)
        return decision

    def adopt(self, run_id: str, workflow: Workflow, state: RunState, records: list[Record]) -> None:
        """Take over a run whose history came from elsewhere."""
        self.runs[run_id] = HostedRun(workflow, state, list(records))

    def _keep(self, run_id: str, decision: Accepted) -> None:
        run = self.runs[run_id]
        run.state = decision.state
        # A history adopted from elsewhere may number its rows differently; the stored order counts.
        offset = len(run.records) + 1
        run.records.extend(
            record if record.seq == offset + index else replace(record, seq=offset + index)
            for index, record in enumerate(decision.records)
        )
        self._moves += 1
        self.observe(run_id, decision.records)

    def drive(self, run_id: str, *, activities: bool = True) -> None:
        """Perform what is due in a run, its parents and its child runs; activities only if asked to."""
        moved = True
        while moved:
            before = self._moves
            for name in self._run_tree(run_id):
                self._perform_due(name, activities=activities)
            moved = self._moves > before

    def _run_tree(self, run_id: str) -> list[str]:
        """Return the run, its children and its parents: an effect of one can be due because of another."""
        root = run_id
        while (parent := self.runs[root].state.parent_run_id) in self.runs and parent is not None:
            root = parent
        return [name for name in self.runs if in_run_tree(name, root)]

    def _perform_due(self, run_id: str, *, activities: bool) -> None:
        run = self.runs[run_id]
        for effect in pending(run.workflow, run.state, self.clock()):
            waits = not activities and isinstance(effect, PerformActivity)
            if waits or effect.effect_id in run.deferred:
                continue
            before = self._moves
            self._perform(run_id, run, effect)
            if self._moves > before:
                return  # the state moved, so other effects may be due now

    def _perform(self, run_id: str, run: HostedRun, effect: Effect) -> None:
        match effect:
            case PerformActivity():
                self._perform_activity(run_id, run, effect)
            case WakeUp(kind=kind, node_id=node_id, visit=visit):
                self.send(run_id, inputs.FireTimer(at=self.clock(), kind=kind, node_id=node_id, visit=visit))
            case DeliverSignal():
                self._deliver(run_id, effect)
            case StartChild():
                self._start_child(run_id, run, effect)
            case StartSuccessor():
                run.deferred.add(effect.effect_id)
                self._start_successor(run)
            case WithdrawTask():
                run.deferred.add(effect.effect_id)  # what stands in for activities here has no tasks outside
            case CancelChild(child_id=child_id):
                run.deferred.add(effect.effect_id)
                cancel = inputs.CancelRun(at=self.clock(), reason="the parent run no longer needs it")
                if child_id in self.runs:
                    self.send(child_id, cancel)
                elif not run.state.terminal:
                    gone = inputs.FinishChild(
                        at=self.clock(), child_id=child_id, status="cancelled", error="it never began"
                    )
                    self.send(run_id, gone)

    def _perform_activity(self, run_id: str, run: HostedRun, effect: PerformActivity) -> None:
        at, outcome = self.clock(), self.performer.perform(run.state, effect)
        if isinstance(outcome, ActivityDeferred):
            run.deferred.add(effect.effect_id)
            return
        decision = self.send(run_id, input_of(at, effect, outcome))
        if isinstance(decision, Refused):
            raise CorruptHistory(decision.code, f"a result for {effect.effect_id} was refused: {decision.message}")

    def _deliver(self, run_id: str, effect: DeliverSignal) -> None:
        acknowledged = inputs.AcknowledgeEmit(at=self.clock(), node_id=effect.node_id, visit=effect.visit)
        if self.stand_in_target(self.runs[run_id].state, effect):
            self.send(run_id, acknowledged)
            return
        signal = inputs.SendSignal(
            at=self.clock(),
            name=effect.signal_name,
            payload=effect.payload,
            signal_id=effect.effect_id,
            untrusted=self.runs[run_id].state.untrusted,
        )
        decision = self.send(effect.target_run_id, signal, tenant=self.runs[run_id].state.tenant)
        if isinstance(decision, Refused):
            acknowledged = replace(acknowledged, delivered=False, code=decision.code, error=decision.message)
        self.send(run_id, acknowledged)

    def _start_child(self, run_id: str, run: HostedRun, effect: StartChild) -> None:
        outcome = self.stand_in_child(run.state, run.state.children[effect.child_id])
        if outcome is not None:
            self.send(run_id, _finished(self.clock(), effect.child_id, outcome))
            return
        child = self.runs.get(effect.child_id)
        if child is None:
            refusal = self._begin_child(run_id, run, effect)
            if refusal is not None:
                finished = inputs.FinishChild(
                    at=self.clock(),
                    child_id=effect.child_id,
                    status="failed",
                    error=refusal.message,
                    code=refusal.code,
                )
                self.send(run_id, finished)
                return
        child = self.newest(effect.child_id)
        if child.state.terminal and child.state.continuation is None:
            state = child.state
            failure = state.failure
            self.send(
                run_id,
                inputs.FinishChild(
                    at=self.clock(),
                    child_id=effect.child_id,
                    status=str(state.status),
                    result=state.result,
                    final_state=state.values,
                    error=failure.message if failure else state.cancel_reason,
                    code=failure.code if failure else None,
                    untrusted=state.untrusted,
                ),
            )

    def newest(self, run_id: str) -> HostedRun:
        """Return the last run of a chain, starting it if needed."""
        run = self.runs[run_id]
        while run.state.continued_as is not None and self._start_successor(run):
            run = self.runs[run.state.continued_as]
        return run

    def _start_successor(self, run: HostedRun) -> bool:
        """Start the run that continues an ended one, if it is wanted; return whether it exists."""
        going_on = run.state.continuation
        if going_on is None or not self.follows(run.state):
            return False
        if going_on.run_id not in self.runs:
            newest = self.resolve(run.state.workflow_name, None) if going_on.newest else None
            self.start(newest or run.workflow, successor_start(run.workflow, run.state, at=self.clock()))
        return True

    def _begin_child(self, run_id: str, run: HostedRun, effect: StartChild) -> Refused | None:
        workflow = self.resolve(effect.workflow_ref, effect.version_pin)
        if workflow is None:
            return Refused("WORKFLOW_NOT_FOUND", f"there is no workflow {effect.workflow_ref}")
        if effect.version_pin is not None and workflow.hash != effect.version_pin:
            message = f"{effect.workflow_ref} is not the pinned version {effect.version_pin[:12]}…"
            return Refused("VERSION_PIN_MISMATCH", message)
        given = inputs.StartRun(
            at=self.clock(),
            run_id=effect.child_id,
            input=effect.input,
            mode=run.state.mode,
            tenant=run.state.tenant,
            parent_run_id=run_id,
            depth=effect.depth,
            client_kinds=run.state.client_kinds,
            started_by=run.state.started_by,
            starter=run.state.starter,
            untrusted=run.state.untrusted,
        )
        decision = self.start(workflow, given)
        return decision if isinstance(decision, Refused) else None


def _finished(at: int, child_id: str, outcome: ActivityOutcome) -> inputs.FinishChild:
    match outcome:
        case ActivityDone(result=result):
            final_state = result if isinstance(result, dict) else {}
            return inputs.FinishChild(
                at=at, child_id=child_id, status="completed", result=result, final_state=final_state
            )
        case ActivityError(error=error, code=code):
            return inputs.FinishChild(at=at, child_id=child_id, status="failed", error=error, code=code)
        case ActivityDeferred() | ActivityAsks():
            raise TypeError("a stand-in for a child run cannot defer or ask")
