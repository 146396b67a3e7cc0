"""`agent.cards`: the agents that are offered to clients of the A2A protocol, as their cards describe them.

Such an agent is a stored workflow with an `agent` block and `expose: {a2a: true}`.

Above it: the catalogue, the A2A surface. Below it: the store's definitions.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base.json import object_or_empty
from penstock.definitions.agents.schemas import is_agent
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.registries.registry import resource_id_type
from penstock.runtime.ports.runs import DefinitionRow

__all__ = ["OPERATIONS"]


class ListAgentCards(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which agents."""

    agent_id: Annotated[
        resource_id_type("agent", "helper") | None,  # type: ignore[valid-type]  # made by a function
        Meta(description="Only this one."),
    ] = None


class AgentCardView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as callers see it who may not read its document."""

    agent_id: str
    title: str
    description: str
    version: str


class AgentCards(msgspec.Struct, frozen=True, kw_only=True):
    """The agents, by id."""

    items: list[AgentCardView]


@operation(
    "agent.cards",
    route=Route(method="GET", path="/agent-cards", query=("agent_id",)),
    scopes=("agent:read",),
    reads=True,
    examples=(Example(arguments={}), Example(arguments={"agent_id": "helper"})),
)
async def agent_cards(context: Context, given: ListAgentCards) -> AgentCards:
    """List the agents that are offered over A2A.

    Each entry says what the agent is for. Its card and its address are under `/a2a/` and its id. An agent is offered if
    its document has `expose: {a2a: true}`.
    """
    store = context.services.store
    if given.agent_id is None:
        rows = await store.definitions.list_newest(tenant=context.tenant)
    else:
        row = await store.definitions.find_named(given.agent_id, tenant=context.tenant)
        rows = () if row is None else (row,)
    return AgentCards(items=[_card(row) for row in sorted(rows, key=lambda row: row.name) if _is_offered(row)])


def _is_offered(row: DefinitionRow) -> bool:
    return is_agent(row.document) and object_or_empty(row.document.get("expose")).get("a2a") is True


def _card(row: DefinitionRow) -> AgentCardView:
    title = row.document.get("title")
    shown = title if isinstance(title, str) and title else row.name
    description, version = row.document.get("description"), row.document.get("version")
    return AgentCardView(
        agent_id=row.name,
        title=shown,
        description=description if isinstance(description, str) and description else shown,
        version=version if isinstance(version, str) and version else "0.0.0",
    )


OPERATIONS: tuple[Capability, ...] = (agent_cards,)
