"""JSON values to typed values and back."""

from struct import pack, unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.graph.parameters.values import Unfit, from_json, to_json
from penstock.graph.schema.model import Base, Enum, ListOf, Scalar, ValueType, Vector
from penstock.graph.values import F32_MAX, GraphValue


@pytest.mark.parametrize(
    ("value", "value_type", "typed"),
    [
        ("é", Scalar(Base.STRING), "é"),
        (True, Scalar(Base.BOOL), True),
        (5.0, Scalar(Base.I32), 5),
        ("-9223372036854775808", Scalar(Base.I64), -(2**63)),
        ("18446744073709551615", Scalar(Base.U64), 2**64 - 1),
        ("007", Scalar(Base.I64), 7),
        (0.1, Scalar(Base.F32), unpack("<f", pack("<f", 0.1))[0]),
        (2**53 + 1, Scalar(Base.F64), 2.0**53),
        ("2026-01-31", Scalar(Base.DATE), "2026-01-31"),
        ("1970-01-01T00:00:01Z", Scalar(Base.DATE_TIME), 1000),
        ("base64:aGk=", Scalar(Base.BLOB), b"hi"),
        ([1, 2.5], Vector(2), (1.0, 2.5)),
        (["a"], ListOf(Base.STRING), ("a",)),
        ("open", Enum(("done", "open")), "open"),
    ],
)
def test_values_are_typed(value: JsonValue, value_type: ValueType, typed: GraphValue) -> None:
    found = from_json(value, value_type)
    assert found == typed
    assert type(found) is type(typed)


@pytest.mark.parametrize(
    ("value", "value_type", "message"),
    [
        (None, Scalar(Base.STRING), "must not be null"),
        (1, Scalar(Base.STRING), "needs a text, not a number"),
        ("\ud800", Scalar(Base.STRING), "has half of a surrogate pair"),
        ("x" * (limits.GRAPH_STRING_BYTES_MAX + 1), Scalar(Base.STRING), "has 1048577 bytes; 1048576 are allowed"),
        (1, Scalar(Base.BOOL), "needs true or false, not a number"),
        (True, Scalar(Base.I32), "needs a whole number, not true"),
        ("5", Scalar(Base.I32), "needs a whole number, not a text"),
        (5.5, Scalar(Base.I64), "needs a whole number, not a number with a fraction"),
        (-1, Scalar(Base.U32), "is not between 0 and 4294967295"),
        ("5.0", Scalar(Base.I64), "needs a whole number, or a text of its digits"),
        (True, Scalar(Base.F64), "needs a number, not true"),
        (10**400, Scalar(Base.F64), "is not a finite number of type F64"),
        (F32_MAX * 1.1, Scalar(Base.F32), "is not a finite number of type F32"),
        ("2026-02-30", Scalar(Base.DATE), 'needs a day of the calendar, such as "2026-01-31"'),
        (0, Scalar(Base.DATE_TIME), 'needs a time, such as "2026-01-31T09:00:00Z"'),
        ("https://example.org", Scalar(Base.BLOB), 'needs a text that begins with "base64:"'),
        ("base64:aGk", Scalar(Base.BLOB), "is not valid base64"),
        ([1], Vector(2), "needs exactly 2 numbers, not 1"),
        ("open", ListOf(Base.STRING), "needs a list, not a text"),
        ([{}], ListOf(Base.STRING), "needs a text, not an object"),
        ([1] * (limits.GRAPH_LIST_ITEMS_MAX + 1), ListOf(Base.I32), "has 10001 items; 10000 are allowed"),
        ("closed", Enum(("done", "open")), "needs one of done, open"),
    ],
)
def test_refusals_say_what_is_needed(value: JsonValue, value_type: ValueType, message: str) -> None:
    found = from_json(value, value_type)
    assert isinstance(found, Unfit)
    assert found.message == message


def test_the_place_in_a_list_is_named() -> None:
    assert from_json(["a", None], ListOf(Base.STRING)) == Unfit("needs a text, not null", (1,))


def test_64_bits_are_texts_if_asked_for() -> None:
    assert to_json(5, Scalar(Base.I64)) == 5
    assert to_json(5, Scalar(Base.I64), wide_as_text=True) == "5"
    assert to_json((5,), ListOf(Base.U64), wide_as_text=True) == ["5"]
    assert to_json(5, Scalar(Base.I32), wide_as_text=True) == 5


def test_numbers_of_32_bits_are_short() -> None:
    tenth = from_json(0.1, Scalar(Base.F32))
    assert isinstance(tenth, float)
    assert to_json(tenth, Scalar(Base.F32)) == 0.1
    assert to_json((tenth,), Vector(1)) == [0.1]
    assert to_json(F32_MAX, Scalar(Base.F32)) == pytest.approx(F32_MAX)


VALUES: dict[Base, st.SearchStrategy[JsonValue]] = {
    Base.STRING: st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    Base.BOOL: st.booleans(),
    Base.I32: st.integers(-(2**31), 2**31 - 1),
    Base.I64: st.integers(-(2**63), 2**63 - 1),
    Base.U32: st.integers(0, 2**32 - 1),
    Base.U64: st.integers(0, 2**64 - 1),
    Base.F32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Base.F64: st.floats(allow_nan=False, allow_infinity=False),
    Base.DATE: st.dates().map(str),
    Base.DATE_TIME: st.datetimes().map(lambda moment: moment.isoformat()),
    Base.BLOB: st.sampled_from(["base64:", "base64:aGk=", "base64:/+8="]),
}


@given(st.data(), st.sampled_from(Base), st.booleans())
def test_what_is_read_is_written_and_read_again(data: st.DataObject, base: Base, wide_as_text: bool) -> None:
    value = from_json(data.draw(VALUES[base]), Scalar(base))
    assert value is not None
    assert not isinstance(value, Unfit)
    assert from_json(to_json(value, Scalar(base), wide_as_text=wide_as_text), Scalar(base)) == value
