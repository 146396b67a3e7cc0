"""A registered tool as a capability, `tool:ID`: its schemas, what a call needs, and the small run that a call is.

Every entry of a tenant is one. Exposed ones are listed as MCP tools; the others can be called by their name, by
workflows and by agents. Policies know each as an action of its own. The run has the caller's rights and no others.

Above it: `exposed` adds these to what a tenant exposes, the registry of tools. Below it: `documents`, `generated`,
`runs.starting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import msgspec

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.definitions.model import Workflow
from penstock.definitions.reached import Reached
from penstock.governance.authorship import agents_behind
from penstock.operations.catalogue.capability import REGISTERED_TOOL, Annotations, Authorization, Capability, Governance
from penstock.operations.catalogue.reasons import SIGNATURE_ERRORS
from penstock.operations.gate.context import Context, Services
from penstock.operations.permissions.authorship import marks_of, refuse_proposed
from penstock.operations.registered_tools.documents import READING_METHODS, document_of_tool, is_repeatable
from penstock.operations.registered_tools.generated import built, register_generated, store_generated
from penstock.operations.runs.capabilities import converted
from penstock.operations.runs.handles import seconds_to_wait
from penstock.operations.runs.held_access import with_held_calls
from penstock.operations.runs.imported_tools import UPSTREAM_PREFIX, ImportedTools
from penstock.operations.runs.results import ExecutionResult, wait_for_result
from penstock.operations.runs.starting import ExecuteWorkflow, started_run
from penstock.operations.runs.tool_schemas import governance_of, object_schema, result_schema, text_of
from penstock.operations.stored_queries.capabilities import GraphTools, query_capability_name
from penstock.runtime.ports.platform import ResourceRow
from penstock.runtime.tables.resources import list_resources

__all__ = [
    "DEFINE_TOOL",
    "RUN_TOOL_SCOPE",
    "TOOL_KIND",
    "TOOL_PREFIX",
    "RegisteredTools",
    "define_tool_workflow",
    "imported_name",
    "registered_tools",
    "tool_name",
]

TOOL_KIND = "tool"
"""The kind under which the platform store keeps entries of the registry."""
TOOL_PREFIX = "tool:"
RUN_TOOL_SCOPE = "tool:run"
DEFINE_TOOL = "tool.define"
_OWNER = "-tools"
"""The owner of the workflows of tools. No tenant can have this name."""
_ERRORS = (*SIGNATURE_ERRORS, "INVALID_ARGUMENTS", "VALUE_NOT_JSON", "QUOTA_EXCEEDED", "NOT_CONFIGURED")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredTools:
    """The registered tools of a tenant, by canonical name."""

    listed: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    unlisted: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    marks: tuple[str, ...] = ()
    """Changes whenever any tool does."""

    @property
    def all(self) -> Mapping[str, Capability]:
        """All of them."""
        return {**self.listed, **self.unlisted}


def tool_name(tool_id: str) -> str:
    """Return the canonical name of a registered tool."""
    return f"{TOOL_PREFIX}{tool_id}"


def imported_name(services: Services, tenant: str, body: JsonObject) -> str | None:
    """Return the name in the catalogue of the tool that an entry means, if it is one of an imported server."""
    upstreams = services.upstreams
    rules = upstreams.rules_for(tenant).get(str(body.get("server"))) if upstreams is not None else None
    return None if rules is None or body.get("kind") != "mcp" else f"{UPSTREAM_PREFIX}{rules.prefix}.{body['name']}"


async def registered_tools(
    services: Services, tenant: str, imported: ImportedTools, queries: GraphTools
) -> RegisteredTools:
    """Return the tools of a tenant as they are registered now.

    An entry without a schema of its arguments has that of the imported tool or the query that it stands for.
    """
    page = await list_resources(services.platform, tenant, TOOL_KIND, limit=limits.TOOLS_PER_TENANT_MAX)
    listed: dict[str, Capability] = {}
    unlisted: dict[str, Capability] = {}
    marks: list[str] = []
    for row in page.rows:
        source = _source(services, row, imported, queries)
        made = _capability(row, source, imported_name(services, tenant, row.body))
        (listed if row.body.get("expose") is True else unlisted)[made.name] = made
        marks.append(f"{made.name} {row.etag} {row.author} {None if source is None else source.schema_version}")
    return RegisteredTools(listed=MappingProxyType(listed), unlisted=MappingProxyType(unlisted), marks=tuple(marks))


def _source(services: Services, row: ResourceRow, imported: ImportedTools, queries: GraphTools) -> Capability | None:
    """Return the capability that an entry stands for, if there is one now."""
    body = row.body
    if body.get("kind") == "query":
        name = query_capability_name(str(body.get("graph")), str(body.get("name")))
        return queries.listed.get(name) or queries.unlisted.get(name)
    named = imported_name(services, row.tenant, body)
    return None if named is None else imported.tools.get(named)


def _input_schema(body: JsonObject, source: Capability | None) -> JsonObject:
    own = body.get("input_schema")
    if isinstance(own, dict):
        return own
    if source is None:
        return {"type": "object"}
    if body.get("kind") == "query":
        return object_or_empty(object_or_empty(source.input_schema.get("properties")).get("params"))
    return source.input_schema


def _capability(row: ResourceRow, source: Capability | None, imported: str | None) -> Capability:
    body, tool_id = row.body, row.resource_id
    title = text_of(body.get("title")) or tool_id
    schema, annotations = _input_schema(body, source), _annotations(body, source)
    output = result_schema(object_or_empty(body.get("output_schema")))
    # What another server says of its tool is not the author's word.
    borrowed = body.get("kind") == "mcp" and source is not None and "input_schema" not in body
    metadata: dict[str, JsonValue] = {
        "tool": tool_id,
        "kind": body.get("kind"),
        "hash": row.etag,
        "result": "data",
        "task": "auto",
        "borrowed": borrowed,
    }
    return Capability(
        name=tool_name(tool_id),
        title=title,
        description=text_of(body.get("description")) or title,
        make_input_schema=partial(object_schema, schema),
        make_output_schema=lambda: output,
        annotations=annotations,
        governance=msgspec.structs.replace(_governance(body, annotations, source), authors=agents_behind(row.author)),
        handler=partial(_execute, row, imported),
        convert=partial(converted, schema),
        authorization=partial(_authorization, tool_id),
        reaches=lambda arguments: (Reached(tool_name(tool_id)),),
        errors=_ERRORS,
        populator=REGISTERED_TOOL,
        metadata=MappingProxyType(metadata),
    )


def _annotations(body: JsonObject, source: Capability | None) -> Annotations:
    """Return what a call does: as the entry says, else as what it stands for does, else anything."""
    said = object_or_empty(body.get("annotations"))
    request = object_or_empty(body.get("http"))
    reads = body.get("kind") == "http" and request.get("method", "GET") in READING_METHODS
    if source is not None:
        reads = source.annotations.read_only
    read_only = said.get("read_only", reads) is True
    return Annotations(
        read_only=read_only,
        destructive=said.get("destructive", not read_only) is True,
        idempotent=read_only or is_repeatable(body),
        open_world=said.get("open_world", body.get("kind") != "query") is True,
    )


def _governance(body: JsonObject, annotations: Annotations, source: Capability | None) -> Governance:
    """Return what a call needs. Unless the entry says otherwise, a request that may change something is of high risk.

    What the call of an imported tool or of a query needs is decided again when the run makes that call.
    """
    said = object_or_empty(body.get("governance"))
    scopes = said.get("scopes")
    named = tuple(str(scope) for scope in scopes) if isinstance(scopes, list) else ()
    usual = "low" if annotations.read_only else "high" if body.get("kind") == "http" else "medium"
    if source is not None:
        usual = source.governance.risk
    return governance_of({"risk": usual, **said}, tuple(dict.fromkeys((RUN_TOOL_SCOPE, *named))))


def _authorization(tool_id: str, arguments: JsonObject) -> Authorization:
    return Authorization(action="tool.execute", resource_kind=TOOL_KIND, resource_id=tool_id)


def _workflow(tool_id: str, body: JsonObject, imported: str | None) -> Workflow:
    return built(document_of_tool(tool_name(tool_id), body, imported=imported))


async def define_tool_workflow(context: Context, row: ResourceRow) -> str:
    """Store the workflow of an entry, in the internal call that is made for that; return its hash."""
    workflow = _workflow(row.resource_id, row.body, imported_name(context.services, context.tenant, row.body))
    await register_generated(context, workflow, _OWNER)
    return workflow.hash


async def _execute(row: ResourceRow, imported: str | None, context: Context, given: JsonValue) -> ExecutionResult:
    """Start the run of a call, and wait for its result for as long as the call may."""
    tool_id = row.resource_id
    refuse_proposed(context.services, row.author, f"tool {tool_id}", row.etag)
    workflow = _workflow(tool_id, row.body, imported)
    await store_generated(context, workflow.hash, (DEFINE_TOOL, {"tool_id": tool_id}))
    with context.services.host.progress.starting():
        run = await started_run(
            context,
            ExecuteWorkflow(workflow_id=workflow.name, input=given),
            definition_hash=workflow.hash,
            marks=marks_of(row.author),
        )
    patience = context.request.patience_seconds
    seconds = seconds_to_wait(context, None) if patience is None else patience
    return await with_held_calls(context, await wait_for_result(context, run.run_id, seconds))
