"""A moment after which no further test begins, and a count of those that did not.

Above it: `conftest.py`, which registers it where the variable is set, and `touched`, which sets it: what a change
touches is tested within a minute, on a busy machine too. Below it: pytest, and its workers (xdist), each of which
leaves tests out by itself and says so when it ends.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

import pytest

__all__ = ["VARIABLE", "Deadline", "deadline_of"]

VARIABLE = "PENSTOCK_TESTS_UNTIL"
"""Seconds since 1970, as text: the processes of a run have no other clock in common."""
_KEY = "penstock_left_out"
_NAMES_SHOWN = 12


class Deadline:
    """Leaves out what would begin too late; where there are workers, the main process adds up what they say."""

    def __init__(self, until: float) -> None:
        self._until = until
        self.left_out: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Called for each test; True says that nothing is left to do."""
        if time.time() < self._until:  # noqa: TID251  # processes have no other clock in common
            return None
        self.left_out[item.nodeid.partition("::")[0]] += 1
        return True

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker says what it left out."""
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_KEY] = dict(self.left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Called where there are workers, when one of them has ended."""
        self.left_out.update(getattr(node, "workeroutput", {}).get(_KEY, {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was left out."""
        if not self.left_out:
            return
        terminalreporter.section(f"{self.left_out.total()} tests left out: the time was over")
        for module, count in self.left_out.most_common(_NAMES_SHOWN):
            terminalreporter.write_line(f"{count:4} {module}")
        if (more := len(self.left_out) - _NAMES_SHOWN) > 0:
            terminalreporter.write_line(f"     and those of {more} more modules")


def deadline_of(environment: os._Environ[str]) -> Deadline | None:
    """What the environment says; None where it says nothing."""
    until = environment.get(VARIABLE)
    return None if until is None else Deadline(float(until))
