"""Token buckets: what flows through them is bounded, and a call that is refused costs nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.governance.rates import Empty, Rate, TokenBuckets

A, B = ("a",), ("b",)
MINUTE = 60_000


def test_a_bucket_holds_a_burst_and_fills_steadily() -> None:
    buckets, rate = TokenBuckets(10), Rate.of(60, 10)
    assert rate == Rate(60, 10)
    assert [buckets.take([(A, rate)], 0) for _ in range(10)] == [None] * 10
    assert buckets.take([(A, rate)], 0) == Empty(A, rate, 1)
    assert buckets.take([(A, rate)], 999) is not None
    assert buckets.take([(A, rate)], 1_000) is None
    assert buckets.take([(A, rate)], 1_000) is not None


def test_a_slow_rate_lets_one_call_through_and_says_how_long_to_wait() -> None:
    buckets, rate = TokenBuckets(10), Rate.of(1, 10)
    assert buckets.take([(A, rate)], 0) is None
    empty = buckets.take([(A, rate)], 0)
    assert empty is not None
    assert empty.seconds == 60
    assert buckets.take([(A, rate)], 59_000) == Empty(A, rate, 1)
    assert buckets.take([(A, rate)], 60_000) is None


def test_a_call_counts_in_all_of_its_buckets_or_in_none() -> None:
    buckets, narrow, wide = TokenBuckets(10), Rate(60, 1), Rate(60, 3)
    assert buckets.take([(A, wide), (B, narrow)], 0) is None
    for _ in range(5):
        empty = buckets.take([(A, wide), (B, narrow)], 0)
        assert empty is not None
        assert empty.key == B
    # Two are left in the wide one, whatever the narrow one refused.
    assert [buckets.take([(A, wide)], 0) is None for _ in range(3)] == [True, True, False]


def test_the_bucket_that_stays_empty_longest_is_named() -> None:
    buckets, fast, slow = TokenBuckets(10), Rate(60, 1), Rate(1, 1)
    assert buckets.take([(A, fast), (B, slow)], 0) is None
    assert buckets.take([(A, fast), (B, slow)], 0) == Empty(B, slow, 60)


def test_looking_counts_nothing() -> None:
    buckets, rate = TokenBuckets(10), Rate(60, 1)
    assert [buckets.look([(A, rate)], 0) for _ in range(5)] == [None] * 5
    assert buckets.take([(A, rate)], 0) is None
    assert buckets.look([(A, rate)], 0) == Empty(A, rate, 1) == buckets.take([(A, rate)], 0)


def test_the_least_recently_used_bucket_is_forgotten() -> None:
    buckets, rate = TokenBuckets(2), Rate(60, 1)
    for key in (A, B, ("c",)):
        assert buckets.take([(key, rate)], 0) is None
    assert len(buckets) == 2
    assert buckets.take([(("c",), rate)], 0) is not None
    assert buckets.take([(A, rate)], 0) is None


def test_a_clock_that_goes_back_fills_nothing_twice() -> None:
    buckets, rate = TokenBuckets(10), Rate(60, 1)
    assert buckets.take([(A, rate)], 10_000) is None
    assert buckets.take([(A, rate)], 0) is not None
    assert buckets.take([(A, rate)], 10_500) is not None
    assert buckets.take([(A, rate)], 11_000) is None


@given(
    per_minute=st.integers(1, 100_000),
    burst=st.integers(1, 50),
    steps=st.lists(st.integers(0, 5_000), min_size=1, max_size=200),
)
def test_no_more_flows_than_a_burst_and_the_rate(per_minute: int, burst: int, steps: list[int]) -> None:
    buckets, rate = TokenBuckets(10), Rate(per_minute, burst)
    now, through = 0, 0
    for step in steps:
        now += step
        through += buckets.take([(A, rate)], now) is None
    assert through <= burst + now * per_minute / MINUTE + 1e-6


@given(per_minute=st.integers(1, 10_000), tries=st.integers(1, 30))
def test_who_waits_as_long_as_told_is_let_through(per_minute: int, tries: int) -> None:
    buckets, rate = TokenBuckets(10), Rate.of(per_minute, 10)
    now = 0
    for _ in range(tries):
        empty = buckets.take([(A, rate)], now)
        if empty is not None:
            now += empty.seconds * 1_000
            assert buckets.take([(A, rate)], now) is None


def test_what_was_taken_is_told_to_others_once_it_is_worth_it() -> None:
    buckets, rate = TokenBuckets(10, shared=True), Rate(6_000, 100)
    for _ in range(4):
        assert buckets.take([(A, rate)], 0) is None
    assert list(buckets.pending(0.05, 0)) == []
    assert buckets.take([(A, rate)], 0) is None
    [taken] = buckets.pending(0.05, 0)
    assert (taken.key, taken.amount) == (A, 5)
    assert list(buckets.pending(0.05, 0)) == []
    buckets.give_back(taken)
    assert buckets.take([(A, rate)], 0) is None
    assert [item.amount for item in buckets.pending(0.05, 0)] == [6]


def test_a_bucket_is_set_to_what_all_left_in_it() -> None:
    buckets, rate = TokenBuckets(10, shared=True), Rate(60, 10)
    assert buckets.take([(A, rate)], 0) is None
    assert list(buckets.pending(0.0, 0))
    assert buckets.take([(A, rate)], 0) is None  # after it was told, before the answer
    buckets.adjust(A, 2, 0)
    assert [buckets.take([(A, rate)], 0) is None for _ in range(2)] == [True, False]
    buckets.adjust(B, -5, 0)
    empty = buckets.take([(B, rate)], 0)
    assert empty is not None
    assert empty.seconds == 6
