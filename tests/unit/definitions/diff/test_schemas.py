"""Changes of JSON Schemas are found, told in sentences, and judged in the right direction."""

from typing import cast

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.diff.model import ChangeKind
from penstock.definitions.diff.schemas import SchemaChange, compare_schemas


def compare(before: JsonValue, after: JsonValue) -> tuple[SchemaChange, ...]:
    return compare_schemas(before, after, "input")


def directions(before: JsonValue, after: JsonValue) -> tuple[bool, bool]:
    changes = compare(before, after)
    return any(change.narrows for change in changes), any(change.widens for change in changes)


NARROWS, WIDENS, BOTH, NEITHER = (True, False), (False, True), (True, True), (False, False)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"type": "number"}, {"type": "integer"}, NARROWS),
        ({"type": "string"}, {"type": ["string", "null"]}, WIDENS),
        ({"type": "string"}, {"type": "integer"}, BOTH),
        ({"type": ["string", "null"]}, {"type": ["null", "string"]}, NEITHER),
        ({"enum": ["a", "b"]}, {"enum": ["b"]}, NARROWS),
        ({"enum": ["a"]}, {"enum": ["b", "a"]}, WIDENS),
        ({"type": "string"}, {"type": "string", "enum": ["a"]}, NARROWS),
        ({"enum": ["a"]}, {"type": "string"}, WIDENS),
        ({"const": "a"}, {"enum": ["a"]}, NEITHER),
        ({"const": 1}, {"const": True}, BOTH),
        ({"minimum": 1}, {"minimum": 2}, NARROWS),
        ({"minimum": 1}, {"exclusiveMinimum": 1}, NARROWS),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}, NEITHER),
        ({"maximum": 5}, {"maximum": 6}, WIDENS),
        ({"maximum": 5}, {}, WIDENS),
        ({"exclusiveMaximum": 5}, {"maximum": 5}, WIDENS),
        ({"minLength": 0}, {}, NEITHER),
        ({}, {"maxLength": 10}, NARROWS),
        ({"minItems": 2}, {"minItems": 1}, WIDENS),
        ({"multipleOf": 0.1}, {"multipleOf": 0.3}, NARROWS),
        ({"multipleOf": 4}, {"multipleOf": 2}, WIDENS),
        ({"multipleOf": 2}, {"multipleOf": 3}, BOTH),
        ({}, {"pattern": "^a"}, NARROWS),
        ({"pattern": "^a"}, {"pattern": "^b"}, BOTH),
        ({"format": "email"}, {}, WIDENS),
        ({"uniqueItems": True}, {"uniqueItems": False}, WIDENS),
        ({}, {"additionalProperties": False}, NARROWS),
        ({"additionalProperties": False}, {"additionalProperties": {"type": "string"}}, WIDENS),
        ({"additionalProperties": {}}, {"additionalProperties": True}, NEITHER),
        ({"items": {"type": "string"}}, {}, WIDENS),
        ({}, {"items": {"type": "string"}}, NARROWS),
        ({"items": {"type": "number"}}, {"items": {"type": "integer"}}, NARROWS),
        ({"prefixItems": [{"type": "number"}]}, {"prefixItems": [{"type": "integer"}]}, NARROWS),
        ({"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}, WIDENS),
        ({"anyOf": [{"minimum": 1}]}, {"anyOf": [{"minimum": 2}]}, NARROWS),
        ({"oneOf": [{"minimum": 1}]}, {"oneOf": [{"minimum": 2}]}, BOTH),
        ({"allOf": [{"minimum": 1}]}, {"allOf": [{"minimum": 1}, {"maximum": 2}]}, NARROWS),
        ({}, {"allOf": [{"maximum": 2}]}, NARROWS),
        ({"not": {"type": "null"}}, {"not": {"type": "string"}}, BOTH),
        ({}, False, NARROWS),
        (False, True, WIDENS),
        (True, {}, NEITHER),
        ({"title": "A"}, {"title": "B", "x-own": 1}, NEITHER),
    ],
)
def test_the_direction_of_a_change_is_known(before: JsonValue, after: JsonValue, expected: tuple[bool, bool]) -> None:
    assert directions(before, after) == expected
    assert directions(after, before) == (expected[1], expected[0])


def objects(**fields: JsonValue) -> JsonObject:
    return {"type": "object", **fields}


TEXT: JsonObject = {"type": "string"}


def test_a_new_required_property_narrows_and_is_said_once() -> None:
    [change] = compare(objects(properties={}), objects(properties={"a": TEXT}, required=["a"]))
    assert (change.kind, change.narrows, change.widens) == (ChangeKind.ADDED, True, False)
    assert change.message == "`a` of the input is new and required."
    assert change.path == "/properties/a"


def test_a_new_optional_property_narrows_nothing() -> None:
    [change] = compare(objects(), objects(properties={"a": TEXT}))
    assert (change.narrows, change.widens) == (False, False)


def test_a_new_property_of_a_closed_object_widens_it() -> None:
    closed = objects(additionalProperties=False)
    [change] = compare(closed, objects(additionalProperties=False, properties={"a": TEXT}))
    assert (change.narrows, change.widens) == (False, True)


def test_a_property_removed_from_a_closed_object_is_refused_from_now_on() -> None:
    before = objects(additionalProperties=False, properties={"a": TEXT})
    [change] = compare(before, objects(additionalProperties=False, properties={}))
    assert (change.kind, change.narrows) == (ChangeKind.REMOVED, True)
    assert change.message == "`a` of the input was removed, and is refused."


