"""The methods of MCP that Penstock knows, in one table: their names, and which of them only read.

Metrics, the audit log and the access log take method names from here, so that no label holds text that a client chose.
The handler of a method, with the type of its parameters, is in the `methods` module of its package; `server` collects
them. This module does not import the SDK.
"""

from __future__ import annotations

from penstock.mcp_surface.tools.tool_list import Tool

__all__ = ["CALL", "GATED", "LISTEN", "METHODS", "known_method", "reads_only"]

CALL = "tools/call"
LISTEN = "subscriptions/listen"
METHODS: dict[str, bool] = {
    CALL: False,
    LISTEN: False,
    "completion/complete": True,
    "elicitation/create": False,
    "initialize": False,
    "logging/setLevel": False,
    "ping": True,
    "prompts/get": False,
    "prompts/list": True,
    "resources/list": True,
    "resources/read": False,
    "resources/subscribe": False,
    "resources/templates/list": True,
    "resources/unsubscribe": False,
    "sampling/createMessage": False,
    "server/discover": True,
    "tasks/cancel": False,
    "tasks/get": True,
    "tasks/update": False,
    "tools/list": True,
}
"""Whether a method only reads, by name. Methods that run a workflow do not; for a tool call the tool decides."""
GATED = frozenset({CALL, *(name for name in METHODS if name.startswith("tasks/"))})
"""The methods that are calls of an operation, whatever their parameters are; the gate counts these."""
_UNKNOWN = "unknown"


def reads_only(method: str, tool: Tool | None) -> bool:
    """Return whether a request changes nothing, according to the catalogue; `tool` is the called tool."""
    if method != CALL:
        return METHODS.get(method, False)
    return tool is not None and tool.capability.only_reads


def known_method(method: str) -> str:
    """Return the method if it is in the table, else `unknown`."""
    return method if method in METHODS else _UNKNOWN
