"""A host that leaves effects and timers to a driver in its process.

Above it: the driver, the watchdog, the timers. Below it: the host port; `embedded` implements it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.engine.effects import Effect
from penstock.engine.inputs import Input
from penstock.runtime.ports.commits import Commit
from penstock.runtime.ports.host import Committed, LiveRun, RunHost
from penstock.runtime.ports.runs import AppendOutcome
from penstock.runtime.tables.runs.store import RunStore

__all__ = ["EffectHost"]


class EffectHost(RunHost, Protocol):
    """A host that leaves effects and timers to a driver in this process, and notifies it of every commit."""

    worker_id: str
    """The name under which this process owns runs; it changes after the worker was removed."""

    @property
    def roots(self) -> tuple[str | None, ...]:
        """The runs that are performed here, with their child runs; None stands for every run."""

    @property
    def store(self) -> RunStore:
        """Who performs the work of which run, and when the next timer is due."""

    def subscribe(self, listener: Callable[[Committed], None] | None) -> None:
        """Call a listener with each commit of this process, before its waiters continue; it must not block.

        None removes it.
        """

    async def live(self, run_id: str) -> LiveRun | None:
        """Return a run in memory, loading it if needed."""

    def live_runs(self) -> list[LiveRun]:
        """Return the runs in memory: at least those with tasks, with effects in progress, or with users."""

    async def reloaded(self, run_id: str) -> LiveRun | None:
        """Return a run as stored now, ignoring the state in memory."""

    def due(self, live: LiveRun, *, at: int | None = None) -> list[Effect]:
        """Return the effects of a run that are due now, or at a given time."""

    def try_move(self, live: LiveRun, given: Input, /) -> Commit[AppendOutcome] | None:
        """Like `send`, if only the disk has to be waited for; otherwise do nothing and return None.

        Any outcome but `Appended`, or an error, changed nothing. In all of these cases the caller uses `send`.
        """

    def may_perform(self, run_id: str) -> bool:
        """Whether the work of a run may be performed here."""

    def perform_also(self, run_id: str) -> None:
        """Perform a run that another run here waits for, even if this process performs only some runs."""

    async def release(self, live: LiveRun) -> None:
        """Note that an ended run has no work left."""
