"""Failed attempts to sign in with the form are limited by address and by key."""

from __future__ import annotations

import pytest

from penstock.base import limits
from penstock.base.errors import LimitExceeded
from penstock.operations.gate.rates.sign_ins import SignInLimits


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000

    def now_ms(self) -> int:
        return self.now

    def elapsed_ms(self) -> int:
        return self.now


def key(name: str) -> str:
    return f"pen_{name * 12}_" + "x" * 43


def test_a_key_that_was_tried_too_often_waits_wherever_it_comes_from_and_others_do_not() -> None:
    clock = Clock()
    counted = SignInLimits(clock)
    for number in range(limits.CONSOLE_FAILED_SIGN_INS_PER_KEY_PER_MINUTE):
        counted.check(f"203.0.113.{number}", key("a"))
        counted.failed(f"203.0.113.{number}", key("a"))
    with pytest.raises(LimitExceeded) as refused:
        counted.check("198.51.100.1", key("a"))
    assert refused.value.details["limit"] == "console_sign_ins"
    counted.check("198.51.100.1", key("b"))
    clock.now += 60_000
    counted.check("198.51.100.1", key("a"))


def test_an_address_that_failed_too_often_waits_whatever_it_sends() -> None:
    counted = SignInLimits(Clock())
    for _ in range(limits.CONSOLE_FAILED_SIGN_INS_PER_ADDRESS_PER_MINUTE):
        counted.failed("203.0.113.1", "no key at all")
    for sent in ("", key("a")):
        with pytest.raises(LimitExceeded):
            counted.check("203.0.113.1", sent)
    counted.check("203.0.113.2", key("a"))
    counted.check(None)
