"""The registry of tools: requests, tools of MCP servers, Python steps and stored queries, under a name and with rules.

Each entry stands for the capability `tool:ID`, which tool.execute, workflows and agents call through the gate. What an
entry declares holds for every call; what would not is refused when it is registered.

Above it: the catalogue, `tool_runs`. Below it: `registry`, `registered_tools`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import LimitExceeded, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.source.findings import Severity, summarize
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.context import Context
from penstock.operations.named_schemas import with_registered
from penstock.operations.registered_tools.capabilities import TOOL_KIND, imported_name
from penstock.operations.registered_tools.documents import TOOL_INVALID, document_of_tool, invalid_tool
from penstock.operations.registries.members import JsonSchema, Prose, check_json_schema
from penstock.operations.registries.registry import Body, Registry, RegistryTexts
from penstock.operations.runs.tool_schemas import takes_object
from penstock.runtime.ports.platform import ResourceRow
from penstock.runtime.tables.resources import list_resources

__all__ = ["OPERATIONS", "TOOLS"]

_SHORT = Meta(min_length=1, max_length=200)
_Secret = Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,127}$")]
_SCHEMAS = ("input_schema", "output_schema")
# The members that belong to one kind, and whether that kind needs them.
_OF_KIND = {
    "http": {"http": True, "secrets": False},
    "mcp": {"server": True, "name": True},
    "step": {"name": True},
    "query": {"graph": True, "name": True, "branch": False},
}


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The request that a call becomes, with expressions over `.input`, as in an `http` node."""

    url: Annotated[
        str,
        Meta(
            description="A fixed host, and a path; values in the path are escaped.",
            max_length=2_000,
            examples=["https://api.example.com/orders/${ .input.id }"],
        ),
    ]
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    headers: Annotated[
        dict[str, str], Meta(description="Headers; `${secret:NAME}` stands for a secret of the tenant.", max_length=50)
    ] = msgspec.field(default_factory=dict)
    query: Annotated[dict[str, Any], Meta(description="What follows the `?`.", max_length=50)] = msgspec.field(
        default_factory=dict
    )
    body: Annotated[Any, Meta(description="The body; anything but text is sent as JSON.")] = None
    expect_status: Annotated[
        list[Annotated[int, Meta(ge=100, le=599)]] | None,
        Meta(description="The answers that count as success; 200 to 299 if left out."),
    ] = None


class ToolAnnotations(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a call does, where the kind of the tool does not say it."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: Annotated[
        bool | None, Meta(description="Whether a call with an unknown outcome may be made again; else it fails.")
    ] = None
    open_world: bool | None = None


