"""What is counted of MCP: requests by method, how long they took, and calls of tools, whichever way they were answered.

No label has words that a client chose: methods and tools that there are not count as `unknown`. A call of a tool is
`ok`, an `error` that the model hears of, `refused` by the protocol, a `task`, or a question (`input_required`).

Above it: `server` puts it around every request that the SDK dispatches, `fast_path.path` tells what it answers. Below
it: `operations.telemetry`. Nothing here knows the SDK.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from penstock.mcp_surface.tools.tool_list import Tool
from penstock.operations.telemetry.metrics import Telemetry

__all__ = ["CALL", "McpMetrics", "method_name", "reads_only"]

CALL = "tools/call"
_LISTEN = "subscriptions/listen"
_READS = frozenset(
    {
        "completion/complete",
        "ping",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "server/discover",
        "tasks/get",
        "tools/list",
    }
)
_METHODS = _READS | {
    CALL,
    _LISTEN,
    "elicitation/create",
    "initialize",
    "logging/setLevel",
    "prompts/get",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "sampling/createMessage",
    "tasks/cancel",
    "tasks/update",
}
_UNKNOWN = "unknown"


def reads_only(method: str, tool: Tool | None) -> bool:
    """Whether a request changes nothing, as far as the catalogue says."""
    if method != CALL:
        return method in _READS
    return tool is not None and tool.capability.only_reads


def method_name(method: str) -> str:
    """A method as it is counted: one that there is not has no name of its own."""
    return method if method in _METHODS else _UNKNOWN


def _no_tool(ctx: Any, name: object) -> Tool | None:
    return None


def _ignored(ctx: Any, method: str, error: Exception) -> None:
    """For those who tell themselves what they refuse."""


class McpMetrics:
    """Counts for one server.

    `tool_of` finds the tool that a request of the SDK's is about; `refused` hears of those that end with an error.
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
        """A request was answered."""
        named = method_name(method)
        self._telemetry.mcp_requests.add((named, status))
        if method != _LISTEN:
            self._telemetry.mcp_seconds.add(seconds, (named,))

    def called(self, tool: Tool | None, status: str) -> None:
        """A tool was called."""
        self._telemetry.mcp_tool_calls.add((tool.name if tool is not None else _UNKNOWN, status))

    async def around(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Dispatch a request of the SDK's and count what comes of it. Notifications are none."""
        if ctx.request_id is None:
            return await call_next(ctx)
        method: str = ctx.method
        listens = method == _LISTEN
        began, status, called = time.perf_counter(), "error", "refused"
        self._telemetry.mcp_listening += listens
        try:
            result = await call_next(ctx)
            status, called = "ok", _call_status(result)
        except asyncio.CancelledError:
            status = called = "left"
            raise
        except Exception as error:
            self._refused(ctx, method_name(method), error)
            raise
        else:
            return result
        finally:
            self._telemetry.mcp_listening -= listens
            self.answered(method, status, time.perf_counter() - began)
            tool = self._tool_of(ctx, (ctx.params or {}).get("name")) if method == CALL else None
            if method == CALL:
                self.called(tool, called)
            if ctx.request is not None and reads_only(method, tool):
                ctx.request.scope.setdefault("state", {})["reads"] = True


def _call_status(result: object) -> str:
    """What became of a call, by its result in the words of the wire."""
    if not isinstance(result, Mapping):
        return "ok"
    kind = result.get("resultType", "complete")
    if kind != "complete":
        return str(kind)
    return "error" if result.get("isError") else "ok"
