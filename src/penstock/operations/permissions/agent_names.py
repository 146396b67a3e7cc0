"""The names of agents: one namespace for entries of the registry, documents with an `agent` block, and the settings.

Above it: the operations that store agents. Below it: the platform store.
"""

from __future__ import annotations

from penstock.base.errors import Conflict
from penstock.base.json import JsonObject
from penstock.definitions.agents.schemas import is_agent
from penstock.operations.gate.context import Context
from penstock.runtime.tables.resources import read_resource

__all__ = ["AGENT_KIND", "AGENT_NAME_TAKEN", "DELEGATE_TAKEN", "refuse_agent_name"]

AGENT_KIND = "agent"
"""The kind under which the platform store keeps entries of the registry."""
AGENT_NAME_TAKEN = "AGENT_NAME_TAKEN"
DELEGATE_TAKEN = "choose another name, or take it out of `agents` in the settings"


async def refuse_agent_name(context: Context, name: str, document: JsonObject) -> None:
    """Refuse a document that is an agent if another kind of agent has its name."""
    if not is_agent(document):
        return
    if name in context.services.delegates:
        raise Conflict(AGENT_NAME_TAKEN, f"the settings have an agent {name}", DELEGATE_TAKEN)
    if await read_resource(context.services.platform, context.tenant, AGENT_KIND, name) is not None:
        message = f"the registry has an agent {name}"
        raise Conflict(AGENT_NAME_TAKEN, message, "choose another name, or delete that one with agent.delete")
