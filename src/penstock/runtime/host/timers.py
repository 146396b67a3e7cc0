"""Fires the timers of runs: those that are due by the clock, and those that a fast clock set too late.

A timer is a point in time in the state of a run. When the clock is set back, the timers that a run set before lie too
far in the future, by as much as the clock was ahead. Such a run is recognised by its last record, which lies in the
future too: the times of a history never go back. Its timers fire after the duration that they were meant to take, with
the times that the history expects. That duration is measured in memory; if the process ends before the run has moved,
it is found again at the next start.

Above it: the driver. Below it: an `EffectHost`. Nothing is scheduled that a restart could not find again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.engine import inputs
from penstock.engine.effects import WakeUp
from penstock.engine.outcomes import Refused
from penstock.runtime.host.effect_host import EffectHost
from penstock.runtime.ports.runs import RunRow

__all__ = ["Escalate", "TimerLoop"]

Escalate = Callable[[str, str, inputs.FireTimer], Awaitable[bool]]
"""Fires the timer of an approval that nobody decided, given the tenant and the id of its run; False if it did not."""

# The longest pause between two checks of the timers: finds timers of other processes, and a clock that was set.
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _LateTimer:
    """A timer that is late because the clock was ahead: its time, and when it is due by the monotonic clock."""

    wake_at: int
    due_elapsed_ms: int


@dataclass(slots=True, kw_only=True)
class TimerLoop:
    """Checks the timers until it is cancelled; `report` is called with errors that would otherwise go unnoticed."""

    host: EffectHost
    report: Callable[[str, BaseException], None]
    escalate: Escalate | None = None
    """Escalates an approval through an audited call; without it, such timers fire as all others do."""
    is_draining: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _next_wake_at: int | None = None
    _late: dict[str, _LateTimer] = field(default_factory=dict)
    _checked_at: int | None = None

    def nudge(self) -> None:
        """Check now: for clocks that are moved by hand."""
        self._wake.set()

    def committed(self, row: RunRow) -> None:
        """Take note of a run that was just stored."""
        wake_at = row.wake_at
        if wake_at is None:
            return
        if self._next_wake_at is None or wake_at < self._next_wake_at:
            self._next_wake_at = wake_at
            self._wake.set()
        if row.updated_at > self.host.clock.now_ms() + limits.CLOCK_STEP_MS_MAX:
            self._note_late(row)

    async def run(self) -> None:
        """Fire what is due, and sleep until the next timer."""
        while True:
            self._wake.clear()
            nap = _LOOK_SECONDS
            try:
                nap = await self.fire()
            except Exception as error:  # the store may recover
                self.report("timers", error)
            try:
                async with asyncio.timeout(max(nap, 0.001)):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def fire(self) -> float:
        """Fire every timer that is due; return for how many seconds there is nothing to do."""
        now = self.host.clock.now_ms()
        await self._find_late_timers(now)
        due = {} if self.is_draining else dict.fromkeys(await self._due(now), now) | self._due_late()
        results = await asyncio.gather(*(self._wake_run(run_id, at) for run_id, at in due.items()))
        if any(results):
            return 0.0
        self._next_wake_at = await self.host.store.next_wake_at(after=now)
        nap = _LOOK_SECONDS
        if self._next_wake_at is not None and not due:
            nap = min(nap, max(self._next_wake_at - self.host.clock.now_ms(), 0) / 1000)
        elapsed = self.host.clock.elapsed_ms()
        return min([nap, *((late.due_elapsed_ms - elapsed) / 1000 for late in self._late.values())])

    async def _due(self, now: int) -> tuple[str, ...]:
        owner, most = self.host.worker_id, limits.CLAIM_BATCH_MAX
        found: list[str] = []
        for root in self.host.roots:
            found += await self.host.store.due(owner=owner, now=now, limit=most, root_run_id=root)
        return tuple(found)

    async def _find_late_timers(self, now: int) -> None:
        """Find runs stored while the clock was ahead: on the first check, and after the clock was set back."""
        before, self._checked_at = self._checked_at, now
        if before is not None and now >= before - limits.CLOCK_STEP_MS_MAX:
            return
        since = now + limits.CLOCK_STEP_MS_MAX
        for row in await self.host.store.timers_ahead(after=since, limit=limits.TIMERS_AHEAD_MAX):
            self._note_late(row)

    def _note_late(self, row: RunRow) -> None:
        known = self._late.get(row.run_id)
        if known is not None and known.wake_at == row.wake_at:
            return  # the run moved on another branch; its timer keeps its moment
        if row.wake_at is not None and row.wake_at >= row.updated_at and self.host.may_perform(row.run_id):
            due_elapsed_ms = self.host.clock.elapsed_ms() + row.wake_at - row.updated_at
            self._late[row.run_id] = _LateTimer(row.wake_at, due_elapsed_ms)
            self._wake.set()

    def _due_late(self) -> dict[str, int]:
        """Return the runs whose late timers are due, with the times at which they fire."""
        elapsed = self.host.clock.elapsed_ms()
        due = {run_id: late.wake_at for run_id, late in self._late.items() if late.due_elapsed_ms <= elapsed}
        for run_id in due:
            del self._late[run_id]
        return due

    async def _wake_run(self, run_id: str, at: int) -> bool:
        """Fire every timer of a run that is due at a time; return False if no timer was due."""
        fired = False
        try:
            live = await self.host.live(run_id)
            for effect in [] if live is None else self.host.due(live, at=at):
                if isinstance(effect, WakeUp):
                    given = inputs.FireTimer(at=at, kind=effect.kind, node_id=effect.node_id, visit=effect.visit)
                    if effect.kind == "escalation" and self.escalate is not None and live is not None:
                        fired = await self.escalate(live.state.tenant, run_id, given) or fired
                        continue
                    fired = not isinstance(await self.host.send(run_id, given), Refused) or fired
        except Exception as error:  # one damaged run must not keep the others from waking
            self.report(run_id, error)
        return fired