class ToolGovernance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a call needs, as in the `governance` block of a workflow."""

    risk: Literal["low", "medium", "high", "critical"] | None = None
    scopes: Annotated[
        list[Annotated[str, _SHORT]] | None, Meta(description="Scopes that a caller needs beside tool:run.")
    ] = None
    confirm: bool | None = None
    draft: Annotated[
        Literal["never", "always", "on_risk"] | None, Meta(description="Whether a call waits for approval.")
    ] = None
    approvers: Annotated[dict[str, Any] | None, Meta(description="Who approves, as in a workflow.")] = None


class ToolBody(Body, frozen=True, kw_only=True):
    """An HTTP request, a tool of an MCP server, a Python step or a stored query of a graph."""

    kind: Annotated[Literal["http", "mcp", "step", "query"], Meta(description="What performs it.")]
    name: Annotated[
        Annotated[str, _SHORT] | None, Meta(description="What the server, the module or the graph calls it.")
    ] = None
    server: Annotated[
        Annotated[str, Meta(min_length=1, max_length=128)] | None,
        Meta(description="With `mcp`: the name of the server in the settings."),
    ] = None
    graph: Annotated[Annotated[str, _SHORT] | None, Meta(description="With `query`: the graph.")] = None
    branch: Annotated[Annotated[str, _SHORT] | None, Meta(description="With `query`: the branch, if not main.")] = None
    http: Annotated[ToolRequest | None, Meta(description="With `http`: what is sent.")] = None
    secrets: Annotated[
        list[_Secret], Meta(description="With `http`: secrets of the tenant that the headers name.", max_length=20)
    ] = msgspec.field(default_factory=list)
    input_schema: JsonSchema | None = None
    output_schema: Annotated[
        JsonSchema | None, Meta(description="The JSON Schema of a result; a call with another result fails.")
    ] = None
    result: Annotated[
        Any,
        Meta(description="What comes back, as a template over `.call`; the body of a response, else the whole result."),
    ] = None
    timeout: Annotated[
        Annotated[str, Meta(max_length=40)] | None, Meta(description="How long a call may take.", examples=["30s"])
    ] = None
    annotations: Annotated[ToolAnnotations | None, Meta(description="What a call does.")] = None
    governance: Annotated[ToolGovernance | None, Meta(description="What a call needs.")] = None
    expose: Annotated[bool, Meta(description="Whether it is also an MCP tool.")] = False
    title: Annotated[Annotated[str, _SHORT] | None, Meta(description="A name for people.")] = None
    description: Prose = None


async def _check_tool(context: Context, given: Any) -> None:
    wanted = _OF_KIND[given.kind]
    for member in dict.fromkeys(member for members in _OF_KIND.values() for member in members):
        has = bool(getattr(given, member))
        if has and member not in wanted:
            raise invalid_tool(f"`{member}` has no effect with kind `{given.kind}`", "leave it out")
        if not has and wanted.get(member):
            raise invalid_tool(f"kind `{given.kind}` needs `{member}`", "see what a tool of this kind takes")
    if hasattr(given, "id"):
        page = await list_resources(
            context.services.platform, context.tenant, TOOL_KIND, limit=limits.TOOLS_PER_TENANT_MAX
        )
        if len(page.rows) >= limits.TOOLS_PER_TENANT_MAX:
            message = f"a tenant has at most {limits.TOOLS_PER_TENANT_MAX} registered tools"
            raise LimitExceeded("TOOLS_LIMITED", message, "delete one with tool.delete")


async def _prepared_tool(context: Context, body: JsonObject, was: ResourceRow | None) -> JsonObject:
    """Return a tool with the registered schemas that its own refer to; refuse one that cannot be called."""
    stored = {name: value for name, value in body.items() if value not in ([], {}, False)}
    for member in _SCHEMAS:
        schema = stored.get(member)
        if isinstance(schema, dict):
            filled = await with_registered(context, member, schema)
            await check_json_schema(context, member, filled)
            stored[member] = filled
    schema = stored.get("input_schema")
    if isinstance(schema, dict) and not takes_object(schema):
        raise invalid_tool("`input_schema` is not that of an object", "arguments are always an object")
    document = document_of_tool("tool", stored, imported=imported_name(context.services, context.tenant, stored))
    findings = await context.services.documents.findings(document, tenant=context.tenant)
    errors = [item for item in findings if item.severity is Severity.ERROR]
    if errors:
        message = summarize("the tool", errors)
        listed: list[JsonValue] = [item.to_json() for item in errors]
        raise Rejected(
            TOOL_INVALID, message, errors[0].hint or "correct the mistakes that `findings` lists", {"findings": listed}
        )
    return stored


TOOLS = Registry(
    stores="tool",
    kind=TOOL_KIND,
    body=ToolBody,
    example_id="search",
    create_example={"kind": "mcp", "server": "web", "name": "search"},
    update_example={"kind": "mcp", "server": "files", "name": "search_files"},
    texts=RegistryTexts(
        create=(
            "Names a request, a tool of an MCP server, a Python step or a stored query, and what a call of it needs. "
            "Call it with tool.execute; workflows and agents call it as tool:ID."
        ),
        get="Returns what performs it, the schemas of its arguments and result, and what a call needs.",
        list="Returns registered tools by id. Use it to find a tool for tool.execute.",
        delete="Workflows and agents that name it can no longer use it. The server, step or query behind it stays.",
    ),
    check=_check_tool,
    prepare=_prepared_tool,
    changed=lambda context: context.services.definitions_changed(context.tenant),
    check_errors=("SCHEMA_INVALID", TOOL_INVALID, "TOOLS_LIMITED"),
)

OPERATIONS: tuple[Capability, ...] = TOOLS.operations()
