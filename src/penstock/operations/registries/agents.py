"""The registry of agents: entries with the members of an `agent` block, each of which stands for a document.

An agent is also any stored workflow whose document has an `agent` block. Both kinds share one namespace, with the
agents that the settings name for `agent_delegate` nodes: the second one is refused.

Above it: the catalogue, `agent_runs`. Below it: `registry`, `definitions.agents`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.agents.entries import document_of_agent
from penstock.definitions.agents.schemas import is_agent
from penstock.definitions.source.findings import Severity
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.context import Context
from penstock.operations.permissions.agent_names import AGENT_KIND, AGENT_NAME_TAKEN, DELEGATE_TAKEN
from penstock.operations.permissions.kept_names import refuse_loosening
from penstock.operations.permissions.starting import protecting_version
from penstock.operations.registries.members import JsonSchema, Prose
from penstock.operations.registries.registry import Body, Registry, RegistryTexts

__all__ = ["AGENTS", "OPERATIONS", "document_of_agent"]

_Name = Annotated[str, Meta(min_length=1, max_length=128)]


class AgentToolEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tool, and whether a person is asked before each call."""

    tool: Annotated[_Name, Meta(description="Its canonical name; with `*` at the end, all names with this prefix.")]
    approve: Annotated[bool, Meta(description="Ask a person before each call.")] = False
    approvers: Annotated[dict[str, Any] | None, Meta(description="Who approves, as in a workflow.")] = None


class AgentLimitsEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When the agent has to stop."""

    turns: Annotated[int, Meta(ge=1, le=limits.AGENT_TURNS_MAX)] | None = None
    tokens: Annotated[int, Meta(ge=1)] | None = None
    cost: Annotated[float, Meta(gt=0, description="In US dollars.")] | None = None
    time: Annotated[str, Meta(max_length=40, examples=["1h"])] | None = None
    parallel_tools: Annotated[int, Meta(ge=1, le=limits.LLM_TOOL_CALLS_MAX)] | None = None


class AgentConversationEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How much of a long conversation the agent reads."""

    characters: (
        Annotated[int, Meta(ge=limits.AGENT_CONVERSATION_CHARACTERS_MIN, le=limits.AGENT_CONVERSATION_CHARACTERS_MAX)]
        | None
    ) = None
    summarize: Annotated[bool, Meta(description="Have a model summarise what is left out.")] | None = None
    model: Annotated[_Name, Meta(description="The model that summarises; else that of the agent.")] | None = None


_MemoryScopes = Annotated[list[Literal["session", "principal", "tenant"]], Meta(min_length=1, max_length=3)]


class AgentMemoryEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the agent may remember beyond its run, by scope."""

    read: _MemoryScopes | None = None
    write: _MemoryScopes | None = None


class AgentBody(Body, frozen=True, kw_only=True):
    """A model with instructions, and what it may use."""

    name: Annotated[Annotated[str, Meta(max_length=200)] | None, Meta(description="A name for people.")] = None
    model: Annotated[_Name | None, Meta(description="The name of a model; else the default.", examples=["fast"])] = None
    instructions: Annotated[
        Annotated[str, Meta(max_length=20_000)] | None,
        Meta(description="What the agent is for, and how it should work."),
    ] = None
    workflows: Annotated[
        list[_Name], Meta(description="Exposed workflows and agents that it may call.", max_length=100)
    ] = msgspec.field(default_factory=list)
    tools: Annotated[
        list[_Name | AgentToolEntry],
        Meta(description="Capabilities that it may call: names, patterns such as query:*, or {tool}.", max_length=100),
    ] = msgspec.field(default_factory=list)
    output_schema: Annotated[JsonSchema | None, Meta(description="The JSON Schema of its answer.")] = None
    limits: Annotated[AgentLimitsEntry | None, Meta(description="When the agent must stop.")] = None
    conversation: Annotated[
        AgentConversationEntry | None, Meta(description="How much of a long conversation it reads.")
    ] = None
    ask_user: Annotated[bool | None, Meta(description="Whether it may ask a person.")] = None
    memory: Annotated[AgentMemoryEntry | None, Meta(description="What it may remember beyond its run.")] = None
    description: Prose = None


async def _check(context: Context, given: Any) -> None:
    """Refuse an entry that does not stand for a valid document, or whose name another agent has."""
    creates = hasattr(given, "id")
    agent_id: str = given.id if creates else given.agent_id
    members = {name: getattr(given, name) for name in AgentBody.__struct_fields__}
    body: JsonObject = {name: msgspec.to_builtins(value) for name, value in members.items() if value is not None}
    # Ids of entries may have characters that names of workflows have not.
    document = {**document_of_agent(agent_id, body), "name": "agent"}
    findings = await context.services.documents.findings(document, tenant=context.tenant)
    errors = [item for item in findings if item.severity is Severity.ERROR]
    if errors:
        message = f"the agent has {len(errors)} mistakes; first, at {errors[0].path}: {errors[0].message}"
        listed: list[JsonValue] = [item.to_json() for item in errors]
        raise Rejected(
            "AGENT_INVALID",
            message,
            errors[0].hint or "correct the mistakes that `findings` lists",
            {"findings": listed},
        )
    if not creates:
        return
    if agent_id in context.services.delegates:
        raise Conflict(AGENT_NAME_TAKEN, f"the settings have an agent {agent_id}", DELEGATE_TAKEN)
    stored = await context.services.store.definitions.find_named(agent_id, tenant=context.tenant)
    if stored is not None and is_agent(stored.document):
        message = f"there is a workflow {agent_id} that is an agent"
        raise Conflict(AGENT_NAME_TAKEN, message, "choose another id, or run that with agent.execute")
    before = await protecting_version(context.services, context.tenant, agent_id)
    if before is not None and is_agent(before.document):
        refuse_loosening(context, f"agent {agent_id}", before.document, {})


def _of_settings(context: Context) -> dict[str, JsonObject]:
    """Return the agents that the settings name: programs of others, which `agent.execute` gives work to."""
    return {name: {"source": "settings", "protocol": protocol} for name, protocol in context.services.delegates.items()}


AGENTS = Registry(
    stores="agent",
    kind=AGENT_KIND,
    article="an",
    body=AgentBody,
    example_id="helper",
    create_example={"model": "fast", "instructions": "Answer briefly.", "workflows": ["refund_order"]},
    update_example={"model": "fast", "instructions": "Answer briefly.", "limits": {"turns": 5}},
    texts=RegistryTexts(
        create=(
            "Stores an agent: a model with instructions, and the tools and workflows that it may use. Give it work "
            "with agent.execute, or talk to it with agent.message."
        ),
        get="Returns its model, instructions, workflows and tools.",
        list=(
            "Returns agents by id. Use it to find an agent for agent.execute or agent.message. Agents of the settings "
            "come first, on the first page and beyond its limit. Documents with an `agent` block are in workflow.list."
        ),
        delete="Deletes only the entry; the agent's model, tools and workflows stay.",
    ),
    shown=(
        (
            "source",
            Annotated[
                Literal["registry", "settings"],
                Meta(description="Where the agent is declared: in the registry, or in the settings."),
            ],
            "registry",
        ),
        ("protocol", Annotated[str | None, Meta(description="The protocol of an agent of the settings.")], None),
    ),
    configured=_of_settings,
    check=_check,
    check_errors=("AGENT_INVALID", AGENT_NAME_TAKEN),
)

OPERATIONS: tuple[Capability, ...] = AGENTS.operations()
