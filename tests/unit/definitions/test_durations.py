"""Durations and instants."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.definitions.durations import (
    format_duration,
    format_instant,
    parse_duration_ms,
    parse_instant_ms,
    parse_native_duration_ms,
)

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("0", 0),
        ("250", 250),
        ("250ms", 250),
        ("30 s", 30 * SECOND),
        ("5m", 5 * MINUTE),
        ("24h", DAY),
        ("007s", 7 * SECOND),
        ("5 ", 5),
    ],
)
def test_both_forms_read_what_the_published_form_allows(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms
    assert parse_native_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    "text", ["", "s", "1d", "1.5s", "1h30m", "PT5M", "-1", "+1", " 1", "1S", "\u0661s", "1s\n", "1e3"]
)
def test_the_published_form_refuses_everything_else(text: str) -> None:
    assert parse_duration_ms(text) is None


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        (0, 0),
        (1500, 1500),
        ("1.5s", 1500),
        ("0.25ms", None),
        ("2d", 2 * DAY),
        ("1w", 7 * DAY),
        ("1h30m", 90 * MINUTE),
        ("1h 30m", 90 * MINUTE),
        ("1d12h30m15s250ms", DAY + 12 * HOUR + 30 * MINUTE + 15 * SECOND + 250),
        ("1m30ms", MINUTE + 30),
        ("PT5M", 5 * MINUTE),
        ("P1DT2H", DAY + 2 * HOUR),
        ("P2W", 14 * DAY),
        ("PT1.5S", 1500),
        ("PT0S", 0),
    ],
)
def test_the_native_form_reads_more(text: str | int, duration_ms: int | None) -> None:
    assert parse_native_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "P",
        "PT",
        "P1D T2H",
        "P1Y",
        "P1M",
        "1.5",
        "-5s",
        "30m1h",
        "1h1h",
        "1 parsec",
        "1e5s",
        "h",
        "9" * 100,
        -1,
        True,
    ],
)
def test_the_native_form_refuses_what_has_no_fixed_length(text: str | int) -> None:
    assert parse_native_duration_ms(text) is None


def test_durations_are_bounded() -> None:
    assert parse_native_duration_ms(limits.DURATION_MS_MAX) == limits.DURATION_MS_MAX
    assert parse_native_duration_ms(limits.DURATION_MS_MAX + 1) is None
    assert parse_native_duration_ms("99999w") is None
    assert parse_duration_ms("99999999h") is None


@given(st.integers(min_value=0, max_value=limits.DURATION_MS_MAX))
def test_a_written_duration_reads_back(duration_ms: int) -> None:
    assert parse_native_duration_ms(format_duration(duration_ms)) == duration_ms


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(0, "0ms"), (1, "1ms"), (90 * MINUTE, "1h30m"), (10 * DAY, "10d"), (1500, "1s500ms")]
)
def test_durations_are_written_largest_unit_first(duration_ms: int, text: str) -> None:
    assert format_duration(duration_ms) == text


def test_a_negative_duration_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="negative"):
        format_duration(-1)


@given(st.text(max_size=12))
def test_no_text_makes_the_parsers_fail(text: str) -> None:
    for parsed in (parse_duration_ms(text), parse_native_duration_ms(text)):
        assert parsed is None or 0 <= parsed <= limits.DURATION_MS_MAX
    parse_instant_ms(text)


@pytest.mark.parametrize(
    ("text", "instant_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01", 0),
        ("1970-01-01T00:00", 0),
        ("1970-01-01 00:00:01", 1000),
        ("1970-01-01t00:00:00z", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1970-01-01T00:00:00.9999Z", 999),
    ],
)
def test_instants_without_an_offset_are_utc(text: str, instant_ms: int) -> None:
    assert parse_instant_ms(text) == instant_ms


@pytest.mark.parametrize(
    "text", ["", "now", "19700101T000000Z", "1970-W01-1", "1970-13-01", "1970-01-01T25:00", "10:00"]
)
def test_other_texts_are_not_instants(text: str) -> None:
    assert parse_instant_ms(text) is None


@given(st.integers(min_value=-62_135_596_800_000, max_value=253_402_300_799_999))
def test_a_written_instant_reads_back(instant_ms: int) -> None:
    text = format_instant(instant_ms)
    assert text.endswith("Z")
    assert parse_instant_ms(text) == instant_ms


def test_instants_are_written_with_milliseconds() -> None:
    assert format_instant(1_794_736_800_000) == "2026-11-15T10:00:00.000Z"


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_an_instant_is_written_as_the_standard_library_writes_it(instant_ms: int) -> None:
    told = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant_ms)).isoformat(timespec="milliseconds")
    assert format_instant(instant_ms) == told.replace("+00:00", "Z")
