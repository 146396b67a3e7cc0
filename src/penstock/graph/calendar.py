"""Days and times as text and as values: reading what people and programs write, and printing it in one form.

A `Date` is `YYYY-MM-DD`. A `DateTime` is RFC 3339: `YYYY-MM-DDTHH:MM[:SS[.fraction]]` with `Z` or an offset; a space
may stand for `T`, small letters for capital ones. Without an offset the time is UTC, so that a text means the same on
every machine. A value has milliseconds; digits beyond are cut off. Leap seconds (`:60`) do not exist here.

Above it: `typing` (literals), `parameters`, `records`. It reads no clock.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone

__all__ = ["DATE_PATTERN", "DATE_TIME_PATTERN", "parse_date", "parse_date_time", "written_date_time"]

DATE_PATTERN = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
DATE_TIME_PATTERN = (
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:[0-9]{2})?$"
)
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)
_DATE_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.]([0-9]{1,9}))?)?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def parse_date(text: str) -> str | None:
    """Return the day if it is one of the calendar, else None."""
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    try:
        date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        return None
    return text


def _zone(text: str | None) -> timezone | None:
    if text is None or text in "Zz":
        return UTC
    hours, minutes = int(text[1:3]), int(text[4:6])
    if minutes > 59 or hours > 23:  # noqa: PLR2004 - the largest minute and hour
        return None
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


def parse_date_time(text: str) -> int | None:
    """Return the time in milliseconds since 1970 in UTC, or None if there is no such time."""
    found = _DATE_TIME.fullmatch(text)
    if found is None:
        return None
    zone = _zone(found[8])
    if zone is None:
        return None
    year, month, day, hour, minute = (int(found[index]) for index in range(1, 6))
    microsecond = int((found[7] or "").ljust(3, "0")[:3]) * 1000
    try:
        moment = datetime(year, month, day, hour, minute, int(found[6] or 0), microsecond, tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return (moment - _EPOCH) // _MILLISECOND


def written_date_time(milliseconds: int) -> str:
    """Write a time as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
