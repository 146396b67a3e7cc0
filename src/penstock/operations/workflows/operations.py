"""Operations on workflows: create, read, change, delete, check, compare.

A workflow is known by the name in its document. Every change makes a version, known by the hash of the document; runs
stay with the version they began with. The hash is the ETag: callers can say which version they want to change.

Above it: the catalogue. Below it: `definitions`, the store's definitions. Starting a run is in `executions.execute`,
moving workflows between servers is in `bundles`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from penstock.base.errors import Conflict, Denied, NotFound, Rejected
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.definitions.model import Workflow
from penstock.definitions.source.findings import Finding, Severity
from penstock.definitions.start_needs import start_needs
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted, document_name
from penstock.operations.catalogue.reasons import SIGNATURE_ERRORS
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.gate.holds import HoldRequired, facts_of
from penstock.operations.permissions.agent_names import refuse_agent_name
from penstock.operations.permissions.standing_authority import keep_workflow_authority
from penstock.operations.permissions.starting import (
    find_workflow,
    first_missing,
    found_definition,
    needs_of,
    scopes_to_start,
)
from penstock.operations.permissions.witnesses import workflow_witness
from penstock.operations.runs.tool_schemas import governance_of, object_at
from penstock.operations.workflows.documents import checked_document, compiled, document_of
from penstock.operations.workflows.references import filled_in, reference_warnings
from penstock.operations.workflows.views import (
    CreateWorkflow,
    DeleteWorkflow,
    Difference,
    DiffWorkflow,
    GetWorkflow,
    ListWorkflows,
    UpdateWorkflow,
    ValidateWorkflow,
    Validation,
    WorkflowPage,
    WorkflowVersions,
    WorkflowView,
    finding_view,
    summary_of,
    view_of,
)
from penstock.runtime.host.definitions import is_stored, name_taken
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import (
    ANY,
    AnyHash,
    DefinitionChanged,
    DefinitionNameTaken,
    DefinitionPut,
    DefinitionRow,
)

if TYPE_CHECKING:
    from penstock.definitions.diff import compare
else:
    compare = lazy_import("penstock.definitions.diff.compare")

__all__ = [
    "OPERATIONS",
    "expected_hash",
    "has_triggers",
    "not_put",
    "put_workflow",
    "refuse_loosening",
    "refuse_triggers",
]


_EXAMPLE: JsonObject = {
    "penstock": "v1",
    "name": "greet",
    "input": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    "nodes": [{"id": "greeting", "type": "end", "output": {"text": '${ "Hello, " + .input.name }'}}],
}


async def put_workflow(
    context: Context,
    workflow: Workflow,
    *,
    expected_hash: str | AnyHash | None,
    answer: Callable[[DefinitionRow], Reply[Any]] | None = None,
) -> DefinitionRow:
    """Store a version and update its schedules; raise Conflict if another change was faster.

    `answer` makes the call's answer from the version; it is stored with the version.
    """
    services = context.services
    await refuse_triggers(context, workflow)
    await refuse_agent_name(context, workflow.name, workflow.document)
    current = await services.store.definition_named(workflow.name, tenant=context.tenant)
    refuse_loosening(context, workflow, current)
    if current is not None:
        await hold_loosening(context, current.document, workflow.document)
    if has_triggers(workflow):
        await keep_workflow_authority(context, workflow.name, workflow.hash)

    def call(row: DefinitionRow) -> CallRecord:
        return context.call if answer is None else idempotency.answered(context, answer(row))

    outcome = await services.host.register(
        workflow, tenant=context.tenant, created_by=context.principal.id, expected_hash=expected_hash, call=call
    )
    if isinstance(outcome, DefinitionChanged) and expected_hash is None:
        message = f"there is a workflow {workflow.name} already"
        raise Conflict("WORKFLOW_EXISTS", message, "change it with workflow.update", {"hash": outcome.current_hash})
    if not isinstance(outcome, DefinitionPut):
        raise not_put(workflow.name, outcome)
    services.definitions_changed(context.tenant)
    await services.scheduler.follow(workflow.name, tenant=context.tenant)
    row = await services.store.definition(workflow.hash, tenant=context.tenant)
    if row is None:
        raise NotFound("WORKFLOW_NOT_FOUND", f"the workflow {workflow.name} is gone")
    return row


def not_put(name: str, outcome: DefinitionChanged | DefinitionNameTaken) -> Conflict:
    """Return the error that says why a version was not stored."""
    if isinstance(outcome, DefinitionNameTaken):
        return name_taken(name, outcome)
    message = f"{name} was changed in between: its newest version is {outcome.current_hash}"
    return Conflict("PRECONDITION_FAILED", message, "read it again, and apply the change to that version")


def has_triggers(workflow: Workflow) -> bool:
    """Whether a workflow has an enabled trigger, which starts executions without a call."""
    return any(trigger.get("enabled") is not False for trigger in workflow.triggers)


async def refuse_triggers(
    context: Context, workflow: Workflow, newest: Mapping[str, DefinitionRow] | None = None
) -> None:
    """Refuse to store triggers if the caller may not start the workflow: they start executions on the caller's behalf.

    `newest` holds the tenant's workflows as they will be, for calls that store several at once.
    """
    if not has_triggers(workflow):
        return
    needed = await scopes_to_start(context.services, context.tenant, [start_needs(workflow.document)], newest)
    missing = first_missing(context.principal, needed)
    if missing is not None:
        message = f"the triggers of {workflow.name} start executions, which needs the scope {missing}"
        hint = "ask the owner for a key with that scope, or store the workflow without `triggers`"
        raise Denied("SCOPE_REQUIRED", message, hint, {"scope": missing})


def refuse_loosening(context: Context, workflow: Workflow, current: DefinitionRow | None) -> None:
    """Refuse to remove a scope from a document if the caller lacks it: otherwise the caller could start it then."""
    kept = start_needs(workflow.document).scopes
    before = needs_of(context.services, current).scopes if current is not None else ()
    missing = first_missing(context.principal, [scope for scope in before if scope not in kept])
    if missing is not None:
        message = f"{workflow.name} needs the scope {missing}; only a key that has it may take it out of the document"
        hint = "leave `governance.scopes` as they are, or ask the owner for a key with that scope"
        raise Denied("SCOPE_REQUIRED", message, hint, {"scope": missing})


async def hold_loosening(context: Context, before: JsonObject, after: JsonObject) -> None:
    """Hold a change by which an agent could start something at once that would have to wait as it is."""
    request = context.request
    if context.holds is None or request.approval is not None or not request.by_agent:
        return
    scopes = context.capability.governance.scopes
    was, becomes = (governance_of(object_at(item, "governance"), scopes) for item in (before, after))
    hold = await context.holds.hold_of(context, facts_of(request, was))
    if hold is not None and await context.holds.hold_of(context, facts_of(request, becomes)) is None:
        raise HoldRequired(hold, was)


def expected_hash(if_match: str | None) -> str | AnyHash:
    """Return the version that an If-Match header names; any version if there is no header."""
    if if_match is None or if_match.strip() == "*":
        return ANY
    return if_match.strip().removeprefix("W/").strip('"')


def _named(arguments: JsonObject) -> str | None:
    """Return the name of the workflow in a call; None if it is sent as text, which has not been parsed yet."""
    chosen = arguments.get("id")
    return document_name(arguments.get("document")) or (chosen if isinstance(chosen, str) else None)


@operation(
    "workflow.create",
    route=Route(method="POST", path="/workflows", status=201, etag=True),
    scopes=("workflow:write",),
    risk="medium",
    subject=_named,
    errors=(
        "INVALID_DOCUMENT",
        "DOCUMENT_TOO_COSTLY",
        "WORKFLOW_EXISTS",
        "NAME_TAKEN",
        "AGENT_NAME_TAKEN",
        *SIGNATURE_ERRORS,
    ),
    examples=(Example(arguments={"document": _EXAMPLE}),),
)
async def workflow_create(context: Context, given: CreateWorkflow) -> Reply[WorkflowView]:
    """Create a workflow.

    Stores the first version of a workflow, after checking it completely. Give the document as an object or as text.
    Refused if the name is taken; call workflow.update then. Afterwards start it with workflow.execute.
    """
    document = await document_of(context, given.document, given.source, given.id, given.name, given.tasks)
    workflow = await compiled(context, document)
    context.call.about(workflow.name)
    answer = partial(_created, context, await reference_warnings(context, workflow.document))
    return answer(await put_workflow(context, workflow, expected_hash=None, answer=answer))


def _created(context: Context, warnings: Sequence[Finding], row: DefinitionRow) -> Reply[WorkflowView]:
    return Reply(
        value=view_of(row, context.services.signatures, warnings),
        etag=row.hash,
        location=f"/workflows/{quote(row.name, safe='')}",
    )


def _changed(context: Context, warnings: Sequence[Finding], row: DefinitionRow) -> Reply[WorkflowView]:
    return Reply(value=view_of(row, context.services.signatures, warnings), etag=row.hash)


@operation(
    "workflow.get",
    route=Route(method="GET", path="/workflows/{workflow_id}", query=("hash",), etag=True),
    scopes=("workflow:read",),
    reads=True,
    subject="workflow_id",
    errors=("WORKFLOW_NOT_FOUND",),
    examples=(Example(arguments={"workflow_id": "refund_order"}),),
)
async def workflow_get(context: Context, given: GetWorkflow) -> Reply[WorkflowView]:
    """Get a workflow.

    Returns the document, the schemas of input and output, and the hash of the version. Older versions by their hash.
    """
    row = await found_definition(context, given.workflow_id, given.hash)
    return Reply(value=view_of(row, context.services.signatures), etag=row.hash)


@operation(
    "workflow.list",
    route=Route(method="GET", path="/workflows", query=("prefix", "limit", "cursor")),
    scopes=("workflow:read",),
    reads=True,
    errors=("INVALID_LIST_CURSOR",),
    examples=(Example(arguments={"limit": 20}),),
)
async def workflow_list(context: Context, given: ListWorkflows) -> WorkflowPage:
    """List workflows.

    Names with titles and descriptions, in order of the name. Use it to find out what can be executed.
    """
    page = await context.services.store.list_definitions(
        tenant=context.tenant, prefix=given.prefix, limit=given.limit, cursor=given.cursor
    )
    return WorkflowPage(items=[summary_of(row) for row in page.rows], next_cursor=page.next_cursor)


async def _update_impact(context: Context, given: UpdateWorkflow) -> JsonObject:
    """Return what a new version would change, and whom that would break."""
    current = await found_definition(context, given.workflow_id)
    sent = await document_of(context, given.document, given.source, given.workflow_id, given.name, given.tasks)
    document = (await filled_in(context, sent, ())).document
    found = await asyncio.to_thread(compare.diff_documents, current.document, document)
    return {"diff": found.to_json()}


@operation(
    "workflow.update",
    route=Route(method="PUT", path="/workflows/{workflow_id}", headers={"If-Match": "if_match"}, etag=True),
    scopes=("workflow:write",),
    idempotent=True,
    risk="medium",
    subject="workflow_id",
    witness=workflow_witness,
    find=find_workflow,
    impact=_update_impact,
    errors=(
        *SIGNATURE_ERRORS,
        "INVALID_DOCUMENT",
        "DOCUMENT_TOO_COSTLY",
        "WORKFLOW_NOT_FOUND",
        "WORKFLOW_NAME_DIFFERS",
        "PRECONDITION_FAILED",
        "NAME_TAKEN",
        "AGENT_NAME_TAKEN",
    ),
    examples=(
        Example(
            arguments={
                "workflow_id": "greet",
                "document": {
                    "penstock": "v1",
                    "name": "greet",
                    "nodes": [{"id": "done", "type": "end", "output": "hello"}],
                },
            }
        ),
    ),
)
async def workflow_update(context: Context, given: UpdateWorkflow) -> Reply[WorkflowView]:
    """Change a workflow.

    Stores a new version after checking it completely; runs that exist stay with theirs. Send the ETag that you read as
    If-Match to be refused when somebody else changed it in between.
    """
    current = await found_definition(context, given.workflow_id)
    document = await document_of(context, given.document, given.source, given.workflow_id, given.name, given.tasks)
    workflow = await compiled(context, document)
    if workflow.name != given.workflow_id:
        message = f"the document is called {workflow.name}, not {given.workflow_id}"
        raise Rejected("WORKFLOW_NAME_DIFFERS", message, "a workflow keeps its name; create another one instead")
    expected = expected_hash(given.if_match)
    answer = partial(_changed, context, await reference_warnings(context, workflow.document))
    if is_stored(current, workflow) and expected in (ANY, current.hash):
        return answer(current)
    return answer(await put_workflow(context, workflow, expected_hash=expected, answer=answer))


@operation(
    "workflow.delete",
    route=Route(method="DELETE", path="/workflows/{workflow_id}", headers={"If-Match": "if_match"}),
    scopes=("workflow:delete",),
    destructive=True,
    risk="high",
    subject="workflow_id",
    witness=workflow_witness,
    find=find_workflow,
    errors=("WORKFLOW_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def workflow_delete(context: Context, given: DeleteWorkflow) -> Deleted:
    """Delete a workflow.

    New runs cannot be started; runs that exist go on, and their versions are kept. Its schedules stop.
    """
    row = await found_definition(context, given.workflow_id)
    scheduler, store = context.services.scheduler, context.services.store
    expected, answer = expected_hash(given.if_match), Deleted(id=row.name)
    call = idempotency.answered(context, Reply(value=answer))
    if not await store.delete_definition(row.name, tenant=context.tenant, expected_hash=expected, call=call):
        row = await found_definition(context, given.workflow_id)
        message = f"{row.name} was changed in between: its newest version is {row.hash}"
        raise Conflict("PRECONDITION_FAILED", message, "read it again")
    deleted = await context.services.host.workflow(row.hash)
    await scheduler.drop_triggers(row.name, tenant=context.tenant, workflow=deleted)
    await scheduler.follow(row.name, tenant=context.tenant)  # it may have been created again meanwhile
    context.services.definitions_changed(context.tenant)
    return answer


@operation(
    "workflow.validate",
    route=Route(method="POST", path="/workflows/validate"),
    scopes=("workflow:read",),
    reads=True,
    errors=("INVALID_ARGUMENTS", "DOCUMENT_TOO_COSTLY"),
    examples=(
        Example(
            arguments={
                "document": {
                    "penstock": "v1",
                    "name": "greet",
                    "nodes": [{"id": "done", "type": "end", "output": "hello"}],
                }
            }
        ),
    ),
)
async def workflow_validate(context: Context, given: ValidateWorkflow) -> Validation:
    """Check a workflow document.

    Finds everything that is wrong with it at once, with places and hints, and stores nothing. Text gives lines too.
    """
    checked, document_hash = await checked_document(context, given.document, given.source)
    errors = [item for item in checked if item.severity is Severity.ERROR]
    return Validation(valid=not errors, findings=[finding_view(item) for item in checked], hash=document_hash)


@operation(
    "workflow.versions",
    route=Route(method="GET", path="/workflows/{workflow_id}/versions", query=("limit", "cursor")),
    scopes=("workflow:read",),
    reads=True,
    subject="workflow_id",
    errors=("WORKFLOW_NOT_FOUND", "INVALID_LIST_CURSOR"),
)
async def workflow_versions(context: Context, given: WorkflowVersions) -> WorkflowPage:
    """List the versions of a workflow.

    Newest first. Get one by its hash, or compare two with workflow.diff.
    """
    await found_definition(context, given.workflow_id)
    page = await context.services.store.definition_versions(
        given.workflow_id, tenant=context.tenant, limit=given.limit, cursor=given.cursor
    )
    return WorkflowPage(items=[summary_of(row) for row in page.rows], next_cursor=page.next_cursor)


@operation(
    "workflow.diff",
    route=Route(method="POST", path="/workflows/{workflow_id}/diff"),
    scopes=("workflow:read",),
    reads=True,
    subject="workflow_id",
    errors=("WORKFLOW_NOT_FOUND", "INVALID_DOCUMENT", "DOCUMENT_TOO_COSTLY"),
)
async def workflow_diff(context: Context, given: DiffWorkflow) -> Difference:
    """Compare versions of a workflow.

    Two stored versions by hash, or a stored one with a document. Says what differs and whether it breaks callers.
    """
    before = await found_definition(context, given.workflow_id, given.before)
    if given.document is not None or given.source is not None:
        sent = await document_of(context, given.document, given.source)
        after: JsonObject = (await compiled(context, sent)).document
    else:
        after = (await found_definition(context, given.workflow_id, given.after)).document
    difference = await context.services.documents.difference(before.document, after, tenant=context.tenant)
    return msgspec.convert(difference, Difference)


OPERATIONS: tuple[Capability, ...] = (
    workflow_create,
    workflow_get,
    workflow_list,
    workflow_update,
    workflow_delete,
    workflow_validate,
    workflow_versions,
    workflow_diff,
)
