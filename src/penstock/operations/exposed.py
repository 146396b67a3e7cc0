"""Workflows that are exposed to assistants: each tool, prompt and resource that the documents of a tenant ask for.

A workflow with `expose.tool` becomes a capability like any other: called through the gate, it starts a durable
execution of the version that was listed and waits with it, as long as the call's patience lasts. What was read is kept
until a workflow of the tenant is changed here; what other processes change is noticed after a moment.

Above it: the gate finds these beside the catalogue, surfaces list them. Below it: `workflow.execute`, `attending`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import Literal

import msgspec

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.json_schemas import CompiledSchema, compile_schema, violations
from penstock.operations.attending import ExecutionResult, attended
from penstock.operations.capability import Annotations, Authorization, Capability, Governance
from penstock.operations.context import Context, Services
from penstock.operations.declaring import schema_of
from penstock.operations.execution_inputs import ExecuteWorkflow
from penstock.operations.execution_starts import seconds_to_wait, started_run
from penstock.runtime.ports import DefinitionRow

__all__ = ["WORKFLOW_PREFIX", "ExposedPrompt", "ExposedWorkflows", "Exposure", "object_schema"]

WORKFLOW_PREFIX = "workflow:"
_RUN_SCOPE = "workflow:run"
_ERRORS = ("INVALID_ARGUMENTS", "WORKFLOW_NOT_FOUND", "VALUE_NOT_JSON")
# The member that holds an input which is not an object: tools take objects only.
_WRAPPED = "input"

_RISKS: dict[str, Literal["low", "medium", "high", "critical"]] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "critical": "critical",
}

_encode = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedPrompt:
    """A workflow that people may choose as a prompt."""

    name: str
    workflow_id: str
    tool: str | None
    """What the workflow is called as a tool, if it is one."""
    title: str | None
    description: str | None
    input_schema: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """What a tenant shows to assistants. `revision` is another one whenever any of it is."""

    tools: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    """By canonical name, in its order."""
    prompts: Mapping[str, ExposedPrompt] = field(default_factory=lambda: MappingProxyType({}))
    hashes: tuple[str, ...] = ()
    revision: int = 0
    read_at: int = 0


class ExposedWorkflows:
    """The exposures of the tenants."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: dict[str, Exposure] = {}
        self._outdated: set[str] = set()
        self._revision = 0

    def changed(self, tenant: str) -> None:
        """Read a tenant's workflows again before they are shown the next time."""
        self._outdated.add(tenant)

    async def of(self, tenant: str) -> Exposure:
        """What a tenant shows now."""
        known, now = self._known.get(tenant), self._services.clock.now_ms()
        if known is not None and tenant not in self._outdated and now - known.read_at < limits.EXPOSED_REREAD_MS:
            return known
        self._outdated.discard(tenant)
        rows = [row for row in await self._services.store.definitions(tenant=tenant) if _exposes(row.document)]
        rows.sort(key=lambda row: row.name)
        hashes = tuple(row.hash for row in rows)
        if known is not None and known.hashes == hashes:
            fresh = replace(known, read_at=now)
        else:
            self._revision += 1
            fresh = _exposure(rows, self._revision, now)
        self._known[tenant] = fresh
        while len(self._known) > limits.EXPOSED_TENANTS_KEPT:
            del self._known[next(iter(self._known))]
        return fresh

    async def find(self, tenant: str, name: str) -> Capability | None:
        """An exposed workflow by its canonical name."""
        return (await self.of(tenant)).tools.get(name) if name.startswith(WORKFLOW_PREFIX) else None


def _exposes(document: JsonObject) -> bool:
    return isinstance(document.get("expose"), dict)


def _exposure(rows: list[DefinitionRow], revision: int, now: int) -> Exposure:
    tools = {tool.name: tool for row in rows if (tool := _tool(row)) is not None}
    prompts: dict[str, ExposedPrompt] = {}
    for row in rows:
        prompt = _prompt(row)
        if prompt is not None:
            prompts.setdefault(prompt.name, prompt)
    return Exposure(
        tools=MappingProxyType(tools),
        prompts=MappingProxyType(prompts),
        hashes=tuple(row.hash for row in rows),
        revision=revision,
        read_at=now,
    )


def _settings(document: JsonObject, kind: str) -> JsonObject | None:
    """What a document says about how it appears as one kind of thing; None if it does not appear."""
    exposed = _object(document, "expose").get(kind)
    if exposed is True:
        return {}
    return exposed if isinstance(exposed, dict) else None


def _object(document: JsonObject, name: str) -> JsonObject:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _text(*candidates: JsonValue) -> str | None:
    return next((text for text in candidates if isinstance(text, str) and text), None)


def _prompt(row: DefinitionRow) -> ExposedPrompt | None:
    shown, document = _settings(row.document, "prompt"), row.document
    if shown is None:
        return None
    tool = _settings(document, "tool")
    return ExposedPrompt(
        name=_text(shown.get("name")) or row.name,
        workflow_id=row.name,
        tool=None if tool is None else _text(tool.get("name")) or row.name,
        title=_text(shown.get("title"), document.get("title")),
        description=_text(shown.get("description"), document.get("description")),
        input_schema=object_schema(_object(document, "input")),
    )


def _tool(row: DefinitionRow) -> Capability | None:
    shown = _settings(row.document, "tool")
    return None if shown is None else _capability(row, shown)


