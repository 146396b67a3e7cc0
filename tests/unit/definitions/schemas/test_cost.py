"""What schemas cost to check is known before anything is checked."""

from __future__ import annotations

import time

import msgspec
import pytest

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.definitions.schemas.compiled import (
    CompiledSchema,
    SchemaProblem,
    apply_defaults,
    compile_schema,
    is_prompt,
    load_schema,
    violations,
)
from penstock.definitions.schemas.cost import SchemaCost, TooCostly, schema_cost
from penstock.definitions.validate import validate_document

TREE: JsonObject = {
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
}


def doubling(levels: int, keyword: str = "anyOf") -> JsonObject:
    """A schema whose visits double with each level."""
    held: JsonObject = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}"}]}
        for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**held, f"d{levels}": {"type": "string"}}}


def cost(schema: JsonObject) -> SchemaCost:
    found = schema_cost(schema)
    assert isinstance(found, SchemaCost), found
    return found


def loaded(schema: JsonObject) -> CompiledSchema:
    found = load_schema(schema)
    assert isinstance(found, CompiledSchema), found
    return found


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("levels", [20, 60])
def test_a_schema_that_doubles_with_each_level_is_refused_at_once(keyword: str, levels: int) -> None:
    began = time.process_time()
    found = compile_schema(doubling(levels, keyword))
    assert isinstance(found, SchemaProblem)
    assert found.code == "SCHEMA_TOO_COSTLY"
    assert found.path.startswith("/$defs/d")
    assert found.hint
    assert time.process_time() - began < 5


def test_references_cannot_hide_what_they_lead_to() -> None:
    hidden: JsonObject = {
        "$id": "urn:root",
        "$ref": "urn:root#/x-parts/a",
        "x-parts": {
            "a": {"allOf": [{"$ref": "#b"}] * 400},
            "b": {"$anchor": "b", "anyOf": [{"$ref": "#/%24defs/c"}] * 400},
        },
        "$defs": {"b": {"$anchor": "b", "anyOf": [{"$ref": "#/%24defs/c"}] * 400}, "c": {"type": "string"}},
    }
    assert isinstance(schema_cost(hidden), TooCostly)


def test_visits_for_each_element_stand_apart_from_those_that_happen_once() -> None:
    flat = cost({"properties": {"a": {"type": "string"}, "b": {"type": "number"}}})
    assert (flat.each, flat.by_depth) == (0, None)
    assert cost({"items": {"properties": {"a": {}}}}).each == 3


def test_what_refers_to_itself_is_counted_by_depth() -> None:
    by_depth = cost(TREE).by_depth
    assert by_depth is not None
    assert list(by_depth) == sorted(by_depth)
    assert len(by_depth) == 17
    forked: JsonObject = {"anyOf": [{"properties": {"a": {"$ref": "#"}}}] * 3}
    growing = cost(forked).by_depth
    assert growing is not None
    assert len(growing) < 12


def test_a_long_chain_of_references_is_refused() -> None:
    chain: JsonObject = {f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}}} for n in range(5_000)}
    assert isinstance(schema_cost({"$ref": "#/$defs/d0", "$defs": {**chain, "d5000": {}}}), TooCostly)


@pytest.mark.parametrize(
    ("schema", "value", "prompt"),
    [
        ({"type": "object"}, {"a": 1}, True),
        (TREE, {"name": "a", "children": [{"name": "b"}]}, True),
        (TREE, {"children": [{"children": [{}] * 200}] * 20}, False),
        ({"anyOf": [{"properties": {"a": {"$ref": "#"}}}] * 9}, {"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}}, False),
        ({"required": [f"p{number}" for number in range(400)]}, {"a": [[]] * 1_000}, False),
        ({"type": "array"}, [[]] * 100_000, False),
        ({"pattern": "^[a-z]{2,30}$"}, "abc", True),
        ({"pattern": "(a{100}){100}"}, "a" * 10_000, False),
        ({"pattern": "(?=a)(a+)+$"}, "a" * 40, False),
    ],
)
def test_only_what_is_quick_is_checked_inside_the_server(schema: JsonObject, value: object, prompt: bool) -> None:
    size_bytes = len(msgspec.json.encode(value))
    assert is_prompt(loaded(schema), value, size_bytes) is prompt  # type: ignore[arg-type]


def test_a_costly_pattern_is_not_compiled_when_it_is_loaded() -> None:
    began = time.process_time()
    found = load_schema({"properties": {f"p{n}": {"pattern": rf"^[\p{{L}} ]{{1,{900 + n}}}$"} for n in range(100)}})
    assert isinstance(found, CompiledSchema)
    assert time.process_time() - began < 1


def test_violations_are_bounded_in_number_and_bytes() -> None:
    wide = compile_schema({"additionalProperties": False, "properties": {"a": True}})
    assert isinstance(wide, CompiledSchema)
    assert len(violations(wide, {f"p{n}": n for n in range(5_000)})) == limits.SCHEMA_VIOLATIONS_MAX
    found = violations(wide, {f"{n}" * 10_000: n for n in range(1_000)})
    told = sum(len(item.message) + len(item.subject or "") for item in found)
    assert 0 < told <= limits.SCHEMA_VIOLATION_BYTES_MAX


def test_defaults_inside_defaults_end() -> None:
    growing: JsonObject = {"default": {}, "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}
    with pytest.raises(Rejected) as refused:
        apply_defaults(growing, {})
    assert refused.value.code == "SCHEMA_DEFAULTS_EXCEEDED"


def test_a_document_with_a_costly_schema_is_told_where_and_what_to_do() -> None:
    document: JsonObject = {
        "penstock": "v1",
        "name": "costly",
        "input": doubling(30),
        "nodes": [{"id": "done", "type": "end"}],
    }
    (finding,) = [item for item in validate_document(document) if item.code == "SCHEMA_TOO_COSTLY"]
    assert finding.path.startswith("/input/$defs/d")
    assert "visits" in finding.message
    assert finding.hint
