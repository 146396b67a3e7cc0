"""Token buckets: how many calls each of several buckets lets through, all of them or none.

A bucket fills steadily and holds one burst. A call names every bucket that it counts against; it is counted in all of
them, or, if one is empty, in none, so that a refused call costs nothing elsewhere. The buckets of one table are
bounded: the least recently used one is forgotten first, and a forgotten bucket is a full one.

Processes that share a store exchange what they took: `pending` says what was taken since the last exchange, and
`adjust` sets a bucket to what is left of it everywhere.

Above it: `operations.gate.rates`. Below it: arithmetic on the time it is given; it reads no clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from math import ceil
from typing import NamedTuple, TypeAlias

__all__ = ["BucketKey", "Empty", "Rate", "Taken", "TokenBuckets", "refilled"]

BucketKey: TypeAlias = tuple[str, ...]
_MS_PER_MINUTE = 60_000
# One token, less what sums of fractions may lack of it.
_WHOLE = 1 - 1e-9


class Rate(NamedTuple):
    """How fast a bucket fills, and how much it holds."""

    per_minute: float
    burst: float

    @classmethod
    def of(cls, per_minute: float, burst_seconds: float) -> Rate:
        """Return a rate whose bursts are as large as what flows in so many seconds, and one call at least."""
        return cls(per_minute, max(1.0, per_minute * burst_seconds / 60))


class Empty(NamedTuple):
    """A bucket that had nothing left, and how long until it has."""

    key: BucketKey
    rate: Rate
    seconds: int


class Taken(NamedTuple):
    """What was taken from a bucket since the last exchange with other processes."""

    key: BucketKey
    rate: Rate
    amount: float


def refilled(tokens: float, rate: Rate, elapsed_ms: float) -> float:
    """Return what a bucket holds after a time. A clock that went back changes nothing."""
    return min(rate.burst, tokens + max(0.0, elapsed_ms) * rate.per_minute / _MS_PER_MINUTE)


class TokenBuckets:
    """A bounded table of buckets."""

    def __init__(self, at_most: int, *, shared: bool = False) -> None:
        self._at_most = at_most
        self._levels: OrderedDict[BucketKey, tuple[float, int]] = OrderedDict()
        """By bucket: what it held, and when."""
        self._pending: dict[BucketKey, float] | None = {} if shared else None
        """By bucket: what was taken from it since the last exchange."""
        self._told_at: int | None = None
        """When what was taken was last told, or should have been; before that, when something was first taken."""
        self._could_tell = True
        self._rates: dict[BucketKey, Rate] = {}
        """The rates of the buckets above."""

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, wanted: Sequence[tuple[BucketKey, Rate]], now_ms: int) -> Empty | None:
        """Count one call in every bucket, or in none; return the one that stays empty longest."""
        if len(wanted) == 1:
            return self._take_one(*wanted[0], now_ms)
        after, empty = [], None
        for key, rate in wanted:
            tokens, seen_at = self._level(key, rate, now_ms)
            if tokens < _WHOLE:
                found = Empty(key, rate, _seconds_until(tokens, rate))
                empty = found if empty is None or found.seconds > empty.seconds else empty
            after.append((tokens - 1, seen_at))
        if empty is not None:
            return empty
        for (key, rate), level in zip(wanted, after, strict=True):
            self._keep(key, level)
            if self._pending is not None:
                self._note(self._pending, key, rate, 1.0)
                self._told_at = now_ms if self._told_at is None else self._told_at
        return None

    def _take_one(self, key: BucketKey, rate: Rate, now_ms: int) -> Empty | None:
        """Do the same for one bucket, which is all that most calls count against."""
        tokens, seen_at = self._level(key, rate, now_ms)
        if tokens < _WHOLE:
            return Empty(key, rate, _seconds_until(tokens, rate))
        self._keep(key, (tokens - 1, seen_at))
        if self._pending is not None:
            self._note(self._pending, key, rate, 1.0)
            self._told_at = now_ms if self._told_at is None else self._told_at
        return None

    def look(self, wanted: Sequence[tuple[BucketKey, Rate]], now_ms: int) -> Empty | None:
        """Return what `take` would return, and count nothing."""
        found = [
            Empty(key, rate, _seconds_until(tokens, rate))
            for key, rate in wanted
            if (tokens := self._level(key, rate, now_ms)[0]) < _WHOLE
        ]
        return max(found, key=lambda empty: empty.seconds, default=None)

    def pending(self, least_share: float, now_ms: int, *, late_after_ms: int = 0) -> Iterator[Taken]:
        """Yield, and forget, what was taken from each bucket since the last exchange.

        A bucket of which less than `least_share` of a burst was taken waits for the next exchange. If the last one
        failed, or was longer ago than `late_after_ms`, as much has flowed in meanwhile as the rate gives: the shared
        bucket is full at most, and would not count that.
        """
        pending = self._pending or {}
        waited_ms = 0 if self._told_at is None else now_ms - self._told_at
        self._drain(pending, waited_ms if not self._could_tell else waited_ms - late_after_ms)
        self._told_at, self._could_tell = now_ms, True
        for key, amount in list(pending.items()):
            rate = self._rates[key]
            if amount >= max(1.0, rate.burst * least_share):
                del pending[key], self._rates[key]
                yield Taken(key, rate, amount)

    def give_back(self, taken: Taken) -> None:
        """Keep for the next exchange what could not be exchanged."""
        self._could_tell = False
        if self._pending is not None:
            self._note(self._pending, taken.key, taken.rate, taken.amount)

    def adjust(self, key: BucketKey, left: float, now_ms: int) -> None:
        """Set a bucket to what all processes together left in it; below zero, if they took too much.

        What this process took since it said what it took is taken off.
        """
        self._keep(key, (left - (self._pending or {}).get(key, 0.0), now_ms))

    def _drain(self, pending: dict[BucketKey, float], elapsed_ms: int) -> None:
        if elapsed_ms <= 0:
            return
        for key in list(pending):
            left = pending[key] - elapsed_ms * self._rates[key].per_minute / _MS_PER_MINUTE
            if left > 0:
                pending[key] = left
            else:
                del pending[key], self._rates[key]

    def _note(self, pending: dict[BucketKey, float], key: BucketKey, rate: Rate, amount: float) -> None:
        known = pending.get(key)
        if known is not None:
            pending[key] = known + amount
            return
        if len(pending) >= self._at_most:  # the oldest took little, or it would have been exchanged
            oldest = next(iter(pending))
            del pending[oldest], self._rates[oldest]
        pending[key], self._rates[key] = amount, rate

    def _level(self, key: BucketKey, rate: Rate, now_ms: int) -> tuple[float, int]:
        known = self._levels.get(key)
        if known is None:
            return rate.burst, now_ms
        tokens, seen_at = known
        elapsed_ms = now_ms - seen_at
        if elapsed_ms <= 0:  # the same millisecond, or a clock that went back
            return min(rate.burst, tokens), seen_at
        return refilled(tokens, rate, elapsed_ms), now_ms

    def _keep(self, key: BucketKey, level: tuple[float, int]) -> None:
        self._levels[key] = level
        self._levels.move_to_end(key)
        if len(self._levels) > self._at_most:
            self._levels.popitem(last=False)


def _seconds_until(tokens: float, rate: Rate) -> int:
    """Return how many whole seconds a bucket takes to hold one token again."""
    return max(1, ceil((_WHOLE - tokens) * 60 / rate.per_minute))
