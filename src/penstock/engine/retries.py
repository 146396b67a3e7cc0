"""Retry arithmetic: whether a failed attempt is retried, and when.

Jitter is derived from the identity of the attempt. It spreads the load and is still the same on every replay.

Above it: `decide`. It knows nothing of records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

from penstock.definitions.model import Retry

__all__ = ["GiveUp", "RetryAt", "RetryDecision", "next_attempt"]

_JITTER_SHARE = 0.5  # a delay is shortened by up to this share
_CRC_RANGE = 2**32


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Retry at this time."""

    at: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The failure is final."""


RetryDecision: TypeAlias = RetryAt | GiveUp


def next_attempt(retry: Retry, *, attempt: int, code: str, began_at: int, now: int, identity: str) -> RetryDecision:
    """Decide whether and when to retry after a failed attempt."""
    if attempt >= retry.max_attempts or code in retry.non_retryable_errors:
        return GiveUp()
    delay_ms = _delay_ms(retry, attempt)
    if retry.jitter:
        share = crc32(f"{identity}/{attempt}".encode()) / _CRC_RANGE
        delay_ms = int(delay_ms * (1 - _JITTER_SHARE * share))
    if retry.max_elapsed_ms is not None and now + delay_ms - began_at > retry.max_elapsed_ms:
        return GiveUp()
    return RetryAt(now + delay_ms)


def _delay_ms(retry: Retry, attempt: int) -> int:
    # The cap keeps a large coefficient from overflowing a float. Without a configured one, ten years is long enough.
    cap = retry.max_interval_ms if retry.max_interval_ms is not None else 10 * 366 * 24 * 3_600_000
    if retry.initial_interval_ms == 0:
        return 0
    try:
        delay = retry.initial_interval_ms * retry.backoff_coefficient ** (attempt - 1)
    except OverflowError:
        return cap
    return int(min(delay, cap))
