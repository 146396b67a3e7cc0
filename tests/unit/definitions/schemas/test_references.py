"""References to schemas by name: found where they are meant, and filled in so that nothing else is needed."""

from typing import Any

import pytest

from penstock.definitions.schemas.compiled import CompiledSchema, compile_schema, is_valid
from penstock.definitions.schemas.references import (
    NamedSchema,
    content_hash,
    embed,
    parse_reference,
    references_in,
    why_not_embedded,
)

TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"$ref": "#/$defs/name"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
    "$defs": {"name": {"type": "string", "minLength": 1}},
}
NAMED = NamedSchema(name="tree", version=2, schema=TREE)


def compiled(schema: dict[str, Any]) -> CompiledSchema:
    found = compile_schema(schema)
    assert isinstance(found, CompiledSchema), found
    return found


@pytest.mark.parametrize(
    ("text", "name", "version"),
    [("schema:order@1", "order", 1), ("schema:a.b-c_1", "a.b-c_1", None), ("schema:order@0", None, None)],
)
def test_a_reference_has_a_name_and_perhaps_a_version(text: str, name: str | None, version: int | None) -> None:
    found = parse_reference(text)
    assert found is not None
    assert (found.name, found.version) == (name, version)


def test_other_references_are_left_alone() -> None:
    assert parse_reference("#/$defs/order") is None
    assert parse_reference("https://example.com/schema:order") is None


def test_references_are_found_where_schemas_are_and_not_in_data() -> None:
    schema: dict[str, Any] = {
        "properties": {"default": {"$ref": "schema:a@1"}, "b": {"items": {"$ref": "schema:b"}}},
        "default": {"$ref": "schema:no@1"},
        "enum": [{"$ref": "schema:no@1"}],
        "anyOf": [{"$ref": "schema:c@3"}],
    }
    assert [(item.text, item.path) for item in references_in(schema, "/input")] == [
        ("schema:a@1", "/input/properties/default/$ref"),
        ("schema:b", "/input/properties/b/items/$ref"),
        ("schema:c@3", "/input/anyOf/0/$ref"),
    ]


def test_a_schema_inside_another_keeps_its_meaning() -> None:
    made = embed({"type": "object", "properties": {"root": {"$ref": "schema:tree@2"}}}, {"schema:tree@2": NAMED})
    checked = compiled(made)
    assert is_valid(checked, {"root": {"name": "a", "children": [{"name": "b"}]}})
    assert not is_valid(checked, {"root": {"name": "a", "children": [{"name": ""}]}})
    assert not is_valid(checked, {"root": {"name": "a", "children": [{}]}})
    assert made["$defs"]["schema:tree@2"]["$comment"] == f"schema:tree@2 sha256:{content_hash(TREE)}"  # type: ignore[index, call-overload]


def test_a_schema_that_is_only_a_reference_becomes_what_it_names() -> None:
    made = embed({"$ref": "schema:tree", "title": "Mine"}, {"schema:tree": NAMED})
    assert made == {"$comment": NAMED.pin, **TREE, "title": "Mine"}
    assert is_valid(compiled(made), {"name": "a", "children": []})


def test_what_a_schema_says_beside_a_reference_counts_too() -> None:
    made = embed({"$ref": "schema:tree@2", "required": ["children"]}, {"schema:tree@2": NAMED})
    checked = compiled(made)
    assert not is_valid(checked, {"name": "a"})
    assert is_valid(checked, {"name": "a", "children": []})


@pytest.mark.parametrize(
    "schema",
    [
        {"$id": "https://example.com/x"},
        {"properties": {"a": {"$anchor": "here"}}},
        {"$ref": "#here"},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
    ],
)
def test_a_schema_that_would_mean_something_else_inside_another_is_refused(schema: dict[str, Any]) -> None:
    assert why_not_embedded(schema) is not None
    assert why_not_embedded(TREE) is None
