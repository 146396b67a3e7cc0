"""Operations on tasks: the nodes of a workflow, one at a time.

A change makes a new version of the workflow, after checking it completely, just as workflow.update does.

Above it: the catalogue. Below it: `operations`, `documents`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Meta

from penstock.base.errors import Conflict, NotFound, Rejected
from penstock.base.json import JsonObject
from penstock.definitions.model import Workflow
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted, IfMatch, WorkflowId
from penstock.operations.gate.context import Context
from penstock.operations.permissions.starting import found_definition
from penstock.operations.workflows.documents import compiled
from penstock.operations.workflows.operations import expected_hash
from penstock.operations.workflows.storing import check_version, put_workflow, version_impact
from penstock.runtime.ports.runs import ANY, DefinitionRow

__all__ = ["OPERATIONS"]

T = TypeVar("T")

TaskId = Annotated[str, Meta(description="The node's id.", min_length=1, max_length=64, examples=["charge"])]
Task = Annotated[
    dict[str, Any],
    Meta(description="The node: `id`, `type` and what its type needs.", examples=[{"id": "charge", "type": "step"}]),
]
_ERRORS = (
    "WORKFLOW_NOT_FOUND",
    "TASK_NOT_FOUND",
    "INVALID_DOCUMENT",
    "DOCUMENT_TOO_COSTLY",
    "PRECONDITION_FAILED",
    "NAME_TAKEN",
    "AGENT_NAME_TAKEN",
)


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A node, where it stands, and the version of the workflow that it is in."""

    id: str
    type: str
    workflow_id: str
    workflow_hash: str
    position: int
    task: dict[str, Any]


