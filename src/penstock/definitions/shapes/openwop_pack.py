"""The node types of the pack `core.openwop.mcp`, as tables: what each is, what it is told, and whether it works here.

The pack has 21 types. Most of those that a server uses declare something and do nothing when they run; those that a
client uses call other MCP servers. `openwop_documents` makes native documents of workflows that consist of them.

Above it: `openwop_documents`, `operations.openwop_packs`. Below it: the tables of fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.shapes.fields import (
    OBJECT,
    STRING,
    TEXT,
    Field,
    Shape,
    array_of,
    choice,
    optional,
    required,
)

__all__ = ["PACK", "PACK_NODES", "PACK_PEER", "PACK_VERSION", "PackNode"]

PACK = "core.openwop.mcp"
PACK_VERSION = "1.1.1"
PACK_PEER = "mcp.serverMount"
"""What a host must have for the types of the server's side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackNode:
    """A node type: whose side of MCP it stands on, its configuration, and what becomes of it."""

    shape: Shape
    side: Literal["server", "client"]
    becomes: str | None = None
    """What it is in a native document; None for one that is refused."""

    @property
    def type_id(self) -> str:
        """The type as documents write it."""
        return f"{PACK}.{self.shape.name}"

    @property
    def config_schema(self) -> JsonObject:
        """The JSON Schema of its configuration."""
        needed: list[JsonValue] = [field.name for field in self.shape.fields if field.required]
        members: JsonObject = {field.name: field.schema for field in self.shape.fields}
        return {"type": "object", "required": needed, "properties": members}


def _node(shape: Shape, side: Literal["server", "client"], becomes: str | None = None) -> PackNode:
    return PackNode(shape=shape, side=side, becomes=becomes)


def _shape(name: str, description: str, *fields: Field) -> Shape:
    # What the pack's own tables forbid, its scenarios send: nothing that is not named here is refused.
    return Shape(name=name, title=name, description=description, fields=fields, accepts_more=True)


_NAME = optional("name", TEXT, "The name that is listed.")
_MIME = optional("mimeType", STRING, "The kind of content.")
_SERVER = required("serverId", STRING, "The configured MCP server.")

_SERVER_SIDE = (
    _node(
        _shape(
            "server-trigger",
            "Where a run begins that the mount starts.",
            optional("transport", choice("stdio", "streamable-http"), "The transport of the mount."),
            optional("path", STRING, "The path of the mount."),
        ),
        "server",
        "nothing: calls start runs by themselves",
    ),
    _node(
        _shape(
            "expose-tool",
            "Lists the workflow as a tool.",
            required("name", TEXT, "The tool's name."),
            optional("description", TEXT, "What the tool does."),
            optional("inputSchema", OBJECT, "The schema of the arguments; any object if left out."),
        ),
        "server",
        "expose.tool and input",
    ),
    _node(
        _shape(
            "expose-resource",
            "Lists the workflow as a resource.",
            required("uri", STRING, "Its address."),
            _NAME,
            _MIME,
        ),
        "server",
        "expose.resource",
    ),
    _node(
        _shape(
            "expose-resource-template",
            "Lists the workflow as a resource whose address has variables.",
            required("uriTemplate", STRING, "Its address, with variables in braces."),
            _NAME,
            _MIME,
        ),
        "server",
        "expose.resource and input",
    ),
    _node(
        _shape(
            "expose-prompt",
            "Lists the workflow as a prompt.",
            required("name", TEXT, "The prompt's name."),
            optional("template", TEXT, "What it says; `{{name}}` shows an argument as text."),
            optional("description", TEXT, "What it is for."),
            optional("arguments", array_of(OBJECT), "Its arguments: name, description, required."),
        ),
        "server",
        "expose.prompt and input",
    ),
    _node(
        _shape(
            "handle-sampling",
            "Lets a model answer what a client wants sampled.",
            optional("modelHint", STRING, "The model to use."),
        ),
        "server",
        "expose.sampling and llm_call",
    ),
    _node(
        _shape(
            "handle-elicitation",
            "Asks a person what a client wants asked.",
            optional("message", TEXT, "The question, inside a workflow that is a tool."),
            optional("requestedSchema", OBJECT, "The schema of its answer."),
        ),
        "server",
        "expose.elicitation and agent_delegate, or interrupt",
    ),
    _node(
        _shape(
            "provide-roots", "Answers what the roots are.", required("roots", array_of(OBJECT), "The roots: uri, name.")
        ),
        "server",
        "expose.roots and its output",
    ),
)

_CLIENT_SIDE = (
    _node(
        _shape(
            "invoke-tool",
            "Calls a tool of another server.",
            _SERVER,
            required("toolName", STRING, "The tool."),
            optional("timeoutMs", {"type": "integer", "minimum": 1}, "The longest it may take."),
        ),
        "client",
        "tool_call",
    ),
    *(
        _node(_shape(name, description, _SERVER), "client")
        for name, description in (
            ("list-tools", "Lists the tools of another server."),
            ("read-resource", "Reads a resource of another server."),
            ("server-status", "Says whether another server can be reached."),
            ("list-resources", "Lists the resources of another server."),
            ("list-resource-templates", "Lists the templates of another server."),
            ("subscribe-resource", "Follows a resource of another server."),
            ("list-prompts", "Lists the prompts of another server."),
            ("get-prompt", "Gets a prompt of another server."),
            ("completion", "Asks another server how a text may go on."),
            ("set-log-level", "Says what another server shall log."),
            ("log-listener", "Hears what another server logs."),
            ("ping", "Asks whether another server lives."),
        )
    ),
)

PACK_NODES: MappingProxyType[str, PackNode] = MappingProxyType(
    {node.type_id: node for node in (*_SERVER_SIDE, *_CLIENT_SIDE)}
)
"""By type, the server's side first."""
