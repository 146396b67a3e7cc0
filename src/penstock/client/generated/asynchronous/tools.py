"""Operations on tool, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.shared import Deleted
from penstock.client.generated.views.tool import ToolPage, ToolView

__all__ = ["AsyncTools"]


class AsyncTools:
    """Operations on tool."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def create(
        self,
        *,
        kind: Literal["mcp", "step"],
        name: str,
        id: str,
        server: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
        description: str | None = None,
        idempotency_key: str | None = None,
    ) -> ToolView:
        """Register a tool.

        Names a tool of a configured MCP server, or a Python step. Refused if the id is taken.
        """
        return await self._caller.invoke(
            "tool.create",
            {
                "kind": kind,
                "name": name,
                "server": server,
                "input_schema": input_schema,
                "description": description,
                "id": id,
            },
            ToolView,
            idempotency_key=idempotency_key,
        )

    async def get(self, tool_id: str) -> ToolView:
        """Get a tool.

        What performs it, and the schema of its arguments.
        """
        return await self._caller.invoke("tool.get", {"tool_id": tool_id}, ToolView)

    async def list(self, *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None) -> ToolPage:
        """List tools.

        Tools by id; use it to find out which there are.
        """
        return await self._caller.invoke("tool.list", {"prefix": prefix, "limit": limit, "cursor": cursor}, ToolPage)

    async def list_all(self, *, prefix: str | None = None, limit: int | None = None) -> AsyncIterator[ToolView]:
        """List tools: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages("tool.list", {"prefix": prefix, "limit": limit}, ToolPage):
            for item in page.items:
                yield item

    async def update(
        self,
        tool_id: str,
        *,
        kind: Literal["mcp", "step"],
        name: str,
        server: str | None = None,
        input_schema: Mapping[str, Any] | None = None,
        description: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> ToolView:
        """Change a tool.

        Replaces the whole entry. Send the ETag that you read as If-Match to be refused when somebody else changed
        it.
        """
        return await self._caller.invoke(
            "tool.update",
            {
                "tool_id": tool_id,
                "kind": kind,
                "name": name,
                "server": server,
                "input_schema": input_schema,
                "description": description,
                "if_match": if_match,
            },
            ToolView,
            idempotency_key=idempotency_key,
        )

    async def delete(self, tool_id: str, *, if_match: str | None = None, idempotency_key: str | None = None) -> Deleted:
        """Delete a tool.

        Agents that name it cannot use it any more; the server or module keeps it.
        """
        return await self._caller.invoke(
            "tool.delete", {"tool_id": tool_id, "if_match": if_match}, Deleted, idempotency_key=idempotency_key
        )
