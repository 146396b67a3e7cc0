"""What activities reported lately is kept within bounds, and of the right run."""

from __future__ import annotations

import logging

from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.engine.effects import PerformActivity
from penstock.runtime.activities.performing import ActivityCall
from penstock.runtime.activities.progress import ProgressBroadcast


def call(run_id: str = "r", *, attempt: int = 1, hidden: tuple[str, ...] = ()) -> ActivityCall:
    activity = PerformActivity(
        effect_id="e", idempotency_key="k", node_id="copy", visit=1, attempt=attempt, node_type="step", config={}
    )
    return ActivityCall(run_id=run_id, workflow_name="copy", activity=activity, hidden=hidden)


def test_the_newest_report_of_each_attempt_and_the_last_lines_are_kept_though_nobody_listens() -> None:
    broadcast = ProgressBroadcast(ManualClock(7))
    for number in range(1_000):
        broadcast.progress(call(), number / 1_000, f"at {number}")
    broadcast.heartbeat(call(attempt=2), {"file": 3})
    broadcast.progress(call("other"), 0.5, None)
    for number in range(limits.REPORT_LINES_KEPT_PER_RUN + 5):
        broadcast.log(call(), logging.INFO, f"line {number}")
    kept = broadcast.kept.of("r")
    assert kept is not None
    assert [(item.attempt, item.value, item.message, item.details) for item in kept.newest.values()] == [
        (1, 0.999, "at 999", None),
        (2, None, None, {"file": 3}),
    ]
    assert kept.lines[0].message == "line 5"
    assert (len(kept.lines), kept.lines_left_out) == (limits.REPORT_LINES_KEPT_PER_RUN, 5)
    assert broadcast.kept.of("unknown") is None


def test_secrets_are_masked_before_a_report_is_kept_and_cut() -> None:
    broadcast = ProgressBroadcast(ManualClock(7))
    said = f"{'x' * (limits.REPORT_CHARACTERS_KEPT_MAX - 3)}s3cret"
    broadcast.progress(call(hidden=("s3cret",)), 0.5, said)
    broadcast.log(call(hidden=("s3cret",)), logging.INFO, said)
    broadcast.heartbeat(call(attempt=2, hidden=("s3cret",)), {"key s3cret": ["s3cret"]})
    broadcast.heartbeat(call(attempt=3), "y" * limits.REPORT_CHARACTERS_KEPT_MAX)
    kept = broadcast.kept.of("r")
    assert kept is not None
    assert "s3c" not in repr(kept)
    assert {len(item.message or "") for item in kept.lines} == {limits.REPORT_CHARACTERS_KEPT_MAX}
    assert [item.details for item in kept.newest.values()][-1] is None  # too large to keep


def test_only_so_many_runs_and_attempts_are_kept() -> None:
    broadcast = ProgressBroadcast(ManualClock(7))
    for number in range(limits.REPORTING_RUNS_KEPT + 1):
        broadcast.progress(call(f"r{number}"), 0.5, None)
        broadcast.progress(call("always"), 0.5, None)
    assert broadcast.kept.of("r0") is None
    assert broadcast.kept.of("always") is not None
    for number in range(limits.REPORTED_ATTEMPTS_KEPT_PER_RUN + 1):
        broadcast.progress(call(attempt=number + 1), 0.5, None)
    kept = broadcast.kept.of("r")
    assert kept is not None
    assert [item.attempt for item in kept.newest.values()] == list(range(2, limits.REPORTED_ATTEMPTS_KEPT_PER_RUN + 2))
