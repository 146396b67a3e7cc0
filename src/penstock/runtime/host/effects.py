"""What performing an effect means on any host: the calls and inputs that each effect leads to.

A host decides when an effect is performed and guarantees that it is performed at least once. What performing means is
the same on every host and is defined here. All of it can be repeated: a child that exists is not started twice, a
signal has an id, and the engine refuses a duplicate input.

Above it: the driver; hosts that perform effects themselves. Below it: the host port, `chains`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import msgspec

from penstock.base.clock import Clock
from penstock.base.ids import chain_of, id_in_tenant
from penstock.base.traces import TRACE_LABEL
from penstock.engine import inputs
from penstock.engine.approved import approved_reach
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
from penstock.engine.outcomes import Decision, Refused
from penstock.engine.state import RunState
from penstock.runtime.activities.budgets import budget_of
from penstock.runtime.activities.performing import (
    ActivityCall,
    ActivityError,
    AsyncPerformer,
    Ownership,
    Slot,
    TextReaders,
)
from penstock.runtime.chains import child_labels, start_successor
from penstock.runtime.child_starts import ChildStarter, child_start, child_workflow
from penstock.runtime.ports.host import RunHost, RunSnapshot
from penstock.runtime.spending import Spend

__all__ = [
    "ChildRuns",
    "RunEffects",
    "SpendingClock",
    "activity_call",
]


@dataclass(frozen=True, slots=True)
class SpendingClock:
    """Where what models cost is counted, and the time."""

    spend: Spend
    clock: Clock


def activity_call(
    run: RunSnapshot,
    effect: PerformActivity,
    ownership: Ownership | None = None,
    slot: Slot | None = None,
    readers: TextReaders | None = None,
    spending: SpendingClock | None = None,
) -> ActivityCall:
    """Build the call of an activity for its executor; pass `ownership` if another process could take over the run.

    With `spending`, what it spends on models counts for its run and the runs above it.
    """
    state = run.state
    return ActivityCall(
        run_id=state.run_id,
        workflow_name=state.workflow_name,
        activity=effect,
        values=state.values,
        tenant=state.tenant,
        client_kinds=state.client_kinds,
        principal=state.started_by,
        epoch=run.row.epoch,
        ownership=ownership,
        slot=slot,
        readers=readers,
        trace=run.row.labels.get(TRACE_LABEL) if run.row.labels else None,
        labels=run.row.labels,
        budget=None if spending is None else budget_of(run.row, run.workflow.limits, spending.spend, spending.clock),
        approved=approved_reach(state.starter),
    )


@dataclass(frozen=True, slots=True)
class RunEffects:
    """Performs the effects of runs on other runs, through their host, and on what ended runs have left behind."""

    host: RunHost
    start_child: ChildStarter | None = None
    performer: AsyncPerformer | None = None
    """Who withdraws tasks; without it, no activity has begun one."""

    async def perform(self, run: RunSnapshot, effect: Effect) -> Refused | None:
        """Perform an effect. Return the refusal of a successor that cannot start, or of a task that is not withdrawn.

        Activities and timers are left to the host.
        """
        match effect:
            case StartChild():
                await ChildRuns(self.host, self.start_child).start(run, effect)
            case StartSuccessor():
                return await start_successor(self.host, run)
            case CancelChild():
                await ChildRuns(self.host).cancel(run, effect)
            case DeliverSignal():
                await self._deliver(run, effect)
            case WithdrawTask():
                return await self._withdraw(run, effect)
            case PerformActivity() | WakeUp():
                pass
        return None

    async def ended(self, state: RunState) -> None:
        """Report the end of a run to its parent."""
        await ChildRuns(self.host).tell_parent(state)

    async def _withdraw(self, run: RunSnapshot, effect: WithdrawTask) -> Refused | None:
        """Let the performer of an attempt cancel the task that it began. The run has ended, whatever comes of it."""
        if self.performer is None:
            return None
        call = msgspec.structs.replace(activity_call(run, effect.activity), withdraws=True)
        try:
            outcome = await self.performer.perform(call)
        except Exception as error:  # an executor that raises has not withdrawn it, and is not asked again
            outcome = ActivityError(f"the executor raised {type(error).__name__}", "EXECUTOR_ERROR")
        if isinstance(outcome, ActivityError):
            message = f"the task of node {call.activity.node_id} was not cancelled: {outcome.error}"
            self.host.progress.log(call, logging.WARNING, message)
            return Refused(outcome.code, message)
        self.host.progress.log(call, logging.INFO, "the task that waited for an answer was cancelled")
        return None

    async def _deliver(self, run: RunSnapshot, effect: DeliverSignal) -> None:
        now, state = self.host.clock.now_ms(), run.state
        signal = inputs.SendSignal(
            at=now,
            name=effect.signal_name,
            payload=effect.payload,
            signal_id=effect.effect_id,
            untrusted=state.untrusted,
        )
        # A document uses the run ids that callers of its tenant use.
        target = id_in_tenant(state.tenant, effect.target_run_id)
        decision = await self.host.send(target, signal, tenant=state.tenant)
        refused = decision if isinstance(decision, Refused) else None
        acknowledged = inputs.AcknowledgeEmit(
            at=now,
            node_id=effect.node_id,
            visit=effect.visit,
            delivered=refused is None,
            code=refused.code if refused else None,
            error=refused.message if refused else None,
        )
        await self.host.send(state.run_id, acknowledged)


@dataclass(frozen=True, slots=True)
class ChildRuns:
    """Performs the effects of parents on their child runs."""

    host: RunHost
    starter: ChildStarter | None = None

    async def start(self, live: RunSnapshot, effect: StartChild) -> None:
        """Start a child unless it exists; if it has already ended, report its end to the parent again."""
        child = await self.host.read(effect.child_id)
        if child is not None and child.continuation is not None:
            child = await self.host.read(await self.host.newest(effect.child_id))
        if child is None:
            refused = await self._begin(live, effect)
            if refused is not None:
                failed = inputs.FinishChild(
                    at=self.host.clock.now_ms(),
                    child_id=effect.child_id,
                    status="failed",
                    error=refused.message,
                    code=refused.code,
                )
                await self.host.send(live.state.run_id, failed)
                return
            wanted = live.state.children.get(effect.child_id)
            if wanted is None or wanted.abandoned:
                await self._cancel(effect.child_id)  # the parent gave up while it started, and found none to cancel
        elif child.terminal:
            await self.tell_parent(child)

    async def _begin(self, live: RunSnapshot, effect: StartChild) -> Refused | None:
        if self.starter is not None:
            begun = await self.starter(live, effect)
            if begun is not None:
                return begun if isinstance(begun, Refused) else None
        workflow = await child_workflow(self.host, live.state, effect)
        if isinstance(workflow, Refused):
            return workflow
        given = child_start(live.state, effect, self.host.clock.now_ms())
        decision = await self.host.start(given, workflow_hash=workflow.hash, labels=child_labels(live.row.labels))
        if isinstance(decision, Refused) and decision.code != "DUPLICATE_EXECUTION_ID":
            return decision
        return None

    async def cancel(self, live: RunSnapshot, effect: CancelChild) -> None:
        """Cancel a child that its parent no longer needs; if it has ended or never began, tell the parent."""
        if not isinstance(await self._cancel(effect.child_id), Refused) or live.state.terminal:
            return
        child = await self.host.read(await self.host.newest(effect.child_id))
        if child is None:
            at = self.host.clock.now_ms()
            gone = inputs.FinishChild(at=at, child_id=effect.child_id, status="cancelled", error="it never began")
            await self.host.send(live.state.run_id, gone)
        elif child.terminal:
            await self.tell_parent(child)

    async def tell_parent(self, child: RunState) -> None:
        """Report the end of a run to its parent; in a chain, only the last run does so."""
        if child.parent_run_id is None or child.continuation is not None:
            return
        failure = child.failure
        finished = inputs.FinishChild(
            at=self.host.clock.now_ms(),
            child_id=chain_of(child.run_id),  # the parent knows only the first run of a chain
            status=str(child.status),
            result=child.result,
            final_state=child.values,
            error=failure.message if failure else child.cancel_reason,
            code=failure.code if failure else None,
            untrusted=child.untrusted,
        )
        await self.host.send(child.parent_run_id, finished)

    async def _cancel(self, child_id: str) -> Decision:
        reason = "the parent run no longer needs it"
        return await self.host.send(child_id, inputs.CancelRun(at=self.host.clock.now_ms(), reason=reason))
