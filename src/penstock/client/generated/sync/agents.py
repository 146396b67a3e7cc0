"""Operations on agent, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.client.caller import Caller
from penstock.client.generated.views.agent import AgentCards, AgentPage, AgentView, MessageResult
from penstock.client.generated.views.execution import ExecutionHandle, ExecutionResult
from penstock.client.generated.views.shared import Deleted

__all__ = ["Agents"]


class Agents:
    """Operations on agent."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create(
        self,
        *,
        id: str,
        name: str | None = None,
        model: str | None = None,
        instructions: str | None = None,
        workflows: str | Sequence[str] | None = None,
        tools: Any | Sequence[Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
        conversation: Mapping[str, Any] | None = None,
        ask_user: bool | None = None,
        memory: Mapping[str, Any] | None = None,
        description: str | None = None,
        idempotency_key: str | None = None,
    ) -> AgentView:
        """Register an agent.

        Stores an agent: a model with instructions, and the tools and workflows that it may use. Give it work with
        agent.execute, or talk to it with agent.message. Refused if the id is taken.
        """
        return self._caller.invoke(
            "agent.create",
            {
                "name": name,
                "model": model,
                "instructions": instructions,
                "workflows": workflows,
                "tools": tools,
                "output_schema": output_schema,
                "limits": limits,
                "conversation": conversation,
                "ask_user": ask_user,
                "memory": memory,
                "description": description,
                "id": id,
            },
            AgentView,
            idempotency_key=idempotency_key,
        )

    def get(self, agent_id: str) -> AgentView:
        """Get an agent.

        Returns its model, instructions, workflows and tools.
        """
        return self._caller.invoke("agent.get", {"agent_id": agent_id}, AgentView)

    def list(self, *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None) -> AgentPage:
        """List agents.

        Returns agents by id. Use it to find an agent for agent.execute or agent.message. Agents of the settings
        come first, on the first page and beyond its limit. Documents with an `agent` block are in workflow.list.
        """
        return self._caller.invoke("agent.list", {"prefix": prefix, "limit": limit, "cursor": cursor}, AgentPage)

    def list_all(self, *, prefix: str | None = None, limit: int | None = None) -> Iterator[AgentView]:
        """List agents: all of them; `limit` is the size of a page."""
        for page in self._caller.pages("agent.list", {"prefix": prefix, "limit": limit}, AgentPage):
            yield from page.items

    def update(
        self,
        agent_id: str,
        *,
        name: str | None = None,
        model: str | None = None,
        instructions: str | None = None,
        workflows: str | Sequence[str] | None = None,
        tools: Any | Sequence[Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
        conversation: Mapping[str, Any] | None = None,
        ask_user: bool | None = None,
        memory: Mapping[str, Any] | None = None,
        description: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> AgentView:
        """Change an agent.

        Replaces the whole entry. Send the ETag that you read as If-Match; the call is then refused if the entry has
        changed since.
        """
        return self._caller.invoke(
            "agent.update",
            {
                "agent_id": agent_id,
                "name": name,
                "model": model,
                "instructions": instructions,
                "workflows": workflows,
                "tools": tools,
                "output_schema": output_schema,
                "limits": limits,
                "conversation": conversation,
                "ask_user": ask_user,
                "memory": memory,
                "description": description,
                "if_match": if_match,
            },
            AgentView,
            idempotency_key=idempotency_key,
        )

    def delete(self, agent_id: str, *, if_match: str | None = None, idempotency_key: str | None = None) -> Deleted:
        """Delete an agent.

        Deletes only the entry; the agent's model, tools and workflows stay.
        """
        return self._caller.invoke(
            "agent.delete", {"agent_id": agent_id, "if_match": if_match}, Deleted, idempotency_key=idempotency_key
        )

    def cards(self, *, agent_id: str | None = None) -> AgentCards:
        """List the agents that are offered over A2A.

        Each entry says what the agent is for. Its card and its address are under `/a2a/` and its id. An agent is
        offered if its document has `expose: {a2a: true}`.
        """
        return self._caller.invoke("agent.cards", {"agent_id": agent_id}, AgentCards)

    def execute(
        self,
        agent_id: str,
        *,
        prompt: str,
        context: Mapping[str, Any] | None = None,
        sync: bool | None = None,
        wait_seconds: float | None = None,
        execution_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
    ) -> ExecutionHandle | ExecutionResult:
        """Give work to an agent.

        Starts a durable run and returns a handle at once; wait for the result with execution.wait. The agent calls
        tools with your rights, and may ask you questions: see `questions` in its result. With `sync`, the call
        waits for a limited time until the agent has answered or asks something. To continue a conversation, use
        agent.message instead.
        """
        answer: ExecutionHandle | ExecutionResult = self._caller.invoke_any(
            "agent.execute",
            {
                "agent_id": agent_id,
                "prompt": prompt,
                "context": context,
                "sync": sync,
                "wait_seconds": wait_seconds,
                "execution_id": execution_id,
                "labels": labels,
                "etag": etag,
            },
            (ExecutionHandle, ExecutionResult),
            idempotency_key=idempotency_key,
        )
        return answer

    def message(
        self,
        agent_id: str,
        *,
        message: str,
        session_id: str | None = None,
        context: Mapping[str, Any] | None = None,
        sync: bool | None = None,
        wait_seconds: float | None = None,
        idempotency_key: str | None = None,
    ) -> MessageResult:
        """Send a message to an agent.

        Starts a session, or continues one of yours: the agent knows what was said before. The answer comes from a
        durable run. With `sync`, the call waits for a limited time until the agent has answered or asks something;
        otherwise wait with execution.wait. Until a message is answered, further messages are refused.
        """
        return self._caller.invoke(
            "agent.message",
            {
                "agent_id": agent_id,
                "message": message,
                "session_id": session_id,
                "context": context,
                "sync": sync,
                "wait_seconds": wait_seconds,
            },
            MessageResult,
            idempotency_key=idempotency_key,
        )
