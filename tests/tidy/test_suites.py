"""The suites of promises name tests that exist, and count what came of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites import SUITES, run_suite

ROOT = Path(__file__).parents[2]
pytest_plugins = ["pytester"]


def test_every_suite_names_tests_that_exist_and_no_test_is_in_two() -> None:
    paths = [path for suite in SUITES.values() for path in suite]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert len(paths) == len(set(paths))


def test_outcomes_are_counted_and_failures_named(pytester: pytest.Pytester) -> None:
    written = pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def broken():
            raise ValueError("no")

        def test_holds(): pass
        def test_fails(): assert False
        def test_cannot_begin(broken): pass
        """
    )
    outcomes = run_suite([str(written)])
    assert (outcomes.counts["passed"], outcomes.counts["failed"]) == (1, 2)
    assert [name.rpartition("::")[2] for name in outcomes.failures] == ["test_fails", "test_cannot_begin"]
