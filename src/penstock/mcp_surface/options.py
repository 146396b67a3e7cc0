"""The operator's options for MCP; `app` builds them from the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.base import limits

__all__ = ["GRAPH_PATH", "INSTRUCTIONS", "MESSAGES_PATH", "SSE_PATH", "McpOptions"]

INSTRUCTIONS = (
    "Penstock runs durable workflows. Each exposed workflow is a tool: a call starts a run and waits for its result."
    " If the run takes longer, or a person has to answer something, the result says so and names the tools to continue"
    " with. The run continues meanwhile and survives restarts."
)
"""What clients learn about the server when they connect."""

SSE_PATH = "/sse"
"""Where clients of revision 2024-11-05 open a stream, relative to `path`."""
MESSAGES_PATH = "/messages"
"""Where they post their messages."""

GRAPH_PATH = "/graphs/{graph_id}/mcp"
"""Where the clients of one graph connect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """What is offered over MCP, and to whom."""

    version: str = "0"
    enabled: bool = True
    path: str = "/mcp"
    base_path: str = "/api/v0"
    """The base path of REST; `exclude_endpoints` refers to paths below it."""
    tool_prefix: str = "penstock"
    tool_names: Literal["underscore", "dot"] = "underscore"
    exclude_endpoints: tuple[str, ...] = ()
    output_schemas: bool = False
    """Whether tool lists include the output schemas of built-in operations; workflows always include theirs."""
    toolset: str = "default"
    """The tools listed to clients whose address names no toolset."""
    catalogue_bytes: int = limits.MCP_CATALOGUE_BYTES_MAX
    fast_path: bool = True
    """Whether frequent requests of the newest era are answered without the SDK."""
    max_concurrent_requests: int = limits.MCP_CALLS_AT_ONCE_MAX
    max_body_bytes: int = limits.REQUEST_BYTES_MAX
    patience_seconds: float = limits.MCP_CALL_MS_MAX / 1000
    on_disconnect: Literal["cancel", "keep"] = "keep"
    """What happens to a run whose client disconnects early. A client that cancels its call always cancels it."""
    result_characters: int = limits.MCP_RESULT_CHARACTERS_MAX
    step_logs: bool = True
    """Whether clients that wait for a run receive the log messages of its steps."""
    protocol_version: str | None = None
    """The only revision that is served; None serves all of them."""
    sse_first: bool = False
    """Whether clients of revision 2024-11-05 may open their stream at `path` without an Accept header for it."""
    heartbeat_seconds: float = limits.STREAM_HEARTBEAT_SECONDS
    """The interval of heartbeats on an event stream."""
    retry_ms: int = limits.STREAM_RETRY_MS
    """How long clients wait before they reopen a closed stream."""
    close_after_seconds: float | None = None
    """How long the event stream of a call stays open before the client has to reconnect for the rest."""
    models: frozenset[str] = frozenset()
    """The names of the server's own models, used instead of a client's model when the client cannot be asked."""
    protocol_faults: frozenset[str] = frozenset()
    """Error codes of runs that become protocol errors, for profiles that require it.

    Empty by default: workflows choose their codes, and a failure they choose is a result.
    """
    answer_path: str = "/answer"
    """The path of the pages on which people answer questions."""
    console_path: str | None = None
    """The path of the console's pages; None if it is not served."""
    public_url: str | None = None
    """The address at which people reach the server with a browser; None uses the address of the request."""
    allowed_hosts: tuple[str, ...] | None = None
    """Host names that the server answers to, without ports; None allows all."""
    allowed_origins: tuple[str, ...] = ()
    """Origins whose pages may call, in addition to the server's own."""

    def answer_page(self, address: str | None) -> str | None:
        """Return the address of the answer pages; None if no browser can reach the server."""
        return None if address is None else f"{address.rstrip('/')}{self.answer_path}"
