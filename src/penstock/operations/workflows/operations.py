"""Operations on workflows: create, read, change, delete, check, compare.

A workflow is known by the name in its document. Every change makes a version, known by the hash of the document; runs
stay with the version they began with. The hash is the ETag: callers can say which version they want to change.

Above it: the catalogue. Below it: `definitions`, the store's definitions. Starting a run is in `executions.execute`,
moving workflows between servers is in `bundles`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from penstock.base.errors import Conflict, Rejected
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.definitions.model import Workflow
from penstock.definitions.source.findings import Finding, Severity
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted, document_name
from penstock.operations.catalogue.reasons import SIGNATURE_ERRORS
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.permissions.authorship import author_of
from penstock.operations.permissions.starting import (
    find_workflow,
    found_definition,
)
from penstock.operations.permissions.witnesses import workflow_witness
from penstock.operations.runs.proposals import proposals_of
from penstock.operations.workflows.documents import checked_document, compiled, document_of
from penstock.operations.workflows.references import reference_warnings
from penstock.operations.workflows.storing import check_version, put_workflow, refuse_existing, version_impact
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
from penstock.runtime.definition_rows import is_stored
from penstock.runtime.ports.runs import (
    ANY,
    AnyHash,
    DefinitionRow,
)

if TYPE_CHECKING:
    from penstock.definitions.diff import compare
else:
    compare = lazy_import("penstock.definitions.diff.compare")

__all__ = [
    "OPERATIONS",
    "expected_hash",
]


_EXAMPLE: JsonObject = {
    "penstock": "v1",
    "name": "greet",
    "input": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    "nodes": [{"id": "greeting", "type": "end", "output": {"text": '${ "Hello, " + .input.name }'}}],
}


def expected_hash(if_match: str | None) -> str | AnyHash:
    """Return the version that an If-Match header names; any version if there is no header."""
    if if_match is None or if_match.strip() == "*":
        return ANY
    return if_match.strip().removeprefix("W/").strip('"')


def _named(arguments: JsonObject) -> str | None:
    """Return the name of the workflow in a call; None if it is sent as text, which has not been parsed yet."""
    chosen = arguments.get("id")
    return document_name(arguments.get("document")) or (chosen if isinstance(chosen, str) else None)


async def _first_version(context: Context, given: CreateWorkflow) -> Workflow:
    """Return the version that a new workflow begins with, after all checks of the document."""
    document = await document_of(context, given.document, given.source, given.id, given.name, given.tasks)
    return await compiled(context, document)


async def _find_create(context: Context, given: CreateWorkflow) -> None:
    workflow = await _first_version(context, given)
    await refuse_existing(context, workflow.name)
    await check_version(context, workflow)


async def _create_impact(context: Context, given: CreateWorkflow) -> JsonObject:
    """Return who wrote a new workflow, and what it can reach."""
    return await version_impact(context, await _first_version(context, given))


@operation(
    "workflow.create",
    route=Route(method="POST", path="/workflows", status=201, etag=True),
    scopes=("workflow:write",),
    risk="medium",
    stores="workflow",
    subject=_named,
    find=_find_create,
    impact=_create_impact,
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

    Stores the first version of a workflow, after checking it completely. Send the document as an object or as text.
    Refused if the name is taken; then call workflow.update. Start it with workflow.execute.
    """
    workflow = await _first_version(context, given)
    context.call.about(workflow.name)
    answer = partial(_created, context, await reference_warnings(context, workflow.document))
    return answer(await put_workflow(context, workflow, expected_hash=None, answer=answer))


def _created(context: Context, warnings: Sequence[Finding], row: DefinitionRow) -> Reply[WorkflowView]:
    return Reply(
        value=view_of(row, context.services, warnings),
        etag=row.hash,
        location=f"/workflows/{quote(row.name, safe='')}",
    )


