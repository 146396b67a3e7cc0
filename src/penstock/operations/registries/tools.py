"""Operations on tools: those of MCP servers and Python steps, by an id of their own.

Above it: the catalogue. Below it: `registry`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from penstock.base.errors import Rejected
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted, IfMatch
from penstock.operations.gate.context import Context
from penstock.operations.registries.registry import (
    Body,
    JsonSchema,
    ListRegistered,
    Prose,
    Registry,
    ResourceId,
    check_json_schema,
)

__all__ = ["OPERATIONS"]

ToolId = Annotated[ResourceId, Meta(description="The id of the tool.", examples=["search"])]


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


async def _check(context: Context, given: ToolBody) -> None:
    if (given.kind == "mcp") != (given.server is not None):
        told = "`server` is needed for kind `mcp`, and only there"
        raise Rejected("TOOL_INVALID", told, "name the MCP server, or leave it out for a step")
    await check_json_schema(context, "input_schema", given.input_schema)


class CreateTool(ToolBody, frozen=True, kw_only=True):
    """An id, and what it stands for."""

    id: ToolId


class OneTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tool."""

    tool_id: ToolId


class UpdateTool(ToolBody, frozen=True, kw_only=True):
    """Which tool, and what it is now."""

    tool_id: ToolId
    if_match: IfMatch = None


class DeleteTool(OneTool, frozen=True, kw_only=True):
    """Which tool, and perhaps which version of it."""

    if_match: IfMatch = None


class ToolView(ToolBody, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A tool, and since when it is as it is."""

    id: str
    etag: str
    created_at: str | None
    updated_at: str | None
    updated_by: str | None


class ToolPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of tools."""

    items: list[ToolView]
    next_cursor: str | None


_REGISTRY = Registry(kind="tool", path="/tools", body=ToolBody, view=ToolView)


@operation(
    "tool.create",
    route=Route(method="POST", path="/tools", status=201, etag=True),
    scopes=("tool:write",),
    risk="medium",
    subject="id",
    errors=("TOOL_EXISTS", "SCHEMA_INVALID", "TOOL_INVALID"),
    examples=(Example(arguments={"id": "search", "kind": "mcp", "server": "web", "name": "search"}),),
)
async def tool_create(context: Context, given: CreateTool) -> Reply[ToolView]:
    """Register a tool.

    Names a tool of a configured MCP server, or a Python step. Refused if the id is taken.
    """
    await _check(context, given)
    return await _REGISTRY.create(context, given.id, given)


@operation(
    "tool.get",
    route=Route(method="GET", path="/tools/{tool_id}", etag=True),
    scopes=("tool:read",),
    reads=True,
    subject="tool_id",
    errors=("TOOL_NOT_FOUND",),
    examples=(Example(arguments={"tool_id": "search"}),),
)
async def tool_get(context: Context, given: OneTool) -> Reply[ToolView]:
    """Get a tool.

    What performs it, and the schema of its arguments.
    """
    return await _REGISTRY.get(context, given.tool_id)


@operation(
    "tool.list",
    route=Route(method="GET", path="/tools", query=("prefix", "limit", "cursor")),
    scopes=("tool:read",),
    reads=True,
    errors=("INVALID_LIST_CURSOR",),
    examples=(Example(arguments={"limit": 20}),),
)
async def tool_list(context: Context, given: ListRegistered) -> ToolPage:
    """List tools.

    Tools by id; use it to find out which there are.
    """
    items, next_cursor = await _REGISTRY.list(context, given)
    return ToolPage(items=list(items), next_cursor=next_cursor)


@operation(
    "tool.update",
    route=Route(method="PUT", path="/tools/{tool_id}", headers={"If-Match": "if_match"}, etag=True),
    scopes=("tool:write",),
    idempotent=True,
    risk="medium",
    subject="tool_id",
    errors=("TOOL_NOT_FOUND", "PRECONDITION_FAILED", "SCHEMA_INVALID", "TOOL_INVALID"),
    examples=(Example(arguments={"tool_id": "search", "kind": "mcp", "server": "files", "name": "search_files"}),),
)
async def tool_update(context: Context, given: UpdateTool) -> Reply[ToolView]:
    """Change a tool.

    Replaces the whole entry. Send the ETag that you read as If-Match to be refused when somebody else changed it.
    """
    await _check(context, given)
    return await _REGISTRY.update(context, given.tool_id, given, given.if_match)


@operation(
    "tool.delete",
    route=Route(method="DELETE", path="/tools/{tool_id}", headers={"If-Match": "if_match"}),
    scopes=("tool:delete",),
    destructive=True,
    risk="medium",
    subject="tool_id",
    errors=("TOOL_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def tool_delete(context: Context, given: DeleteTool) -> Deleted:
    """Delete a tool.

    Agents that name it cannot use it any more; the server or module keeps it.
    """
    return await _REGISTRY.delete(context, given.tool_id, given.if_match)


OPERATIONS: tuple[Capability, ...] = (tool_create, tool_get, tool_list, tool_update, tool_delete)
