"""How long each test module took when it last ran here, kept in pytest's cache.

Above it: `conftest.py`, which registers it, and `touched`, which chooses by it. Below it: pytest.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

__all__ = ["ModuleSeconds", "recorded_seconds"]

_KEY = "penstock/module_seconds"


class ModuleSeconds:
    """Keeps the account: where there are workers, in the process that hears of all of them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for each part of each test."""
        module = report.nodeid.partition("::")[0]
        self._seconds[module] = self._seconds.get(module, 0.0) + report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write it down, if whole modules ran to their end."""
        cache: pytest.Cache | None = getattr(self._config, "cache", None)
        is_part = self._config.option.keyword or any("::" in name for name in self._config.args)
        if cache is None or is_part or session.shouldstop or session.shouldfail:
            return
        seconds = {module: round(taken, 2) for module, taken in self._seconds.items()}
        cache.set(_KEY, {**cache.get(_KEY, {}), **seconds})


def recorded_seconds(root: Path) -> dict[str, float]:
    """What is known; nothing where no test ever ran."""
    try:
        recorded: dict[str, float] = json.loads((root / ".pytest_cache" / "v" / _KEY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return recorded
