"""A pytest plugin that records how long each test module took, in pytest's cache.

Above it: `conftest.py`, which registers it, and `touched`, which chooses tests by it. Below it: pytest.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

__all__ = ["ModuleSeconds", "recorded_seconds"]

_KEY = "penstock/module_seconds"


class ModuleSeconds:
    """Adds up durations. With xdist it runs in the controller, which gets the reports of all workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for the setup, the call and the teardown of each test."""
        module = report.nodeid.partition("::")[0]
        self._seconds[module] = self._seconds.get(module, 0.0) + report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Store the durations, if whole modules ran to their end."""
        cache: pytest.Cache | None = getattr(self._config, "cache", None)
        is_part = self._config.option.keyword or any("::" in name for name in self._config.args)
        if cache is None or is_part or session.shouldstop or session.shouldfail:
            return
        seconds = {module: round(taken, 2) for module, taken in self._seconds.items()}
        cache.set(_KEY, {**cache.get(_KEY, {}), **seconds})


def recorded_seconds(root: Path) -> dict[str, float]:
    """The recorded durations by module; empty if no test ever ran here."""
    try:
        recorded: dict[str, float] = json.loads((root / ".pytest_cache" / "v" / _KEY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return recorded
