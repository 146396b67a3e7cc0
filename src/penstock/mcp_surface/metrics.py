"""Metrics of MCP: requests by method, their duration, and tool calls, whichever way they were answered.

A tool call is `ok`, an `error` that the model sees, `refused` by the protocol, a `task`, or a question
(`input_required`). Methods and tools that do not exist are counted as `unknown`.

`server` installs `McpMetrics.middleware` around every request that the SDK dispatches; the fast path and the OpenWOP
mount report their own answers. This module does not import the SDK.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from penstock.asgi import MCP_METHOD, MCP_TOOL, READS, State
from penstock.mcp_surface.methods import CALL, LISTEN, known_method, reads_only
from penstock.mcp_surface.tools.tool_list import Tool
from penstock.operations.telemetry.metrics import Telemetry

__all__ = ["McpMetrics", "name_request"]

_TOOL_CHARACTERS_LOGGED = 200

_UNKNOWN = "unknown"


def _no_tool(ctx: Any, name: object) -> Tool | None:
    return None


def _ignored(ctx: Any, method: str, error: Exception) -> None:
    """Ignore refusals: the default for callers that record them themselves."""


class McpMetrics:
    """Counts the requests of one server.

    `tool_of` finds the tool that a request is about; `refused` is called for each request that ends with an error.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        tool_of: Callable[[Any, object], Tool | None] = _no_tool,
        refused: Callable[[Any, str, Exception], None] = _ignored,
    ) -> None:
        self._telemetry = telemetry
        self._tool_of = tool_of
        self._refused = refused

    def answered(self, method: str, status: str, seconds: float) -> None:
        """Count an answered request."""
        named = known_method(method)
        self._telemetry.mcp_requests.add((named, status))
        if method != LISTEN:
            self._telemetry.mcp_seconds.add(seconds, (named,))

    def called(self, tool: Tool | None, status: str) -> None:
        """Count a tool call."""
        self._telemetry.mcp_tool_calls.add((tool.name if tool is not None else _UNKNOWN, status))

    async def middleware(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Middleware of the SDK's server: dispatch a request and count its outcome; notifications are not counted."""
        if ctx.request_id is None:
            return await call_next(ctx)
        method: str = ctx.method
        listens = method == LISTEN
        began, status, called = time.perf_counter(), "error", "refused"
        self._telemetry.mcp_listening += listens
        try:
            result = await call_next(ctx)
            status, called = "ok", _call_status(result)
        except asyncio.CancelledError:
            status = called = "left"
            raise
        except Exception as error:
            self._refused(ctx, known_method(method), error)
            raise
        else:
            return result
        finally:
            self._telemetry.mcp_listening -= listens
            self.answered(method, status, time.perf_counter() - began)
            named = (ctx.params or {}).get("name") if method == CALL else None
            tool = self._tool_of(ctx, named) if method == CALL else None
            if method == CALL:
                self.called(tool, called)
            if ctx.request is not None:
                state = ctx.request.scope.setdefault("state", {})
                name_request(state, method, tool.name if tool is not None else named)
                if reads_only(method, tool):
                    state[READS] = True


def name_request(state: State, method: str, tool: object) -> None:
    """Name the method of a request, and the tool that it calls, in its line of the access log."""
    state[MCP_METHOD] = known_method(method)
    if isinstance(tool, str):
        state[MCP_TOOL] = tool[:_TOOL_CHARACTERS_LOGGED]


def _call_status(result: object) -> str:
    """Return the status of a call from its result in wire form."""
    if not isinstance(result, Mapping):
        return "ok"
    kind = result.get("resultType", "complete")
    if kind != "complete":
        return str(kind)
    return "error" if result.get("isError") else "ok"
