"""A pytest plugin that begins no test after a deadline, and counts the tests that it left out.

It keeps `scripts/test --fast` within a minute on a busy machine too.

Above it: `conftest.py`, which registers it if the variable is set, and `touched`, which sets it. Below it: pytest and
xdist. Each worker leaves out tests by itself, and reports them when it ends.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

import pytest

__all__ = ["VARIABLE", "Deadline", "deadline_of"]

VARIABLE = "PENSTOCK_TESTS_UNTIL"
"""Seconds since 1970, as text: the wall clock is the only one that the processes of a test run share."""
_KEY = "penstock_left_out"
_NAMES_SHOWN = 12


class Deadline:
    """Leaves out tests that would begin too late. With xdist, the controller adds up what the workers report."""

    def __init__(self, until: float) -> None:
        self._until = until
        self.left_out: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Called for each test; returning True tells pytest that the test is done."""
        if time.time() < self._until:  # noqa: TID251  # the only clock that processes share
            return None
        self.left_out[item.nodeid.partition("::")[0]] += 1
        return True

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """In a worker, report what it left out."""
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_KEY] = dict(self.left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Called in the controller when a worker has ended."""
        self.left_out.update(getattr(node, "workeroutput", {}).get(_KEY, {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was left out."""
        if not self.left_out:
            return
        terminalreporter.section(f"{self.left_out.total()} tests left out: the time was over")
        for module, count in self.left_out.most_common(_NAMES_SHOWN):
            terminalreporter.write_line(f"{count:4} {module}")
        if (more := len(self.left_out) - _NAMES_SHOWN) > 0:
            terminalreporter.write_line(f"     and those of {more} more modules")


def deadline_of(environment: os._Environ[str]) -> Deadline | None:
    """The deadline that the environment sets, or None."""
    until = environment.get(VARIABLE)
    return None if until is None else Deadline(float(until))
