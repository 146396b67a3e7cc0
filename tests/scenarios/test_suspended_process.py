"""A process that was suspended, and what it may still do when it goes on."""

from pathlib import Path

from tests.torture.suspended import suspend

# Short, so that the other process takes over soon; a busy machine makes both lose their leases now and then.
LEASE_MS = 2_000


def test_a_suspended_process_repeats_nothing_that_an_operator_retried(tmp_path: Path) -> None:
    found = suspend(tmp_path, runs=60, lease_ms=LEASE_MS)
    assert found.doubled == 0, found
    assert found.unfinished == 0, found
    assert found.performed == found.runs, found
    # What the receiver had to refuse began in the instant between the check and the effect: one at most.
    assert found.refused_by_epoch <= 1, found
