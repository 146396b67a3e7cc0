"""`tool_call`: calls a tool of an MCP server that the operator configured.

    McpToolExecutor({"shop": McpServerConfig(command="uvx", args=("shop-mcp",))})

The result is the tool's structured content, else `{"text": …}`, else `{"content": [...]}`; it is marked as untrusted in
history. A tool that reports an error, a server that breaks the protocol and a connection that breaks have codes of
their own. Cancelling an activity, or running out of time, is told to the server.

Above it: `app` loads this module only when servers are configured (extra `mcp`). Below it: `mcp_connections`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    REQUEST_TIMEOUT,
    CallToolResult,
    RequestParamsMeta,
    TextContent,
)
from pydantic import ValidationError

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, exceeds_depth
from penstock.runtime.executors.failures import shortened
from penstock.runtime.executors.mcp_config import DEFAULT_ALLOWED_COMMANDS, McpServerConfig, command_name
from penstock.runtime.executors.mcp_connections import UNSENT, McpConnection, McpConnections
from penstock.runtime.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome

__all__ = ["McpToolExecutor", "ProgressListener", "ToolProgress"]

_IDEMPOTENCY_KEY: Final = "penstock/idempotencyKey"
# What is said when a server does not know a session (any more): it has not looked at the request.
_SESSION_GONE: Final = ("session terminated", "session not found")
# How the library's own words for a broken connection begin; servers may use the same number for errors of theirs.
_CLOSED: Final = ("Connection closed", "SSE stream")
# What it says when a session was closed between being borrowed and being used.
_UNUSABLE: Final = "Client must be used"
_SERVER_ERRORS: Final = range(-32019, -31999)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress:
    """How far a tool says it is; `total` is unknown for many tools."""

    progress: float
    total: float | None = None
    message: str | None = None


ProgressListener: TypeAlias = Callable[[ActivityCall, ToolProgress], None]


@dataclass(frozen=True, slots=True)
class _Wanted:
    server: str
    tool: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class _SendAgain:
    """The server has not seen the request: a new session may send it."""

    error: ActivityError


class McpToolExecutor:
    """Performs `tool_call` nodes."""

    def __init__(
        self,
        servers: Mapping[str, McpServerConfig],
        *,
        allow_commands: tuple[str, ...] = DEFAULT_ALLOWED_COMMANDS,
        on_progress: ProgressListener | None = None,
        idle_seconds: float = limits.MCP_IDLE_SECONDS_MAX,
    ) -> None:
        self.servers = servers
        self._allowed = frozenset(allow_commands)
        self._on_progress = on_progress
        self._connections = McpConnections(servers, idle_seconds=idle_seconds)

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Call the tool once; a request that provably did not leave is sent again over a new session."""
        wanted = _wanted(call)
        if isinstance(wanted, ActivityError):
            return wanted
        refused = self._refusal(wanted)
        if refused is not None:
            return refused
        configured = self.servers[wanted.server].timeout_ms
        timeout_ms = call.activity.timeout_ms or configured or limits.MCP_TIMEOUT_MS_DEFAULT
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                outcome = await self._attempt(call, wanted, timeout_ms)
                if isinstance(outcome, _SendAgain):
                    outcome = await self._attempt(call, wanted, timeout_ms)
        except TimeoutError:
            return _timed_out(call, wanted, timeout_ms)
        return outcome.error if isinstance(outcome, _SendAgain) else outcome

    async def close(self) -> None:
        """Close all sessions and stop the servers that were started."""
        await self._connections.close()

    def _refusal(self, wanted: _Wanted) -> ActivityError | None:
        config = self.servers.get(wanted.server)
        if config is None:
            known = ", ".join(sorted(self.servers)) or "none"
            told = f"the MCP server {wanted.server} is not configured (configured: {known})"
            return ActivityError(told, "MCP_SERVER_NOT_CONFIGURED", retryable=False)
        if config.command is not None and command_name(config.command) not in self._allowed:
            allowed = ", ".join(sorted(self._allowed)) or "none"
            told = f"{wanted.server}: the command {command_name(config.command)} is not allowed (allowed: {allowed})"
            return ActivityError(told, "MCP_COMMAND_NOT_ALLOWED", retryable=False)
        return None

    async def _attempt(self, call: ActivityCall, wanted: _Wanted, timeout_ms: int) -> ActivityOutcome | _SendAgain:
        connection: McpConnection | None = None  # None: the server has not even said hello
        try:
            async with self._connections.borrow(wanted.server) as (connection, client):
                result = await self._call_tool(client, call, wanted, timeout_ms)
        except MCPError as error:
            return _mcp_failure(call, wanted, error, connection)
        except (ValidationError, RuntimeError) as error:
            if str(error).startswith(_UNUSABLE):
                return _SendAgain(_failure(wanted, error, "MCP_CONNECTION_CLOSED", retryable=True))
            # What the server sent is not what the protocol, or the tool's own schema, allows.
            return _failure(wanted, error, "MCP_PROTOCOL_ERROR", retryable=False)
        except (FileNotFoundError, PermissionError, NotADirectoryError, ValueError) as error:
            return _failure(wanted, error, "MCP_CLIENT_ERROR", retryable=False)
        except (OSError, ExceptionGroup) as error:
            return _failure(wanted, error, "MCP_CLIENT_ERROR", retryable=True)
        return _outcome(wanted, result)

    async def _call_tool(self, client: Client, call: ActivityCall, wanted: _Wanted, timeout_ms: int) -> CallToolResult:
        listener = self._on_progress

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            if listener is not None:
                listener(call, ToolProgress(progress=progress, total=total, message=message))

        meta = cast("RequestParamsMeta", {_IDEMPOTENCY_KEY: call.activity.idempotency_key})
        return await client.call_tool(
            wanted.tool,
            wanted.arguments,
            read_timeout_seconds=timeout_ms / 1000,
            progress_callback=heard if listener is not None else None,
            meta=meta,
        )


