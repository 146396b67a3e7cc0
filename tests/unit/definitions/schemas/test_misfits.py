"""Violations in words for callers: unknown members by name, with the one that may be meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonObject, object_or_empty
from penstock.definitions.schemas.compiled import CompiledSchema, compile_schema, violations
from penstock.definitions.schemas.misfits import tell_violations, unfit_message

PART: JsonObject = {"type": "object", "properties": {"amount": {}, "currency": {}}, "additionalProperties": False}
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "sync": {"type": "boolean"},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
        "one/of": {"anyOf": [{"$ref": "#/$defs/part"}, {"type": "null"}]},
        "mode": {"anyOf": [{"enum": ["in_process", "host_mediated"]}, {"type": "null"}]},
        "modes": {"type": "array", "items": {"$ref": "#/$defs/mode"}},
        "by_mode": {"type": "object", "propertyNames": {"enum": ["in_process", "host_mediated"]}},
        "kind": {"const": "mcp"},
        "level": {"enum": ["high", 1, None]},
    },
    "additionalProperties": False,
    "$defs": {"part": PART, "mode": {"enum": ["in_process", "host_mediated"]}},
}
MEANT = "unknown value `host-mediated`; did you mean `host_mediated`?"


PROPERTIES = frozenset(object_or_empty(SCHEMA["properties"]))


def told(schema: JsonObject, value: Any) -> list[Any]:
    compiled = compile_schema(schema)
    assert isinstance(compiled, CompiledSchema)
    return [*tell_violations(schema, violations(compiled, value), "/input")]


@pytest.mark.parametrize(
    ("value", "pointer", "message"),
    [
        ({"sinc": True}, "/input", "unknown member `sinc`; did you mean `sync`?"),
        ({"zzz": True}, "/input", "unknown member `zzz`"),
        ({"parts": [{}, {"amont": 1}]}, "/input/parts/1", "unknown member `amont`; did you mean `amount`?"),
        ({"one/of": {"curency": 1}}, "/input/one~1of", "unknown member `curency`; did you mean `currency`?"),
        ({"sync": "x"}, "/input/sync", "must be boolean"),
    ],
)
def test_an_unknown_member_is_named_with_the_nearest_one(value: Any, pointer: str, message: str) -> None:
    assert (pointer, message) in [(item["pointer"], item["message"]) for item in told(SCHEMA, value)]


@pytest.mark.parametrize(
    ("value", "pointer", "message"),
    [
        ({"mode": "host-mediated"}, "/input/mode", MEANT),
        ({"mode": "zzz"}, "/input/mode", "unknown value `zzz`; use `in_process` or `host_mediated`"),
        ({"mode": 7}, "/input/mode", "must be `in_process` or `host_mediated`"),
        ({"modes": ["in_process", "host-mediated"]}, "/input/modes/1", MEANT),
        ({"by_mode": {"host-mediated": 1}}, "/input/by_mode", MEANT),
        ({"kind": "mpc"}, "/input/kind", "unknown value `mpc`; did you mean `mcp`?"),
        ({"level": "hihg"}, "/input/level", "unknown value `hihg`; did you mean `high`?"),
    ],
)
def test_an_unknown_value_is_named_with_the_nearest_one(value: Any, pointer: str, message: str) -> None:
    assert (pointer, message) in [(item["pointer"], item["message"]) for item in told(SCHEMA, value)]


def test_a_long_unknown_value_is_shortened() -> None:
    [long] = told({"enum": ["a"]}, "x" * 100_000)
    assert len(long["message"]) < 200


def test_the_first_mistake_is_in_the_sentence_and_the_others_are_counted() -> None:
    listed = told(SCHEMA, {"sinc": 1, "sync": "x"})
    first = f"{listed[0]['pointer']} {listed[0]['message']}"
    assert unfit_message("it does not fit:", listed) == f"it does not fit: {first} (and 1 more)"


def test_only_a_few_names_are_compared_however_many_are_unknown() -> None:
    value = {f"sync{number}": 1 for number in range(100)}
    listed = told(SCHEMA, value)
    assert len(listed) == 100
    assert sum("did you mean" in item["message"] for item in listed) == 5
    [long] = told(SCHEMA, {"x" * 100_000: 1})
    assert len(long["message"]) < 100


def test_a_schema_that_refers_to_itself_is_read_to_an_end() -> None:
    schema: JsonObject = {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {"left": {"$ref": "#/$defs/tree"}, "label": {}},
                "additionalProperties": False,
            }
        },
    }
    [only] = told(schema, {"left": {"left": {"lable": 1}}})
    assert only["message"] == "unknown member `lable`; did you mean `label`?"


@given(st.dictionaries(st.text(max_size=20), st.none(), max_size=5))
def test_every_unknown_member_is_named(value: dict[str, None]) -> None:
    unknown = [name for name in value if name not in PROPERTIES]
    messages = "\n".join(str(item["message"]) for item in told(SCHEMA, value))
    assert all(f"unknown member `{name}`" in messages for name in unknown)
