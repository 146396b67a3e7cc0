"""Run the tests that keep one promise, and count them: `python -m tests.suites NAME`.

The last line is one JSON object: `suite`, `tests`, `passed`, `failed`, `skipped`, the `failures` by name, and `ok`.

Above it: `scripts/suite`. Below it: pytest.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

__all__ = ["SUITES", "Outcomes", "main", "run_suite"]

ROOT: Final = Path(__file__).parents[1]
# By name: the files or folders of tests that belong together.
SUITES: Final = {
    "once": (
        "tests/scenarios/test_repeated_calls.py",
        "tests/scenarios/test_repeated_everything.py",
        "tests/scenarios/test_repeated_run_changes.py",
        "tests/scenarios/test_held_unknown.py",
        "tests/scenarios/test_suspended_process.py",
    ),
    "audit": (
        "tests/scenarios/test_audit_evidence.py",
        "tests/scenarios/test_audit_fields.py",
        "tests/scenarios/test_audit_files.py",
        "tests/scenarios/test_audit_forgery.py",
        "tests/scenarios/test_audit_heads.py",
        "tests/scenarios/test_audited_changes.py",
        "tests/scenarios/test_audited_imports.py",
        "tests/scenarios/test_audited_pins.py",
        "tests/scenarios/test_restored_trails.py",
        "tests/scenarios/test_stamped_trails.py",
    ),
    "damage": (
        "tests/scenarios/test_changed_bytes.py",
        "tests/scenarios/test_damaged_files.py",
        "tests/scenarios/test_full_disk.py",
        "tests/scenarios/test_out_of_memory.py",
        "tests/scenarios/test_readiness.py",
    ),
    "closed": (
        "tests/scenarios/test_file_owners.py",
        "tests/scenarios/test_operator_files.py",
        "tests/scenarios/test_not_enforced.py",
        "tests/scenarios/test_start_order.py",
        "tests/scenarios/test_store_secret.py",
        "tests/scenarios/test_unreadable_authority.py",
    ),
    "upgrades": ("tests/golden",),
}


class Outcomes:
    """Counts the outcomes of tests, as a plugin of pytest."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test once: by its call, or by what kept it from being called."""
        if report.when == "call" or not report.passed:
            self.counts[report.outcome] += 1
        if report.failed:
            self.failures.append(report.nodeid)


def run_suite(paths: Sequence[str]) -> Outcomes:
    """Run the tests, count their outcomes and name those that failed."""
    outcomes = Outcomes()
    pytest.main(["-q", "-p", "no:cacheprovider", *(str(ROOT / path) for path in paths)], plugins=[outcomes])
    return outcomes


def main() -> int:
    """Run one suite and print its figures."""
    parser = argparse.ArgumentParser(prog="scripts/suite", description="Run the tests that keep one promise.")
    parser.add_argument("suite", choices=sorted(SUITES))
    name = parser.parse_args().suite
    outcomes = run_suite(SUITES[name])
    found = {outcome: outcomes.counts[outcome] for outcome in ("passed", "failed", "skipped")}
    ok = found["passed"] > 0 and not outcomes.failures
    figures = {"suite": name, "tests": sum(found.values()), **found, "failures": outcomes.failures, "ok": ok}
    print(json.dumps(figures))
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
