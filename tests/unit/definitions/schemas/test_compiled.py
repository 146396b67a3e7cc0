"""JSON Schema: compiled, offline, in AJV's words."""

import copy
import http.server
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import (
    CompiledSchema,
    SchemaProblem,
    Violation,
    apply_defaults,
    compile_schema,
    is_valid,
    violations,
)


def compiled(schema: JsonObject) -> CompiledSchema:
    result = compile_schema(schema)
    assert isinstance(result, CompiledSchema), result
    return result


def problem(schema: JsonObject) -> SchemaProblem:
    result = compile_schema(schema)
    assert isinstance(result, SchemaProblem), result
    return result


def found(schema: JsonObject, value: JsonValue) -> list[tuple[str, str, str]]:
    schema_compiled = compiled(schema)
    result = violations(schema_compiled, value)
    assert is_valid(schema_compiled, value) == (not result)
    return [(violation.instance_path, violation.keyword, violation.message) for violation in result]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "string"}, 1, ("", "type", "must be string")),
        ({"type": ["string", "null"]}, 1, ("", "type", "must be string,null")),
        ({"enum": [1, 2]}, 3, ("", "enum", "must be equal to one of the allowed values")),
        ({"const": 1}, 2, ("", "const", "must be equal to constant")),
        ({"required": ["x"]}, {}, ("", "required", "must have required property 'x'")),
        (
            {"additionalProperties": False},
            {"x": 1},
            ("", "additionalProperties", "must NOT have additional properties"),
        ),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"x": 1},
            ("", "additionalProperties", "must NOT have additional properties"),
        ),
        (
            {"unevaluatedProperties": False, "properties": {"a": {}}},
            {"x": 1},
            ("", "unevaluatedProperties", "must NOT have unevaluated properties"),
        ),
        ({"minItems": 1}, [], ("", "minItems", "must NOT have fewer than 1 items")),
        ({"maxItems": 1}, [1, 2], ("", "maxItems", "must NOT have more than 1 items")),
        ({"uniqueItems": True}, [1, 1], ("", "uniqueItems", "must NOT have duplicate items")),
        ({"minLength": 1}, "", ("", "minLength", "must NOT have fewer than 1 characters")),
        ({"maxLength": 1}, "ab", ("", "maxLength", "must NOT have more than 1 characters")),
        ({"minProperties": 1}, {}, ("", "minProperties", "must NOT have fewer than 1 properties")),
        ({"maxProperties": 0}, {"a": 1}, ("", "maxProperties", "must NOT have more than 0 properties")),
        ({"minimum": 3}, 2, ("", "minimum", "must be >= 3")),
        ({"maximum": 3}, 4, ("", "maximum", "must be <= 3")),
        ({"exclusiveMinimum": 3}, 3, ("", "exclusiveMinimum", "must be > 3")),
        ({"exclusiveMaximum": 3}, 3, ("", "exclusiveMaximum", "must be < 3")),
        ({"multipleOf": 3}, 4, ("", "multipleOf", "must be multiple of 3")),
        ({"pattern": "^a"}, "b", ("", "pattern", 'must match pattern "^a"')),
        ({"not": {}}, 1, ("", "not", "must NOT be valid")),
        ({"properties": {"a": False}}, {"a": 1}, ("/a", "false schema", "boolean schema is false")),
        ({"contains": {"const": 1}}, [2], ("", "contains", "must contain at least 1 valid item(s)")),
        (
            {"contains": {"const": 1}, "minContains": 2, "maxContains": 3},
            [1],
            ("", "contains", "must contain at least 2 and no more than 3 valid item(s)"),
        ),
        (
            {"dependentRequired": {"a": ["b"]}},
            {"a": 1},
            ("", "dependentRequired", "must have property b when property a is present"),
        ),
    ],
)
def test_violations_are_told_in_the_words_of_ajv(
    schema: JsonObject, value: JsonValue, expected: tuple[str, str, str]
) -> None:
    assert found(schema, value) == [expected]


