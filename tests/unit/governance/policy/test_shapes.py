"""Arguments as policies see them: declared fields only, never rounded, never mistaken for entities."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.governance.policy.shapes import Unfit, cedar_type, decimal_text, project, record_of

REFUND: dict[str, Any] = {
    "type": "object",
    "required": ["order"],
    "properties": {
        "order": {"type": "string"},
        "amount": {"type": "number", "default": 20},
        "count": {"type": ["integer", "null"]},
        "urgent": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "customer": {"$ref": "#/$defs/customer"},
        "notes": {"type": "object"},
        "anything": {},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "__entity": {"type": "string"},
    },
    "$defs": {"customer": {"type": "object", "properties": {"id": {"type": "string"}, "__extn": {"type": "string"}}}},
}
SHAPE = record_of(REFUND)


def seen(arguments: dict[str, Any], read: frozenset[str] | None = None) -> dict[str, Any]:
    return project(SHAPE, arguments, read)


def decimal(text: str) -> dict[str, Any]:
    return {"__extn": {"fn": "decimal", "arg": text}}


def test_declared_fields_keep_their_types() -> None:
    given = {"order": "A-1", "amount": 12.5, "count": 3, "urgent": True, "tags": ["b", "a"], "customer": {"id": "c"}}
    assert seen(given) == {**given, "amount": decimal("12.5")}


def test_what_is_not_declared_is_not_seen() -> None:
    assert seen({"order": "A-1", "more": 1, "customer": {"id": "c", "more": 2}}) == {
        "order": "A-1",
        "amount": decimal("20.0"),
        "customer": {"id": "c"},
    }


def test_free_form_values_and_reserved_names_are_left_out() -> None:
    arguments = {"notes": {"a": 1}, "anything": 1, "either": 2, "__entity": "x", "customer": {"__extn": "x"}}
    assert set(SHAPE.fields) == {"order", "amount", "count", "urgent", "tags", "customer"}
    assert seen(arguments) == {"amount": decimal("20.0"), "customer": {}}


def test_a_default_is_seen_and_a_null_is_absent() -> None:
    assert seen({"order": "A-1", "count": None, "amount": None}) == {"order": "A-1"}
    assert seen({})["amount"] == decimal("20.0")


def test_an_argument_cannot_pose_as_an_entity() -> None:
    with pytest.raises(Unfit):
        seen({"order": {"__entity": {"type": "User", "id": "root"}}})
    assert seen({"customer": {"id": "c", "__entity": {"type": "User", "id": "root"}}})["customer"] == {"id": "c"}


@pytest.mark.parametrize("amount", [180.12345, 1e-5, 1e15, float("inf"), float("nan"), 10**30, "180", True])
def test_a_number_that_a_decimal_cannot_hold_is_unfit(amount: Any) -> None:
    with pytest.raises(Unfit):
        seen({"amount": amount})


@pytest.mark.parametrize("count", [2**63, -(2**63) - 1, 1.5, "3", True])
def test_a_whole_number_beyond_64_bits_is_unfit(count: Any) -> None:
    with pytest.raises(Unfit):
        seen({"count": count})


def test_whole_numbers_have_a_decimal_place() -> None:
    assert seen({"amount": 180})["amount"] == decimal("180.0")
    assert seen({"amount": -0.0})["amount"] == decimal("0.0")
    assert seen({"count": 4.0})["count"] == 4


def test_fields_that_no_policy_reads_refuse_nothing() -> None:
    assert seen({"order": "A-1", "amount": 1e30}, frozenset({"order"})) == {"order": "A-1"}


def test_too_many_values_are_unfit() -> None:
    with pytest.raises(Unfit):
        seen({"tags": ["x"] * limits.POLICY_INPUT_VALUES_MAX})


def test_a_schema_that_refers_to_itself_ends() -> None:
    tree: dict[str, Any] = {"type": "object", "properties": {"down": {"$ref": "#"}, "name": {"type": "string"}}}
    deep: dict[str, Any] = {"name": "x"}
    for _ in range(50):
        deep = {"down": deep, "name": "x"}
    assert json.dumps(project(record_of(tree), deep)).count("down") <= limits.POLICY_INPUT_DEPTH_MAX + 1


def test_only_what_is_always_there_is_required() -> None:
    attributes = cedar_type(SHAPE)["attributes"]
    assert {name for name, item in attributes.items() if item["required"]} == {"order", "amount"}


@given(st.decimals(min_value=-(10**12), max_value=10**12, places=4))
def test_every_decimal_with_four_places_is_kept_exactly(number: Decimal) -> None:
    assert Decimal(decimal_text(number)) == number


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("__entity"), inner),
)


@given(st.dictionaries(st.sampled_from([*REFUND["properties"], "more"]), json_values))
def test_whatever_is_sent_is_projected_or_unfit(arguments: dict[str, Any]) -> None:
    try:
        found = seen(arguments)
    except Unfit:
        return
    assert set(found) <= set(SHAPE.fields)
    for name, value in found.items():
        if name == "amount":
            sent = arguments.get("amount", 20)
            assert Decimal(value["__extn"]["arg"]) == Decimal(repr(sent) if isinstance(sent, float) else sent)
        else:
            assert "__" not in json.dumps(value) or name in ("order", "tags", "customer")
            assert not isinstance(value, dict) or set(value) <= {"id"}
