"""The operator's choices for MCP, as the surface needs them.

Above it: `app` makes them from the settings. Below it: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.base import limits

__all__ = ["McpOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """What is offered over MCP, and to whom it answers."""

    version: str = "0"
    enabled: bool = True
    path: str = "/mcp"
    base_path: str = "/api/v0"
    """Where the operations stand in REST: `exclude_endpoints` speaks of these paths."""
    tool_prefix: str = "penstock"
    tool_names: Literal["underscore", "dot"] = "underscore"
    exclude_endpoints: tuple[str, ...] = ()
    output_schemas: bool = False
    """Whether the lists of tools have the output schemas of built-in operations; workflows always have theirs."""
    toolset: str = "default"
    """The tools that are listed to clients whose address names no others."""
    catalogue_bytes: int = limits.MCP_CATALOGUE_BYTES_MAX
    fast_path: bool = True
    """Whether hot requests of the newest era are answered without the SDK."""
    max_concurrent_requests: int = limits.MCP_CALLS_AT_ONCE_MAX
    max_body_bytes: int = limits.REQUEST_BYTES_MAX
    patience_seconds: float = limits.MCP_CALL_MS_MAX / 1000
    on_disconnect: Literal["cancel", "keep"] = "cancel"
    """What becomes of an execution whose caller hangs up before the answer."""
    result_characters: int = limits.MCP_RESULT_CHARACTERS_MAX
    allowed_hosts: tuple[str, ...] | None = None
    """Names that the server answers to, without ports; any without."""
    allowed_origins: tuple[str, ...] = ()
    """Origins whose pages may call, beside the server's own."""
