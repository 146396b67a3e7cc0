"""When to retry: a policy without a clock, so that the clients only have to wait.

A call that surely did not happen may always be repeated (no connection, 429, 503). A call that may have happened is
repeated only if that does no harm: reads, and writes with an idempotency key. The delay grows with each attempt and is
randomized, so that many clients do not come back at once. A server that names a delay is obeyed.

Above it: the clients. Below it: `errors`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.client.errors import CallFailed, CallUnavailable

__all__ = ["RETRIES_DEFAULT", "RetryPolicy"]

RETRIES_DEFAULT = 4
_FIRST_SECONDS = 0.25
_LONGEST_SECONDS = 8.0
# If the server asks for a longer wait, the caller is better served with the error.
_OBEYED_SECONDS_MAX = 60.0
_TOO_BUSY = frozenset({429, 503})
_GATEWAYS = frozenset({502, 504})
_IN_FLIGHT = "IDEMPOTENCY_IN_FLIGHT"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often to retry, and how long to wait in between. `random` returns a number from 0 to 1."""

    retries: int = RETRIES_DEFAULT
    random: Callable[[], float]

    def delay_seconds(self, error: CallFailed, attempt: int, *, repeatable: bool, sent: bool = True) -> float | None:
        """Return how long to wait before another attempt; None to give up.

        `attempt` counts from 1. `repeatable`: a second run does no harm. `sent`: the server may have seen it.
        """
        if attempt > self.retries or not _may_help(error, repeatable=repeatable, sent=sent):
            return None
        asked = error.retry_after_seconds
        if asked is not None:
            return None if asked > _OBEYED_SECONDS_MAX else asked + self.random() * _FIRST_SECONDS
        longest = min(_FIRST_SECONDS * 2.0 ** (attempt - 1), _LONGEST_SECONDS)
        return longest * (0.5 + self.random() / 2)


def _may_help(error: CallFailed, *, repeatable: bool, sent: bool) -> bool:
    if error.status is None:
        return isinstance(error, CallUnavailable) and (repeatable or not sent)
    if error.status in _GATEWAYS:
        return repeatable
    return error.status in _TOO_BUSY or error.code == _IN_FLIGHT
