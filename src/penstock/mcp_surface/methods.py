"""The methods of MCP that Penstock knows, in one table: their names, and which of them only read.

Metrics, the audit log and the access log take their words from here, so that no label has a word that a client chose.
The handler of a method, with the type of its parameters, is in the `methods` module of its package; `server` puts them
together. This module does not know the SDK.
"""

from __future__ import annotations

from penstock.mcp_surface.tools.tool_list import Tool

__all__ = ["CALL", "LISTEN", "METHODS", "known_method", "reads_only"]

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
"""By name, whether a request only reads. What runs a workflow does not, and a call of a tool is as its tool is."""
_UNKNOWN = "unknown"


def reads_only(method: str, tool: Tool | None) -> bool:
    """Whether a request changes nothing, as far as the catalogue says; `tool` is the one that is called."""
    if method != CALL:
        return METHODS.get(method, False)
    return tool is not None and tool.capability.only_reads


def known_method(method: str) -> str:
    """A method by its name, or `unknown` for one that is not in the table."""
    return method if method in METHODS else _UNKNOWN
