"""What a run asks of other runs and of executors, on any host: each effect as the call and the inputs that it comes to.

A host decides when an effect is performed and that it is performed at least once; what performing means is the same on
every host and stands here. All of it may be done again: a child that exists is not started twice, a signal has its id,
and an input that comes twice is refused by the engine.

Above it: the driver; hosts that perform effects themselves. Below it: the host port, `children`, `chains`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base.ids import id_in_tenant
from penstock.engine import inputs
from penstock.engine.effects import (
    CancelChild,
    DeliverSignal,
    Effect,
    PerformActivity,
    StartChild,
    StartSuccessor,
    WakeUp,
)
from penstock.engine.outcomes import Refused
from penstock.engine.state import RunState
from penstock.runtime.activities.performing import ActivityCall
from penstock.runtime.host.chains import start_successor
from penstock.runtime.host.children import ChildRuns
from penstock.runtime.host.live import RunSnapshot
from penstock.runtime.host.port import RunHost
from penstock.runtime.ownership.lease import Ownership

__all__ = ["RunEffects", "activity_call"]


def activity_call(run: RunSnapshot, effect: PerformActivity, ownership: Ownership | None = None) -> ActivityCall:
    """An attempt of an activity as an executor gets it; `ownership` where others may take the run over."""
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
    )


@dataclass(frozen=True, slots=True)
class RunEffects:
    """Performs what runs want of other runs, through their host."""

    host: RunHost

    async def perform(self, run: RunSnapshot, effect: Effect) -> Refused | None:
        """Do what one run wants of others; why the run that was to follow it cannot begin, if it cannot.

        Activities and timers are nothing between runs: they are left to the host.
        """
        match effect:
            case StartChild():
                await ChildRuns(self.host).start(run, effect)
            case StartSuccessor():
                return await start_successor(self.host, run)
            case CancelChild():
                await ChildRuns(self.host).cancel(run, effect)
            case DeliverSignal():
                await self._deliver(run, effect)
            case PerformActivity() | WakeUp():
                pass
        return None

    async def ended(self, state: RunState) -> None:
        """Tell whoever waits for a run in another run that it has ended."""
        await ChildRuns(self.host).tell_parent(state)

    async def _deliver(self, run: RunSnapshot, effect: DeliverSignal) -> None:
        now, state = self.host.clock.now_ms(), run.state
        signal = inputs.SendSignal(
            at=now,
            name=effect.signal_name,
            payload=effect.payload,
            signal_id=effect.effect_id,
            untrusted=state.untrusted,
        )
        # A document names runs as callers of its tenant do.
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
