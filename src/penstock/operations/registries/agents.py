"""The registry of agents. Agents do not run yet; `agent.execute` reports that.

Above it: the catalogue. Below it: `registry`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base.errors import Unavailable
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.registries.members import Prose
from penstock.operations.registries.registry import Body, Registry, RegistryTexts, resource_id_type
from penstock.operations.runs.views import ExecutionHandle

__all__ = ["AGENTS", "OPERATIONS"]

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


AGENTS = Registry(
    kind="agent",
    article="an",
    body=AgentBody,
    example_id="helper",
    create_example={"model": "fast", "workflows": ["refund_order"]},
    update_example={"model": "fast", "instructions": "Answer briefly."},
    texts=RegistryTexts(
        create="Keeps an agent: a model with instructions, and what it may use.",
        get="Its model, instructions, workflows and tools.",
        list="Agents by id; use it to find out which there are.",
        delete="Only the entry goes; its model, tools and workflows stay.",
    ),
)


class ExecuteAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the agent is to do."""

    agent_id: resource_id_type("agent", "helper")  # type: ignore[valid-type]  # made by a function
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
    find=AGENTS.table.finder("agent_id"),
    errors=("AGENT_NOT_FOUND", "NOT_CONFIGURED"),
    examples=(Example(arguments={"agent_id": "helper", "prompt": "Which refunds wait for approval?"}),),
)
async def agent_execute(context: Context, given: ExecuteAgent) -> Reply[ExecutionHandle]:
    """Give work to an agent.

    Agents cannot run on this server yet, and the call says so; give the work to a workflow with an `agent_delegate`
    node instead, and start it with workflow.execute.
    """
    await AGENTS.table.find(context, given.agent_id)
    message = f"this server cannot run the agent {given.agent_id}: no agents are configured to be run here"
    hint = "run a workflow with an `agent_delegate` or `llm_call` node instead, with workflow.execute"
    raise Unavailable("NOT_CONFIGURED", message, hint, {"agent_id": given.agent_id})


OPERATIONS: tuple[Capability, ...] = (*AGENTS.operations(), agent_execute)
