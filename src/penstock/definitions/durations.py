"""Durations and instants as text: parsed into whole milliseconds, formatted for people.

There are two forms of duration. The published form is what the published definition format accepts. The native form
adds days, weeks, fractions, compound and ISO-8601 durations. This module never reads a clock.
"""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from penstock.base import limits

__all__ = [
    "format_duration",
    "format_instant",
    "parse_duration_ms",
    "parse_instant_ms",
    "parse_native_duration_ms",
]

# Instants that are formatted one after another mostly fall into the same few minutes; only their seconds differ.
_MINUTES_KEPT = 4_096
_MINUTE_MS = 60_000

# Largest first: the order in which compound durations are read and written.
UNIT_MS = {
    "w": 7 * 24 * 60 * 60 * 1000,
    "d": 24 * 60 * 60 * 1000,
    "h": 60 * 60 * 1000,
    "m": 60 * 1000,
    "s": 1000,
    "ms": 1,
}
NUMBER = r"\d+(?:\.\d+)?"
PUBLISHED_FORM = re.compile(r"(?P<amount>\d+)\s*(?P<unit>ms|s|m|h)?", re.ASCII)
COMPOUND_FORM = re.compile(r"\s*".join(rf"(?:(?P<{unit}>{NUMBER})\s*{unit}(?![a-z]))?" for unit in UNIT_MS), re.ASCII)
ISO_FORM = re.compile(
    rf"P(?:(?P<w>{NUMBER})W)?(?:(?P<d>{NUMBER})D)?"
    rf"(?:T(?=\d)(?:(?P<h>{NUMBER})H)?(?:(?P<m>{NUMBER})M)?(?:(?P<s>{NUMBER})S)?)?",
    re.ASCII,
)
INSTANT_FORM = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?", re.ASCII
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
# Far longer than any sensible duration. Keeps hostile input away from arbitrary-precision arithmetic.
TEXT_CHARACTERS_MAX = 64


def parse_duration_ms(text: str) -> int | None:
    """Read a duration of the published form (`250`, `30 s`, `5m`, `24h`; a bare number is milliseconds)."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return None
    match = PUBLISHED_FORM.fullmatch(text)
    if match is None:
        return None
    return _bounded(Decimal(match["amount"]) * UNIT_MS[match["unit"] or "ms"])


def parse_native_duration_ms(text: str | int) -> int | None:
    """Read a duration of the native form: the published form and `2d`, `1.5s`, `1h30m`, `PT5M`, `P1DT2H`.

    Return None if the text is not a duration, is negative, is not a whole number of milliseconds, or is longer than
    `limits.DURATION_MS_MAX`.
    """
    if isinstance(text, bool):
        return None
    if isinstance(text, int):
        return text if 0 <= text <= limits.DURATION_MS_MAX else None
    trimmed = text.strip()
    if not trimmed or len(trimmed) > TEXT_CHARACTERS_MAX:
        return None
    published = parse_duration_ms(trimmed)
    if published is not None:
        return published
    match = ISO_FORM.fullmatch(trimmed) or COMPOUND_FORM.fullmatch(trimmed)
    amounts = {} if match is None else {unit: text for unit, text in match.groupdict().items() if text is not None}
    if not amounts:
        return None
    return _bounded(sum((Decimal(amount) * UNIT_MS[unit] for unit, amount in amounts.items()), Decimal(0)))


def format_duration(duration_ms: int) -> str:
    """Write a duration in the form that `parse_native_duration_ms` reads, largest unit first, for example `1h30m`."""
    if duration_ms < 0:
        raise ValueError(f"a duration cannot be negative: {duration_ms} ms")
    parts: list[str] = []
    rest = duration_ms
    for unit, unit_ms in UNIT_MS.items():
        if unit == "w":
            # Most readers understand days better than weeks.
            continue
        amount, rest = divmod(rest, unit_ms)
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts) or "0ms"


def parse_instant_ms(text: str) -> int | None:
    """Read an ISO-8601 date or timestamp as milliseconds since 1970. Without an offset it is UTC."""
    normalized = text.strip().upper()
    if INSTANT_FORM.fullmatch(normalized) is None:
        return None
    try:
        instant = datetime.fromisoformat(normalized)
    except ValueError:
        return None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return (instant - EPOCH) // MILLISECOND


# Look-up tables instead of formatting: a page of a list has a hundred timestamps.
_SECONDS = tuple(f"{second:02d}." for second in range(60))
_MILLISECONDS = tuple(f"{millisecond:03d}Z" for millisecond in range(1000))


def format_instant(instant_ms: int) -> str:
    """Write milliseconds since 1970 as a UTC timestamp with milliseconds, for example `2026-11-15T10:00:00.000Z`."""
    minute, rest_ms = divmod(instant_ms, _MINUTE_MS)
    second, millisecond = divmod(rest_ms, 1000)
    return _minute(minute) + _SECONDS[second] + _MILLISECONDS[millisecond]


@lru_cache(maxsize=_MINUTES_KEPT)
def _minute(minutes: int) -> str:
    """The part that all timestamps of a minute share."""
    return (EPOCH + timedelta(minutes=minutes)).isoformat()[: len("2026-11-15T10:00:")]


def _bounded(duration_ms: Decimal) -> int | None:
    if duration_ms > limits.DURATION_MS_MAX or duration_ms != duration_ms.to_integral_value():
        return None
    return int(duration_ms)
