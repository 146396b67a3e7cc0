"""The time of day of a process: corrected at once, but not by every jump of the machine's clock."""

from penstock.base import limits
from penstock.runtime.system import SystemClock, TimeOfDay

NOON = 1_774_699_200_000
QUARTER_MS = 90 * 24 * 3_600_000
SECOND_MS = 1_000


def test_a_clock_that_is_three_months_ahead_for_ten_seconds_is_not_believed() -> None:
    clock = TimeOfDay()
    for second in range(60):
        ahead = QUARTER_MS if 20 <= second < 30 else 0
        passed = second * SECOND_MS
        assert clock.read(NOON + passed + ahead, passed) == NOON + passed


def test_a_clock_that_stays_where_it_was_set_is_believed_after_a_while() -> None:
    for jump in (QUARTER_MS, -QUARTER_MS, 3_600_000):
        clock = TimeOfDay()
        clock.read(NOON, 0)
        for passed in range(SECOND_MS, limits.CLOCK_SETTLES_MS + SECOND_MS, SECOND_MS):
            assert clock.read(NOON + passed + jump, passed) == NOON + passed
        settled = limits.CLOCK_SETTLES_MS + SECOND_MS
        assert clock.read(NOON + settled + jump, settled) == NOON + settled + jump


def test_small_corrections_are_followed_at_once_and_add_up() -> None:
    clock = TimeOfDay()
    clock.read(NOON, 0)
    for second in range(1, 100):
        wall = NOON + second * 1_500
        assert clock.read(wall, second * SECOND_MS) == wall


def test_a_process_that_was_suspended_has_the_right_time_at_once() -> None:
    clock = TimeOfDay()
    clock.read(NOON, 0)
    assert clock.read(NOON + QUARTER_MS, QUARTER_MS) == NOON + QUARTER_MS


def test_a_clock_that_is_set_again_and_again_is_not_followed_in_between() -> None:
    clock = TimeOfDay()
    clock.read(NOON, 0)
    for second in range(1, 120):
        passed = second * SECOND_MS
        assert clock.read(NOON + passed + second * 3_600_000, passed) == NOON + passed


def test_the_clocks_of_a_process_agree_and_the_other_one_never_goes_back() -> None:
    one, other = SystemClock(), SystemClock()
    before = one.elapsed_ms()
    assert abs(one.now_ms() - other.now_ms()) < 60_000
    assert other.elapsed_ms() >= before
