"""Checks messages of MCP servers before the library sees them: oversized results and invalid tools are replaced here.

The library validates an answer as a whole and in one go: thousands of blocks block the event loop, and one tool with a
wrong description makes the others unusable. Such a tool is replaced by one of the same name that says what is wrong.

Above it: `session`. Below it: the types of the SDK.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse, Tool
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from penstock.base import limits
from penstock.runtime.executors.mcp.sdk_internals import sender_context
from penstock.runtime.executors.mcp.stdio import too_large_response

__all__ = ["PROBLEM", "CheckedReader"]

_LOGGER = logging.getLogger("penstock.mcp")
PROBLEM = "penstock/problem"
"""In the metadata of a listed tool: why it cannot be used as its server describes it."""
_OLDEST = "2025-11-25"
_NAME_CHARACTERS_MAX = 200


class CheckedReader:
    """A read stream whose messages are safe to pass to the library. It reports its end."""

    def __init__(self, inner: Any, on_end: Callable[[], None], version: Callable[[], str | None]) -> None:
        self._inner = inner
        self._on_end = on_end
        self._version = version

    @property
    def last_context(self) -> Context | None:
        """The context in which the last message was sent. Over HTTP, that is the context of its call."""
        return sender_context(self._inner)

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        try:
            received: SessionMessage | Exception = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._on_end()
            raise
        return self._checked(received)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    def __aiter__(self) -> CheckedReader:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> CheckedReader:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _checked(self, received: SessionMessage | Exception) -> SessionMessage | Exception:
        message = received.message if isinstance(received, SessionMessage) else None
        if not isinstance(message, JSONRPCResponse):
            return received
        result = message.result
        if _is_many(result.get("content"), limits.MCP_CONTENT_BLOCKS_MAX) or _is_many(
            result.get("inputRequests"), limits.MCP_QUESTIONS_PER_CALL_MAX
        ):
            return too_large_response(message.id)
        tools = result.get("tools")
        if isinstance(tools, list):
            taken = tools[: limits.UPSTREAM_TOOLS_MAX]
            result["tools"] = [tool for item in taken for tool in self._usable(item, result)]
        return received

    def _usable(self, item: Any, page: dict[str, Any]) -> list[dict[str, Any]]:
        """A listed tool, or its replacement; nothing for a tool without a name."""
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= _NAME_CHARACTERS_MAX:
            _LOGGER.warning("a server lists a tool without a usable name; it is left out")
            return []
        try:
            validate_server_result("tools/list", self._version() or _OLDEST, {**page, "tools": [item]})
            Tool.model_validate(item, by_name=False)
        except (ValidationError, ValueError, KeyError) as error:
            return [{"name": name, "inputSchema": {"type": "object"}, "_meta": {PROBLEM: _problem_text(error)}}]
        return [item]


def _is_many(value: Any, most: int) -> bool:
    return isinstance(value, list | dict) and len(value) > most


def _problem_text(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return "it is not described as the protocol asks for"
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("tools", 0))
    return f"{where[:100]}: {first['msg'][:100]}"