class TaskList(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a workflow in their order."""

    workflow_id: str
    workflow_hash: str
    items: list[TaskView]


class CreateTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node, and where it goes."""

    workflow_id: WorkflowId
    task: Task
    after: Annotated[str, Meta(description="The node it comes after; the last without.", max_length=64)] | None = None
    if_match: IfMatch = None


class OneTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which node."""

    workflow_id: WorkflowId
    task_id: TaskId


class ListTasks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflow."""

    workflow_id: WorkflowId


class UpdateTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which node, and what it is now."""

    workflow_id: WorkflowId
    task_id: TaskId
    task: Task
    if_match: IfMatch = None


class DeleteTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which node."""

    workflow_id: WorkflowId
    task_id: TaskId
    if_match: IfMatch = None


def _nodes(row: DefinitionRow) -> list[JsonObject]:
    nodes = row.document.get("nodes")
    return [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []


def _position(row: DefinitionRow, task_id: str) -> int:
    for number, node in enumerate(_nodes(row)):
        if node.get("id") == task_id:
            return number
    known = ", ".join(str(node.get("id")) for node in _nodes(row)[:20])
    raise NotFound("TASK_NOT_FOUND", f"{row.name} has no task {task_id}", f"its tasks are: {known}")


def _view(row: DefinitionRow, number: int) -> TaskView:
    node = _nodes(row)[number]
    return TaskView(
        id=str(node.get("id")),
        type=str(node.get("type")),
        workflow_id=row.name,
        workflow_hash=row.hash,
        position=number,
        task=node,
    )


async def _version_with(context: Context, row: DefinitionRow, nodes: list[JsonObject]) -> Workflow:
    """Return the version with these nodes, after all checks of the document."""
    document: JsonObject = {**row.document, "nodes": list(nodes)}
    # The signature was made for the previous document.
    document.pop("signature", None)
    return await compiled(context, document)


async def _next_version(context: Context, given: CreateTask | UpdateTask | DeleteTask) -> Workflow:
    """Return the version that a change of a task makes; raise what the change itself would raise."""
    row = await found_definition(context, given.workflow_id)
    if isinstance(given, CreateTask):
        return await _version_with(context, row, _with_task(row, given)[0])
    nodes, number = _nodes(row), _position(row, given.task_id)
    if isinstance(given, UpdateTask):
        _refuse_other_id(given)
        nodes[number] = given.task
    else:
        del nodes[number]
    return await _version_with(context, row, nodes)


def _with_task(row: DefinitionRow, given: CreateTask) -> tuple[list[JsonObject], int]:
    """Return the nodes of a workflow with another one, and where that is."""
    nodes = _nodes(row)
    if any(node.get("id") == given.task.get("id") for node in nodes):
        message = f"{row.name} already has a task {given.task.get('id')}"
        raise Conflict("TASK_EXISTS", message, "change it with task.update")
    number = len(nodes) if given.after is None else _position(row, given.after) + 1
    return [*nodes[:number], given.task, *nodes[number:]], number


def _refuse_other_id(given: UpdateTask) -> None:
    if given.task.get("id") != given.task_id:
        message = f"the task is named {given.task.get('id')}, not {given.task_id}"
        raise Rejected("TASK_ID_DIFFERS", message, "keep the id, or add the task with task.create")


async def _find_version(context: Context, given: CreateTask | UpdateTask | DeleteTask) -> None:
    await check_version(context, await _next_version(context, given))


async def _impact(context: Context, given: CreateTask | UpdateTask | DeleteTask) -> JsonObject:
    """Return what the new version of the workflow would change, and what it can reach."""
    return await version_impact(context, await _next_version(context, given))


async def _with_nodes(
    context: Context,
    row: DefinitionRow,
    nodes: list[JsonObject],
    if_match: str | None,
    answer: Callable[[DefinitionRow], Reply[T]],
) -> Reply[T]:
    """Store a new version with these nodes; refuse if the change was made for another version than the newest."""
    expected = expected_hash(if_match)
    if expected is not ANY and expected != row.hash:
        message = f"{row.name} was changed by another call: its newest version is {row.hash}"
        raise Conflict("PRECONDITION_FAILED", message, "read it again, and apply the change to that version")
    workflow = await _version_with(context, row, nodes)
    return answer(await put_workflow(context, workflow, expected_hash=row.hash, answer=answer, changes=row))


@operation(
    "task.create",
    route=Route(
        method="POST", path="/workflows/{workflow_id}/tasks", status=201, headers={"If-Match": "if_match"}, etag=True
    ),
    scopes=("workflow:write",),
    risk="medium",
    stores="workflow",
    subject="workflow_id",
    find=_find_version,
    impact=_impact,
    errors=(*_ERRORS, "TASK_EXISTS"),
    examples=(Example(arguments={"workflow_id": "greet", "task": {"id": "pause", "type": "wait", "duration": "1s"}}),),
)
async def task_create(context: Context, given: CreateTask) -> Reply[TaskView]:
    """Add a task to a workflow.

    Adds the node at the end, or after the one that you name. Makes a new version of the workflow, which is checked
    completely.
    """
    row = await found_definition(context, given.workflow_id)
    nodes, number = _with_task(row, given)

    def created(stored: DefinitionRow) -> Reply[TaskView]:
        view = _view(stored, number)
        place = f"/workflows/{quote(row.name, safe='')}/tasks/{quote(view.id, safe='')}"
        return Reply(value=view, etag=stored.hash, location=place)

    return await _with_nodes(context, row, nodes, given.if_match, created)


@operation(
    "task.get",
    route=Route(method="GET", path="/workflows/{workflow_id}/tasks/{task_id}", etag=True),
    scopes=("workflow:read",),
    reads=True,
    subject="workflow_id",
    errors=("WORKFLOW_NOT_FOUND", "TASK_NOT_FOUND"),
)
async def task_get(context: Context, given: OneTask) -> Reply[TaskView]:
    """Get a task of a workflow.

    Returns the node as it is in the newest version of the workflow.
    """
    row = await found_definition(context, given.workflow_id)
    return Reply(value=_view(row, _position(row, given.task_id)), etag=row.hash)


@operation(
    "task.list",
    route=Route(method="GET", path="/workflows/{workflow_id}/tasks", etag=True),
    scopes=("workflow:read",),
    reads=True,
    subject="workflow_id",
    errors=("WORKFLOW_NOT_FOUND",),
)
async def task_list(context: Context, given: ListTasks) -> Reply[TaskList]:
    """List the tasks of a workflow.

    Returns its nodes in their order.
    """
    row = await found_definition(context, given.workflow_id)
    items = [_view(row, number) for number in range(len(_nodes(row)))]
    return Reply(value=TaskList(workflow_id=row.name, workflow_hash=row.hash, items=items), etag=row.hash)


@operation(
    "task.update",
    route=Route(
        method="PUT", path="/workflows/{workflow_id}/tasks/{task_id}", headers={"If-Match": "if_match"}, etag=True
    ),
    scopes=("workflow:write",),
    idempotent=True,
    risk="medium",
    stores="workflow",
    subject="workflow_id",
    find=_find_version,
    impact=_impact,
    errors=(*_ERRORS, "TASK_ID_DIFFERS"),
    examples=(
        Example(
            arguments={"workflow_id": "greet", "task_id": "done", "task": {"id": "done", "type": "end", "output": "hi"}}
        ),
    ),
)
async def task_update(context: Context, given: UpdateTask) -> Reply[TaskView]:
    """Change a task of a workflow.

    Replaces the node. Makes a new version of the workflow, which is checked completely.
    """
    row = await found_definition(context, given.workflow_id)
    number = _position(row, given.task_id)
    _refuse_other_id(given)
    nodes = _nodes(row)
    nodes[number] = given.task

    def changed(stored: DefinitionRow) -> Reply[TaskView]:
        return Reply(value=_view(stored, number), etag=stored.hash)

    return await _with_nodes(context, row, nodes, given.if_match, changed)


@operation(
    "task.delete",
    route=Route(method="DELETE", path="/workflows/{workflow_id}/tasks/{task_id}", headers={"If-Match": "if_match"}),
    scopes=("workflow:write",),
    destructive=True,
    risk="medium",
    stores="workflow",
    subject="workflow_id",
    find=_find_version,
    impact=_impact,
    errors=_ERRORS,
)
async def task_delete(context: Context, given: DeleteTask) -> Reply[Deleted]:
    """Remove a task from a workflow.

    Makes a new version of the workflow without the node. Refused if other nodes lead to it.
    """
    row = await found_definition(context, given.workflow_id)
    nodes = _nodes(row)
    del nodes[_position(row, given.task_id)]
    answer = Reply(value=Deleted(id=given.task_id))
    return await _with_nodes(context, row, nodes, given.if_match, lambda stored: answer)


OPERATIONS: tuple[Capability, ...] = (task_create, task_get, task_list, task_update, task_delete)
