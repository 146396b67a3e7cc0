"""The MCP server: the SDK's low-level server with the methods of every package, and middleware around them.

Each `…Methods` class lists its methods; `methods.METHODS` has all names. The transports are in `eras`; `entry_points`
starts them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError

from penstock.asgi import AUDITED
from penstock.base.encoding import encode_bytes
from penstock.base.errors import LimitExceeded
from penstock.mcp_surface.apps.views import APPS_EXTENSION
from penstock.mcp_surface.audit import record_refusal
from penstock.mcp_surface.callers import TASKS_EXTENSION, Caller
from penstock.mcp_surface.calls.calls import ToolCalls
from penstock.mcp_surface.calls.methods import ToolMethods
from penstock.mcp_surface.eras.log_messages import refuse_unknown_level, set_level
from penstock.mcp_surface.handlers import CallerOf, Context, Handler, Requests, is_on_record, known_error, reason_for
from penstock.mcp_surface.metrics import McpMetrics
from penstock.mcp_surface.options import INSTRUCTIONS, McpOptions
from penstock.mcp_surface.rates import COUNTED, RequestRates, note_rate_limit
from penstock.mcp_surface.resources.contents import Contents
from penstock.mcp_surface.resources.methods import ContentMethods
from penstock.mcp_surface.subscriptions.changes import ChangeWatcher
from penstock.mcp_surface.subscriptions.methods import SubscriptionMethods
from penstock.mcp_surface.tasks.methods import TaskMethods
from penstock.mcp_surface.tasks.tasks import Tasks
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.mcp_surface.tools.tool_list import Tool
from penstock.operations.gate.pipeline import Gate

__all__ = ["McpServer", "build_mcp_server"]


class McpServer(Server[Any]):
    """A server that announces list changes in sessions too: the SDK needs it for each session."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the options with which a session is initialized."""
        chosen = notification_options or NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(chosen, experimental_capabilities, extensions)


async def _refuse_unwritable(ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
    """Middleware that refuses parameters that cannot be encoded again: the SDK accepts half of a surrogate pair."""
    if ctx.request_id is not None:
        try:
            encode_bytes(ctx.params)
        except UnicodeEncodeError:
            message = "Invalid params: a text in them is not Unicode (it has half of a surrogate pair)"
            raise MCPError(code=types.INVALID_PARAMS, message=message) from None
        except RecursionError:
            raise MCPError(code=types.INVALID_PARAMS, message="Invalid params: they are nested too deeply") from None
    return await call_next(ctx)


class _Assembly:
    """Builds the parts of one server and connects them."""

    def __init__(self, gate: Gate, options: McpOptions, caller_of: CallerOf, registry: ToolRegistry) -> None:
        self._gate = gate
        self._registry = registry
        self._caller_of = caller_of
        requests = Requests(gate, options, caller_of)
        calls, tasks = ToolCalls(gate, registry, options), Tasks(gate, registry, options)
        contents = Contents(gate, registry, calls)
        self._changes = ChangeWatcher(gate, registry, contents)
        self.subscriptions = SubscriptionMethods(gate, self._changes, tasks, caller_of)
        self.handlers: list[Handler] = [
            *ToolMethods(requests, registry, calls, tasks).handlers(),
            *ContentMethods(requests, contents).handlers(),
            *TaskMethods(requests, tasks).handlers(),
            *self.subscriptions.handlers(),
        ]
        if options.step_logs:
            self.handlers.append(Handler("logging/setLevel", types.SetLevelRequestParams, set_level))
        self._rates = RequestRates(gate)
        self.metrics = McpMetrics(gate.services.telemetry, self._tool_of, self._refused)

    async def count(self, ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
        """Middleware that counts requests and notifications against the rate limits of their caller.

        A notification cannot be refused; it only leaves less for the requests after it.
        """
        if COUNTED.get():
            return await call_next(ctx)
        try:
            self._rates.charge(self._caller_of(ctx), ctx.method)
        except LimitExceeded as error:
            if ctx.request_id is not None:
                if ctx.request is not None:
                    note_rate_limit(ctx.request.scope["state"], error)
                raise known_error(error) from None
        return await call_next(ctx)

    def find_tool(self, caller: Caller, name: str) -> Tool | None:
        """Find a tool in the list that the caller last received."""
        tool_list = caller.tool_list or self._registry.last_of(caller.principal, caller.toolset, caller.remote)
        return tool_list.find(name) if tool_list is not None else None

    def _tool_of(self, context: Context, name: object) -> Tool | None:
        return self.find_tool(self._caller_of(context), name) if isinstance(name, str) else None

    def _refused(self, context: Context, method: str, error: Exception) -> None:
        """Record a request that ends with an error, and mark it as recorded in the request state."""
        if not is_on_record(error):
            record_refusal(self._gate, self._caller_of(context), method, reason_for(error))
        if context.request is not None:
            context.request.scope["state"][AUDITED] = True

    @asynccontextmanager
    async def lifespan(self, server: Server[Any]) -> AsyncIterator[None]:
        """The lifespan of the server: stop the change watcher at the end."""
        try:
            yield
        finally:
            await self._changes.stop()


def build_mcp_server(
    gate: Gate,
    options: McpOptions,
    caller_of: CallerOf,
    current_caller: Callable[[], Caller | None] = lambda: None,
    *,
    registry: ToolRegistry | None = None,
) -> Server[Any]:
    """Build the server.

    `current_caller` serves the SDK's lookup of a tool's schema, which happens without a request.
    """
    parts = _Assembly(gate, options, caller_of, ToolRegistry(gate, options) if registry is None else registry)

    def input_schema(name: str) -> Mapping[str, Any] | None:
        caller = current_caller()
        tool = parts.find_tool(caller, name) if caller is not None else None
        return tool.capability.input_schema if tool is not None else None

    server = McpServer(
        "penstock",
        version=options.version,
        title="Penstock",
        instructions=INSTRUCTIONS,
        lifespan=parts.lifespan,
        get_tool_input_schema=input_schema,
    )
    server.middleware.insert(0, parts.metrics.middleware)
    server.middleware.insert(1, parts.count)
    server.middleware.insert(2, _refuse_unwritable)
    server.middleware.insert(3, refuse_unknown_level)
    server.middleware.append(parts.subscriptions.before_session)
    for handler in parts.handlers:
        # Not through the constructor: it warns about `logging/setLevel`, which clients of the handshake era need.
        server.add_request_handler(handler.method, handler.params, handler)
    initialized = parts.subscriptions.initialized
    server.add_notification_handler("notifications/initialized", types.NotificationParams, initialized)
    server.extensions[TASKS_EXTENSION] = {}
    server.extensions[APPS_EXTENSION] = {}
    return server
