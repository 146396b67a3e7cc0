"""A workflow as a capability: the schemas, annotations and scopes that its document gives, and the start of a run.

Above it: `exposed`, `imported_tools`. Below it: `starting`, `results`.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.encoding import encode_bytes
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import CompiledSchema, is_prompt, load_schema, violations
from penstock.definitions.schemas.misfits import tell_violations, unfit_message
from penstock.definitions.secret_answers import secrets_in, without_values_of
from penstock.operations.catalogue.capability import Authorization
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.runs.handles import seconds_to_wait
from penstock.operations.runs.held_access import with_held_calls
from penstock.operations.runs.results import ExecutionResult, wait_for_result
from penstock.operations.runs.starting import ExecuteWorkflow, start_or_find
from penstock.operations.runs.tool_schemas import WRAPPED, object_schema, takes_object

__all__ = [
    "client_needs",
    "converted",
    "execute",
    "execution_authorization",
    "icons_of",
]


def execution_authorization(workflow_id: str, arguments: JsonObject) -> Authorization:
    """Return what a policy decides about."""
    return Authorization(action="workflow.execute", resource_kind="workflow", resource_id=workflow_id)


def converted(schema: JsonObject, arguments: JsonObject) -> JsonValue:
    """Convert arguments to the workflow's input; raise `Rejected` with every violation before a run exists.

    If checking would take long, it is left to the start of the run, which does it in a separate process.
    """
    offered = object_schema(schema)
    compiled = load_schema(offered)
    if isinstance(compiled, CompiledSchema) and is_prompt(compiled, arguments, len(encode_bytes(arguments))):
        unfit = without_values_of(violations(compiled, arguments), secrets_in(compiled, arguments))
        if unfit:
            found = tell_violations(offered, unfit)
            message = unfit_message("the arguments do not fit:", found)
            raise Rejected("INVALID_ARGUMENTS", message, "correct the fields that `errors` lists", {"errors": found})
    return arguments if takes_object(schema) else arguments.get(WRAPPED)


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
        started = await start_or_find(
            context, ExecuteWorkflow(workflow_id=workflow_id, hash=definition_hash, input=given)
        )
    idempotency.found_by_id(context)
    patience = context.request.patience_seconds
    seconds = seconds_to_wait(context, None) if patience is None else patience
    result = await wait_for_result(context, started.row.run_id, seconds, state=started.state)
    return await with_held_calls(context, result)


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
