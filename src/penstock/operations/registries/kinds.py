"""The registries: schemas, models, tools and agents. Each is a declaration from which `registry` makes the operations.

A provider's key is referred to by name, never sent: `api_key_secret` is the name of one of the server's secrets. Agents
do not run yet; `agent.execute` reports that.

Above it: the catalogue. Below it: `registry`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from penstock.base.errors import Rejected, Unavailable
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.registries.registry import Body, Registry, RegistryTexts, resource_id_type
from penstock.operations.runs.views import ExecutionHandle

__all__ = ["OPERATIONS"]

Prose = Annotated[Annotated[str, Meta(max_length=2_000)] | None, Meta(description="What it is, for people.")]
JsonSchema = Annotated[
    dict[str, Any], Meta(description="A JSON Schema (draft 2020-12).", examples=[{"type": "object"}])
]


async def _check_json_schema(context: Context, name: str, schema: JsonObject | None) -> None:
    """Refuse a value that cannot be used as a JSON Schema; `name` is the member that holds it."""
    if schema is None:
        return
    problem = await context.services.documents.schema_problem(schema, tenant=context.tenant)
    if problem is not None:
        message = f"{name} is not a JSON Schema: {problem.message} at {problem.path or '/'}"
        pointed: JsonObject = {"errors": [{"pointer": f"/{name}{problem.path}", "message": problem.message}]}
        raise Rejected("SCHEMA_INVALID", message, "send a JSON Schema of draft 2020-12", pointed)


class SchemaBody(Body, frozen=True, kw_only=True):
    """A JSON Schema, and what it is for."""

    schema: JsonSchema
    title: Annotated[Annotated[str, Meta(max_length=200)] | None, Meta(description="A title for people.")] = None
    description: Prose = None


async def _check_schema(context: Context, given: SchemaBody) -> None:
    await _check_json_schema(context, "schema", given.schema)


SCHEMAS = Registry(
    kind="schema",
    body=SchemaBody,
    example_id="order",
    create_example={"schema": {"type": "object", "required": ["order_id"]}},
    update_example={"schema": {"type": "object", "required": ["order_id"]}},
    texts=RegistryTexts(
        create="Keeps a JSON Schema under an id, after checking that it is one.",
        get="The schema, with its title and its ETag.",
        list="Ids with their schemas, in order of the id.",
        whole="schema",
        delete="Workflows keep the schemas that stand in their documents; only the entry goes.",
    ),
    check=_check_schema,
    check_errors=("SCHEMA_INVALID",),
)


class ModelBody(Body, frozen=True, kw_only=True):
    """Who provides a model, what it is called there, and how it is reached."""

    provider: Annotated[
        str, Meta(description="Who provides it.", min_length=1, max_length=64, examples=["openai", "anthropic"])
    ]
    model: Annotated[str, Meta(description="What the provider calls it.", min_length=1, max_length=200)]
    base_url: Annotated[
        Annotated[str, Meta(pattern=r"^https?://[^\s@]+$", max_length=500)] | None,
        Meta(description="Where it is, if not at the provider's usual address."),
    ] = None
    api_key_secret: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,127}$")] | None,
        Meta(description="The name of a secret of the server; never the secret itself.", examples=["OPENAI_API_KEY"]),
    ] = None
    parameters: Annotated[dict[str, Any] | None, Meta(description="Temperature and the like.")] = None
    description: Prose = None


MODELS = Registry(
    kind="model",
    body=ModelBody,
    example_id="fast",
    create_example={"provider": "openai", "model": "gpt-5-mini", "api_key_secret": "OPENAI_API_KEY"},
    update_example={"provider": "openai", "model": "gpt-5-mini"},
    texts=RegistryTexts(
        create="Names a provider's model, and the secret that holds the key for it.",
        get="The provider, the model's name there and its parameters; never a key.",
        list="Models by id; use it to find out which there are.",
        delete="Agents that name it cannot use it any more.",
    ),
)


class ToolBody(Body, frozen=True, kw_only=True):
    """A tool of an MCP server, or a Python step."""

    kind: Annotated[Literal["mcp", "step"], Meta(description="What performs it.")]
    name: Annotated[str, Meta(description="What the server or the module calls it.", min_length=1, max_length=200)]
    server: Annotated[
        Annotated[str, Meta(min_length=1, max_length=128)] | None,
        Meta(description="With `mcp`: the server, as it is called in the configuration."),
    ] = None
    input_schema: JsonSchema | None = None
    description: Prose = None


async def _check_tool(context: Context, given: ToolBody) -> None:
    if (given.kind == "mcp") != (given.server is not None):
        message = "`server` is needed for kind `mcp`, and only there"
        raise Rejected("TOOL_INVALID", message, "name the MCP server, or leave it out for a step")
    await _check_json_schema(context, "input_schema", given.input_schema)


TOOLS = Registry(
    kind="tool",
    body=ToolBody,
    example_id="search",
    create_example={"kind": "mcp", "server": "web", "name": "search"},
    update_example={"kind": "mcp", "server": "files", "name": "search_files"},
    texts=RegistryTexts(
        create="Names a tool of a configured MCP server, or a Python step.",
        get="What performs it, and the schema of its arguments.",
        list="Tools by id; use it to find out which there are.",
        delete="Agents that name it cannot use it any more; the server or module keeps it.",
    ),
    check=_check_tool,
    check_errors=("SCHEMA_INVALID", "TOOL_INVALID"),
)

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


OPERATIONS: tuple[Capability, ...] = (
    *SCHEMAS.operations(),
    *MODELS.operations(),
    *TOOLS.operations(),
    *AGENTS.operations(),
    agent_execute,
)
