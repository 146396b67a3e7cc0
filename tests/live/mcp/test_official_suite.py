"""The official conformance suite against a real server whose test tools, resources and prompts are workflows."""

from __future__ import annotations

import pytest

from tests.conformance.mcp_suite.suite import REVISIONS, Outcome, run_suite, scenario_of
from tests.thorough import IS_THOROUGH

# As servers answer. `scripts/conformance-mcp`, and a thorough run, take the way without the fast path, too.
FAST_PATHS = (True, False) if IS_THOROUGH else (True,)

# What the suite itself skips at the pinned version: it has not yet been written for the stream that carries these.
SKIPPED_BY_THE_SUITE = {"tasks-status-notifications"}
TASKS = {
    "tasks-capability-negotiation",
    "tasks-dispatch-and-envelope",
    "tasks-lifecycle",
    "tasks-mrtr-composition",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-request-state-removal",
    "tasks-required-task-error",
    "tasks-wire-fields",
}


# One test for each way: it takes its time, and its parts share a server.
@pytest.mark.parametrize("fast_path", FAST_PATHS, ids=lambda fast_path: f"fast path {fast_path}")
def test_everything_that_is_required_passes(fast_path: bool) -> None:
    outcomes = run_suite(fast_path=fast_path).outcomes
    assert {revision: outcome.failed for revision, outcome in outcomes.items()} == {name: {} for name in REVISIONS}
    assert {revision: len(outcome.passed) for revision, outcome in outcomes.items()} == {
        "2025-11-25": 30,
        "2026-07-28": 37,
    }
    tasks = outcomes["2026-07-28"].tasks
    assert {name for name, result in tasks.items() if result == "passed"} == TASKS
    assert {name for name, result in tasks.items() if result == "skipped"} == SKIPPED_BY_THE_SUITE
    assert {revision: outcome.others_failed for revision, outcome in outcomes.items()} == {
        name: {} for name in REVISIONS
    }


def outcome(**checks: list[str]) -> Outcome:
    """What came of scenarios whose checks ended so; `required` and `other` are required."""
    found = {
        name.replace("_", "-"): scenario_of(name, [{"id": name, "status": status} for status in statuses])
        for name, statuses in checks.items()
    }
    return Outcome("2026-07-28", ("required", "other"), found)


def test_what_did_not_run_or_showed_nothing_has_failed() -> None:
    assert outcome(required=["SUCCESS"]).failed == {"other": ("it showed nothing",)}
    assert set(outcome(required=["INFO"], other=["SKIPPED"]).failed) == {"required", "other"}
    assert outcome(required=["SUCCESS"], other=["SUCCESS", "WARNING"]).failed == {}


def test_one_failed_check_fails_a_scenario_and_tasks_count_too() -> None:
    found = outcome(
        required=["SUCCESS", "FAILURE"], other=["SUCCESS"], tasks_a=["FAILURE"], tasks_b=["SKIPPED"], more=["FAILURE"]
    )
    assert set(found.failed) == {"required", "tasks-a"}
    assert (found.tasks, found.others) == ({"tasks-a": "failed", "tasks-b": "skipped"}, {"more": "failed"})
    assert found.others_failed == {"more": ("more: None",)}
