"""Which parts of an answer a schema marks as secret."""

from typing import Any

import pytest

from penstock.base.errors import Rejected
from penstock.definitions.schemas.compiled import CompiledSchema, load_schema, violations
from penstock.definitions.schemas.misfits import tell_violation
from penstock.definitions.secret_answers import secret_paths, secrets_in, with_values, without_values_of
from penstock.definitions.validate import validate_document

SECRET: dict[str, Any] = {"type": "string", "writeOnly": True}


def places(schema: dict[str, Any], value: Any) -> set[str]:
    compiled = load_schema(schema)
    assert isinstance(compiled, CompiledSchema)
    return set(secrets_in(compiled, value))


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (SECRET, "x", {""}),
        ({"properties": {"a": SECRET}}, {"a": 1, "b": 2}, {"/a"}),
        ({"properties": {"a": {"format": "password"}}}, {"a": None}, {"/a"}),
        ({"properties": {"a": {"writeOnly": False}}}, {"a": 1}, set()),
        ({"properties": {"a/b": {"properties": {"~": SECRET}}}}, {"a/b": {"~": 1}}, {"/a~1b/~0"}),
        ({"items": {"properties": {"a": SECRET}}}, [{"a": 1}, {}, {"a": 2}], {"/0/a", "/2/a"}),
        ({"prefixItems": [{}, SECRET]}, [1, 2, 3], {"/1"}),
        ({"prefixItems": [{}], "items": SECRET}, [1, 2, 3], {"/0", "/1", "/2"}),
        ({"patternProperties": {"^p": SECRET}}, {"pin": 1, "x": 2}, {"/pin"}),
        ({"additionalProperties": SECRET, "properties": {"a": {}}}, {"a": 1, "b": 2}, {"/b"}),
        ({"allOf": [{"anyOf": [{}, {"oneOf": [{"properties": {"a": SECRET}}]}]}]}, {"a": 1}, {"/a"}),
        ({"if": {}, "then": {"properties": {"a": SECRET}}}, {"a": 1}, {"/a"}),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"b": SECRET}}}}, {"b": 1}, {"/b"}),
        ({"properties": {"a": {"$ref": "#x"}}, "$defs": {"a": {"$anchor": "x", **SECRET}}}, {"a": 1}, {"/a"}),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"next": {"$ref": "#/$defs/a"}, "b": SECRET}}}},
            {"b": 1, "next": {"b": 2, "next": {"b": 3}}},
            {"/b", "/next/b", "/next/next/b"},
        ),
    ],
)
def test_a_mark_is_found_wherever_it_stands(schema: dict[str, Any], value: Any, expected: set[str]) -> None:
    assert places(schema, value) == expected


def test_a_search_that_takes_too_long_is_refused_and_a_long_list_without_marks_is_not_searched() -> None:
    schema = {"properties": {"a": SECRET, "marked": {"items": {"properties": {"b": SECRET}}}, "plain": {}}}
    assert places(schema, {"a": 1, "plain": [{"b": 1}] * 100_000}) == {"/a"}
    with pytest.raises(Rejected):
        places(schema, {"marked": [{"b": 1}] * 100_000})


def test_the_paths_of_a_schema_are_those_of_its_values() -> None:
    creds = {"properties": {"login": {"properties": {"password": SECRET}}, "again": {"$ref": "#/$defs/creds"}}}
    schema: dict[str, Any] = {
        "properties": {"a": {"$ref": "#/$defs/creds"}, "b": {"$ref": "#/$defs/creds"}, "l": {"items": SECRET}},
        "$defs": {"creds": creds},
    }
    found = set(secret_paths(schema))
    assert {("a", "login", "password"), ("b", "login", "password"), ("l", "*")} <= found
    doubling: dict[str, Any] = {
        f"d{n}": {"properties": {key: {"$ref": f"#/$defs/d{n + 1}"} for key in "ab"}} for n in range(24)
    }
    assert secret_paths({"$ref": "#/$defs/d0", "$defs": {**doubling, "d24": SECRET}}) == ((),)
    assert secret_paths({"properties": {"a": {"type": "string"}}}) == ()


def test_a_secret_value_that_is_not_among_the_choices_is_not_repeated() -> None:
    compiled = load_schema({"properties": {"pin": {"writeOnly": True, "enum": ["0000"]}}})
    assert isinstance(compiled, CompiledSchema)
    value: Any = {"pin": "s3cret"}
    [found] = without_values_of(violations(compiled, value), secrets_in(compiled, value))
    assert tell_violation(found, compiled.schema) == "unknown value `***`; use `0000`"


def test_values_are_put_in_their_places() -> None:
    assert with_values({"a": [1, {"b/c": 2}]}, {"/a/1/b~1c": "***", "/d": 4}) == {"a": [1, {"b/c": "***"}], "d": 4}
    assert with_values("x", {"": "***"}) == "***"


def test_a_published_document_cannot_take_secret_input() -> None:
    schema = {"type": "object", "properties": {"password": {"type": "string", "writeOnly": True}}}
    document: dict[str, Any] = {
        "document": {"schema": "https://example.com/schema", "name": "sample", "version": "1.0.0"},
        "state_schema": {"type": "object"},
        "nodes": [
            {"id": "s", "type": "start", "config": {"input_schema": schema}},
            {"id": "e", "type": "end", "config": {}},
        ],
        "edges": [{"source": "__start__", "target": "s"}, {"source": "s", "target": "e"}],
    }
    found = [item for item in validate_document(document) if item.code == "SECRET_INPUT_NOT_ALLOWED"]
    assert [item.path for item in found] == ["/nodes/0/config/input_schema"]
