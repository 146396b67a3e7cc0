"""Only what a platform may lack is skipped, and what was skipped is counted at the end.

Above it: `conftest.py`, which registers it. Below it: pytest. A test that is skipped for any other reason fails the
run: what does not run proves nothing, and nobody looks for it.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

__all__ = ["OPTIONAL", "Skips", "unexpected"]

# The reasons for which a test may be skipped, and what is missing there.
OPTIONAL: dict[str, str] = {
    r"there is no browser for a machine of the kind \S+": "a browser that can be installed without root",
    r"needs a handle on a process": "Linux",
    r"the kernel does not say": "a Linux that counts how long a process waits for a processor",
    r"this machine has no unshare": "Linux",
    r"this machine allows no mounts of one's own": "user namespaces",
    r"this shell may open \d+ files": "a higher limit of open files",
    r"the guide uses curl": "curl",
    r"system calls cannot be traced on .*": "Linux on x86-64 or arm64",
    r"ptrace is refused here .*": "the right to trace one's own processes",
    r"the published (fixtures|schema|vectors) (is|are) not .*": "documents that others publish",
    r"the design is not on this machine": "a document that is not part of the project",
}


def unexpected(reasons: Counter[str]) -> list[str]:
    """The reasons that are none."""
    return sorted(reason for reason in reasons if not any(re.fullmatch(known, reason) for known in OPTIONAL))


class Skips:
    """Counts them: where there are workers, in the process that hears of all of them."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    def _count(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for each part of each test."""
        self._count(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called for each module: one may be skipped as a whole."""
        self._count(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A run in which something else was skipped has failed."""
        if unexpected(self.reasons) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how many were skipped, and for what."""
        if not self.reasons:
            terminalreporter.write_line("Nothing was skipped.")
            return
        terminalreporter.section(f"{self.reasons.total()} skipped")
        wrong = unexpected(self.reasons)
        for reason, count in sorted(self.reasons.items()):
            verdict = " - NOT ALLOWED, see tests/skips.py" if reason in wrong else ""
            terminalreporter.write_line(f"{count:4} {reason}{verdict}")
