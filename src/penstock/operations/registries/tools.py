"""The registry of tools.

Above it: the catalogue. Below it: `registry`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.context import Context
from penstock.operations.named_schemas import with_registered
from penstock.operations.registries.members import JsonSchema, Prose, check_json_schema
from penstock.operations.registries.registry import Body, Registry, RegistryTexts
from penstock.runtime.ports.platform import ResourceRow

__all__ = ["OPERATIONS", "TOOLS"]


class ToolBody(Body, frozen=True, kw_only=True):
    """A tool of an MCP server, or a Python step."""

    kind: Annotated[Literal["mcp", "step"], Meta(description="What performs it.")]
    name: Annotated[str, Meta(description="What the server or the module calls it.", min_length=1, max_length=200)]
    server: Annotated[
        Annotated[str, Meta(min_length=1, max_length=128)] | None,
        Meta(description="With `mcp`: the server, as it is called in the configuration."),
    ] = None
    input_schema: JsonSchema | None = None
    description: Prose = None


async def _check_tool(context: Context, given: ToolBody) -> None:
    if (given.kind == "mcp") != (given.server is not None):
        message = "`server` is needed for kind `mcp`, and only there"
        raise Rejected("TOOL_INVALID", message, "name the MCP server, or leave it out for a step")


async def _prepared_tool(context: Context, body: JsonObject, was: ResourceRow | None) -> JsonObject:
    """Return a tool with the registered schemas that its own refers to."""
    schema = body.get("input_schema")
    if not isinstance(schema, dict):
        return body
    filled = await with_registered(context, "input_schema", schema)
    await check_json_schema(context, "input_schema", filled)
    return {**body, "input_schema": filled}


TOOLS = Registry(
    kind="tool",
    body=ToolBody,
    example_id="search",
    create_example={"kind": "mcp", "server": "web", "name": "search"},
    update_example={"kind": "mcp", "server": "files", "name": "search_files"},
    texts=RegistryTexts(
        create="Names a tool of a configured MCP server, or a Python step.",
        get="What performs it, and the schema of its arguments.",
        list="Tools by id; use it to find out which there are.",
        delete="Agents that name it cannot use it any more; the server or module keeps it.",
    ),
    check=_check_tool,
    prepare=_prepared_tool,
    check_errors=("SCHEMA_INVALID", "TOOL_INVALID"),
)

OPERATIONS: tuple[Capability, ...] = TOOLS.operations()
