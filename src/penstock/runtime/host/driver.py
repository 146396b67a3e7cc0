"""The driver: performs the effects of runs, fires their timers, and takes over runs that lost their process.

It reacts to commits of its host. An effect is never performed twice at the same time; when it is no longer wanted (its
node timed out, its run was cancelled), its task is cancelled. Nothing is scheduled that a restart could not find again:
at its start and periodically the driver claims runs with work whose owner is gone and asks `pending` what is due.

Above it: `Penstock`, the worker command. Below it: an `EffectHost`, an `AsyncPerformer`, `timers`, `leases`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import InitVar, dataclass, field
from functools import partial
from itertools import product
from typing import Any, TypeVar

from penstock.base import limits
from penstock.base.errors import Conflict, Unavailable
from penstock.engine import inputs
from penstock.engine.effects import CancelChild, Effect, PerformActivity, StartSuccessor, WakeUp, WithdrawTask
from penstock.engine.outcomes import Decision
from penstock.runtime.activities.performing import (
    ActivityDeferred,
    ActivityError,
    ActivityOutcome,
    AsyncPerformer,
    input_of,
    unfit_outcome,
)
from penstock.runtime.child_starts import ChildStarter
from penstock.runtime.host.effect_host import EffectHost
from penstock.runtime.host.effects import RunEffects, SpendingClock, activity_call
from penstock.runtime.host.leases import DeadWorkerDetector, HeldLease, WorkerLease
from penstock.runtime.host.timers import Escalate, TimerLoop
from penstock.runtime.host.watchdog import AbandonedRuns, unattended
from penstock.runtime.ports.host import Committed, LiveRun
from penstock.runtime.ports.runs import Appended
from penstock.runtime.ports.topics import Mark, Topic
from penstock.runtime.semaphores import FairSemaphore
from penstock.runtime.tables.spending import spend
from penstock.runtime.tables.workers import list_workers, remove_worker

__all__ = ["Driver"]

T = TypeVar("T")
# The first and the longest delay before an outcome is offered again to a store that fails (a full disk, a lock).
_STORE_RETRY_SECONDS = 0.1
_STORE_RETRY_SECONDS_MAX = 5.0


@dataclass(slots=True, eq=False)
class _ActivityTask:
    """A task that stores a result, and then continues with the next activity of its run without a new task."""

    task: asyncio.Task[None] | None
    following: PerformActivity | None = None


class _Slot:
    """The slot of one attempt, which is left early by an attempt that only waits."""

    __slots__ = ("_effect_id", "_is_over", "_only_waiting", "_slots")

    def __init__(self, slots: FairSemaphore, only_waiting: set[str], effect_id: str) -> None:
        self._slots, self._only_waiting, self._effect_id = slots, only_waiting, effect_id
        self._is_over = False

    def leave(self) -> None:
        """Give the slot to another attempt."""
        if not self._is_over and self._effect_id not in self._only_waiting:
            self._only_waiting.add(self._effect_id)
            self._slots.release()

    async def retake(self) -> None:
        """Take a slot again, and wait for a free one."""
        if self._has_left():
            await self._slots.acquire()
            if self._has_left():
                self._only_waiting.discard(self._effect_id)
            else:  # the attempt has ended meanwhile
                self._slots.release()

    def _has_left(self) -> bool:
        return not self._is_over and self._effect_id in self._only_waiting

    def done(self) -> None:
        """The attempt is over."""
        self._is_over = True
        if self._effect_id in self._only_waiting:
            self._only_waiting.discard(self._effect_id)
        else:
            self._slots.release()


@dataclass(slots=True, kw_only=True)
class Driver:
    """Performs effects until it is stopped.

    `report` is called with errors that would otherwise go unnoticed, `observe` with every commit of this process.
    `start_child` starts child runs where somebody has to be asked first.
    """

    host: EffectHost
    performer: AsyncPerformer
    report: Callable[[str, BaseException], None] = lambda where, error: None
    observe: Callable[[Committed], None] = lambda committed: None
    escalate: InitVar[Escalate | None] = None
    start_child: ChildStarter | None = None
    settles: Callable[[PerformActivity], bool] = lambda activity: False
    """Whether the performer may repeat an at-most-once activity that another process began: it is done once anyway."""
    _slots: FairSemaphore = field(default_factory=lambda: FairSemaphore(limits.ACTIVITIES_AT_ONCE_MAX))
    _only_waiting: set[str] = field(default_factory=set)  # effects whose attempts left their slots
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    # By the identity of the result being stored: the task that stores it.
    _activity_tasks: dict[int, _ActivityTask] = field(default_factory=dict)
    _stopping: bool = False
    _draining: bool = False
    _loops: set[asyncio.Task[None]] = field(default_factory=set)
    _effects: RunEffects = field(init=False)
    _spending: SpendingClock = field(init=False)
    _lease: WorkerLease = field(init=False)
    _ownership: HeldLease = field(init=False)  # of the last attempt; nearly always also that of the next one
    _dead_workers: DeadWorkerDetector = field(init=False)
    _timers: TimerLoop = field(init=False)
    abandoned: AbandonedRuns = field(init=False)

    def __post_init__(self, escalate: Escalate | None) -> None:
        self._effects = RunEffects(self.host, self.start_child, self.performer)
        host = self.host
        self._spending = SpendingClock(partial(spend, host.store.database), host.clock)
        self._lease = WorkerLease(
            store=host.store,
            clock=host.clock,
            worker_id=host.worker_id,
            on_lost=self._drop_everything,
            report=self.report,
        )
        self._ownership = HeldLease(self._lease, host.worker_id)
        self._dead_workers = DeadWorkerDetector(host.clock)
        self._timers = TimerLoop(host=host, report=self.report, escalate=escalate)
        self.abandoned = AbandonedRuns(host=host, pick_up=self._pick_up, report=self._report)

    async def start(self, *, gone: Sequence[str] = ()) -> None:
        """Take over abandoned work and begin to react to commits. `gone` are workers already known to be dead."""
        for worker_id in gone:
            await remove_worker(self.host.store.database, worker_id)
        await self._lease.renew()
        self.host.subscribe(self.committed)
        await self._take_over()
        self._loops.add(self._spawn("lease", self._keep_alive))
        self._loops.add(self._spawn("timers", self._timers.run))
        self._loops.add(self._spawn("changes by others", self._follow_others))

    async def stop(self) -> None:
        """Stop performing. Work in progress is cancelled and found again by the next start."""
        self._stopping = True
        self.host.subscribe(None)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._lease.give_up()

    async def drain(self, *, timeout_seconds: float) -> int:
        """Start nothing new and let work in progress finish; return how many tasks remain for the next start."""
        self._draining = self._timers.is_draining = True
        attempts = self._tasks - self._loops - self._waiting_tasks()
        if attempts:
            await asyncio.wait(attempts, timeout=timeout_seconds)
        for live in self.host.live_runs():
            # No process has begun the work due in these runs, so its outcome must not be in doubt later.
            if live.row.owner == self.host.worker_id and not live.tasks and not live.deferred:
                await self.host.store.set_work(
                    live.state.run_id, has_work=live.row.has_work, owner=None, expected_epoch=live.row.epoch
                )
        return len(self._tasks - self._loops)

    def _waiting_tasks(self) -> set[asyncio.Task[None]]:
        """Return the tasks of attempts that only wait for somebody."""
        tasks = (live.tasks for live in self.host.live_runs() if live.tasks)
        return {task for of_run in tasks for effect_id, task in of_run.items() if effect_id in self._only_waiting}

    @property
    def busy(self) -> bool:
        """Whether anything is being performed, queued or stored."""
        return bool(self._tasks - self._loops)

    def escalate_with(self, escalate: Escalate | None) -> Escalate | None:
        """Escalate approvals with this function from now on; return the one before it."""
        before, self._timers.escalate = self._timers.escalate, escalate
        self._timers.nudge()
        return before

    def nudge(self) -> None:
        """Check the timers now: for clocks that are moved by hand."""
        self._timers.nudge()

    async def fire_timers(self) -> None:
        """Fire the timers that are due now, without waiting for the timer loop."""
        await self._timers.fire()

    def _spawn(self, where: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        return self._track(asyncio.create_task(self._guarded(where, work)))

    def _track(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _report(self, where: str, error: BaseException) -> None:
        self.report(where, error)  # looked up each time: it may be replaced after the driver was created

    async def _guarded(self, where: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as error:  # an error in one run must not stop the others
            self.report(where, error)

    # --- reacting to commits ---------------------------------------------------------------------

    def committed(self, committed: Committed) -> None:
        """Dispatch what a commit made due, and cancel what it made pointless."""
        self.observe(committed)
        if self._stopping:
            return
        live = committed.live
        if live.row.owner == self.host.worker_id or not live.row.has_work:
            activity_task = self._activity_tasks.get(id(committed.given))
            if activity_task is None or not self._hand_over(live, committed.effects, activity_task):
                self._dispatch(live, committed.effects, activity_task)
        if live.row.wake_at is not None:
            self._timers.committed(live.row)
        if live.row.terminal and live.state.parent_run_id is not None and live.state.continuation is None:
            tell = partial(self._effects.ended, live.state)
            self._spawn("parent", partial(self._with_retries, "parent", tell))

    def _dispatch(self, live: LiveRun, effects: Sequence[Effect], activity_task: _ActivityTask | None = None) -> None:
        if live.tasks or live.deferred:
            wanted = {effect.effect_id for effect in effects}
            if live.tasks:
                for effect_id in [name for name in live.tasks if name not in wanted]:
                    live.tasks.pop(effect_id).cancel()
            live.deferred &= wanted
        mediated = live.state.mode == "host_mediated"
        for effect in effects:
            if isinstance(effect, WakeUp) or (mediated and isinstance(effect, PerformActivity)):
                continue  # timers have their own loop; the caller performs host-mediated work
            if self._draining or effect.effect_id in live.tasks or effect.effect_id in live.deferred:
                continue
            if activity_task is not None and activity_task.task is not None and isinstance(effect, PerformActivity):
                activity_task.following, task, activity_task = effect, activity_task.task, None
                live.tasks[effect.effect_id] = task
            else:
                live.tasks[effect.effect_id] = self._begin(live, effect)

    def _hand_over(self, live: LiveRun, effects: Sequence[Effect], activity_task: _ActivityTask) -> bool:
        """Dispatch the usual case directly: at most one activity follows, and nothing else is in progress.

        The task that stored the result continues with the next activity. In any other case, do nothing and return
        False.
        """
        if live.tasks or len(live.deferred) != 1 or len(effects) > 1 or self._draining:
            return False  # the deferred one is the activity whose result was stored
        if effects:
            effect = effects[0]
            if type(effect) is not PerformActivity or activity_task.task is None or live.state.mode == "host_mediated":
                return False
            if effect.effect_id in live.deferred:
                return False
            activity_task.following = effect
            live.tasks[effect.effect_id] = activity_task.task
        live.deferred.clear()
        return True

    def _begin(self, live: LiveRun, effect: Effect) -> asyncio.Task[None]:
        if isinstance(effect, PerformActivity):
            return self._track(asyncio.create_task(self._perform_activities(live, effect)))
        return self._spawn(effect.effect_id, partial(self._perform, live, effect))

    async def _perform(self, live: LiveRun, effect: Effect) -> None:
        live.deferred.add(effect.effect_id)
        live.tasks.pop(effect.effect_id, None)
        try:
            await self._with_retries(effect.effect_id, partial(self._perform_for_others, live, effect))
        except Exception:
            live.deferred.discard(effect.effect_id)  # no task performs it now; the watchdog will find it
            raise

    async def _perform_for_others(self, live: LiveRun, effect: Effect) -> None:
        """Perform an effect on other runs, or on what a run has left behind. Repeating it is harmless."""
        refused = await self._effects.perform(live, effect)
        if refused is not None:
            self.report(effect.effect_id, Conflict(refused.code, refused.message, refused.hint))
        if isinstance(effect, StartSuccessor | CancelChild | WithdrawTask):
            await self._effect_done(live, effect)

    async def _perform_activities(self, live: LiveRun, first: PerformActivity) -> None:
        """Perform an activity, store its result, and continue with the activity that the result made due."""
        activity_task = _ActivityTask(asyncio.current_task(), first)
        try:
            while (effect := activity_task.following) is not None:
                activity_task.following = None
                outcome = await self._attempt(live, effect)
                # From here on the result is being stored: a commit must not cancel the task that stores it.
                live.tasks.pop(effect.effect_id, None)
                live.deferred.add(effect.effect_id)
                if isinstance(outcome, ActivityDeferred):
                    return
                await self._store(live, effect, input_of(self.host.clock.now_ms(), effect, outcome), activity_task)
        except Exception as error:  # an error in one run must not stop the others
            self.report(first.effect_id, error)

    async def _store(self, live: LiveRun, effect: Effect, given: inputs.Input, activity_task: _ActivityTask) -> None:
        """Store an outcome. The work is done and must not be repeated."""
        wanted: inputs.Input | None = given
        live.users += 1  # keep it in memory until the outcome is stored
        try:
            while wanted is not None:
                self._activity_tasks[id(wanted)] = activity_task
                try:
                    commit = self.host.try_move(live, wanted)
                    if commit is not None and isinstance(await commit, Appended):
                        return
                    decision = await self.host.send(live.state.run_id, wanted)
                except Unavailable as error:
                    decision = await self._store_with_retries(live.state.run_id, wanted, error)
                finally:
                    del self._activity_tasks[id(wanted)]
                wanted = unfit_outcome(wanted, decision)
        except Exception:
            live.deferred.discard(effect.effect_id)  # no task performs it now; the watchdog will find it
            raise
        finally:
            live.users -= 1

    async def _store_with_retries(self, run_id: str, given: inputs.Input, error: Unavailable) -> Decision:
        """Offer an outcome again to a store that failed, until the store accepts it."""
        self.report(run_id, error)
        await asyncio.sleep(_STORE_RETRY_SECONDS)
        return await self._with_retries(run_id, partial(self.host.send, run_id, given))

    async def _with_retries(self, where: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do idempotent work on the store, and repeat it for as long as the store is unavailable."""
        nap = _STORE_RETRY_SECONDS
        while True:
            try:
                return await work()
            except Unavailable as error:
                self.report(where, error)
                await asyncio.sleep(nap)
                nap = min(nap * 2, _STORE_RETRY_SECONDS_MAX)

    async def _attempt(self, live: LiveRun, effect: PerformActivity) -> ActivityOutcome:
        ownership = self._ownership
        if live.row.owner != ownership.holder:
            ownership = self._ownership = HeldLease(self._lease, live.row.owner or "")
        slot = _Slot(self._slots, self._only_waiting, effect.effect_id)
        call = activity_call(live, effect, ownership, slot, self.host.progress, self._spending)
        try:
            if not self._slots.try_acquire():
                await self._slots.acquire()
            try:
                if not self._lease.holds(ownership.holder):
                    await ownership.confirm()
                return await self.performer.perform(call)
            finally:
                slot.done()
        except asyncio.CancelledError:
            live.tasks.pop(effect.effect_id, None)
            raise
        except Exception as error:  # an executor that raises is a failed attempt, not a failed engine
            self.report(effect.effect_id, error)
            return ActivityError(f"the executor raised {type(error).__name__}", "EXECUTOR_ERROR")

    async def _effect_done(self, live: LiveRun, effect: Effect) -> None:
        """Note that an effect is done. An ended run without other effects is released."""
        live.finished.add(effect.effect_id)
        live.deferred.add(effect.effect_id)
        live.tasks.pop(effect.effect_id, None)
        if live.state.terminal and all(item.effect_id in live.finished for item in self.host.due(live)):
            await self.host.release(live)

    # --- leases and recovery ---------------------------------------------------------------------

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(limits.WORKER_LEASE_MS / 3000)
            try:
                await self._lease.renew()
                await self._remove_dead_workers()
                await self._take_over()
                await self._follow_owned_runs()
                if not self._draining:
                    await self.abandoned.look()
            except Exception as error:  # the store may recover; the lease decides when it is too late
                self.report("lease", error)

    def _drop_everything(self, lost: str) -> None:
        """Drop all runs after losing the lease: other processes own them now. Continue as after a restart."""
        self.host.worker_id = self._lease.worker_id
        message = "this process sent no heartbeat for too long, and other processes took over its runs"
        self.report(
            "lease",
            Conflict("WORKER_LEASE_LOST", message, "check whether the process was suspended or the machine overloaded"),
        )
        for live in self.host.live_runs():
            if live.row.owner == lost:
                self._dispatch(live, ())

    async def _remove_dead_workers(self) -> None:
        """Remove processes without a heartbeat, so that this or another process can take over their runs."""
        others = [row for row in await list_workers(self.host.store.database) if row.worker_id != self.host.worker_id]
        for worker in self._dead_workers.look(others):
            await remove_worker(self.host.store.database, worker.worker_id, beats=worker.beats)

    async def _follow_others(self) -> None:
        """Poll for changes by other processes: they may have made work due, or cancelled a run."""
        seen: Mark | None = None
        while True:
            await asyncio.sleep(limits.FOREIGN_CHANGE_POLL_SECONDS)
            try:
                mark = self.host.store.changed(Topic.ANYTHING)
                if mark == seen:
                    continue
                for root in self.host.roots:
                    if await self.host.store.has_unclaimed(root_run_id=root):
                        await self._claim(root, begun=False)
                await self._follow_moves()
                seen = mark
            except Exception as error:  # the store may recover
                self.report("changes by others", error)

    async def _take_over(self) -> None:
        """Claim work without an owner, and work whose owner is gone, and continue it."""
        for begun, root in product((False, True), self.host.roots):
            while await self._claim(root, begun=begun) >= limits.CLAIM_BATCH_MAX:
                pass

    async def _claim(self, root: str | None, *, begun: bool) -> int:
        if self._draining:
            return 0
        claimed = await self.host.store.claim(
            owner=self.host.worker_id,
            limit=limits.CLAIM_BATCH_MAX,
            begun=begun,
            root_run_id=root,
        )
        for run_id in claimed:
            try:
                await self._adopt(run_id, begun=begun)
            except Exception as error:  # one damaged run must not keep the others from recovering
                self.report(run_id, error)
        return len(claimed)

    async def _adopt(self, run_id: str, *, begun: bool) -> None:
        """Continue a claimed run. At-most-once activities that another process may have begun wait for a decision."""
        live = await self.host.reloaded(run_id)
        if live is None:
            return
        await self._continue_run(
            live, [item for item in self.host.due(live) if begun and item.effect_id not in live.tasks]
        )

    async def _pick_up(self, live: LiveRun) -> None:
        """Continue an abandoned run. At-most-once activities that may have begun wait for a decision."""
        await self._continue_run(live, unattended(live, self.host.due(live)))

    async def _continue_run(self, live: LiveRun, maybe_done: Sequence[Effect]) -> None:
        run_id = live.state.run_id
        for effect in maybe_done:
            if not isinstance(effect, PerformActivity) or not effect.at_most_once or self.settles(effect):
                continue
            unknown = inputs.ReportOutcomeUnknown(
                at=self.host.clock.now_ms(), node_id=effect.node_id, visit=effect.visit, attempt=effect.attempt
            )
            await self.host.send(run_id, unknown)
        self._dispatch(live, self.host.due(live))

    async def _follow_owned_runs(self) -> None:
        """Find out what other processes did to the runs in progress here, and whether they took them over."""
        for live in self._worked_on():
            row = await self.host.row(live.state.run_id)
            if row is not None and (row.seq != live.state.seq or row.owner != live.row.owner):
                await self._catch_up(live)

    async def _follow_moves(self) -> None:
        """Like `_follow_owned_runs`, but only for moves, and in one read for all runs."""
        worked_on = self._worked_on()
        if not worked_on:
            return
        positions = await self.host.positions([live.state.run_id for live in worked_on])
        for live in worked_on:
            position = positions.get(live.state.run_id)
            # A run in the middle of a transition finds out by itself, and the position read may be older than the live
            # state.
            if position is not None and position.seq > live.state.seq and not live.lock.locked():
                await self._catch_up(live)

    def _worked_on(self) -> list[LiveRun]:
        return [live for live in self.host.live_runs() if live.tasks or live.deferred]

    async def _catch_up(self, live: LiveRun) -> None:
        await self.host.reloaded(live.state.run_id)
        mine = live.row.owner == self.host.worker_id
        self._dispatch(live, self.host.due(live) if mine else ())