def _wanted(call: ActivityCall) -> _Wanted | ActivityError:
    config = call.activity.config
    server, tool = config.get("server"), config.get("tool")
    arguments = call.activity.arguments
    if arguments is None:
        arguments = config.get("arguments") or {}  # published documents: as written
    if not isinstance(server, str) or not isinstance(tool, str) or not isinstance(arguments, dict):
        told = f"{call.activity.node_id}: `server` and `tool` must be texts and `arguments` an object"
        return ActivityError(told, "INVALID_TOOL_CALL_CONFIG", retryable=False)
    return _Wanted(server, tool, arguments)


def _outcome(wanted: _Wanted, result: CallToolResult) -> ActivityOutcome:
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    if result.is_error:
        told = "\n".join(texts) or f"{wanted.server}/{wanted.tool} reported an error without a text"
        return ActivityError(shortened(told), "MCP_TOOL_EXECUTION_ERROR")
    value = _result(result, texts)
    if exceeds_depth(value, limits.JSON_DEPTH_MAX):
        told = f"{wanted.server}/{wanted.tool}: the result nests deeper than {limits.JSON_DEPTH_MAX} levels"
        return ActivityError(told, "MCP_PROTOCOL_ERROR", retryable=False)
    return ActivityDone(value, {"untrusted": True, "server": wanted.server, "tool": wanted.tool})


def _result(result: CallToolResult, texts: list[str]) -> JsonValue:
    if result.structured_content is not None:
        structured: JsonValue = result.structured_content
        return structured
    value: JsonObject = {}
    if texts:
        value["text"] = "\n".join(texts)
    if len(texts) < len(result.content) or not texts:
        # Images, links and the like: kept as they came, beside the text if there is one.
        value["content"] = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    return value


def _mcp_failure(
    call: ActivityCall, wanted: _Wanted, error: MCPError, connection: McpConnection | None
) -> ActivityError | _SendAgain:
    data = error.data if isinstance(error.data, dict) else {}
    if connection is not None and any(told in error.message.lower() for told in _SESSION_GONE):
        connection.lose()
        return _SendAgain(_failure(wanted, error, "MCP_CONNECTION_CLOSED", retryable=True))
    if error.code == CONNECTION_CLOSED and (
        connection is None or connection.lost or UNSENT in data or error.message.startswith(_CLOSED)
    ):
        sent = connection is not None and data.get(UNSENT) is not True
        # A call that may have taken effect is not repeated behind the back of a node that forbids it.
        retryable = not (sent and call.activity.at_most_once)
        return _failure(wanted, error, "MCP_CONNECTION_CLOSED", retryable=retryable)
    if error.code == REQUEST_TIMEOUT:
        return _failure(wanted, error, "ACTIVITY_TIMEOUT", retryable=not call.activity.at_most_once)
    retryable = error.code == INTERNAL_ERROR or error.code in _SERVER_ERRORS
    return _failure(wanted, error, "MCP_PROTOCOL_ERROR", retryable=retryable)


def _timed_out(call: ActivityCall, wanted: _Wanted, timeout_ms: int) -> ActivityError:
    told = f"{wanted.server}/{wanted.tool} did not answer within {timeout_ms} ms"
    return ActivityError(told, "ACTIVITY_TIMEOUT", retryable=not call.activity.at_most_once)


def _failure(wanted: _Wanted, error: Exception, code: str, *, retryable: bool) -> ActivityError:
    told = shortened(f"{wanted.server}/{wanted.tool}: {str(error) or type(error).__name__}")
    return ActivityError(told, code, retryable=retryable)
