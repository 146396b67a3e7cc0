"""A backend in front of the SDK's that looks up the tools of a caller before anything is decided about a request.

Two checks come before a call is dispatched, and cannot wait for a list to be read. The SDK compares the headers that
repeat parameters of a tool (`x-mcp-header`) with the arguments, and checks nothing if it is given no schema. And a
request beyond a limit of its caller is refused with a status, if it is known which limits its tool counts for. A list
that is merely remembered is not there for the first call of a caller, nor while policies or workflows change.

Above it: `entry_points` puts it together, behind the fast path. Below it: the registry of tools, the SDK's backend.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec import structs
from starlette.types import Receive, Scope, Send

from penstock.base.errors import PenstockError
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.endpoint import CALLER_STATE, McpBackend
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.operations.gate.context import Principal

__all__ = ["CallerTools"]


class CallerTools:
    """A backend that gives every message to another backend, with the tools of its caller."""

    def __init__(self, backend: McpBackend, registry: ToolRegistry) -> None:
        self._backend = backend
        self._registry = registry

    async def stop(self) -> None:
        """End every session and every stream."""
        await self._backend.stop()

    async def handle(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request whose caller is authenticated."""
        caller: Caller = scope["state"][CALLER_STATE]
        if caller.tool_list is None and scope["method"] == "POST":
            # If there is no list, whoever needs it looks again, and the caller is told the reason.
            with suppress(PenstockError):
                tool_list = await self._registry.of(principal, caller.toolset, caller.remote)
                scope["state"][CALLER_STATE] = structs.replace(caller, tool_list=tool_list)
        await self._backend.handle(principal, scope, receive, send)
