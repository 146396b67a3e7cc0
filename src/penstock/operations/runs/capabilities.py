"""A workflow as a capability: the schemas, annotations and scopes that its document gives, and the start of a run.

Above it: `exposed`, `imported_tools`. Below it: `starting`, `results`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import CompiledSchema, is_prompt, load_schema, violations
from penstock.operations.catalogue.capability import Annotations, Authorization, Governance
from penstock.operations.gate.context import Context
from penstock.operations.runs.handles import seconds_to_wait
from penstock.operations.runs.results import ExecutionResult, wait_for_result
from penstock.operations.runs.starting import ExecuteWorkflow, started_run

__all__ = [
    "annotations_of",
    "client_needs",
    "converted",
    "execute",
    "execution_authorization",
    "governance_of",
    "icons_of",
    "nested_schema",
    "object_at",
    "object_schema",
    "settings_of",
    "text_of",
]


# The member that holds an input that is not an object: tools take objects only.
_WRAPPED = "input"

_RISKS: dict[str, Literal["low", "medium", "high", "critical"]] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "critical": "critical",
}


def settings_of(document: JsonObject, kind: str) -> JsonObject | None:
    """Return how a document wants to be exposed as one kind of thing; None if it does not."""
    exposed = object_at(document, "expose").get(kind)
    if exposed is True:
        return {}
    return exposed if isinstance(exposed, dict) else None


def object_at(document: JsonObject, name: str) -> JsonObject:
    """Return a member that is an object; an empty object in place of anything else."""
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def text_of(*candidates: JsonValue) -> str | None:
    """Return the first non-empty string."""
    return next((text for text in candidates if isinstance(text, str) and text), None)


def annotations_of(declared: JsonObject) -> Annotations:
    """Return the annotations that the author declared. Without any, a workflow may do anything."""
    return Annotations(
        read_only=declared.get("read_only") is True,
        destructive=declared.get("destructive", declared.get("read_only") is not True) is True,
        idempotent=declared.get("idempotent") is True,
        open_world=declared.get("open_world", True) is True,
    )


def governance_of(declared: JsonObject, scopes: tuple[str, ...]) -> Governance:
    """Return what a caller needs: the document's governance, and the scopes of a start."""
    return Governance(
        risk=_RISKS.get(str(declared.get("risk")), "medium"),
        scopes=scopes,
        confirm=declared.get("confirm") is True,
        bucket="write",
    )


def execution_authorization(workflow_id: str, arguments: JsonObject) -> Authorization:
    """Return what a policy decides about."""
    return Authorization(action="workflow.execute", resource_kind="workflow", resource_id=workflow_id)


def _takes_object(schema: JsonObject) -> bool:
    kind = schema.get("type")
    return not schema or kind == "object" or (kind is None and "properties" in schema)


def object_schema(schema: JsonObject) -> JsonObject:
    """Return the input schema of a workflow as a tool shows it: always that of an object."""
    if _takes_object(schema):
        return {**schema, "type": "object"}
    nested, definitions = nested_schema(schema)
    wrapped: JsonObject = {"type": "object", "required": [_WRAPPED], "properties": {_WRAPPED: nested}}
    return {**wrapped, "$defs": definitions} if definitions else wrapped


def converted(schema: JsonObject, arguments: JsonObject) -> JsonValue:
    """Convert arguments to the workflow's input; raise `Rejected` with every violation before an execution exists.

    If checking would take long, it is left to the start of the execution, which does it in a separate process.
    """
    offered = object_schema(schema)
    compiled = load_schema(offered)
    if isinstance(compiled, CompiledSchema) and is_prompt(compiled, arguments, len(msgspec.json.encode(arguments))):
        found: list[JsonValue] = [
            {"pointer": item.instance_path, "keyword": item.keyword, "message": item.message}
            for item in violations(compiled, arguments)
        ]
        if found:
            first = found[0]
            place = f"{first['pointer'] or '/'} {first['message']}" if isinstance(first, dict) else ""
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            message = f"the arguments do not fit: {place}{more}"
            raise Rejected("INVALID_ARGUMENTS", message, "see `errors` for every mistake", {"errors": found})
    return arguments if _takes_object(schema) else arguments.get(_WRAPPED)


def nested_schema(schema: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Split a schema so that it can be nested in another one; return it and the definitions for the root of that one.

    A schema with references to anything but its own definitions cannot be nested; it becomes an empty one.
    """
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


def icons_of(shown: JsonObject) -> list[JsonValue]:
    """Return the icons with the member names of the wire."""
    listed = shown.get("icons")
    if isinstance(shown.get("icon"), str):
        listed = [{"src": shown["icon"]}]
    found: list[JsonValue] = []
    for icon in listed if isinstance(listed, list) else []:
        if isinstance(icon, dict):
            kept = {"mimeType" if name == "mime_type" else name: value for name, value in icon.items()}
            found.append(kept)
    return found


async def execute(workflow_id: str, definition_hash: str, context: Context, given: JsonValue) -> ExecutionResult:
    """Start the version that was listed, and wait for its result for as long as the call may."""
    # Keep the progress that its first steps report: the caller can subscribe only after the start.
    with context.services.host.progress.starting():
        row = await started_run(context, ExecuteWorkflow(workflow_id=workflow_id, hash=definition_hash, input=given))
    patience = context.request.patience_seconds
    seconds = seconds_to_wait(context, None) if patience is None else patience
    return await wait_for_result(context, row.run_id, seconds)


_CLIENT = "client"


def client_needs(document: JsonObject, shown: JsonObject) -> JsonObject:
    """Return what the workflow needs of the client, for the metadata of the capability."""
    required = shown.get("requires")
    if isinstance(required, list):
        return {"requires": required}
    alone = [node for node in _nodes(document.get("nodes")) if "on_error" not in node]
    models: list[JsonValue] = [
        str(node.get("model", "default"))
        for node in alone
        if node.get("type") == "llm_call" and node.get("provider") == _CLIENT
    ]
    roots = any("tool" in node and node.get("server") == _CLIENT for node in alone)
    needs: JsonObject = {"client_models": models} if models else {}
    return {**needs, "client_roots": True} if roots else needs


def _nodes(listed: JsonValue) -> Iterator[JsonObject]:
    """Yield every node at any depth. The settings of nodes in the published format are merged into the node."""
    if isinstance(listed, list):
        for item in listed:
            yield from _nodes(item)
    elif isinstance(listed, dict):
        config = listed.get("config")
        yield {**listed, **config} if isinstance(config, dict) else listed
        for name in ("nodes", "branches"):
            yield from _nodes(listed.get(name))
