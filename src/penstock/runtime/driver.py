"""The driver: performs what runs ask for, fires their timers, and looks after runs that lost their process.

It reacts to commits of its host. An effect is performed once at a time; when it is no longer wanted (its node timed
out, its run was cancelled) its task is cancelled. Nothing is scheduled that a restart could not find again: at its
start and every so often the driver claims runs with work whose owner is gone and asks `pending` what is due.

Above it: `Penstock`, the worker command. Below it: `EmbeddedHost`, an `AsyncPerformer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.engine import inputs
from penstock.engine.effects import CancelChild, DeliverSignal, Effect, PerformActivity, StartChild, WakeUp
from penstock.engine.outcomes import Decision, Refused
from penstock.engine.pending import pending
from penstock.engine.state import RunState
from penstock.runtime.embedded_host import Committed, EmbeddedHost, LiveRun
from penstock.runtime.performing import (
    ActivityCall,
    ActivityDeferred,
    ActivityDone,
    ActivityError,
    ActivityOutcome,
    AsyncPerformer,
)
from penstock.runtime.ports import WorkerRow

__all__ = ["Driver"]

# The longest nap between two looks at the timers: finds what another process scheduled.
_TIMER_LOOK_SECONDS = 1.0
# How soon an outcome is offered again to a store that cannot take it (a full disk, a lock), and how late at most.
_STORE_RETRY_SECONDS = 0.1
_STORE_RETRY_SECONDS_MAX = 5.0


@dataclass(slots=True, kw_only=True)
class Driver:
    """Performs effects until it is stopped.

    `report` hears of faults that nobody else would see, `observe` of everything that is stored here.
    """

    host: EmbeddedHost
    performer: AsyncPerformer
    report: Callable[[str, BaseException], None] = lambda where, error: None
    observe: Callable[[Committed], None] = lambda committed: None
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(limits.ACTIVITIES_AT_ONCE_MAX))
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    # Tasks that are just storing a result: each takes over the next activity of its run without a new task.
    _couriers: dict[asyncio.Task[None] | None, PerformActivity | None] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _next_wake_at: int | None = None
    _stopping: bool = False
    _draining: bool = False
    _loops: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self, *, gone: Sequence[str] = ()) -> None:
        """Take over abandoned work and begin to react. `gone` are workers known to be dead already."""
        for worker_id in gone:
            await self.host.store.beat(WorkerRow(worker_id=worker_id, expires_at=0))
        await self._beat()
        self.host.on_commit = self.committed
        await self._take_over()
        self._loops.add(self._spawn("lease", self._keep_alive))
        self._loops.add(self._spawn("timers", self._fire_timers))
        self._loops.add(self._spawn("unclaimed work", self._claim_quickly))

    async def stop(self) -> None:
        """Stop performing; what is under way is cancelled and found again by the next start."""
        self._stopping = True
        self.host.on_commit = lambda committed: None
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.host.store.beat(WorkerRow(worker_id=self.host.worker_id, expires_at=0))

    async def drain(self, *, timeout_seconds: float) -> int:
        """Begin nothing new and let what is under way finish; how much is left then, for the next start."""
        self._draining = True
        attempts = self._tasks - self._loops
        if attempts:
            await asyncio.wait(attempts, timeout=timeout_seconds)
        for live in self.host.live_runs():
            # Nobody has begun what is due in these runs: that must not be in doubt later.
            if live.row.owner == self.host.worker_id and not live.tasks and not live.deferred:
                await self.host.store.set_work(live.state.run_id, has_work=live.row.has_work, owner=None)
        return len(self._tasks - self._loops)

    def nudge(self) -> None:
        """Look at the timers now: for clocks that are moved by hand."""
        self._wake.set()

    def _spawn(self, where: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(self._guarded(where, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, where: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as error:  # a fault in one run must not stop the others
            self.report(where, error)

    # --- reacting to commits ---------------------------------------------------------------------

    def committed(self, committed: Committed) -> None:
        """Dispatch what a commit made due, and cancel what it made pointless."""
        self.observe(committed)
        if self._stopping:
            return
        live = committed.live
        if live.row.owner == self.host.worker_id or not live.row.has_work:
            self._dispatch(live, committed.effects)
        wake_at = live.row.wake_at
        if wake_at is not None and (self._next_wake_at is None or wake_at < self._next_wake_at):
            self._next_wake_at = wake_at
            self._wake.set()
        if live.state.terminal and live.state.parent_run_id is not None:
            self._spawn("parent", partial(self._finish_parent, live.state))

    def _dispatch(self, live: LiveRun, effects: Sequence[Effect]) -> None:
        wanted = {effect.effect_id for effect in effects}
        for effect_id in [name for name in live.tasks if name not in wanted]:
            live.tasks.pop(effect_id).cancel()
        live.deferred &= wanted
        mediated = live.state.mode == "host_mediated"
        for effect in effects:
            if isinstance(effect, WakeUp) or (mediated and isinstance(effect, PerformActivity)):
                continue  # timers have their own loop; host-mediated work is done by whoever asked for it
            if self._draining or effect.effect_id in live.tasks or effect.effect_id in live.deferred:
                continue
            current = asyncio.current_task() if self._couriers else None
            if (
                isinstance(effect, PerformActivity)
                and current is not None
                and self._couriers.get(current, effect) is None
            ):
                self._couriers[current] = effect
                live.tasks[effect.effect_id] = current
            else:
                live.tasks[effect.effect_id] = self._spawn(effect.effect_id, partial(self._perform, live, effect))

    async def _perform(self, live: LiveRun, effect: Effect) -> None:
        match effect:
            case PerformActivity():
                await self._perform_activity(live, effect)
            case StartChild():
                await self._start_child(live, effect)
            case CancelChild():
                await self._cancel_child(live, effect)
            case DeliverSignal():
                await self._deliver(live, effect)
            case WakeUp():
                pass

    async def _perform_activity(self, live: LiveRun, effect: PerformActivity) -> None:
        """Perform an activity, store its result, and go on with what the result made due."""
        task = asyncio.current_task()
        following: PerformActivity | None = effect
        while following is not None:
            effect = following
            outcome = await self._attempt(live, effect)
            # From here on the result is being stored: a commit must not cancel the task that makes it.
            live.tasks.pop(effect.effect_id, None)
            live.deferred.add(effect.effect_id)
            if isinstance(outcome, ActivityDeferred):
                return
            self._couriers[task] = None
            try:
                await self._store(live.state.run_id, _result(self.host.clock.now_ms(), effect, outcome))
            finally:
                following = self._couriers.pop(task)

    async def _store(self, run_id: str, given: inputs.Input) -> None:
        """Store an outcome, again and again while the store cannot: the work is done and must not be done twice."""
        nap = _STORE_RETRY_SECONDS
        while True:
            try:
                decision = await self.host.send(run_id, given)
            except Unavailable as error:
                self.report(run_id, error)
                await asyncio.sleep(nap)
                nap = min(nap * 2, _STORE_RETRY_SECONDS_MAX)
                continue
            unfit = _unfit(given, decision)
            if unfit is None:
                return
            given = unfit

    async def _attempt(self, live: LiveRun, effect: PerformActivity) -> ActivityOutcome:
        state = live.state
        call = ActivityCall(
            run_id=state.run_id, workflow_name=state.workflow_name, activity=effect, values=state.values
        )
        try:
            async with self._slots:
                return await self.performer.perform(call)
        except asyncio.CancelledError:
            live.tasks.pop(effect.effect_id, None)
            raise
        except Exception as error:  # an executor that raises is a failed attempt, not a failed engine
            self.report(effect.effect_id, error)
            return ActivityError(f"the executor raised {type(error).__name__}", "EXECUTOR_ERROR")

    async def _start_child(self, live: LiveRun, effect: StartChild) -> None:
        live.deferred.add(effect.effect_id)
        live.tasks.pop(effect.effect_id, None)
        child = await self.host.read(effect.child_id)
        if child is None:
            refused = await self._begin_child(live, effect)
            if refused is not None:
                finished = inputs.FinishChild(
                    at=self.host.clock.now_ms(),
                    child_id=effect.child_id,
                    status="failed",
                    error=refused.message,
                    code=refused.code,
                )
                await self.host.send(live.state.run_id, finished)
        elif child.terminal:
            await self._finish_parent(child)

    async def _begin_child(self, live: LiveRun, effect: StartChild) -> Refused | None:
        workflow = await self.host.workflow_named(effect.workflow_ref)
        if workflow is None:
            return Refused("WORKFLOW_NOT_FOUND", f"there is no workflow {effect.workflow_ref}")
        if effect.version_pin not in (None, workflow.hash):
            pinned = await self.host.workflow(str(effect.version_pin))
            if pinned is None:
                return Refused("VERSION_PIN_MISMATCH", f"the pinned version of {effect.workflow_ref} is not known")
            workflow = pinned
        given = inputs.StartRun(
            at=self.host.clock.now_ms(),
            run_id=effect.child_id,
            input=effect.input,
            mode=live.state.mode,
            parent_run_id=live.state.run_id,
            depth=effect.depth,
        )
        decision = await self.host.start(given, workflow_hash=workflow.hash, labels=live.row.labels)
        if isinstance(decision, Refused) and decision.code != "DUPLICATE_EXECUTION_ID":
            return decision
        return None

    async def _finish_parent(self, child: RunState) -> None:
        if child.parent_run_id is None:
            return
        failure = child.failure
        finished = inputs.FinishChild(
            at=self.host.clock.now_ms(),
            child_id=child.run_id,
            status=str(child.status),
            result=child.result,
            final_state=child.values,
            error=failure.message if failure else child.cancel_reason,
            code=failure.code if failure else None,
        )
        await self.host.send(child.parent_run_id, finished)

    async def _cancel_child(self, live: LiveRun, effect: CancelChild) -> None:
        live.deferred.add(effect.effect_id)
        live.tasks.pop(effect.effect_id, None)
        reason = "the parent run no longer needs it"
        await self.host.send(effect.child_id, inputs.CancelRun(at=self.host.clock.now_ms(), reason=reason))
        if live.state.terminal:
            await self.host.store.set_work(live.state.run_id, has_work=False, owner=None)

    async def _deliver(self, live: LiveRun, effect: DeliverSignal) -> None:
        live.deferred.add(effect.effect_id)
        live.tasks.pop(effect.effect_id, None)
        now = self.host.clock.now_ms()
        signal = inputs.SendSignal(at=now, name=effect.signal_name, payload=effect.payload, signal_id=effect.effect_id)
        decision = await self.host.send(effect.target_run_id, signal)
        refused = decision if isinstance(decision, Refused) else None
        acknowledged = inputs.AcknowledgeEmit(
            at=now,
            node_id=effect.node_id,
            visit=effect.visit,
            delivered=refused is None,
            code=refused.code if refused else None,
            error=refused.message if refused else None,
        )
        await self.host.send(live.state.run_id, acknowledged)

    # --- timers ----------------------------------------------------------------------------------

    async def _fire_timers(self) -> None:
        while not self._stopping:
            self._wake.clear()
            now = self.host.clock.now_ms()
            due = await self._due(now)
            results = await asyncio.gather(*(self._wake_run(run_id) for run_id in due))
            if any(results):
                continue
            self._next_wake_at = await self.host.store.next_wake_at(after=now)
            nap = _TIMER_LOOK_SECONDS
            if self._next_wake_at is not None and not due:
                nap = min(nap, max(self._next_wake_at - self.host.clock.now_ms(), 0) / 1000)
            try:
                async with asyncio.timeout(max(nap, 0.001)):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _due(self, now: int) -> tuple[str, ...]:
        if self._draining:
            return ()
        return await self.host.store.due(
            owner=self.host.worker_id, now=now, limit=limits.CLAIM_BATCH_MAX, family=self.host.family
        )

    async def _wake_run(self, run_id: str) -> bool:
        """Fire every timer of a run that is due; False when there was none after all."""
        fired = False
        try:
            live = await self.host.live(run_id)
            effects = [] if live is None else pending(live.workflow, live.state, self.host.clock.now_ms())
            for effect in effects:
                if isinstance(effect, WakeUp):
                    given = inputs.FireTimer(
                        at=self.host.clock.now_ms(), kind=effect.kind, node_id=effect.node_id, visit=effect.visit
                    )
                    fired = not isinstance(await self.host.send(run_id, given), Refused) or fired
        except Exception as error:  # one damaged run must not keep the others from waking
            self.report(run_id, error)
        return fired

    # --- leases and recovery ---------------------------------------------------------------------

    async def _beat(self) -> None:
        expires_at = self.host.clock.now_ms() + limits.WORKER_LEASE_MS
        await self.host.store.beat(WorkerRow(worker_id=self.host.worker_id, expires_at=expires_at))

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(limits.WORKER_LEASE_MS / 3000)
            try:
                await self._beat()
                await self._take_over()
                await self._look_after()
            except Exception as error:  # the store may be back in a moment; the lease says when it is too late
                self.report("lease", error)

    async def _claim_quickly(self) -> None:
        """Find work that a process without a driver made due: somebody waits for it."""
        while True:
            await asyncio.sleep(limits.FOREIGN_CHANGE_POLL_SECONDS)
            try:
                if await self.host.store.has_unclaimed(family=self.host.family):
                    await self._claim(begun=False)
            except Exception as error:  # the store may be back in a moment
                self.report("unclaimed work", error)

    async def _take_over(self) -> None:
        """Claim work that nobody has, and work whose owner is gone, and go on with it."""
        for begun in (False, True):
            while await self._claim(begun=begun) >= limits.CLAIM_BATCH_MAX:
                pass

    async def _claim(self, *, begun: bool) -> int:
        if self._draining:
            return 0
        claimed = await self.host.store.claim(
            owner=self.host.worker_id,
            now=self.host.clock.now_ms(),
            limit=limits.CLAIM_BATCH_MAX,
            begun=begun,
            family=self.host.family,
        )
        for run_id in claimed:
            try:
                await self._adopt(run_id, begun=begun)
            except Exception as error:  # one damaged run must not keep the others from recovering
                self.report(run_id, error)
        return len(claimed)

    async def _adopt(self, run_id: str, *, begun: bool) -> None:
        """Go on with a run; at-most-once activities that another process may have begun only by decision."""
        live = await self.host.reloaded(run_id)
        if live is None:
            return
        effects = pending(live.workflow, live.state, self.host.clock.now_ms())
        for effect in effects if begun else ():
            if not isinstance(effect, PerformActivity) or not effect.at_most_once or effect.effect_id in live.tasks:
                continue
            unknown = inputs.ReportOutcomeUnknown(
                at=self.host.clock.now_ms(), node_id=effect.node_id, visit=effect.visit, attempt=effect.attempt
            )
            await self.host.send(run_id, unknown)
        self._dispatch(live, pending(live.workflow, live.state, self.host.clock.now_ms()))

    async def _look_after(self) -> None:
        """Find what other processes did to the runs that are worked on here."""
        for live in self.host.live_runs():
            if not live.tasks and not live.deferred:
                continue
            row = await self.host.store.row(live.state.run_id)
            if row is None or (row.seq == live.state.seq and row.owner == live.row.owner):
                continue
            await self.host.reloaded(live.state.run_id)
            mine = live.row.owner == self.host.worker_id
            self._dispatch(live, pending(live.workflow, live.state, self.host.clock.now_ms()) if mine else ())


def _unfit(given: inputs.Input, decision: Decision) -> inputs.FailActivity | None:
    """The failure of an activity whose result no history can hold; without it the run would wait for ever."""
    if not isinstance(given, inputs.CompleteActivity) or not isinstance(decision, Refused):
        return None
    if decision.code != "SUBMIT_VALIDATION_ERROR":
        return None  # a result that comes too late, or for nobody
    return inputs.FailActivity(
        at=given.at,
        node_id=given.node_id,
        visit=given.visit,
        attempt=given.attempt,
        error=decision.message,
        code=decision.code,
        retryable=False,
    )


def _result(at: int, effect: PerformActivity, outcome: ActivityOutcome) -> inputs.Input:
    match outcome:
        case ActivityDone(result=result, extra=extra):
            return inputs.CompleteActivity(
                at=at, node_id=effect.node_id, visit=effect.visit, attempt=effect.attempt, result=result, extra=extra
            )
        case ActivityError(error=error, code=code, retryable=retryable):
            return inputs.FailActivity(
                at=at,
                node_id=effect.node_id,
                visit=effect.visit,
                attempt=effect.attempt,
                error=error,
                code=code,
                retryable=retryable,
            )
        case ActivityDeferred():
            raise TypeError("a deferred activity has no result yet")
