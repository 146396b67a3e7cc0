"""Tools of other MCP servers as capabilities: they pass the same gate, and every surface offers them.

A call is a small durable run of one `tool_call` node. It can be waited for, read, cancelled and answered like any
other; questions of the server become questions of the run. Its workflow belongs to no tenant and is in no list. The
operator's rules decide what a call may do; the server's own hints are not used.

Above it: `exposed` adds these to what a tenant exposes, `upstreams` calls them by server and name. Below it:
`runtime.upstreams`, `starting`, `results`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import Conflict, Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.definitions.model import Workflow
from penstock.definitions.reached import Reached
from penstock.operations.catalogue.capability import Annotations, Authorization, Capability, Governance
from penstock.operations.catalogue.exposure import ImportedResource
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context, Services
from penstock.operations.permissions.authorship import RunMarks
from penstock.operations.permissions.starting import UPSTREAM_RUN_SCOPE
from penstock.operations.runs.capabilities import converted
from penstock.operations.runs.handles import seconds_to_wait
from penstock.operations.runs.results import ExecutionResult, wait_for_result
from penstock.operations.runs.starting import ExecuteWorkflow, new_run_id, started_run
from penstock.operations.runs.tool_schemas import object_schema, or_standing
from penstock.runtime.upstreams.tool_registry import DEFINE_CALL, QUARANTINED, ToolReview
from penstock.runtime.upstreams.tools import READS_RESOURCES, ImportRules, ToolEffects, ToolRule, UpstreamTool

if TYPE_CHECKING:
    from penstock.definitions.build import workflow as build
else:
    build = lazy_import("penstock.definitions.build.workflow")

__all__ = [
    "CALLED_LABEL",
    "CALLS_OWNER",
    "UPSTREAM",
    "UPSTREAM_PREFIX",
    "ImportedTools",
    "call_workflow",
    "imported_tools",
]

UPSTREAM = "upstream"
"""The populator of imported tools."""
UPSTREAM_PREFIX = "upstream:"
CALLED_LABEL = "penstock.called"
"""The label of a run that is one call of a tool, with its own id: the call was decided, those of its forks were not."""
_ERRORS = (QUARANTINED, "VALUE_NOT_JSON")
CALLS_OWNER = "-upstream"
"""The owner of the workflows for calls. No tenant can have this name."""
_WORKFLOWS_KEPT = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTools:
    """The imported tools of a tenant, by canonical name. Quarantined ones can be found but not called."""

    tools: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    resources: tuple[ImportedResource, ...] = ()
    """What their servers list of resources, where reading them was accepted."""
    marks: tuple[str, ...] = ()
    """Changes whenever any tool or resource does."""


async def imported_tools(services: Services, tenant: str) -> ImportedTools:
    """Return the tools of other servers that a tenant has now."""
    upstreams = services.upstreams
    rules = upstreams.rules_for(tenant) if upstreams is not None else {}
    if upstreams is None or not rules:
        return ImportedTools()
    tools: dict[str, Capability] = {}
    marks: list[str] = []
    # Accepted tools come first, so that one that nobody has accepted cannot take their name.
    for item in sorted(await upstreams.tool_reviews(tenant), key=lambda item: item.status != "pinned"):
        if item.status in ("excluded", "gone"):
            continue
        capability = _capability(item, rules[item.server])
        if capability.name not in tools:
            tools[capability.name] = capability
            marks.append(f"{capability.name} {item.status} {item.pin.hash if item.pin else ''}")
    resources: list[ImportedResource] = []
    for server in rules:
        reading = [tools.get(_name(rules[server], name)) for name in READS_RESOURCES]
        if any(item is None or item.metadata.get("withheld") is True for item in reading) or reading[-1] is None:
            continue  # both are accepted, or neither is used
        listed = upstreams.resources.get(server, ())
        resources += [ImportedResource(server=server, listed=item, capability=reading[-1]) for item in listed]
        marks.append(f"{server} {sha256(encode_bytes(listed)).hexdigest()}")
    return ImportedTools(
        tools=MappingProxyType({name: tools[name] for name in sorted(tools)}),
        resources=tuple(resources),
        marks=tuple(marks),
    )


def _capability(item: ToolReview, rules: ImportRules) -> Capability:
    rule, called = rules.rule_of(item.name), f"{rules.prefix}.{item.name}"
    name = _name(rules, item.name)
    if item.status != "pinned" or item.pin is None:
        return _withheld(name, item, rules)
    tool = item.pin.tool
    title = rule.title or tool.title or called
    metadata: dict[str, JsonValue] = {
        "tool": called,
        "server": item.server,
        "upstream": item.name,
        "hash": item.pin.hash,
        "structured": _is_object(tool.output_schema),
        "task": "auto",
    }
    input_schema = object_schema(tool.input_schema)
    return Capability(
        name=name,
        title=title,
        description=rule.description or tool.description or title,
        make_input_schema=lambda: input_schema,
        make_output_schema=partial(_output_schema, tool),
        annotations=_annotations(rule, rules.effects_of(tool)),
        governance=_governance(rule, rules.effects_of(tool)),
        handler=partial(_execute, item.server, item.name, rules.effects_of(tool).idempotent),
        convert=partial(converted, tool.input_schema),
        authorization=partial(_authorization, item.server, item.name),
        reaches=lambda arguments: (Reached(name),),
        errors=_ERRORS,
        populator=UPSTREAM,
        metadata=MappingProxyType(metadata),
    )


def _withheld(name: str, item: ToolReview, rules: ImportRules) -> Capability:
    """Return a capability for a quarantined tool: it is never listed, and calling it explains why it is refused."""
    nothing: JsonObject = {"type": "object"}
    rule = rules.rule_of(item.name)
    effects = rules.effects_of(item.seen or UpstreamTool(name=item.name))
    return Capability(
        name=name,
        title=name,
        description="Quarantined.",
        make_input_schema=lambda: nothing,
        make_output_schema=lambda: None,
        annotations=_annotations(rule, effects),
        governance=_governance(rule, effects),
        handler=partial(_refuse, item.server, item.name, item.status),
        convert=lambda arguments: arguments,
        authorization=partial(_authorization, item.server, item.name),
        errors=_ERRORS,
        populator=UPSTREAM,
        metadata=MappingProxyType({"tool": name.removeprefix(UPSTREAM_PREFIX), "withheld": True}),
    )


def _annotations(rule: ToolRule, effects: ToolEffects) -> Annotations:
    """Return the annotations that the operator configured. Without any, a tool may do anything."""
    return Annotations(
        read_only=effects.read_only,
        destructive=effects.destructive,
        idempotent=effects.idempotent,
        open_world=rule.open_world,
    )


def _governance(rule: ToolRule, effects: ToolEffects) -> Governance:
    scopes = tuple(dict.fromkeys((UPSTREAM_RUN_SCOPE, *rule.scopes)))
    return Governance(risk=effects.risk, scopes=scopes, bucket="write")


def _authorization(server: str, tool: str, arguments: JsonObject) -> Authorization:
    return Authorization(action="upstream.call", resource_kind="upstream", resource_id=f"{server}/{tool}")


def _is_object(schema: JsonObject | None) -> bool:
    return schema is not None and schema.get("type") == "object"


def _output_schema(tool: UpstreamTool) -> JsonObject | None:
    """Return the output schema: what the server promises, or the state of a run that has not ended."""
    if tool.output_schema is None or not _is_object(tool.output_schema):
        return None
    return or_standing(tool.output_schema)


async def _refuse(server: str, tool: str, status: str, context: Context, given: JsonValue) -> None:
    why = "describes it otherwise than it was accepted" if status == "changed" else "has it since a short while"
    message = f"{tool} is quarantined: {server} {why}, and nobody has accepted it as it is"
    if status == "refused":
        message = f"{tool} is quarantined: somebody refused it with the description that {server} gives now"
    hint = "look at it with upstream.tools, and accept it with upstream.accept"
    raise Conflict(QUARANTINED, message, hint, {"server": server, "tool": tool, "status": status})


async def _execute(server: str, tool: str, repeatable: bool, context: Context, given: JsonValue) -> ExecutionResult:
    upstreams = context.services.upstreams
    refused = await upstreams.refusal(context.tenant, server, tool) if upstreams is not None else None
    if refused is not None:
        await _refuse(server, tool, "changed", context, given)
    workflow = await _defined(context, server, tool, repeatable)
    chosen = new_run_id(context, None)
    with context.services.host.progress.starting():
        row = await started_run(
            context,
            ExecuteWorkflow(workflow_id=workflow.name, input=given),
            definition_hash=workflow.hash,
            chosen=chosen,
            marks=RunMarks({CALLED_LABEL: chosen[0]}),
        )
    idempotency.found_by_id(context)
    patience = context.request.patience_seconds
    seconds = seconds_to_wait(context, None) if patience is None else patience
    return await wait_for_result(context, row.run_id, seconds)


async def _defined(context: Context, server: str, tool: str, repeatable: bool) -> Workflow:
    """Return the workflow that a call of a tool runs.

    The first call stores it, in a separate call, for all later callers.
    """
    upstreams = context.services.upstreams
    if upstreams is None or upstreams.act is None:
        message = "this process only reads the store"
        raise Unavailable(
            "UPSTREAM_UNAVAILABLE", message, "send the call to the server (`penstock serve`), not to the file"
        )
    workflow = call_workflow(server, tool, upstreams.rules[server], repeatable=repeatable)
    context.services.signatures.vouch(workflow.hash)
    known = await context.services.store.definitions.find_named(workflow.name, tenant=CALLS_OWNER)
    if known is None or known.hash != workflow.hash:
        await upstreams.act(context.tenant, DEFINE_CALL, {"server": server, "tool": tool, "repeatable": repeatable})
    return workflow


def call_workflow(server: str, tool: str, rules: ImportRules, *, repeatable: bool) -> Workflow:
    """Return the workflow for one call of a tool, under the operator's current rules."""
    return _workflow(_name(rules, tool), server, tool, repeatable)


def _name(rules: ImportRules, tool: str) -> str:
    return f"{UPSTREAM_PREFIX}{rules.prefix}.{tool}"


@lru_cache(maxsize=_WORKFLOWS_KEPT)
def _workflow(name: str, server: str, tool: str, repeatable: bool) -> Workflow:
    """Build the workflow of a call: the tool, once. Only a repeatable tool is retried after an unknown outcome."""
    if len(name) > limits.WORKFLOW_NAME_CHARACTERS_MAX:
        name = f"{name[: limits.WORKFLOW_NAME_CHARACTERS_MAX - 9]}_{sha256(name.encode()).hexdigest()[:8]}"
    call: JsonObject = {
        "id": "call",
        "type": "tool_call",
        "server": server,
        "tool": tool,
        "arguments": "${ .input }",
        "retry": {"max_attempts": 1},
        "effects": "at_least_once" if repeatable else "at_most_once",
    }
    return build.build_workflow(
        {"penstock": "v1", "name": name, "nodes": [call, {"id": "done", "type": "end", "output": "${ .call }"}]}
    )
