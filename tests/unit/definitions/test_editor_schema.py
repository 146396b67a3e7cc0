"""The schemas are sound, agree with the published one, and route a document to the rules of its format."""

import json
from collections.abc import Callable, Iterator

import jsonschema_rs
import pytest
import yaml

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.editor_schema import (
    DOCUMENT_SCHEMA_ID,
    document_schema,
    native_schema,
    published_schema,
)
from penstock.definitions.nodes import NODE_KINDS
from tests.unit.definitions.documents import (
    SHARED,
    at,
    changed,
    everything_native,
    everything_published,
    minimal_native,
    mutations,
)

PUBLISHED_FILE = SHARED / "vectors/workflows/schemas/workflow-definition.json"
EXAMPLES = SHARED / "vectors/workflows/examples"
NATIVE = jsonschema_rs.Draft202012Validator(native_schema())
PUBLISHED = jsonschema_rs.Draft202012Validator(published_schema())
DOCUMENT = jsonschema_rs.Draft202012Validator(document_schema())


def definitions(value: JsonObject) -> JsonObject:
    found = value["$defs"]
    assert isinstance(found, dict)
    return found


def references(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference
        for member in value.values():
            yield from references(member)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


@pytest.mark.parametrize(
    "schema", [native_schema(), published_schema(), document_schema()], ids=["native", "published", "document"]
)
def test_a_schema_is_valid_and_all_its_references_resolve(schema: JsonObject) -> None:
    jsonschema_rs.meta.validate(schema)
    for reference in references(schema):
        assert isinstance(at(schema, reference.removeprefix("#")), dict), reference


@pytest.mark.parametrize(
    "make", [native_schema, published_schema, document_schema], ids=["native", "published", "document"]
)
def test_every_piece_is_used(make: Callable[[], JsonObject]) -> None:
    schema = make()
    used = {reference.removeprefix("#/$defs/").split("/")[0] for reference in references(schema)}
    assert used == set(definitions(schema))


def test_a_caller_may_change_the_schema_it_was_given() -> None:
    definitions(native_schema())["duration"] = {}
    changed_piece = at(native_schema(), "/$defs/jq")
    assert isinstance(changed_piece, dict)
    changed_piece.clear()
    assert at(native_schema(), "/$defs/jq") != {}
    assert at(native_schema(), "/$defs/duration") != {}


def test_the_file_for_editors_has_its_address() -> None:
    assert document_schema()["$id"] == DOCUMENT_SCHEMA_ID == "https://penstock.dev/schemas/workflow-v1.json"


def test_every_node_field_has_a_description_for_editors() -> None:
    for kind in NODE_KINDS.values():
        properties = at(native_schema(), f"/$defs/node_{kind.name}/properties")
        assert isinstance(properties, dict)
        assert all(isinstance(field, dict) and field.get("description") for field in properties.values())


def test_documents_with_every_node_type_are_accepted() -> None:
    assert not list(NATIVE.iter_errors(everything_native()))
    assert not list(PUBLISHED.iter_errors(everything_published()))


def test_the_schema_for_editors_takes_the_rules_of_the_documents_format() -> None:
    assert DOCUMENT.is_valid(everything_native())
    assert DOCUMENT.is_valid(everything_published())
    assert not DOCUMENT.is_valid({**everything_published(), "penstock": "v1"})
    assert not DOCUMENT.is_valid(minimal_native(penstock="v2"))
    assert not DOCUMENT.is_valid({"name": "small"})


def test_an_error_in_a_nested_node_is_reported_there_and_nowhere_else() -> None:
    document = everything_native()
    nodes = at(document, "/nodes")
    assert isinstance(nodes, list)
    each = next(index for index, node in enumerate(nodes) if isinstance(node, dict) and node["id"] == "each")
    broken = changed(document, f"/nodes/{each}/nodes/1/max_iterations", "many")
    (error,) = DOCUMENT.iter_errors(broken)
    assert list(error.instance_path) == ["nodes", each, "nodes", 1, "max_iterations"]


def test_fields_may_stand_in_a_config_block() -> None:
    node: JsonObject = {"id": "a", "type": "tool_call", "config": {"server": "s", "tool": "t"}, "timeout": "5s"}
    assert NATIVE.is_valid(minimal_native(node))
    assert not NATIVE.is_valid(minimal_native({**node, "config": {"sever": "s", "tool": "t"}}))


def test_the_published_schema_allows_a_signature() -> None:
    signed = changed(everything_published(), "/document/signature", {"alg": "EdDSA", "value": "a.b.c"})
    assert PUBLISHED.is_valid(signed)
    assert not PUBLISHED.is_valid(changed(signed, "/document/signature", "a.b.c"))


@pytest.mark.skipif(not PUBLISHED_FILE.exists(), reason="the published schema is not on this machine")
def test_our_published_schema_accepts_what_the_published_one_accepts() -> None:
    theirs = jsonschema_rs.Draft202012Validator(json.loads(PUBLISHED_FILE.read_text()))
    fixtures = [json.loads(path.read_text()) for path in sorted(EXAMPLES.rglob("*.workflow.json"))]
    assert len(fixtures) > 15
    verdicts = set()
    for seed, fixture in enumerate([*fixtures, everything_published()]):
        for mutant in (fixture, *mutations(fixture, 200, seed)):
            expected = theirs.is_valid(mutant)
            verdicts.add(expected)
            assert PUBLISHED.is_valid(mutant) is expected, json.dumps(mutant)
            assert DOCUMENT.is_valid(mutant) is expected
    assert verdicts == {True, False}


@pytest.mark.skipif(not (SHARED / "design/PRODUCT.md").exists(), reason="the design is not on this machine")
def test_the_document_of_the_design_is_valid() -> None:
    text = (SHARED / "design/PRODUCT.md").read_text().split("```yaml\n")[1].split("```")[0]
    assert not list(DOCUMENT.iter_errors(yaml.safe_load(text)))
