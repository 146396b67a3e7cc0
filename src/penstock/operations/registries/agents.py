"""Operations on agents: a model with instructions, and the workflows and tools that it may use.

Above it: the catalogue. Below it: `registry`. Agents do not run yet: `agent.execute` says so.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base.errors import Unavailable
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted, IfMatch
from penstock.operations.gate.context import Context
from penstock.operations.registries.registry import (
    Body,
    ListRegistered,
    Prose,
    Registry,
    ResourceId,
)
from penstock.operations.runs.views import ExecutionHandle

__all__ = ["OPERATIONS"]

AgentId = Annotated[ResourceId, Meta(description="The id of the agent.", examples=["helper"])]
_Name = Annotated[str, Meta(min_length=1, max_length=128)]


class AgentBody(Body, frozen=True, kw_only=True):
    """A model with instructions, and what it may use."""

    name: Annotated[Annotated[str, Meta(max_length=200)] | None, Meta(description="A name for people.")] = None
    model: Annotated[_Name | None, Meta(description="The id of a model.", examples=["fast"])] = None
    instructions: Annotated[
        Annotated[str, Meta(max_length=20_000)] | None, Meta(description="What it is for, and how it works.")
    ] = None
    workflows: Annotated[list[_Name], Meta(description="Workflows that it may run.", max_length=100)] = msgspec.field(
        default_factory=list
    )
    tools: Annotated[list[_Name], Meta(description="Ids of tools that it may use.", max_length=100)] = msgspec.field(
        default_factory=list
    )
    description: Prose = None


class CreateAgent(AgentBody, frozen=True, kw_only=True):
    """An id, and what it stands for."""

    id: AgentId


class OneAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which agent."""

    agent_id: AgentId


class UpdateAgent(AgentBody, frozen=True, kw_only=True):
    """Which agent, and what it is now."""

    agent_id: AgentId
    if_match: IfMatch = None


class DeleteAgent(OneAgent, frozen=True, kw_only=True):
    """Which agent, and perhaps which version of it."""

    if_match: IfMatch = None


class AgentView(AgentBody, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """An agent, and since when it is as it is."""

    id: str
    etag: str
    created_at: str | None
    updated_at: str | None
    updated_by: str | None


class AgentPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of agents."""

    items: list[AgentView]
    next_cursor: str | None


_REGISTRY = Registry(kind="agent", path="/agents", body=AgentBody, view=AgentView)


@operation(
    "agent.create",
    route=Route(method="POST", path="/agents", status=201, etag=True),
    scopes=("agent:write",),
    risk="medium",
    subject="id",
    errors=("AGENT_EXISTS",),
    examples=(Example(arguments={"id": "helper", "model": "fast", "workflows": ["refund_order"]}),),
)
async def agent_create(context: Context, given: CreateAgent) -> Reply[AgentView]:
    """Register an agent.

    Keeps an agent: a model with instructions, and what it may use. Refused if the id is taken.
    """
    return await _REGISTRY.create(context, given.id, given)


@operation(
    "agent.get",
    route=Route(method="GET", path="/agents/{agent_id}", etag=True),
    scopes=("agent:read",),
    reads=True,
    subject="agent_id",
    errors=("AGENT_NOT_FOUND",),
    examples=(Example(arguments={"agent_id": "helper"}),),
)
async def agent_get(context: Context, given: OneAgent) -> Reply[AgentView]:
    """Get an agent.

    Its model, instructions, workflows and tools.
    """
    return await _REGISTRY.get(context, given.agent_id)


@operation(
    "agent.list",
    route=Route(method="GET", path="/agents", query=("prefix", "limit", "cursor")),
    scopes=("agent:read",),
    reads=True,
    errors=("INVALID_LIST_CURSOR",),
    examples=(Example(arguments={"limit": 20}),),
)
async def agent_list(context: Context, given: ListRegistered) -> AgentPage:
    """List agents.

    Agents by id; use it to find out which there are.
    """
    items, next_cursor = await _REGISTRY.list(context, given)
    return AgentPage(items=list(items), next_cursor=next_cursor)


@operation(
    "agent.update",
    route=Route(method="PUT", path="/agents/{agent_id}", headers={"If-Match": "if_match"}, etag=True),
    scopes=("agent:write",),
    idempotent=True,
    risk="medium",
    subject="agent_id",
    errors=("AGENT_NOT_FOUND", "PRECONDITION_FAILED"),
    examples=(Example(arguments={"agent_id": "helper", "model": "fast", "instructions": "Answer briefly."}),),
)
async def agent_update(context: Context, given: UpdateAgent) -> Reply[AgentView]:
    """Change an agent.

    Replaces the whole entry. Send the ETag that you read as If-Match to be refused when somebody else changed it.
    """
    return await _REGISTRY.update(context, given.agent_id, given, given.if_match)


@operation(
    "agent.delete",
    route=Route(method="DELETE", path="/agents/{agent_id}", headers={"If-Match": "if_match"}),
    scopes=("agent:delete",),
    destructive=True,
    risk="medium",
    subject="agent_id",
    errors=("AGENT_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def agent_delete(context: Context, given: DeleteAgent) -> Deleted:
    """Delete an agent.

    Only the entry goes; its model, tools and workflows stay.
    """
    return await _REGISTRY.delete(context, given.agent_id, given.if_match)


class ExecuteAgent(OneAgent, frozen=True, kw_only=True):
    """What the agent is to do."""

    prompt: Annotated[str, Meta(description="What to do.", min_length=1, max_length=100_000)]
    context: Annotated[dict[str, Any] | None, Meta(description="Facts that it needs.")] = None
    sync: Annotated[bool, Meta(description="Wait for the end, for a bounded time.")] = False


@operation(
    "agent.execute",
    route=Route(method="POST", path="/agents/{agent_id}/executions", status=202),
    scopes=("agent:run",),
    open_world=True,
    risk="medium",
    subject="agent_id",
    errors=("AGENT_NOT_FOUND", "NOT_CONFIGURED"),
    examples=(Example(arguments={"agent_id": "helper", "prompt": "Which refunds wait for approval?"}),),
)
async def agent_execute(context: Context, given: ExecuteAgent) -> Reply[ExecutionHandle]:
    """Give work to an agent.

    Agents cannot run on this server yet, and the call says so; give the work to a workflow with an `agent_delegate`
    node instead, and start it with workflow.execute.
    """
    await _REGISTRY.found(context, given.agent_id)
    told = f"this server cannot run the agent {given.agent_id}: no agents are configured to be run here"
    hint = "run a workflow with an `agent_delegate` or `llm_call` node instead, with workflow.execute"
    raise Unavailable("NOT_CONFIGURED", told, hint, {"agent_id": given.agent_id})


OPERATIONS: tuple[Capability, ...] = (agent_create, agent_get, agent_list, agent_update, agent_delete, agent_execute)
