"""The node types of the pack `core.openwop.mcp`, as tables: the configuration of each, and its native counterpart.

The pack has 21 types. Most of the types for servers declare something and do nothing when they run; the types for
clients call other MCP servers. `documents` converts workflows that consist of them to native documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from penstock.base.json import JsonObject, JsonValue

__all__ = ["PACK", "PACK_NODES", "PACK_PEER", "PACK_VERSION", "PackNode"]

PACK = "core.openwop.mcp"
PACK_VERSION = "1.1.1"
PACK_PEER = "mcp.serverMount"
"""The capability that a host must have for the server's node types."""

_Side: TypeAlias = Literal["server", "client"]
_TEXT: JsonObject = {"type": "string"}
_NONEMPTY: JsonObject = {"type": "string", "minLength": 1}
_OBJECT: JsonObject = {"type": "object"}
_OBJECTS: JsonObject = {"type": "array", "items": _OBJECT}


class _Field(NamedTuple):
    """A member of a configuration."""

    name: str
    schema: JsonObject
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PackNode:
    """A node type: which side of MCP it is for, its configuration, and its native counterpart."""

    name: str
    side: _Side
    fields: tuple[_Field, ...]
    becomes: str | None = None
    """What it becomes in a native document; None for a type that is refused."""

    @property
    def type_id(self) -> str:
        """The type as documents write it."""
        return f"{PACK}.{self.name}"

    @property
    def config_schema(self) -> JsonObject:
        """The JSON Schema of its configuration. It allows other members, because scenarios of the pack send some."""
        needed: list[JsonValue] = [field.name for field in self.fields if field.required]
        members: JsonObject = {field.name: field.schema for field in self.fields}
        return {"type": "object", "required": needed, "properties": members}


def _server(name: str, becomes: str, *fields: _Field) -> PackNode:
    return PackNode(name=name, side="server", fields=fields, becomes=becomes)


def _client(name: str, *fields: _Field, becomes: str | None = None) -> PackNode:
    return PackNode(name=name, side="client", fields=(_SERVER_ID, *fields), becomes=becomes)


_NAME = _Field("name", _TEXT)
_MIME_TYPE = _Field("mimeType", _NONEMPTY)
_SERVER_ID = _Field("serverId", _NONEMPTY, required=True)

_SERVER_SIDE = (
    _server(
        "server-trigger",
        "nothing: calls start runs by themselves",
        _Field("transport", {"type": "string", "enum": ["stdio", "streamable-http"]}),
        _Field("path", _NONEMPTY),
    ),
    _server(
        "expose-tool",
        "expose.tool and input",
        _Field("name", _TEXT, required=True),
        _Field("description", _TEXT),
        _Field("inputSchema", _OBJECT),
    ),
    _server("expose-resource", "expose.resource", _Field("uri", _NONEMPTY, required=True), _NAME, _MIME_TYPE),
    _server(
        "expose-resource-template",
        "expose.resource and input",
        _Field("uriTemplate", _NONEMPTY, required=True),
        _NAME,
        _MIME_TYPE,
    ),
    _server(
        "expose-prompt",
        "expose.prompt and input",
        _Field("name", _TEXT, required=True),
        _Field("template", _TEXT),
        _Field("description", _TEXT),
        _Field("arguments", _OBJECTS),
    ),
    _server("handle-sampling", "expose.sampling and llm_call", _Field("modelHint", _NONEMPTY)),
    _server(
        "handle-elicitation",
        "expose.elicitation and agent_delegate, or interrupt",
        _Field("message", _TEXT),
        _Field("requestedSchema", _OBJECT),
    ),
    _server("provide-roots", "expose.roots and its output", _Field("roots", _OBJECTS, required=True)),
)

_CLIENT_SIDE = (
    _client(
        "invoke-tool",
        _Field("toolName", _NONEMPTY, required=True),
        _Field("timeoutMs", {"type": "integer", "minimum": 1}),
        becomes="tool_call",
    ),
    _client("list-tools"),
    _client("read-resource"),
    _client("server-status"),
    _client("list-resources"),
    _client("list-resource-templates"),
    _client("subscribe-resource"),
    _client("list-prompts"),
    _client("get-prompt"),
    _client("completion"),
    _client("set-log-level"),
    _client("log-listener"),
    _client("ping"),
)

PACK_NODES: MappingProxyType[str, PackNode] = MappingProxyType(
    {node.type_id: node for node in (*_SERVER_SIDE, *_CLIENT_SIDE)}
)
"""All node types by type id, the server's first."""