def _capability(row: DefinitionRow, shown: JsonObject) -> Capability:
    document = row.document
    input_schema = object_schema(_object(document, "input"))
    output_schema = _result_schema(_object(document, "output"))
    title = _text(shown.get("title"), document.get("title")) or row.name
    metadata: dict[str, JsonValue] = {
        "workflow": row.name,
        "tool": _text(shown.get("name")) or row.name,
        "version": row.version,
        "hash": row.hash,
        "schema_hash": sha256(_encode([input_schema, output_schema])).hexdigest()[:32],
        "result": _text(shown.get("result")) or "data",
        "task": _text(shown.get("task")) or "auto",
    }
    return Capability(
        name=f"{WORKFLOW_PREFIX}{row.name}",
        title=title,
        description=_text(shown.get("description"), document.get("description")) or title,
        make_input_schema=lambda: input_schema,
        # What is shown as content has no data beside it.
        make_output_schema=lambda: None if metadata["result"] == "content" else output_schema,
        annotations=_annotations(_object(shown, "annotations")),
        governance=_governance(_object(document, "governance")),
        handler=partial(_execute, row.name, row.hash),
        convert=partial(_converted, _object(document, "input")),
        authorization=partial(_authorization, row.name),
        errors=_ERRORS,
        populator="workflow",
        metadata=MappingProxyType(metadata),
    )


def _annotations(said: JsonObject) -> Annotations:
    """What the author says; a workflow of which nothing is said may do anything."""
    return Annotations(
        read_only=said.get("read_only") is True,
        destructive=said.get("destructive", said.get("read_only") is not True) is True,
        idempotent=said.get("idempotent") is True,
        open_world=said.get("open_world", True) is True,
    )


def _governance(said: JsonObject) -> Governance:
    scopes = said.get("scopes")
    named = tuple(str(scope) for scope in scopes) if isinstance(scopes, list) else ()
    return Governance(
        risk=_RISKS.get(str(said.get("risk")), "medium"),
        scopes=tuple(dict.fromkeys((_RUN_SCOPE, *named))),
        confirm=said.get("confirm") is True,
        bucket="write",
    )


def _authorization(workflow_id: str, arguments: JsonObject) -> Authorization:
    return Authorization(action="workflow.execute", resource_kind="workflow", resource_id=workflow_id)


def _takes_object(schema: JsonObject) -> bool:
    kind = schema.get("type")
    return not schema or kind == "object" or (kind is None and "properties" in schema)


def object_schema(schema: JsonObject) -> JsonObject:
    """The schema of a workflow's input as a tool has it: of an object, in any case."""
    if _takes_object(schema):
        return {**schema, "type": "object"}
    nested, definitions = _nested(schema)
    wrapped: JsonObject = {"type": "object", "required": [_WRAPPED], "properties": {_WRAPPED: nested}}
    return {**wrapped, "$defs": definitions} if definitions else wrapped


def _converted(schema: JsonObject, arguments: JsonObject) -> JsonValue:
    """The input that the arguments are; `Rejected` with every violation, before there is any execution."""
    offered = object_schema(schema)
    compiled = compile_schema(offered)
    if isinstance(compiled, CompiledSchema):
        found: list[JsonValue] = [
            {"pointer": item.instance_path, "keyword": item.keyword, "message": item.message}
            for item in violations(compiled, arguments)
        ]
        if found:
            first = found[0]
            place = f"{first['pointer'] or '/'} {first['message']}" if isinstance(first, dict) else ""
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            told = f"the arguments do not fit: {place}{more}"
            raise Rejected("INVALID_ARGUMENTS", told, "see `errors` for every mistake", {"errors": found})
    return arguments if _takes_object(schema) else arguments.get(_WRAPPED)


def _nested(schema: JsonObject) -> tuple[JsonObject, JsonObject]:
    """A schema that can stand inside another one, and the definitions that must then stand at the root of that."""
    definitions = schema.get("$defs")
    if any(not reference.startswith("#/$defs/") for reference in _references(schema)):
        return {}, {}
    rest = {name: value for name, value in schema.items() if name not in ("$defs", "$schema", "$id")}
    return rest, definitions if isinstance(definitions, dict) else {}


def _references(value: JsonValue) -> list[str]:
    if isinstance(value, dict):
        own = [value[name] for name in ("$ref", "$dynamicRef") if name in value]
        return [str(item) for item in own] + [item for member in value.values() for item in _references(member)]
    return [item for member in value for item in _references(member)] if isinstance(value, list) else []


def _result_schema(output: JsonObject) -> JsonObject:
    """What comes back from a call: how the execution stands, with the output that the document promises."""
    schema = schema_of(ExecutionResult)
    nested, definitions = _nested(output)
    properties = {**_object(schema, "properties"), "output": nested}
    return {**schema, "properties": properties, "$defs": {**_object(schema, "$defs"), **definitions}}


async def _execute(workflow_id: str, definition_hash: str, context: Context, given: JsonValue) -> ExecutionResult:
    row = await started_run(context, ExecuteWorkflow(workflow_id=workflow_id, hash=definition_hash, input=given))
    patience = context.request.patience_seconds
    seconds = seconds_to_wait(context, None) if patience is None else patience
    return await attended(context, row.run_id, seconds)