def test_the_errors_of_alternatives_stand_beside_the_error_of_the_keyword() -> None:
    schema: JsonObject = {
        "properties": {"node": {"oneOf": [{"$ref": "#/$defs/a"}, {"properties": {"type": {"enum": ["b"]}}}]}},
        "$defs": {"a": {"properties": {"type": {"const": "a"}}, "additionalProperties": False}},
    }
    *nested, last = found(schema, {"node": {"type": "c", "x": 1}})
    assert set(nested) == {
        ("/node", "additionalProperties", "must NOT have additional properties"),
        ("/node/type", "const", "must be equal to constant"),
        ("/node/type", "enum", "must be equal to one of the allowed values"),
    }
    assert last == ("/node", "oneOf", "must match exactly one schema in oneOf")
    assert found({"anyOf": [{"type": "string"}, {"minimum": 5}]}, 3)[-1] == (
        "",
        "anyOf",
        "must match a schema in anyOf",
    )
    assert found({"oneOf": [{}, {}]}, 3) == [("", "oneOf", "must match exactly one schema in oneOf")]


def test_conditions_are_reported_once_and_where_they_stand() -> None:
    schema: JsonObject = {
        "properties": {
            "then": {"items": {"if": {"type": "object"}, "then": {"required": ["a", "b"]}, "else": {"type": "string"}}}
        }
    }
    assert found(schema, {"then": [{}, 1, "x"]}) == [
        ("/then/0", "required", "must have required property 'a'"),
        ("/then/0", "if", 'must match "then" schema'),
        ("/then/0", "required", "must have required property 'b'"),
        ("/then/1", "type", "must be string"),
        ("/then/1", "if", 'must match "else" schema'),
    ]


def test_names_of_properties_are_checked() -> None:
    assert found({"propertyNames": {"maxLength": 1}}, {"ab": 1}) == [
        ("", "maxLength", "must NOT have more than 1 characters"),
        ("", "propertyNames", "property name must be valid"),
    ]


@pytest.mark.parametrize(
    "schema", [{"additionalProperties": False}, {"properties": {"a": {}}, "additionalProperties": False}]
)
def test_the_property_concerned_is_named(schema: JsonObject) -> None:
    assert violations(compiled({"properties": {"o": schema}}), {"o": {"x": 1, "y": 2}}) == (
        Violation("/o", "additionalProperties", "must NOT have additional properties", "x"),
        Violation("/o", "additionalProperties", "must NOT have additional properties", "y"),
    )


def test_paths_are_json_pointers() -> None:
    schema: JsonObject = {"properties": {"a/b~": {"items": {"type": "string"}}}}
    assert found(schema, {"a/b~": ["x", 1]}) == [("/a~1b~0/1", "type", "must be string")]


def test_everything_is_found_at_once_up_to_a_limit() -> None:
    schema: JsonObject = {"items": {"type": "string"}}
    assert len(violations(compiled(schema), [1] * 150)) == 150
    assert len(violations(compiled(schema), [1] * 5000)) == 200


@pytest.mark.parametrize(
    ("schema", "path", "words"),
    [
        ({"type": "nope"}, "/type", "allowed values"),
        ({"properties": {"a": {"minimum": "x"}}}, "/properties/a/minimum", "must be number"),
        ({"required": "a"}, "/required", "must be array"),
        ({"pattern": "("}, "/pattern", "regex"),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}}, "/properties/a/$ref", "leads nowhere"),
        ({"$ref": "https://example.invalid/x.json"}, "/$ref", "other documents"),
        ({"$ref": "file:///etc/hostname"}, "/$ref", "other documents"),
        ({"$schema": "https://example.invalid/meta"}, "", "meta-schema"),
    ],
)
def test_a_schema_that_cannot_be_used_is_explained(schema: JsonObject, path: str, words: str) -> None:
    refused = problem(schema)
    assert refused.path == path
    assert words in refused.message


def test_a_schema_nested_too_deeply_is_refused() -> None:
    schema: JsonObject = {}
    for _ in range(3000):
        schema = {"not": schema}
    assert isinstance(compile_schema(schema), SchemaProblem)
    assert isinstance(compile_schema({"const": "\ud800"}), SchemaProblem)


