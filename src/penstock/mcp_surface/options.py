"""The operator's choices for MCP; `app` makes them from the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.base import limits

__all__ = ["MESSAGES_PATH", "SSE_PATH", "McpOptions"]

SSE_PATH = "/sse"
"""Where clients of revision 2024-11-05 open a stream, after `path`."""
MESSAGES_PATH = "/messages"
"""Where they post what they say."""


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
    on_disconnect: Literal["cancel", "keep"] = "keep"
    """What becomes of an execution whose caller hangs up before the answer; one that cancels its call cancels it."""
    result_characters: int = limits.MCP_RESULT_CHARACTERS_MAX
    step_logs: bool = True
    """Whether clients that wait with an execution hear what its steps log."""
    protocol_version: str | None = None
    """The one revision that is spoken; every one that there is without."""
    sse_first: bool = False
    """Whether clients of revision 2024-11-05 may open their stream at `path` without saying that they take one."""
    heartbeat_seconds: float = limits.STREAM_HEARTBEAT_SECONDS
    """How long an event stream may be silent."""
    retry_ms: int = limits.STREAM_RETRY_MS
    """How long clients wait before they come back to a stream that was closed."""
    close_after_seconds: float | None = None
    """How long the event stream of a call stays open before the client has to come back for the rest."""
    models: frozenset[str] = frozenset()
    """The names of the server's own models, which stand in for those of clients that cannot be asked."""
    protocol_faults: frozenset[str] = frozenset()
    """Codes of failures that are told as errors of the protocol, for profiles that must show one. There is none by
    itself: workflows choose their codes, and what they choose is a result."""
    answer_path: str = "/answer"
    """Where the pages are that answer questions."""
    public_url: str | None = None
    """The address under which people reach the server with a browser; without it, the one that a request names."""
    allowed_hosts: tuple[str, ...] | None = None
    """Names that the server answers to, without ports; any without."""
    allowed_origins: tuple[str, ...] = ()
    """Origins whose pages may call, beside the server's own."""

    def answer_page(self, address: str | None) -> str | None:
        """Where somebody answers who has a key, given how the server is reached; None if no browser gets there."""
        return None if address is None else f"{address.rstrip('/')}{self.answer_path}"
