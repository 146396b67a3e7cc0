"""Operations on tool, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.execution import ExecutionResult
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
        kind: Literal["http", "mcp", "query", "step"],
        id: str,
        name: str | None = None,
        server: str | None = None,
        graph: str | None = None,
        branch: str | None = None,
        http: Mapping[str, Any] | None = None,
        secrets: str | Sequence[str] | None = None,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        result: Any = None,
        timeout: str | None = None,
        annotations: Mapping[str, Any] | None = None,
        governance: Mapping[str, Any] | None = None,
        expose: bool | None = None,
        title: str | None = None,
        description: str | None = None,
        idempotency_key: str | None = None,
    ) -> ToolView:
        """Register a tool.

        Names a request, a tool of an MCP server, a Python step or a stored query, and what a call of it needs. Call
        it with tool.execute; workflows and agents call it as tool:ID. Refused if the id is taken.
        """
        return await self._caller.invoke(
            "tool.create",
            {
                "kind": kind,
                "name": name,
                "server": server,
                "graph": graph,
                "branch": branch,
                "http": http,
                "secrets": secrets,
                "input_schema": input_schema,
                "output_schema": output_schema,
                "result": result,
                "timeout": timeout,
                "annotations": annotations,
                "governance": governance,
                "expose": expose,
                "title": title,
                "description": description,
                "id": id,
            },
            ToolView,
            idempotency_key=idempotency_key,
        )

    async def get(self, tool_id: str) -> ToolView:
        """Get a tool.

        Returns what performs it, the schemas of its arguments and result, and what a call needs.
        """
        return await self._caller.invoke("tool.get", {"tool_id": tool_id}, ToolView)

    async def list(self, *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None) -> ToolPage:
        """List tools.

        Returns registered tools by id. Use it to find a tool for tool.execute.
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
        kind: Literal["http", "mcp", "query", "step"],
        name: str | None = None,
        server: str | None = None,
        graph: str | None = None,
        branch: str | None = None,
        http: Mapping[str, Any] | None = None,
        secrets: str | Sequence[str] | None = None,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        result: Any = None,
        timeout: str | None = None,
        annotations: Mapping[str, Any] | None = None,
        governance: Mapping[str, Any] | None = None,
        expose: bool | None = None,
        title: str | None = None,
        description: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> ToolView:
        """Change a tool.

        Replaces the whole entry. Send the ETag that you read as If-Match; the call is then refused if the entry has
        changed since.
        """
        return await self._caller.invoke(
            "tool.update",
            {
                "tool_id": tool_id,
                "kind": kind,
                "name": name,
                "server": server,
                "graph": graph,
                "branch": branch,
                "http": http,
                "secrets": secrets,
                "input_schema": input_schema,
                "output_schema": output_schema,
                "result": result,
                "timeout": timeout,
                "annotations": annotations,
                "governance": governance,
                "expose": expose,
                "title": title,
                "description": description,
                "if_match": if_match,
            },
            ToolView,
            idempotency_key=idempotency_key,
        )

    async def delete(self, tool_id: str, *, if_match: str | None = None, idempotency_key: str | None = None) -> Deleted:
        """Delete a tool.

        Workflows and agents that name it can no longer use it. The server, step or query behind it stays.
        """
        return await self._caller.invoke(
            "tool.delete", {"tool_id": tool_id, "if_match": if_match}, Deleted, idempotency_key=idempotency_key
        )

    async def execute(
        self, tool_id: str, *, arguments: Mapping[str, Any] | None = None, idempotency_key: str | None = None
    ) -> ExecutionResult:
        """Call a registered tool.

        Starts a durable run of one call and waits for it for a limited time. If it takes longer or asks something,
        the answer has the status of the run; continue with execution.wait, execution.answer or execution.cancel.
        """
        return await self._caller.invoke(
            "tool.execute",
            {"tool_id": tool_id, "arguments": arguments},
            ExecutionResult,
            idempotency_key=idempotency_key,
        )
