"""Schemas of OpenAPI documents as JSON Schemas."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock.definitions.schemas.compiled import CompiledSchema, compile_schema, is_valid
from penstock.runtime.upstreams.openapi.document import ReferenceProblem
from penstock.runtime.upstreams.openapi.schemas import Direction, SchemaTranslator, fitted, lenient, shortened
from tests.unit.runtime.upstreams.openapi.documents import document


def translated(schema: Any, schemas: Any = None, *, version: str = "3.1.0", direction: Direction = "input") -> Any:
    return SchemaTranslator(document({}, schemas, version=version)).translated(schema, direction)


def accepts(schema: Any, value: Any) -> bool:
    compiled = compile_schema(schema)
    assert isinstance(compiled, CompiledSchema), compiled
    return is_valid(compiled, value)


@pytest.mark.parametrize(
    ("written", "made"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 1}),
        ({"type": "integer", "maximum": 9, "exclusiveMaximum": False}, {"type": "integer", "maximum": 9}),
        ({"type": "file"}, {"type": "string"}),
        ({"type": "string", "example": "x", "xml": {}, "x-mine": 1, "deprecated": True}, {"type": "string"}),
        ({"enum": [1, True, 1, "a", "a"]}, {"enum": [1, True, "a"]}),
        ({"type": "object", "required": True}, {"type": "object"}),
        ({"type": "any"}, {}),
    ],
)
def test_what_3_0_writes_becomes_what_it_means(written: Any, made: Any) -> None:
    assert translated(written, version="3.0.3") == made


def test_in_3_1_nullable_means_nothing() -> None:
    assert translated({"type": "string", "nullable": True}) == {"type": "string"}


def test_a_reference_that_may_be_null_keeps_both() -> None:
    schemas = {"Item": {"type": "string"}}
    made = translated({"$ref": "#/components/schemas/Item", "nullable": True}, schemas, version="3.0.0")
    assert accepts(made, None)
    assert accepts(made, "a")
    assert not accepts(made, 1)


def test_a_pattern_of_another_language_is_left_out() -> None:
    assert translated({"type": "string", "pattern": "(?P<a>[z-a])"}) == {"type": "string"}
    assert translated({"type": "string", "pattern": "^a+$"}) == {"type": "string", "pattern": "^a+$"}


def test_what_is_only_read_is_not_sent_and_what_is_only_sent_is_not_read() -> None:
    schema = {
        "type": "object",
        "required": ["id", "name", "secret"],
        "properties": {
            "id": {"type": "string", "readOnly": True},
            "name": {"type": "string"},
            "secret": {"type": "string", "writeOnly": True},
        },
    }
    sent, read = translated(schema), translated(schema, direction="output")
    assert (set(sent["properties"]), sent["required"]) == ({"name", "secret"}, ["name", "secret"])
    assert (set(read["properties"]), read["required"]) == ({"id", "name"}, ["id", "name"])


def test_a_definition_that_is_used_once_stands_where_it_is_used() -> None:
    schemas = {
        "Item": {"type": "object", "properties": {"price": {"$ref": "#/components/schemas/Price"}}},
        "Price": {"type": "number"},
    }
    made = translated({"$ref": "#/components/schemas/Item"}, schemas)
    assert made == {"type": "object", "properties": {"price": {"type": "number"}}}


def test_a_definition_that_refers_to_itself_stays_a_definition() -> None:
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}},
    }
    made = translated({"$ref": "#/components/schemas/Tree"}, {"Tree": tree, "Unused": {"type": "string"}})
    assert set(made["$defs"]) == {"Tree"}
    assert accepts(made, {"children": [{"children": []}]})
    assert not accepts(made, {"children": [{"children": 1}]})


def test_subtypes_that_refine_a_base_are_a_choice() -> None:
    schemas = {
        "Pet": {
            "type": "object",
            "required": ["kind"],
            "properties": {"kind": {"type": "string"}},
            "discriminator": {"propertyName": "kind"},
        },
        "Cat": {
            "allOf": [
                {"$ref": "#/components/schemas/Pet"},
                {"required": ["lives"], "properties": {"lives": {"type": "integer"}}},
            ]
        },
        "Dog": {
            "allOf": [
                {"$ref": "#/components/schemas/Pet"},
                {"required": ["tricks"], "properties": {"tricks": {"type": "array"}}},
            ]
        },
    }
    made = translated({"$ref": "#/components/schemas/Pet"}, schemas)
    assert accepts(made, {"kind": "cat", "lives": 9})
    assert accepts(made, {"kind": "dog", "tricks": []})
    assert not accepts(made, {"kind": "cat"})
    assert not accepts(made, {"lives": 9})


def test_a_reference_that_leads_nowhere_is_a_problem() -> None:
    with pytest.raises(ReferenceProblem):
        translated({"type": "array", "items": {"$ref": "#/components/schemas/Missing"}})


def test_a_long_text_ends_with_a_sentence_or_a_word() -> None:
    assert shortened("One  is\nshort.", 100) == "One is short."
    assert shortened("The first sentence. The second one is much too long.", 30) == "The first sentence."
    assert shortened("one two three four five", 12) == "one two…"
    assert shortened('<p>See <a href="/docs">here</a> or [there](https://a.example/b), 1 < 2.</p>', 100) == (
        "See here or there, 1 < 2."
    )


def deep(levels: int, width: int) -> Any:
    if levels == 0:
        return {"type": "string", "description": "A word that is explained at some length."}
    properties = {f"member_{number}": deep(levels - 1, width) for number in range(width)}
    return {"type": "object", "description": "An object of some kind.", "properties": properties}


def test_a_schema_that_is_too_large_loses_texts_first_and_then_levels() -> None:
    whole = deep(4, 4)
    without_texts, cut = fitted(whole, 12_000)
    assert not cut
    assert len(msgspec.json.encode(without_texts)) <= 12_000
    assert accepts(without_texts, {"member_0": {"member_0": {"member_0": {"member_0": "a"}}}})
    assert not accepts(without_texts, {"member_0": {"member_0": {"member_0": {"member_0": 1}}}})
    small, cut = fitted(whole, 2_000)
    assert cut
    assert len(msgspec.json.encode(small)) <= 2_000
    assert set(small["properties"]) == {f"member_{number}" for number in range(4)}  # type: ignore[arg-type]
    assert accepts(small, {"member_0": {"member_0": {"member_0": {"member_0": 1}}}})
    assert not accepts(small, {"member_0": 1})


def test_a_schema_of_answers_refuses_nothing_that_can_be_used() -> None:
    strict: Any = {
        "type": "object",
        "required": ["id", "state"],
        "additionalProperties": False,
        "properties": {"id": {"type": "string", "minLength": 3}, "state": {"enum": ["a"]}},
    }
    relaxed = lenient(strict)
    assert accepts(relaxed, {"id": "x", "more": 1, "state": "b"})
    assert accepts(relaxed, {"id": None})
    assert not accepts(relaxed, {"id": 1})
