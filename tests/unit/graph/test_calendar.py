"""Days and times."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.graph.calendar import parse_date, parse_date_time, written_date_time


@pytest.mark.parametrize("text", ["2026-01-31", "0001-01-01", "9999-12-31", "2024-02-29"])
def test_days_of_the_calendar(text: str) -> None:
    assert parse_date(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-29",
        "2026-13-01",
        "0000-01-01",
        "2026-1-1",
        "2026-01-31T00:00:00Z",
        " 2026-01-31",
        "2026-01-31\n",
        "\u0662026-01-31",
    ],
)
def test_what_is_no_day(text: str) -> None:
    assert parse_date(text) is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-01-31T09:00:00Z", "2026-01-31T09:00:00.000Z"),
        ("2026-01-31t09:00:00z", "2026-01-31T09:00:00.000Z"),
        ("2026-01-31 09:00", "2026-01-31T09:00:00.000Z"),
        ("2026-01-31T09:00:00", "2026-01-31T09:00:00.000Z"),
        ("2026-01-31T01:00:00+02:00", "2026-01-30T23:00:00.000Z"),
        ("2026-01-31T23:30:00-00:45", "2026-02-01T00:15:00.000Z"),
        ("2026-01-31T09:00:00.1", "2026-01-31T09:00:00.100Z"),
        ("2026-01-31T09:00:00.123999999Z", "2026-01-31T09:00:00.123Z"),
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
    ],
)
def test_times_are_normalised(text: str, written: str) -> None:
    milliseconds = parse_date_time(text)
    assert milliseconds is not None
    assert written_date_time(milliseconds) == written


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31",
        "2026-01-31T24:00:00Z",
        "2026-01-31T09:60:00Z",
        "2026-01-31T09:00:60Z",
        "2026-02-30T09:00:00Z",
        "2026-01-31T09:00:00+24:00",
        "2026-01-31T09:00:00+01:60",
        "2026-01-31T09:00:00+0100",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "2026-01-31T09:00:00.Z",
        "2026-01-31T09:00:00 Z",
        "now",
    ],
)
def test_what_is_no_time(text: str) -> None:
    assert parse_date_time(text) is None


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_time_can_be_written_and_read(moment: datetime) -> None:
    milliseconds = parse_date_time(moment.isoformat())
    assert milliseconds is not None
    assert parse_date_time(written_date_time(milliseconds)) == milliseconds
