"""The watchdog: runs that this process owns, that have work, and that nobody here has.

Nothing should ever leave one behind: a commit and what follows from it are one piece, and what fails is tried again.
If it happens all the same, it must be seen, and must not take a restart to mend. So every so often the runs that the
store says are ours are compared with what is under way. A run that has not moved between two looks, and whose due work
nobody does, is reported and handed to the driver to go on with; one that does not move after that either is stuck, and
counted as such.

Above it: the driver, which looks and picks up. Below it: an `EffectHost`, the store's list of owned runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.engine.effects import Effect, StartChild
from penstock.runtime.host.writes import is_work
from penstock.runtime.ports.host import EffectHost, LiveRun

__all__ = ["AbandonedRuns", "unattended"]


def unattended(live: LiveRun, due: list[Effect]) -> list[Effect]:
    """The work of a run that is due and that nobody in this process does, has done or waits for."""
    return [
        effect
        for effect in due
        if is_work(live.state, effect)
        and effect.effect_id not in live.tasks
        and effect.effect_id not in live.deferred
        and effect.effect_id not in live.finished
    ]


@dataclass(slots=True, kw_only=True)
class AbandonedRuns:
    """Looks at the runs of this process, one page at a time; `pick_up` goes on with an abandoned one."""

    host: EffectHost
    pick_up: Callable[[LiveRun], Awaitable[None]]
    report: Callable[[str, BaseException], None]
    found: int = 0
    """How many there have been; a number that only grows."""
    _position: int = 0
    _before: dict[str, int] = field(default_factory=dict)
    """Sequence numbers of the runs as they were in the last round."""
    _now: dict[str, int] = field(default_factory=dict)
    _tried: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How often a run was picked up that is still where it was."""

    @property
    def stuck(self) -> tuple[str, ...]:
        """Runs that were picked up as often as is sensible, and have not moved."""
        return tuple(name for name, (_, tries) in self._tried.items() if tries >= limits.ABANDONED_PICK_UPS_MAX)

    async def look(self) -> None:
        """Look at the next page."""
        page = await self.host.store.owned(
            owner=self.host.worker_id, after=self._position, limit=limits.ABANDONED_RUNS_PER_LOOK
        )
        for _, run_id, seq in page:
            self._now[run_id] = seq
            if self._before.get(run_id) == seq:
                await self._look_at(run_id, seq)
        if len(page) < limits.ABANDONED_RUNS_PER_LOOK:
            self._before, self._now, self._position = self._now, {}, 0
            self._tried = {name: tried for name, tried in self._tried.items() if name in self._before}
        else:
            self._position = page[-1][0]

    async def _look_at(self, run_id: str, seq: int) -> None:
        """Look at a run that has not moved since the last round."""
        live = await self.host.live(run_id)
        if live is None or live.lock.locked() or live.state.seq != seq or live.row.owner != self.host.worker_id:
            return
        lost = unattended(live, self.host.due(live))
        if not lost:
            self._tried.pop(run_id, None)
            return
        if await self._is_with_children(lost):
            # It waits for child runs and was forgotten meanwhile, to save memory.
            live.deferred.update(effect.effect_id for effect in lost)
            return
        known, tries = self._tried.get(run_id, (seq, 0))
        tries = tries + 1 if known == seq else 1
        if tries > limits.ABANDONED_PICK_UPS_MAX:
            return
        self._tried[run_id] = (seq, tries)
        self.found += tries == 1
        waiting = ", ".join(effect.effect_id for effect in lost[:3])
        message = f"run {run_id} had work that nobody did ({waiting}); it is gone on with now"
        self.report(run_id, Unavailable("RUN_ABANDONED", message, "report this: it should not happen"))
        await self.pick_up(live)

    async def _is_with_children(self, lost: list[Effect]) -> bool:
        """Whether all the work that nobody does is to start child runs which exist and have not ended."""
        for effect in lost:
            row = await self.host.row(effect.child_id) if isinstance(effect, StartChild) else None
            if row is None or row.terminal:
                return False
        return True
