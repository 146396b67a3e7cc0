"""`tool_call`: calls a tool of an MCP server."""

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
from penstock.definitions.shapes.fields import OBJECT, STRING, Shape, optional, ref, required

__all__ = ["KIND"]

_ACTIVITY = Activity(arguments=("arguments",), single=True, implied_by="tool")
# The name of the server that stands for the MCP client that called the workflow.
_CLIENT = "client"


def _references(fields: JsonObject) -> Iterator[Reference]:
    if fields.get("server") != _CLIENT:
        yield Reference(resource=Resource.SERVER, name=fields.get("server"), field="server")


def _caption(fields: JsonObject) -> str:
    return ".".join(name for name in (text_or_empty(fields.get("server")), text_or_empty(fields.get("tool"))) if name)


KIND = NodeKind(
    type=NodeType.TOOL_CALL,
    shape=Shape(
        name="tool_call",
        title="tool_call",
        description="Calls a tool of an MCP server.",
        fields=(
            required("server", STRING, "The MCP server, by its configured name; `client`: whoever calls over MCP."),
            required("tool", STRING, "The tool's name; a client has one, `roots/list`."),
            optional("arguments", ref("template_object"), "The tool's arguments."),
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
)
