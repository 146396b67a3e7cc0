"""Parameters of stored queries as fields: nothing is rounded, null and empty differ, and mistakes name their field."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.console.forms import Fields
from penstock.console.query_form import Values, query_fields, read_values

_WIDE = {"type": ["integer", "string"], "minimum": -(2**63), "pattern": "^-?[0-9]{1,19}$"}
_VECTOR = {"type": ["array", "null"], "items": {"type": "number"}, "minItems": 3, "maxItems": 3}


def param(name: str, schema: dict[str, Any], *, nullable: bool = False) -> dict[str, Any]:
    return {"name": name, "schema": schema, "nullable": nullable, "description": None}


def read(schema: dict[str, Any], text: str, *, nullable: bool = False) -> Any:
    fields = query_fields([param("p", schema, nullable=nullable)])
    found = read_values(fields, Fields({"param.p": [text]}))
    return found.params if isinstance(found, Values) else found["p"]


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (_WIDE, " 9007199254740993 ", "9007199254740993"),
        (_WIDE, "-9223372036854775808", "-9223372036854775808"),
        ({"type": "integer"}, "7", 7),
        ({"type": "number"}, "2e-3", 0.002),
        ({"type": "string"}, "", ""),
        ({"type": "string"}, " kept ", " kept "),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "string", "enum": ["a", "b"]}, "b", "b"),
        ({"type": "array", "items": {"type": "string"}}, "one\r\ntwo words\n\n", ["one", "two words"]),
        ({"type": "array", "items": {"type": "string"}}, '["with\\nline"]', ["with\nline"]),
        ({"type": "array", "items": _WIDE}, "1\n9007199254740993", ["1", "9007199254740993"]),
        ({"type": "array", "items": {"type": "string"}}, "", []),
        (_VECTOR, "1, 2.5\n-3", [1.0, 2.5, -3.0]),
        (_VECTOR, "[1,2,3]", [1, 2, 3]),
    ],
)
def test_what_is_typed_becomes_a_value_of_the_type(schema: dict[str, Any], text: str, value: object) -> None:
    assert read(schema, text) == {"p": value}


def test_an_empty_field_is_null_where_that_is_allowed_and_an_empty_text_can_still_be_written() -> None:
    text = {"type": ["string", "null"]}
    assert read(text, "", nullable=True) == {}
    assert read(text, '""', nullable=True) == {"p": ""}
    assert read({"type": ["integer", "string", "null"]}, " ", nullable=True) == {}
    assert read({"type": ["string", "null"], "enum": ["a", None]}, "", nullable=True) == {}


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        (_WIDE, "1.5", "1.5 is not a whole number"),
        (_WIDE, "", "this is needed"),
        ({"type": "integer"}, "0x10", "0x10 is not a whole number"),
        ({"type": "number"}, "NaN", "NaN is not a number"),
        (_VECTOR, "1 two 3", "two is not a number"),
        (_VECTOR, "[1, 2", "this is not a JSON list"),
        ({"type": "array", "items": {"type": "string"}}, "[" * 5_000, "this is not a JSON list"),
    ],
)
def test_what_cannot_be_read_is_told(schema: dict[str, Any], text: str, message: str) -> None:
    assert read(schema, text) == message


def test_every_mistake_is_told_and_long_fields_are_not_for_addresses() -> None:
    fields = query_fields([param("a", _WIDE), param("b", {"type": "integer"}), param("v", _VECTOR)])
    assert read_values(fields, Fields({"param.a": ["x"], "param.b": ["y"], "param.v": ["1 2 3"]})) == {
        "a": "x is not a whole number",
        "b": "y is not a whole number",
    }
    assert [field.is_long for field in fields] == [False, False, True]
