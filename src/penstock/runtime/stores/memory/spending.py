"""What the models below each run spend, in memory. The rules are those of the SQLite store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.definitions.model import AgentLimits
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.spending import RunSpending, Spent, SpentLimit, caller_of, find_spent_limit

__all__ = ["MemorySpending"]


@dataclass(slots=True)
class _Level:
    above: str | None
    limits: AgentLimits = field(default_factory=AgentLimits)
    ends_at: int | None = None
    own: Spent = field(default_factory=Spent)
    below: Spent = field(default_factory=Spent)


@dataclass(slots=True)
class MemorySpending:
    """Spending by run. `row_of` returns the row of a run."""

    row_of: Callable[[str], RunRow | None]
    _levels: dict[str, _Level] = field(default_factory=dict)

    def spend(
        self, run_id: str, amount: Spent, *, at: int, limits: AgentLimits | None, checked: bool
    ) -> SpentLimit | None:
        """Count what a run uses, for it and for every run above it; with `checked`, only if all of them have room."""
        names: list[str] = []
        wanted: str | None = run_id
        while wanted is not None and wanted not in names:
            names.append(wanted)
            wanted = self._level(wanted).above
        own = self._levels[run_id]
        if limits is not None and own.limits == AgentLimits():
            own.limits, own.ends_at = limits, None if limits.time_ms is None else at + limits.time_ms
        for name in names if checked else ():
            level = self._levels[name]
            used = level.own + level.below
            kind = find_spent_limit(level.limits, used, amount, ends_at=level.ends_at, at=at)
            if kind is not None:
                return SpentLimit(run_id=name, kind=kind, limits=level.limits, used=used)
        own.own += amount
        for name in names[1:]:
            self._levels[name].below += amount
        return None

    def _level(self, run_id: str) -> _Level:
        level = self._levels.get(run_id)
        if level is None:
            row = self.row_of(run_id)
            above = None if row is None else caller_of(row.tenant, row.parent_run_id, row.labels)
            level = self._levels[run_id] = _Level(above)
        return level

    def of(self, run_id: str) -> RunSpending | None:
        """What was counted for a run; None if nothing was."""
        level = self._levels.get(run_id)
        return None if level is None else RunSpending(own=level.own, below=level.below)

    def drop(self, run_id: str) -> None:
        """Forget what a deleted run spent, unless a run below it needs its limits."""
        wanted: str | None = run_id
        while wanted is not None and wanted in self._levels:
            if any(level.above == wanted for level in self._levels.values()):
                return
            above = self._levels.pop(wanted).above
            wanted = above if above is not None and self.row_of(above) is None else None
