"""Operations on tool, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from penstock.client.caller import Caller
from penstock.client.generated.views.shared import Deleted
from penstock.client.generated.views.tool import ToolPage, ToolView

__all__ = ["Tools"]


class Tools:
    """Operations on tool."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create(
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
        return self._caller.invoke(
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

    def get(self, tool_id: str) -> ToolView:
        """Get a tool.

        What performs it, and the schema of its arguments.
        """
        return self._caller.invoke("tool.get", {"tool_id": tool_id}, ToolView)

    def list(self, *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None) -> ToolPage:
        """List tools.

        Tools by id; use it to find out which there are.
        """
        return self._caller.invoke("tool.list", {"prefix": prefix, "limit": limit, "cursor": cursor}, ToolPage)

    def list_all(self, *, prefix: str | None = None, limit: int | None = None) -> Iterator[ToolView]:
        """List tools: all of them; `limit` is the size of a page."""
        for page in self._caller.pages("tool.list", {"prefix": prefix, "limit": limit}, ToolPage):
            yield from page.items

    def update(
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
        return self._caller.invoke(
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

    def delete(self, tool_id: str, *, if_match: str | None = None, idempotency_key: str | None = None) -> Deleted:
        """Delete a tool.

        Agents that name it cannot use it any more; the server or module keeps it.
        """
        return self._caller.invoke(
            "tool.delete", {"tool_id": tool_id, "if_match": if_match}, Deleted, idempotency_key=idempotency_key
        )
