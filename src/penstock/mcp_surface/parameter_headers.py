"""A backend in front of the SDK's that looks up the tools of a caller before the SDK checks the headers of a call.

Parameters of a tool may stand in headers too (`x-mcp-header`), and both must say the same. The SDK compares them before
the call is dispatched. It asks for the tool's schema without being able to wait, and checks nothing if it gets none. A
list that is merely remembered is not there for the first call of a caller, nor while policies or workflows change.

Above it: `entry_points` puts it together, behind the fast path. Below it: the registry of tools, the SDK's backend.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec import structs
from starlette.types import Receive, Scope, Send

from penstock.base.errors import PenstockError
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.endpoint import CALLER_STATE, HEADERS_STATE, McpBackend
from penstock.mcp_surface.methods import CALL
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.operations.gate.context import Principal

__all__ = ["ParameterHeaders"]

_METHOD = b"mcp-method"
_CALL = CALL.encode()


class ParameterHeaders:
    """A backend that gives every call of a tool to another backend, with the tools of its caller."""

    def __init__(self, backend: McpBackend, registry: ToolRegistry) -> None:
        self._backend = backend
        self._registry = registry

    async def stop(self) -> None:
        """End every session and every stream."""
        await self._backend.stop()

    async def handle(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request whose caller is authenticated."""
        state = scope["state"]
        caller: Caller = state[CALLER_STATE]
        # Requests of the newest era name their method in a header; in earlier ones no parameter stands in a header.
        if caller.tool_list is None and state[HEADERS_STATE].get(_METHOD, b"").strip() == _CALL:
            # If there is no list, the call looks for it again, and is refused with the reason.
            with suppress(PenstockError):
                tool_list = await self._registry.of(principal, caller.toolset, caller.remote)
                state[CALLER_STATE] = structs.replace(caller, tool_list=tool_list)
        await self._backend.handle(principal, scope, receive, send)
