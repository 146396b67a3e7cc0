"""Leases: one holder at a time, lost when they run out and are taken, and no hindrance to those who use none."""

import pytest

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.engine import inputs
from penstock.engine.pending import pending_activities
from penstock.engine.replay import Replayed, replay
from penstock.engine.state import Lease
from tests.unit.engine.runs import Run, begin, native, step


def mediated(*nodes: JsonObject) -> Run:
    return begin(native(*nodes), mode="host_mediated")


def lease(holder: str, seconds: int = 60, **more: int | bool) -> inputs.LeaseActivity:
    return inputs.LeaseActivity(at=0, node_id="a", holder=holder, lease_ms=seconds * 1000, **more)  # type: ignore[arg-type]


def held(run: Run, visit: int = 1) -> Lease | None:
    return next(item.lease for item in pending_activities(run.workflow, run.state) if item.visit == visit)


def done(holder: str | None = None, attempt: int | None = None) -> inputs.CompleteActivity:
    return inputs.CompleteActivity(at=0, node_id="a", holder=holder, attempt=attempt)


def replayed(run: Run) -> None:
    outcome = replay(run.workflow, run.records)
    assert isinstance(outcome, Replayed), outcome
    assert (outcome.state, list(outcome.records)) == (run.state, run.records)


def test_a_second_holder_is_refused_and_told_until_when() -> None:
    run = mediated(step("a")).take(lease("ada"))
    assert held(run) == Lease(holder="ada", until=run.now + 60_000)
    assert run.status == "waiting_activity"
    refused = run.after(1_000).refuse(lease("bob"))
    assert refused.code == "ACTIVITY_LEASED"
    assert refused.details == {"holder": "ada", "lease_until": run.now + 59_000}
    assert "until 2025-10-09T08:54:20" in refused.message
    replayed(run)


def test_a_lease_that_ran_out_is_taken_by_another_and_its_loser_is_told() -> None:
    run = mediated(step("a")).take(lease("ada")).after(60_000).take(lease("bob"))
    refused = run.refuse(done("ada"))
    assert refused.code == "ACTIVITY_LEASE_LOST"
    assert "bob" in refused.message
    assert run.refuse(lease("ada", extend=True)).code == "ACTIVITY_LEASE_LOST"
    assert run.take(done("bob")).status == "completed"
    replayed(run)


def test_a_lease_that_ran_out_and_was_not_taken_still_lets_its_holder_submit() -> None:
    assert mediated(step("a")).take(lease("ada")).after(90_000).take(done("ada")).status == "completed"


def test_a_submit_that_names_no_holder_is_taken_as_ever() -> None:
    assert mediated(step("a")).take(done()).status == "completed"
    assert mediated(step("a")).take(lease("ada")).take(done()).status == "completed"


def test_a_holder_keeps_its_lease_longer_or_gives_it_back() -> None:
    run = mediated(step("a")).take(lease("ada")).after(30_000).take(lease("ada", extend=True))
    assert held(run) == Lease(holder="ada", until=run.now + 60_000)
    assert held(run.take(lease("ada", 0))) is None
    assert run.refuse(lease("ada", 0)).code == "ACTIVITY_LEASE_LOST"
    assert run.take(lease("bob")).refuse(done("ada")).code == "ACTIVITY_LEASE_LOST"
    replayed(run)


def test_another_attempt_is_nobodys() -> None:
    run = mediated(step("a", retry={"max_attempts": 2})).take(lease("ada")).failed("a")
    assert held(run) is None
    assert run.refuse(done("ada")).code == "ACTIVITY_LEASE_LOST"
    assert run.refuse(done(attempt=1)).code == "ACTIVITY_SUBMIT_NOT_AWAITING"
    assert run.take(lease("bob")).take(done("bob", attempt=2)).status == "completed"
    replayed(run)


def test_what_must_not_happen_twice_is_in_doubt_when_its_holder_is_gone() -> None:
    run = mediated(step("a", effects="at_most_once")).take(lease("ada")).after(60_000).take(lease("bob"))
    assert run.status == "waiting_decision"
    assert run.refuse(lease("bob")).code == "ACTIVITY_SUBMIT_NOT_AWAITING"
    replayed(run)
    assert run.take(done("ada")).status == "completed"
    replayed(run)


def test_what_must_not_happen_twice_may_be_given_back() -> None:
    run = mediated(step("a", effects="at_most_once")).take(lease("ada")).take(lease("ada", 0)).take(lease("bob"))
    assert held(run) == Lease(holder="bob", until=run.now + 60_000)


def test_of_several_visits_a_free_one_is_given() -> None:
    each: JsonObject = {"id": "each", "type": "for_each", "items": "[1, 2]", "concurrency": 2, "nodes": [step("a")]}
    run = mediated(each).take(lease("ada")).take(lease("bob"))
    assert [item.lease.holder for item in pending_activities(run.workflow, run.state) if item.lease] == ["ada", "bob"]
    assert run.refuse(lease("cyd")).code == "ACTIVITY_LEASED"
    assert run.refuse(lease("cyd", visit=2)).details == {"holder": "bob", "lease_until": run.now + 60_000}
    run.take(lease("bob", 120, extend=True))
    assert held(run, 2) == Lease(holder="bob", until=run.now + 120_000)
    replayed(run)


def test_activities_that_are_performed_here_are_not_leased() -> None:
    assert begin(native(step("a"))).refuse(lease("ada")).code == "ACTIVITY_LEASE_NOT_ALLOWED"


@pytest.mark.parametrize("seconds", [-1, limits.ACTIVITY_LEASE_MS_MAX // 1000 + 1])
def test_a_lease_has_a_sensible_length(seconds: int) -> None:
    assert mediated(step("a")).refuse(lease("ada", seconds)).code == "VALIDATION_ERROR"


@pytest.mark.parametrize("holder", ["", "x" * (limits.LEASE_HOLDER_CHARACTERS_MAX + 1)])
def test_a_holder_has_a_name(holder: str) -> None:
    assert mediated(step("a")).refuse(lease(holder)).code == "VALIDATION_ERROR"


def test_nothing_that_does_not_wait_is_leased() -> None:
    run = mediated(step("a"), step("b"))
    given = inputs.LeaseActivity(at=0, node_id="b", holder="ada", lease_ms=1)
    assert run.refuse(given).code == "ACTIVITY_SUBMIT_NOT_AWAITING"
    run.done("a").done("b")
    assert run.refuse(lease("ada")).code == "ACTIVITY_SUBMIT_NOT_AWAITING"
