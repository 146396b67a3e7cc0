"""Tools and REST take and give the same: their schemas come from one place and stay alike."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock.definitions.schemas.compiled import CompiledSchema, compile_schema, violations
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.registry import build_tool_list
from penstock.operations.builtin import builtin_operations
from penstock.operations.runs.results import ExecutionResult, HeldView
from penstock.rest.openapi.document import openapi_document

OPERATIONS = builtin_operations()
DOCUMENT: dict[str, Any] = openapi_document(OPERATIONS, version="1", base_path="/api/v0")
DESCRIBED: dict[str, Any] = {
    operation["operationId"]: operation for path in DOCUMENT["paths"].values() for operation in path.values()
}
BOOK = build_tool_list(OPERATIONS, McpOptions(output_schemas=True, toolset="all"))
TOOLS: dict[str, Any] = {tool.capability.name: tool.listed for tool in BOOK.tools}


def resolved(value: Any, root: dict[str, Any], inside: tuple[str, ...] = ()) -> Any:
    """A schema with what it refers to in place, wherever that is kept; what repeats itself is named."""
    if isinstance(value, list):
        return [resolved(item, root, inside) for item in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in inside:
            return {"again": name}
        place: Any = root
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]
        rest = {key: item for key, item in value.items() if key != "$ref"}
        return resolved({**place, **rest}, root, (*inside, name))
    return {key: resolved(item, root, inside) for key, item in value.items() if key != "$defs"}


def taken_by_rest(operation: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an operation, wherever in a request they stand."""
    found = {
        item["name"]: resolved(item["schema"], DOCUMENT)
        for item in operation.get("parameters", ())
        if item.get("in") in ("path", "query")
    }
    # A condition stands in a header there, in quotation marks.
    if any(item["name"] == "If-Match" for item in operation.get("parameters", ()) if "name" in item):
        found["if_match"] = {"type": "string"}
    content = operation.get("requestBody", {}).get("content", {})
    body = resolved(content.get("application/json", {}).get("schema", {}), DOCUMENT)
    return {**found, **body.get("properties", {})}


def plain(schema: Any) -> Any:
    """A schema without its words, and without null: in a query, what is null is left out."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: item for key, item in schema.items() if key not in ("description", "examples", "title")}
    if kept.get("default", 0) is None:
        del kept["default"]
    match kept.get("anyOf"):
        case [dict(only), {"type": "null"}]:
            return plain({**only, **{key: item for key, item in kept.items() if key != "anyOf"}})
        case _:
            return {key: plain(item) for key, item in kept.items()}


def test_the_schema_of_every_tool_admits_a_call_that_is_held_or_goes_on() -> None:
    held = HeldView(
        draft_id="r_1", operation="x", reason="risk", digest="d", expires_at="2026-01-01", look="/drafts/r_1"
    )
    result = ExecutionResult(execution_id="r_1", workflow_id="held:x", status="waiting_approval", sequence=5, held=held)
    standing = (result, msgspec.structs.replace(result, status="running", held=None))
    unfit = []
    for name, listed in TOOLS.items():
        compiled = compile_schema(listed["outputSchema"])
        assert isinstance(compiled, CompiledSchema), name
        assert listed["outputSchema"]["type"] == "object", name
        unfit += [name for value in standing if violations(compiled, msgspec.to_builtins(value))]
    assert not unfit


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_a_tool_takes_what_rest_takes(name: str) -> None:
    schema = TOOLS[name]["inputSchema"]
    assert isinstance(schema, dict)
    wanted = {key: resolved(item, schema) for key, item in schema.get("properties", {}).items()}
    taken = taken_by_rest(DESCRIBED[name])
    if name in ("graph.branches_create", "graph.load"):
        taken.pop("from")  # another spelling of `source`, which routes of graphs take
    assert plain(taken) == plain(wanted)
