"""An evaluation at the terminal: a line for each case as it ends, in the order of the data set, and a summary.

Above it: `command`. Below it: `report`, the terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.base.text import clean
from penstock.cli.evaluation.dataset import BadLine, Case
from penstock.cli.evaluation.report import CaseResult, Change, Report
from penstock.cli.terminal.console import Console, console_for, count_words, print_problem
from penstock.cli.terminal.styled_text import Text

__all__ = ["Progress", "print_bad_lines", "print_report"]

_MESSAGE_CHARACTERS_MAX = 300
_STYLES = {Change.BETTER: "green", Change.WORSE: "red", Change.NEW: "cyan", Change.GONE: "dim"}


@dataclass(slots=True, kw_only=True)
class Progress:
    """Shows cases as they end. Lines come in the order of the data set; on a terminal, a counter shows the others."""

    cases: Sequence[Case]
    console: Console
    label: str = ""
    _ended: dict[str, CaseResult] = field(default_factory=dict)
    _printed: int = 0

    @classmethod
    def to(cls, cases: Sequence[Case], *, as_json: bool, label: str = "") -> Progress:
        """On standard output, or on standard error if that is for programs."""
        return cls(cases=cases, console=console_for(sys.stderr if as_json else sys.stdout), label=label)

    def done(self, result: CaseResult) -> None:
        """Show that a case has ended."""
        self._ended[result.case_id] = result
        self._erase()
        while self._printed < len(self.cases):
            found = self._ended.get(self.cases[self._printed].case_id)
            if found is None:
                break
            self._printed += 1
            self._line(found)
        if self.console.is_terminal and self._printed < len(self.cases):
            self.console.print(Text(f"  {len(self._ended)} of {len(self.cases)} have ended", style="dim"), end="\r")

    def finish(self, results: Sequence[CaseResult]) -> None:
        """Show the cases that were not run."""
        self._erase()
        for result in results:
            if result.case_id not in self._ended:
                self.console.print(
                    Text.assemble("  ", ("-", "yellow"), f" {self.label}{clean(result.case_id)}  not run")
                )

    def _erase(self) -> None:
        if self.console.is_terminal:
            self.console.print(" " * 40, end="\r")

    def _line(self, result: CaseResult) -> None:
        mark, style = ("✓", "green") if result.passed else ("✗", "red")
        place = f"[{self._printed}/{len(self.cases)}]"
        self.console.print(Text.assemble("  ", (mark, style), f" {place} {self.label}{clean(result.case_id)}"))
        if result.passed:
            return
        for check in result.checks:
            if not check.passed:
                told = _short(clean(check.message))
                self.console.print(Text.assemble("      ", (check.kind, "bold"), f": {told}"))


def _short(text: str) -> str:
    return text if len(text) <= _MESSAGE_CHARACTERS_MAX else f"{text[:_MESSAGE_CHARACTERS_MAX]}…"


def print_bad_lines(name: str, lines: Sequence[BadLine]) -> None:
    """Say on standard error which lines cannot be used, and why."""
    for line in lines[: limits.EVALUATION_BAD_LINES_SHOWN_MAX]:
        print_problem(f"{name}:{line.line}: {clean(line.message)}")
    left = len(lines) - limits.EVALUATION_BAD_LINES_SHOWN_MAX
    if left > 0:
        print_problem(f"{name}: {left} more lines cannot be used")


def print_report(report: Report) -> None:
    """Print the comparison with the other version, and how it went."""
    console = console_for(sys.stdout)
    if report.earlier is not None:
        _print_comparison(console, report)
    if report.stopped is not None:
        console.print(Text.assemble(("stopped", "bold yellow"), f": {report.stopped}"))
    if report.bad_lines:
        console.print(Text.assemble(("left out", "bold yellow"), f": {count_words(len(report.bad_lines), 'bad line')}"))
    spent = report.spent
    cost = "unknown" if spent.cost is None else f"${spent.cost.normalize():f}"
    told = f"{report.passed} of {count_words(len(report.results), 'case')} passed ({report.pass_rate:.0%})"
    wanted = "" if report.ok else f", {report.fail_under:.0%} wanted"
    style = "bold green" if report.ok else "bold red"
    more = f"; score {report.score:.2f}, {spent.tokens} tokens, cost {cost}"
    console.print(Text.assemble((f"{told}{wanted}", style), more))


def _print_comparison(console: Console, report: Report) -> None:
    earlier = report.earlier
    if earlier is None:
        return
    versions = [str(target.get("version")) for target in (earlier.target, report.target)]
    title = f"compared with {clean(earlier.evaluation)}: version {clean(versions[0])} -> {clean(versions[1])}"
    console.print(Text(title, style="bold"))
    changes = report.differences
    for item in changes:
        if item.change is not Change.SAME:
            before, now = (_shown(score) for score in (item.score_before, item.score_now))
            line = f" {clean(item.case_id)}  {before} -> {now}"
            console.print(Text.assemble("  ", (f"{item.change:<6}", _STYLES[item.change]), line))
    counted = [item.change for item in changes]
    words = ", ".join(f"{counted.count(change)} {change}" for change in Change if change in counted)
    rates = f"{earlier.pass_rate:.0%} -> {report.pass_rate:.0%} passed"
    console.print(f"  {words}; {rates}, score {earlier.score:.2f} -> {report.score:.2f}")


def _shown(score: float | None) -> str:
    return "none" if score is None else f"{score:.2f}"
