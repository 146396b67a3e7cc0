"""Operations on agent, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.agent import AgentPage, AgentView
from penstock.client.generated.views.execution import ExecutionHandle
from penstock.client.generated.views.shared import Deleted

__all__ = ["AsyncAgents"]


class AsyncAgents:
    """Operations on agent."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def create(
        self,
        *,
        id: str,
        name: str | None = None,
        model: str | None = None,
        instructions: str | None = None,
        workflows: str | Sequence[str] | None = None,
        tools: str | Sequence[str] | None = None,
        description: str | None = None,
        idempotency_key: str | None = None,
    ) -> AgentView:
        """Register an agent.

        Keeps an agent: a model with instructions, and what it may use. Refused if the id is taken.
        """
        return await self._caller.invoke(
            "agent.create",
            {
                "name": name,
                "model": model,
                "instructions": instructions,
                "workflows": workflows,
                "tools": tools,
                "description": description,
                "id": id,
            },
            AgentView,
            idempotency_key=idempotency_key,
        )

    async def get(self, agent_id: str) -> AgentView:
        """Get an agent.

        Its model, instructions, workflows and tools.
        """
        return await self._caller.invoke("agent.get", {"agent_id": agent_id}, AgentView)

    async def list(
        self, *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> AgentPage:
        """List agents.

        Agents by id; use it to find out which there are.
        """
        return await self._caller.invoke("agent.list", {"prefix": prefix, "limit": limit, "cursor": cursor}, AgentPage)

    async def list_all(self, *, prefix: str | None = None, limit: int | None = None) -> AsyncIterator[AgentView]:
        """List agents: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages("agent.list", {"prefix": prefix, "limit": limit}, AgentPage):
            for item in page.items:
                yield item

    async def update(
        self,
        agent_id: str,
        *,
        name: str | None = None,
        model: str | None = None,
        instructions: str | None = None,
        workflows: str | Sequence[str] | None = None,
        tools: str | Sequence[str] | None = None,
        description: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> AgentView:
        """Change an agent.

        Replaces the whole entry. Send the ETag that you read as If-Match to be refused when somebody else changed
        it.
        """
        return await self._caller.invoke(
            "agent.update",
            {
                "agent_id": agent_id,
                "name": name,
                "model": model,
                "instructions": instructions,
                "workflows": workflows,
                "tools": tools,
                "description": description,
                "if_match": if_match,
            },
            AgentView,
            idempotency_key=idempotency_key,
        )

    async def delete(
        self, agent_id: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> Deleted:
        """Delete an agent.

        Only the entry goes; its model, tools and workflows stay.
        """
        return await self._caller.invoke(
            "agent.delete", {"agent_id": agent_id, "if_match": if_match}, Deleted, idempotency_key=idempotency_key
        )

    async def execute(
        self,
        agent_id: str,
        *,
        prompt: str,
        context: Mapping[str, Any] | None = None,
        sync: bool | None = None,
        idempotency_key: str | None = None,
    ) -> ExecutionHandle:
        """Give work to an agent.

        Agents cannot run on this server yet, and the call says so; give the work to a workflow with an
        `agent_delegate` node instead, and start it with workflow.execute.
        """
        return await self._caller.invoke(
            "agent.execute",
            {"agent_id": agent_id, "prompt": prompt, "context": context, "sync": sync},
            ExecutionHandle,
            idempotency_key=idempotency_key,
        )
