"""The first messages of a client on a pipe, answered without the SDK, which takes most of a second to load.

A client that starts a server waits for two answers before a person can use it: `initialize` and `tools/list`. Both are
given here if they have nothing in them but the usual. The first message of any other kind is left to the SDK, and so is
everything after it. The SDK then reads the messages that were answered here again, so that it knows the client, and its
answers to them are dropped.

Above it: `pipe_entry`. Below it: the tool registry, the rates. This module does not import the SDK.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.metrics import McpMetrics
from penstock.mcp_surface.options import INSTRUCTIONS, McpOptions
from penstock.mcp_surface.rates import RequestRates
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.mcp_surface.tools.tool_list import ToolList, tool_listing
from penstock.operations.gate.pipeline import Gate

__all__ = ["LIST_CHANGED", "LeftToSdk", "PipeOpening", "initialize_result"]

LIST_CHANGED = encode_bytes({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
_NEWEST_HANDSHAKE = "2025-11-25"
_LIST = "tools/list"
_SCHEMA_MEMBERS = ("$schema", "properties", "required", "type")

_Id: TypeAlias = int | str


class LeftToSdk(Exception):  # not an error: somebody else answers
    """Raised for a message that is not answered here."""


class _Roots(msgspec.Struct, forbid_unknown_fields=True):
    list_changed: bool = msgspec.field(default=False, name="listChanged")


class _Empty(msgspec.Struct, forbid_unknown_fields=True):
    """An object without members."""


class _Elicitation(msgspec.Struct, forbid_unknown_fields=True):
    form: _Empty | None = None
    url: _Empty | None = None


class _Capabilities(msgspec.Struct, forbid_unknown_fields=True):
    """The capabilities that change neither of the two answers."""

    roots: _Roots | None = None
    sampling: _Empty | None = None
    elicitation: _Elicitation | None = None


class _ClientInfo(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    version: str
    title: str | None = None


class _InitializeParams(msgspec.Struct, forbid_unknown_fields=True):
    # Both revisions have the same tools, but for icons.
    protocol_version: Literal["2025-06-18", "2025-11-25"] = msgspec.field(name="protocolVersion")
    capabilities: _Capabilities
    client_info: _ClientInfo = msgspec.field(name="clientInfo")


class _Initialize(msgspec.Struct, forbid_unknown_fields=True, tag_field="method", tag="initialize"):
    jsonrpc: Literal["2.0"]
    id: _Id
    params: _InitializeParams


class _Initialized(msgspec.Struct, forbid_unknown_fields=True, tag_field="method", tag="notifications/initialized"):
    jsonrpc: Literal["2.0"]
    params: _Empty | None = None


class _ListTools(msgspec.Struct, forbid_unknown_fields=True, tag_field="method", tag=_LIST):
    jsonrpc: Literal["2.0"]
    id: _Id
    params: _Empty | None = None


_decode = msgspec.json.Decoder(_Initialize | _Initialized | _ListTools).decode


class PipeOpening:
    """Answers the first messages of one client."""

    def __init__(
        self, gate: Gate, options: McpOptions, registry: ToolRegistry, new_caller: Callable[[], Caller]
    ) -> None:
        self._options = options
        self._registry = registry
        self._new_caller = new_caller
        self._rates = RequestRates(gate)
        self._metrics = McpMetrics(gate.services.telemetry)
        self._version: str | None = None
        self._listed: ToolList | None = None
        self.handshake: list[bytes] = []
        """The messages of the handshake that were answered, for the SDK to read again."""

    async def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a message, None for a notification; raise `LeftToSdk` for anything unusual."""
        try:
            message = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise LeftToSdk from None
        # The handshake comes first, once; the SDK refuses everything else.
        if isinstance(message, _Initialize) is (self._version is not None):
            raise LeftToSdk
        try:
            return await self._answer_plain(message, line)
        except PenstockError as error:
            # Nothing was counted: the SDK refuses it in the words of the protocol, and records that.
            raise LeftToSdk from error

    async def _answer_plain(self, message: _Initialize | _Initialized | _ListTools, line: bytes) -> bytes | None:
        match message:
            case _Initialize():
                self._rates.charge(self._new_caller(), "initialize")
                self._version = message.params.protocol_version
                self.handshake.append(line)
                return _result(message.id, initialize_result(self._options, self._version))
            case _Initialized():
                self._rates.charge(self._new_caller(), "notifications/initialized")
                self.handshake.append(line)
                return None
            case _ListTools():
                return _result(message.id, await self._list_tools())

    async def _list_tools(self) -> JsonObject:
        began, caller = time.perf_counter(), self._new_caller()
        tool_list = await self._registry.of(caller.principal, caller.toolset, caller.remote)
        if self._version != _NEWEST_HANDSHAKE and any("icons" in tool.listed for tool in tool_list.tools):
            raise LeftToSdk  # an older revision, which has no icons
        self._rates.charge(caller, _LIST)
        self._listed = tool_list
        result = _sorted_listing(tool_listing(tool_list.tools))
        self._metrics.answered(_LIST, "ok", time.perf_counter() - began)
        return result

    async def has_old_list(self) -> bool:
        """Return whether the client was given a list of tools that has changed since."""
        if self._listed is None:
            return False
        caller = self._new_caller()
        try:
            return await self._registry.of(caller.principal, caller.toolset, caller.remote) is not self._listed
        except PenstockError:
            return True  # the client asks again, and is told why there is none


def initialize_result(options: McpOptions, version: str) -> JsonObject:
    """Return what the SDK's server answers to `initialize`; a test compares them."""
    logs: JsonObject = {"logging": {}} if options.step_logs else {}
    return {
        "capabilities": {
            "completions": {},
            **logs,
            "prompts": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "tools": {"listChanged": True},
        },
        "instructions": INSTRUCTIONS,
        "protocolVersion": version,
        "serverInfo": {"name": "penstock", "title": "Penstock", "version": options.version},
    }


def _result(message_id: _Id, result: JsonObject) -> bytes:
    return encode_bytes({"jsonrpc": "2.0", "id": message_id, "result": result})


def _sorted_listing(listing: JsonObject) -> JsonObject:
    """Return a listing with its members in the order in which the SDK writes them."""
    found = listing["tools"]
    listed = found if isinstance(found, list) else []
    tools: list[JsonValue] = [_sort_members(tool) for tool in listed if isinstance(tool, dict)]
    return {"_meta": listing["_meta"], "tools": tools}


def _sort_members(tool: JsonObject) -> JsonObject:
    return {name: _sort_known(name, tool[name]) for name in sorted(tool)}


def _sort_known(name: str, value: JsonValue) -> JsonValue:
    """Return a member of a tool with what the protocol knows of it first, and sorted."""
    if not isinstance(value, dict) or name not in ("annotations", "inputSchema", "outputSchema"):
        return value
    known = sorted(value) if name == "annotations" else [key for key in _SCHEMA_MEMBERS if key in value]
    return {**{key: value[key] for key in known}, **value}