def _changed(context: Context, warnings: Sequence[Finding], row: DefinitionRow) -> Reply[WorkflowView]:
    return Reply(value=view_of(row, context.services, warnings), etag=row.hash)


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

    Returns the document, the schemas of input and output, and the hash of the version. Get an older version by its
    hash.
    """
    row = await found_definition(context, given.workflow_id, given.hash)
    return Reply(value=view_of(row, context.services), etag=row.hash)


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

    Returns names with titles and descriptions, ordered by name. Use it to find a workflow to start with
    workflow.execute.
    """
    page = await context.services.store.definitions.list_page(
        tenant=context.tenant, prefix=given.prefix, limit=given.limit, cursor=given.cursor
    )
    return WorkflowPage(
        items=[summary_of(row, context.services) for row in page.rows],
        next_cursor=page.next_cursor,
        proposals=await proposals_of(context, "workflow", cursor=given.cursor, prefix=given.prefix),
    )


async def _next_version(context: Context, given: UpdateWorkflow) -> Workflow:
    """Return the version that a change makes, after all checks; raise `Rejected` if it is one of another workflow."""
    document = await document_of(context, given.document, given.source, given.workflow_id, given.name, given.tasks)
    workflow = await compiled(context, document)
    if workflow.name != given.workflow_id:
        message = f"the document is named {workflow.name}, not {given.workflow_id}"
        raise Rejected(
            "WORKFLOW_NAME_DIFFERS", message, "keep the name, or create another workflow with workflow.create"
        )
    return workflow


async def _find_update(context: Context, given: UpdateWorkflow) -> None:
    await found_definition(context, given.workflow_id)
    await check_version(context, await _next_version(context, given))


async def _update_impact(context: Context, given: UpdateWorkflow) -> JsonObject:
    """Return what a new version would change, whom that would break, and what it can reach."""
    await found_definition(context, given.workflow_id)
    return await version_impact(context, await _next_version(context, given))


@operation(
    "workflow.update",
    route=Route(method="PUT", path="/workflows/{workflow_id}", headers={"If-Match": "if_match"}, etag=True),
    scopes=("workflow:write",),
    idempotent=True,
    risk="medium",
    stores="workflow",
    subject="workflow_id",
    witness=workflow_witness,
    find=_find_update,
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

    Stores a new version after checking it completely; existing runs keep theirs. Send the ETag that you read as
    If-Match; the call is then refused if the workflow has changed since.
    """
    current = await found_definition(context, given.workflow_id)
    workflow = await _next_version(context, given)
    expected = expected_hash(given.if_match)
    answer = partial(_changed, context, await reference_warnings(context, workflow.document))
    if is_stored(current, workflow, author_of(context)) and expected in (ANY, current.hash):
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

    It can no longer be started. Existing runs continue, and their versions are kept. Its schedules stop.
    """
    row = await found_definition(context, given.workflow_id)
    scheduler, store = context.services.scheduler, context.services.store
    expected, answer = expected_hash(given.if_match), Deleted(id=row.name)
    call = idempotency.answered(context, Reply(value=answer))
    if not await store.definitions.delete(row.name, tenant=context.tenant, expected_hash=expected, call=call):
        row = await found_definition(context, given.workflow_id)
        message = f"{row.name} was changed by another call: its newest version is {row.hash}"
        raise Conflict("PRECONDITION_FAILED", message, "read it again, and apply the change to that version")
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

    Finds every mistake at once, with places and hints, and stores nothing. If you send text, mistakes have line numbers
    too.
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

    Newest first. Get one by its hash with workflow.get, or compare two with workflow.diff.
    """
    await found_definition(context, given.workflow_id)
    page = await context.services.store.definitions.list_versions(
        given.workflow_id, tenant=context.tenant, limit=given.limit, cursor=given.cursor
    )
    return WorkflowPage(items=[summary_of(row, context.services) for row in page.rows], next_cursor=page.next_cursor)


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

    Compares two stored versions by hash, or a stored version with a document. Says what differs and whether it breaks
    callers.
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
