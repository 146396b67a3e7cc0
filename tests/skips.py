"""A pytest plugin that counts skipped tests, and allows only skips for something that a platform may lack.

Above it: `conftest.py`, which registers it. Below it: pytest. A test that is skipped for any other reason fails the
run: a test that does not run proves nothing, and nobody notices that it is missing.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

__all__ = ["OPTIONAL", "Skips", "unexpected"]

# The allowed reasons for a skip (patterns), each with what the platform lacks.
OPTIONAL: dict[str, str] = {
    r"there is no promtool, and it cannot be had: apt-get download prometheus": "Debian's packages",
    r"there is no Chromium, and it cannot be installed: apt-get install chromium": "a whole browser, without root",
    r"there is no browser for a machine of the kind \S+": "a browser that can be installed without root",
    r"needs a handle on a process": "Linux",
    r"the kernel does not say": "a Linux that counts how long a process waits for a processor",
    r"this machine has no unshare": "Linux",
    r"this machine allows no mounts of one's own": "user namespaces",
    r"this shell may open \d+ files": "a higher limit of open files",
    r"only root can give files away": "the rights of root",
    r"the guide uses curl": "curl",
    r"there is no systemd-analyze": "systemd",
    r"there is no (fish|zsh) here": "another shell than bash",
    r"there is no openssl to stamp with": "the program openssl",
    r"system calls cannot be traced on .*": "Linux on x86-64 or arm64",
    r"ptrace is refused here .*": "the right to trace one's own processes",
    r"the published (fixtures|schema|vectors) (is|are) not .*": "documents that others publish",
    r"the design is not on this machine": "a document that is not part of the project",
}


def unexpected(reasons: Counter[str]) -> list[str]:
    """Return the reasons that are not allowed."""
    return sorted(reason for reason in reasons if not any(re.fullmatch(known, reason) for known in OPTIONAL))


class Skips:
    """Counts skips. With xdist it runs in the controller, which gets the reports of all workers."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    def _count(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for the setup, the call and the teardown of each test."""
        self._count(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called for each module, which may be skipped as a whole."""
        self._count(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run if something was skipped for any other reason."""
        if unexpected(self.reasons) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print how many tests were skipped, and why."""
        if not self.reasons:
            terminalreporter.write_line("Nothing was skipped.")
            return
        terminalreporter.section(f"{self.reasons.total()} skipped")
        wrong = unexpected(self.reasons)
        for reason, count in sorted(self.reasons.items()):
            verdict = " - NOT ALLOWED, see tests/skips.py" if reason in wrong else ""
            terminalreporter.write_line(f"{count:4} {reason}{verdict}")
