"""Retry arithmetic: whether a failed attempt is followed by another, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.definitions.model import Retry
from penstock.engine.retries import GiveUp, RetryAt, RetryDecision, next_attempt

NOW = 1_000_000


def decided(retry: Retry, attempt: int = 1, code: str = "E_BUSY", began_at: int = NOW) -> RetryDecision:
    return next_attempt(retry, attempt=attempt, code=code, began_at=began_at, now=NOW, identity="run/a/1")


def delay(retry: Retry, attempt: int = 1) -> int:
    decision = decided(retry, attempt)
    assert isinstance(decision, RetryAt)
    return decision.at - NOW


def test_without_a_policy_there_is_one_attempt() -> None:
    assert decided(Retry()) == GiveUp()


def test_the_last_attempt_is_not_followed_by_another() -> None:
    policy = Retry(max_attempts=3)
    assert decided(policy, 2) == RetryAt(NOW)
    assert decided(policy, 3) == GiveUp()
    assert decided(policy, 4) == GiveUp()


def test_a_non_retryable_code_is_final_and_matches_exactly() -> None:
    policy = Retry(max_attempts=3, non_retryable_errors=frozenset({"FATAL"}))
    assert decided(policy, code="FATAL") == GiveUp()
    assert decided(policy, code="FATAL_TOO") == RetryAt(NOW)
    assert decided(policy, code="") == RetryAt(NOW)


@pytest.mark.parametrize(("attempt", "wanted"), [(1, 100), (2, 200), (3, 400), (4, 500), (9, 500)])
def test_delays_grow_by_the_coefficient_up_to_the_cap(attempt: int, wanted: int) -> None:
    policy = Retry(max_attempts=99, initial_interval_ms=100, backoff_coefficient=2, max_interval_ms=500)
    assert delay(policy, attempt) == wanted


def test_a_coefficient_below_one_shortens_the_delay() -> None:
    assert delay(Retry(max_attempts=9, initial_interval_ms=100, backoff_coefficient=0.5), 3) == 25


def test_a_huge_coefficient_is_capped_and_does_not_overflow() -> None:
    policy = Retry(max_attempts=10_000, initial_interval_ms=1, backoff_coefficient=1e300)
    ten_years_ms = 10 * 366 * 24 * 3_600_000
    assert delay(policy, 5_000) == ten_years_ms
    assert delay(Retry(max_attempts=3, initial_interval_ms=1, backoff_coefficient=1e300, max_interval_ms=9), 2) == 9


def test_jitter_shortens_by_at_most_half_and_differs_between_attempts() -> None:
    policy = Retry(max_attempts=50, initial_interval_ms=1_000, jitter=True)
    delays = {delay(policy, attempt) for attempt in range(1, 40)}
    assert len(delays) > 20
    assert all(500 <= found <= 1_000 for found in delays)


def test_jitter_is_the_same_every_time() -> None:
    policy = Retry(max_attempts=5, initial_interval_ms=1_000, jitter=True)
    assert decided(policy, 2) == decided(policy, 2)
    other = next_attempt(policy, attempt=2, code="", began_at=NOW, now=NOW, identity="run/b/1")
    assert other != decided(policy, 2)


def test_no_attempt_begins_after_the_longest_time_allowed() -> None:
    policy = Retry(max_attempts=9, initial_interval_ms=400, max_elapsed_ms=1_000)
    assert decided(policy, began_at=NOW - 600) == RetryAt(NOW + 400)
    assert decided(policy, began_at=NOW - 601) == GiveUp()


@given(
    st.integers(1, 60),
    st.integers(0, 10**7),
    st.floats(0.1, 10, allow_nan=False),
    st.integers(0, 10**7),
    st.booleans(),
)
def test_a_delay_is_never_negative_and_never_above_the_cap(
    attempt: int, interval: int, coefficient: float, cap: int, jitter: bool
) -> None:
    policy = Retry(
        max_attempts=100,
        initial_interval_ms=interval,
        backoff_coefficient=coefficient,
        max_interval_ms=cap,
        jitter=jitter,
    )
    assert 0 <= delay(policy, attempt) <= cap
