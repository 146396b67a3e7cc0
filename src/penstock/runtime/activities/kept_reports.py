"""Recent reports of activities, for readers that arrive later. Kept in memory and bounded.

It keeps the newest progress report of each attempt, and the last log lines and attempts of each run, for the runs that
reported last. Nothing is stored: after a restart, and in processes that do not perform the run, there are no reports.
Data that must not be lost belongs in a result.

Above it: `progress`, which notes every report here after masking its secrets. Below it: nothing.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from penstock.base import limits

__all__ = ["KeptReports", "RunReports"]


class _Report(Protocol):
    @property
    def run_id(self) -> str: ...
    @property
    def node_id(self) -> str: ...
    @property
    def visit(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def level(self) -> int | None: ...


R = TypeVar("R", bound=_Report)


@dataclass(slots=True)
class RunReports(Generic[R]):
    """The reports of one run."""

    newest: OrderedDict[tuple[str, int, int], R] = field(default_factory=OrderedDict)
    """The newest report of progress of each attempt, in the order in which they reported."""
    lines: deque[R] = field(default_factory=lambda: deque(maxlen=limits.REPORT_LINES_KEPT_PER_RUN))
    lines_left_out: int = 0
    """How many earlier lines are no longer kept."""

    def note(self, report: R) -> None:
        """Keep a report, in place of what is older."""
        if report.level is not None:
            self.lines_left_out += len(self.lines) == self.lines.maxlen
            self.lines.append(report)
            return
        attempt = (report.node_id, report.visit, report.attempt)
        self.newest[attempt] = report
        self.newest.move_to_end(attempt)
        if len(self.newest) > limits.REPORTED_ATTEMPTS_KEPT_PER_RUN:
            self.newest.popitem(last=False)


@dataclass(slots=True)
class KeptReports(Generic[R]):
    """The reports of the runs that reported last."""

    _runs: OrderedDict[str, RunReports[R]] = field(default_factory=OrderedDict)

    def note(self, report: R) -> None:
        """Keep a report."""
        kept = self._runs.get(report.run_id)
        if kept is None:
            kept = self._runs[report.run_id] = RunReports()
            if len(self._runs) > limits.REPORTING_RUNS_KEPT:
                self._runs.popitem(last=False)
        else:
            self._runs.move_to_end(report.run_id)
        kept.note(report)

    def of(self, run_id: str) -> RunReports[R] | None:
        """Return the reports of a run; None if it has not reported here recently."""
        return self._runs.get(run_id)