def test_a_reference_never_opens_a_connection(tmp_path: Path) -> None:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/schema.json"
        for schema in ({"$ref": url}, {"$id": url, "$ref": "other.json"}, {"$schema": url}, {"$dynamicRef": url}):
            compile_schema(dict(schema))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert asked == []
    file = tmp_path / "schema.json"
    file.write_text("{}")
    assert isinstance(compile_schema({"$ref": file.as_uri()}), SchemaProblem)


def test_local_references_and_other_drafts_work() -> None:
    schema: JsonObject = {"$ref": "#/$defs/name", "$defs": {"name": {"type": "string"}}}
    assert is_valid(compiled(schema), "x")
    assert not is_valid(compiled(schema), 1)
    assert not is_valid(
        compiled({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}), [1]
    )


def test_references_in_a_circle_do_not_hang() -> None:
    schema: JsonObject = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert is_valid(compiled(schema), 1)


def test_unknown_keywords_are_ignored() -> None:
    assert is_valid(compiled({"properties": {"a": {"type": "array", "reducer": "append"}}}), {"a": []})


def test_equal_schemas_share_a_compiled_form() -> None:
    assert compiled({"type": "object", "required": ["a"]}) is compiled({"required": ["a"], "type": "object"})


def test_values_that_cannot_be_checked_are_violations() -> None:
    deep: JsonValue = {}
    for _ in range(400):
        deep = {"a": deep}
    (violation,) = violations(compiled({"properties": {"a": {"$ref": "#"}}, "maxProperties": 0}), deep)[-1:]
    assert "nested deeper" in violation.message
    (violation,) = violations(compiled({"type": "string"}), "\ud800")
    assert "Unicode" in violation.message


PERSON: JsonObject = {
    "properties": {
        "name": {"default": "nobody"},
        "tags": {"default": [], "items": {"$ref": "#/$defs/tag"}},
        "address": {"$ref": "#/$defs/address"},
        "none": {"default": None},
        "plain": {"type": "string"},
    },
    "allOf": [{"properties": {"level": {"default": 1}}}],
    "$defs": {
        "address": {"default": {}, "properties": {"city": {"default": "Utrecht"}}},
        "tag": {"properties": {"weight": {"default": 1.5}}},
    },
}


def test_defaults_are_filled_in_at_every_level() -> None:
    value: JsonValue = {"tags": [{"weight": 2}, {}], "extra": True}
    before = copy.deepcopy(value)
    assert apply_defaults(PERSON, value) == {
        "name": "nobody",
        "tags": [{"weight": 2}, {"weight": 1.5}],
        "address": {"city": "Utrecht"},
        "none": None,
        "level": 1,
        "extra": True,
    }
    assert value == before


def test_defaults_are_copies() -> None:
    first: Any = apply_defaults(PERSON, {})
    first["tags"].append("x")
    first["address"]["city"] = "Delft"
    assert apply_defaults(PERSON, {}) == {
        "name": "nobody",
        "tags": [],
        "address": {"city": "Utrecht"},
        "none": None,
        "level": 1,
    }


def test_items_have_defaults_by_their_place() -> None:
    schema: JsonObject = {
        "prefixItems": [{"properties": {"a": {"default": 1}}}],
        "items": {"properties": {"b": {"default": 2}}},
    }
    assert apply_defaults(schema, [{}, {}, 3]) == [{"a": 1}, {"b": 2}, 3]


@pytest.mark.parametrize("value", [None, 1, "x", [], {"name": 5}])
def test_what_is_there_is_never_replaced(value: JsonValue) -> None:
    result = apply_defaults({"properties": {"name": {"default": 1}}}, value)
    assert result == value


def test_a_default_that_contains_itself_ends() -> None:
    schema: JsonObject = {"properties": {"child": {"$ref": "#"}}, "default": {}}
    apply_defaults(schema, {})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
        max_leaves=10,
    )
)
def test_applying_defaults_twice_changes_nothing_more(value: JsonValue) -> None:
    schema: JsonObject = {
        "properties": {"a": {"default": {"b": 1}, "properties": {"c": {"default": []}}}, "b": {"$ref": "#"}},
        "items": {"$ref": "#"},
    }
    once = apply_defaults(schema, value)
    assert apply_defaults(schema, once) == once