def test_a_property_removed_from_an_open_object_only_misleads_readers() -> None:
    [change] = compare(objects(properties={"a": TEXT}, required=["a"]), objects())
    assert (change.narrows, change.widens) == (False, True)


def test_required_and_optional_are_told_apart_in_both_directions() -> None:
    loose, strict = objects(properties={"a": TEXT}), objects(properties={"a": TEXT}, required=["a"])
    assert [change.message for change in compare(loose, strict)] == ["`a` of the input is now required."]
    assert [change.message for change in compare(strict, loose)] == ["`a` of the input is no longer required."]


def test_a_default_that_is_filled_in_makes_a_required_property_harmless() -> None:
    after = objects(properties={"a": {"type": "string", "default": "x"}}, required=["a"])
    [change] = compare_schemas(objects(), after, "input", defaults_are_filled=True)
    assert not change.narrows
    [change] = compare_schemas(objects(), after, "input")
    assert change.narrows


def test_places_inside_are_named_with_dots_and_brackets() -> None:
    def nested(kind: str) -> JsonObject:
        return objects(properties={"lines": {"type": "array", "items": objects(properties={"sku": {"type": kind}})}})

    [change] = compare(nested("string"), nested("integer"))
    assert change.message == "`lines[].sku` of the input is now integer (before: string)."
    assert change.path == "/properties/lines/items/properties/sku"


def test_references_inside_a_schema_are_followed() -> None:
    before: JsonObject = {"$ref": "#/$defs/a", "$defs": {"a": {"type": "number"}}}
    after: JsonObject = {"$ref": "#/$defs/b", "$defs": {"b": {"$ref": "#/$defs/c"}, "c": {"type": "integer"}}}
    assert directions(before, after) == NARROWS
    assert compare(before, {"type": "number"}) == ()


def test_recursive_schemas_are_compared_to_an_end() -> None:
    def tree(kind: str) -> JsonObject:
        node = objects(properties={"value": {"type": kind}, "next": {"$ref": "#/$defs/node"}})
        return {"$ref": "#/$defs/node", "$defs": {"node": node}}

    assert compare(tree("string"), tree("string")) == ()
    [change] = compare(tree("number"), tree("integer"))
    assert change.narrows
    assert directions(tree("string"), {}) == WIDENS
    loop: JsonObject = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert compare(loop, loop) == ()


def test_numbers_beyond_floating_point_do_not_matter() -> None:
    huge = 10**400
    assert directions({"minimum": 1, "multipleOf": 2}, {"minimum": huge, "multipleOf": 2 * huge}) == NARROWS


VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-4, 4), st.sampled_from([0.5, 1.0, 2.5]), st.text("ab", max_size=3)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("pqr"), inner, max_size=3)),
    max_leaves=6,
)
RULES: dict[str, st.SearchStrategy[JsonValue]] = {
    "type": st.sampled_from(["string", "number", "integer", "object", "array", ["string", "null"]]),
    "enum": st.lists(VALUES, min_size=1, max_size=3),
    "const": VALUES,
    "minimum": st.integers(-2, 2),
    "exclusiveMinimum": st.integers(-2, 2),
    "maximum": st.integers(-2, 2),
    "minLength": st.integers(0, 2),
    "maxLength": st.integers(0, 2),
    "minItems": st.integers(0, 2),
    "uniqueItems": st.booleans(),
    "multipleOf": st.sampled_from([1, 2, 3, 0.5]),
    "pattern": st.sampled_from(["a", "^b"]),
    "required": st.lists(st.sampled_from("pqr"), unique=True, max_size=2).map(list),
    "title": st.just("T"),
}


def schemas_of(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    nested: dict[str, st.SearchStrategy[JsonValue]] = {
        "properties": st.dictionaries(st.sampled_from("pqr"), inner, max_size=2).map(dict),
        "additionalProperties": st.one_of(st.booleans(), inner),
        "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "oneOf": st.lists(inner, min_size=1, max_size=2),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "not": inner,
    }
    return st.fixed_dictionaries({}, optional={**RULES, **nested}).map(lambda schema: dict(list(schema.items())[:4]))


SCHEMAS = st.recursive(
    st.fixed_dictionaries({}, optional=RULES).map(lambda schema: dict(list(schema.items())[:3])),
    schemas_of,
    max_leaves=4,
)


def accepts(schema: JsonValue, value: JsonValue) -> bool:
    return jsonschema_rs.Draft202012Validator(cast(JsonObject, schema)).is_valid(value)


@given(SCHEMAS)
def test_a_schema_does_not_differ_from_itself(schema: JsonValue) -> None:
    assert compare(schema, schema) == ()


@given(SCHEMAS, SCHEMAS, VALUES)
def test_no_value_changes_sides_without_a_change_that_says_so(
    before: JsonValue, after: JsonValue, value: JsonValue
) -> None:
    changes = compare(before, after)
    # By convention a new optional property does not count, although the members of that name were free before.
    assume(not any(change.kind is not ChangeKind.CHANGED for change in changes))
    was, now = accepts(before, value), accepts(after, value)
    if was and not now:
        assert any(change.narrows for change in changes)
    if now and not was:
        assert any(change.widens for change in changes)
