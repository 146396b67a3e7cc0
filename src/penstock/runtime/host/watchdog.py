"""The watchdog: finds runs that this process owns and that have work, but that no task performs.

This should never happen: a commit and what follows from it are one unit, and failures are retried. If it does happen,
it must be visible and must not need a restart to fix. So the runs that this process owns, according to the store, are
periodically compared with the work in progress. A run that has not moved between two checks, and whose due work no task
performs, is reported and passed to the driver to continue. If it does not move after that either, it counts as stuck.

Above it: the driver, which calls `look` and picks runs up. Below it: an `EffectHost`, the store's list of owned runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.engine.effects import Effect, StartChild
from penstock.runtime.host.effect_host import EffectHost
from penstock.runtime.host.writes import is_work
from penstock.runtime.ports.host import LiveRun

__all__ = ["AbandonedRuns", "unattended"]


def unattended(live: LiveRun, due: list[Effect]) -> list[Effect]:
    """Return the due work of a run that this process neither performs, nor has done, nor waits for."""
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
    """Checks the runs of this process, one page at a time; `pick_up` continues an abandoned one."""

    host: EffectHost
    pick_up: Callable[[LiveRun], Awaitable[None]]
    report: Callable[[str, BaseException], None]
    found: int = 0
    """How many abandoned runs were found; it only increases."""
    _position: int = 0
    _before: dict[str, int] = field(default_factory=dict)
    """The sequence numbers of the runs in the last round."""
    _now: dict[str, int] = field(default_factory=dict)
    _tried: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By run that still has not moved: its sequence number, and how often it was picked up."""

    @property
    def stuck(self) -> tuple[str, ...]:
        """The runs that were picked up as often as allowed and have not moved."""
        return tuple(name for name, (_, tries) in self._tried.items() if tries >= limits.ABANDONED_PICK_UPS_MAX)

    async def look(self) -> None:
        """Check the next page."""
        page = await self.host.store.owned(
            owner=self.host.worker_id, after=self._position, limit=limits.ABANDONED_RUNS_PER_LOOK
        )
        for _, run_id, seq in page:
            self._now[run_id] = seq
            if self._before.get(run_id) == seq:
                await self._check_run(run_id, seq)
        if len(page) < limits.ABANDONED_RUNS_PER_LOOK:
            self._before, self._now, self._position = self._now, {}, 0
            self._tried = {name: tried for name, tried in self._tried.items() if name in self._before}
        else:
            self._position = page[-1][0]

    async def _check_run(self, run_id: str, seq: int) -> None:
        """Check a run that has not moved since the last round."""
        live = await self.host.live(run_id)
        if live is None or live.lock.locked() or live.state.seq != seq or live.row.owner != self.host.worker_id:
            return
        lost = unattended(live, self.host.due(live))
        if not lost:
            self._tried.pop(run_id, None)
            return
        if await self._waits_for_children(lost):
            # It waits for child runs and was evicted from memory meanwhile, with the note that it had started them.
            live.deferred.update(effect.effect_id for effect in lost)
            return
        known, tries = self._tried.get(run_id, (seq, 0))
        tries = tries + 1 if known == seq else 1
        if tries > limits.ABANDONED_PICK_UPS_MAX:
            return
        self._tried[run_id] = (seq, tries)
        self.found += tries == 1
        waiting = ", ".join(effect.effect_id for effect in lost[:3])
        message = f"run {run_id} had work that no worker performed ({waiting}); continuing it now"
        self.report(run_id, Unavailable("RUN_ABANDONED", message, "report this bug"))
        await self.pick_up(live)

    async def _waits_for_children(self, lost: list[Effect]) -> bool:
        """Whether all the unattended work is to start child runs that exist and have not ended."""
        for effect in lost:
            row = await self.host.row(effect.child_id) if isinstance(effect, StartChild) else None
            if row is None or row.terminal:
                return False
        return True
