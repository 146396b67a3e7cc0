"""`tool_call`: calls a tool of an MCP server, or a capability of this server itself."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject
from penstock.definitions.model import NodeType
from penstock.definitions.node_parts.activity import activity_builder, activity_jq
from penstock.definitions.node_parts.captions import text_or_empty
from penstock.definitions.node_parts.kind import (
    Activity,
    Category,
    NodeKind,
    Pace,
    PublishedConfig,
    Reference,
    Resource,
)
from penstock.definitions.node_parts.outline import OutlineNode
from penstock.definitions.shapes.fields import BOOLEAN, OBJECT, STRING, Shape, array_of, optional, ref, required
from penstock.definitions.source.findings import Finding, Severity

__all__ = ["KIND"]

_ACTIVITY = Activity(arguments=("arguments",), single=True, implied_by="tool")
# The names of servers that stand for the MCP client that called the workflow, and for the server that runs it.
_CLIENT, _OWN = "client", "penstock"
_WITH_LIST = ("tools/call", "tools/list")


def _references(fields: JsonObject) -> Iterator[Reference]:
    if fields.get("server") not in (_CLIENT, _OWN):
        yield Reference(resource=Resource.SERVER, name=fields.get("server"), field="server")


def _check(node: OutlineNode) -> Iterator[Finding]:
    """Yield what is wrong with a call of this server itself."""
    fields = node.fields
    own = fields.get("server") == _OWN
    listed = own and fields.get("tool") in _WITH_LIST
    for name in ("allow", "by_model"):
        if name in fields and not (own if name == "by_model" else listed):
            yield Finding(
                code="HAS_NO_EFFECT",
                message=f"`{name}` is only for `server: {_OWN}`"
                + ("" if name == "by_model" else f" with `tool: {' or '.join(_WITH_LIST)}`"),
                path=node.field_path(name),
                hint="leave it out",
                severity=Severity.WARNING,
            )
    if listed and "allow" not in fields:
        yield Finding(
            code="MISSING_FIELD",
            message=f"`{fields.get('tool')}` needs `allow`, the names of the tools that may be called",
            path=node.field_path("tool"),
            hint="write `allow: [workflow:refund_order, query:*]`",
        )


def _caption(fields: JsonObject) -> str:
    return ".".join(name for name in (text_or_empty(fields.get("server")), text_or_empty(fields.get("tool"))) if name)


KIND = NodeKind(
    type=NodeType.TOOL_CALL,
    shape=Shape(
        name="tool_call",
        title="tool_call",
        description="Calls a tool of an MCP server, or a capability of this server through its gate.",
        fields=(
            required(
                "server",
                STRING,
                "The MCP server, by its configured name; `client` is the calling MCP client, `penstock` this server.",
            ),
            required(
                "tool",
                STRING,
                "The tool's name. A client has `roots/list`; `penstock` its capabilities, `tools/call`, `tools/list`.",
            ),
            optional("arguments", ref("template_object"), "The tool's arguments."),
            optional(
                "allow",
                array_of({**STRING, "minLength": 1}, items_min=1),
                "For `tools/call` and `tools/list`: the capabilities that may be called; `query:*` stands for many.",
            ),
            optional(
                "by_model", {**BOOLEAN, "default": False}, "For `penstock`: a model chose the call; it is held as such."
            ),
        ),
        hints={
            "with": "write `arguments`",
            "input": "write `arguments`",
            "args": "write `arguments`",
            "params": "write `arguments`",
            "name": "write `tool`",
        },
    ),
    published=PublishedConfig(
        shape=Shape(
            name="published_config_tool_call",
            title="config of tool_call",
            description="Calls a tool of an MCP server.",
            fields=(
                required("server", STRING, "The MCP server that has the tool."),
                required("tool", STRING, "The tool's name."),
                optional("arguments", OBJECT, "The tool's arguments."),
            ),
        ),
    ),
    other_words=("tool", "mcp", "call"),
    gives="the tool's result",
    build=activity_builder(_ACTIVITY),
    category=Category.WORK,
    caption=_caption,
    pace=Pace.WAITS,
    activity=_ACTIVITY,
    jq=activity_jq(_ACTIVITY),
    references=_references,
    check=_check,
)
