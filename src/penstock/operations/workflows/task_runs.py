"""`task.execute`: runs one node by itself, with its own configuration, as a small durable run.

The node is one of a stored workflow, or sent with the call. What its expressions read (the input, the state, results of
other nodes) is part of the call. Nothing that comes before the node in its workflow happens, approvals included; so the
call needs the scope of an author, who could write a workflow of this node alone, beside the scopes of its workflow.

Above it: the catalogue. Below it: `definitions.jq.rooted`, `registered_tools.generated`, `runs.starting`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base.encoding import encode_bytes
from penstock.base.errors import NotFound, Rejected
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.definitions.jq.rooted import rooted
from penstock.definitions.jq.templates import SECRET_REFERENCE
from penstock.definitions.model import ACTIVITY_TYPES
from penstock.definitions.nodes import ACTIVITY_KINDS
from penstock.definitions.reached import ANY, Reached, reached_by
from penstock.definitions.source.findings import Severity, summarize
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import WorkflowId
from penstock.operations.catalogue.reaching import argument, named
from penstock.operations.catalogue.reasons import SIGNATURE_ERRORS
from penstock.operations.gate.context import Context
from penstock.operations.permissions.authorship import RunMarks, author_of, marks_of
from penstock.operations.registered_tools.generated import built, register_generated, started_reply, store_generated
from penstock.operations.runs.fields import ChosenId, Labels, Wait
from penstock.operations.runs.results import ExecutionResult
from penstock.operations.runs.starting import ExecuteWorkflow, find_startable
from penstock.operations.runs.views import ExecutionHandle
from penstock.operations.workflows.tasks import Task, TaskId
from penstock.runtime.chains import VERSION_LABEL
from penstock.runtime.ports.runs import DefinitionRow

__all__ = ["OPERATIONS"]

_OWNER = "-tasks"
"""The owner of the workflows of tasks. No tenant can have this name."""
_DEFINE = "task.define"
_SCOPES = ("workflow:run", "workflow:write")
# What the expressions of the node see, made of the input of the small run.
_ROOT = "(.input | (.results // {}) + {input: .input, state: (.state // {})})"
# Where a node leads, and what follows it, is nothing that it does itself.
_OF_ITS_PLACE = ("next", "on_error", "compensate")
_INPUT: JsonObject = {
    "type": "object",
    "properties": {"input": {}, "results": {"type": "object"}, "state": {"type": "object"}},
    "additionalProperties": False,
}


class ExecuteTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which node, and what its expressions read."""

    workflow_id: Annotated[WorkflowId | None, Meta(description="The workflow that has the node.")] = None
    task_id: Annotated[TaskId | None, Meta(description="The node of the workflow.")] = None
    task: Annotated[Task | None, Meta(description="A node that you send, instead of one of a workflow.")] = None
    input: Annotated[Any, Meta(description="What the node reads as `.input`.")] = None
    results: Annotated[dict[str, Any], Meta(description="Results of other nodes, by their ids.", max_length=200)] = (
        msgspec.field(default_factory=dict)
    )
    state: Annotated[dict[str, Any], Meta(description="What the node reads as `.state`.")] = msgspec.field(
        default_factory=dict
    )
    sync: Annotated[bool, Meta(description="Wait for the end, for a bounded time; see `wait_seconds`.")] = False
    wait_seconds: Wait = None
    execution_id: ChosenId = None
    labels: Labels = msgspec.field(default_factory=dict)


class DefineTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The workflow of a task."""

    task: str
    document: dict[str, Any]


class DefinedTask(msgspec.Struct, frozen=True, kw_only=True):
    """The version that is stored."""

    hash: str


@operation(_DEFINE, route=None, scopes=("workflow:write",), subject="task")
async def task_define(context: Context, given: DefineTask) -> DefinedTask:
    """Store the workflow that a task runs as."""
    workflow = built(given.document)
    await register_generated(context, workflow, _OWNER)
    return DefinedTask(hash=workflow.hash)


async def _source(context: Context, given: ExecuteTask) -> tuple[JsonObject, JsonObject, RunMarks]:
    """Return the node, the document that it is in, and who wrote it.

    The document is empty for a node of its own, whose author is its sender.
    """
    if given.task is not None:
        if given.workflow_id is not None or given.task_id is not None:
            message = "send `task`, or `workflow_id` and `task_id`, not both"
            raise Rejected("INVALID_ARGUMENTS", message, "leave `workflow_id` and `task_id` out")
        return given.task, {}, marks_of(author_of(context))
    if given.workflow_id is None or given.task_id is None:
        message = "`workflow_id` and `task_id` are needed, or `task`"
        raise Rejected("INVALID_ARGUMENTS", message, "send `task`, or `workflow_id` and `task_id`")
    row = await _startable(context, given)
    nodes = row.document.get("nodes")
    for node in nodes if isinstance(nodes, list) else []:
        if isinstance(node, dict) and node.get("id") == given.task_id:
            marks = marks_of(row.author)
            labels = {**marks.labels, VERSION_LABEL: row.hash} if marks.labels else {}
            return node, row.document, marks._replace(labels=labels)
    message = f"{row.name} has no task {given.task_id}"
    raise NotFound("TASK_NOT_FOUND", message, "list them with task.list")


async def _startable(context: Context, given: ExecuteTask) -> DefinitionRow:
    """Return the workflow, if the caller may start it with this input; a part of it needs what the whole does."""
    return await find_startable(context, ExecuteWorkflow(workflow_id=given.workflow_id or "", input=given.input))


async def _find(context: Context, given: ExecuteTask) -> object:
    return await _source(context, given)


def _reaches(arguments: Mapping[str, Any]) -> Iterable[Reached]:
    """Return what a node reaches: as it is sent, or as any of its workflow."""
    task = argument(arguments, "task")
    if isinstance(task, dict):
        return reached_by({"penstock": "v1", "nodes": [task]})
    return (Reached(ANY),) if task == ANY else named("workflow:", "workflow_id")(arguments)


def _document(node: JsonObject, whole: JsonObject) -> JsonObject:
    """Return the document of the workflow that a node runs as; raise `Rejected` if it cannot run by itself."""
    name = f"{whole.get('name')}.{node.get('id')}" if whole else str(node.get("id"))
    if whole and "penstock" not in whole:
        message = f"{whole.get('name')} is in the published format, whose nodes do not run on their own"
        raise Rejected("TASK_NOT_EXECUTABLE", message, "convert the document to the native format")
    kind = str(node.get("type"))
    known = sorted(str(item) for item in ACTIVITY_TYPES)
    if kind not in known:
        message = f"{name} is of the type {kind}, which does no work on its own"
        raise Rejected("TASK_NOT_EXECUTABLE", message, f"choose a node of one of these types: {', '.join(known)}")
    if "conversation" in node or isinstance(node.get("tools"), str):
        message = f"{name} is a turn of a conversation, which is in the state of its run"
        raise Rejected("TASK_NOT_EXECUTABLE", message, "run the agent with agent.execute")
    alone = {member: value for member, value in node.items() if member not in _OF_ITS_PLACE}
    for member in (*_rendered(kind), "idempotency_key"):
        if member in alone:
            alone[member] = rooted(alone[member], _ROOT)
    secrets: list[JsonValue] = sorted(set(SECRET_REFERENCE.findall(encode_bytes(alone).decode())))
    document: JsonObject = {
        "penstock": "v1",
        "name": "task",
        "title": name,
        "input": _INPUT,
        "governance": _governance(whole),
        "nodes": [alone, {"id": "task_ended", "type": "end", "output": f"${{ .[{json.dumps(node.get('id'))}] }}"}],
    }
    if secrets:
        document["secrets"] = secrets
    if "defaults" in whole:
        document["defaults"] = whole["defaults"]
    return document


def _rendered(kind: str) -> tuple[str, ...]:
    """Return the fields of a node type that have expressions."""
    return next((found.activity.arguments for found in ACTIVITY_KINDS if found.activity and found.type == kind), ())


def _governance(whole: JsonObject) -> JsonObject:
    """Return what repeating the run needs: what starting it does."""
    declared = object_or_empty(whole.get("governance"))
    scopes = declared.get("scopes")
    named: list[JsonValue] = [*_SCOPES, *(scopes if isinstance(scopes, list) else [])]
    return {**declared, "scopes": list(dict.fromkeys(map(str, named)))}


async def _checked(context: Context, node: JsonObject, whole: JsonObject) -> JsonObject:
    """Return the document of a node after all checks; raise `Rejected` with every mistake."""
    document = _document(node, whole)
    findings = await context.services.documents.findings(document, tenant=context.tenant)
    errors = [item for item in findings if item.severity is Severity.ERROR]
    if errors:
        message = summarize("the task", errors)
        listed: list[JsonValue] = [item.to_json() for item in errors]
        raise Rejected(
            "INVALID_DOCUMENT",
            message,
            errors[0].hint or "correct the mistakes that `findings` lists",
            {"findings": listed},
        )
    title = str(document["title"])
    return {**document, "name": f"task:{title}"}


@operation(
    "task.execute",
    route=Route(method="POST", path="/tasks/executions", status=202, other_statuses=(200,)),
    scopes=_SCOPES,
    destructive=True,
    open_world=True,
    risk="high",
    stores="workflow",
    subject="workflow_id",
    find=_find,
    reaches=_reaches,
    errors=(
        *SIGNATURE_ERRORS,
        "WORKFLOW_NOT_FOUND",
        "TASK_NOT_FOUND",
        "TASK_NOT_EXECUTABLE",
        "INVALID_DOCUMENT",
        "DOCUMENT_TOO_COSTLY",
        "INPUT_INVALID",
        "LABEL_RESERVED",
        "EXECUTION_ID_TAKEN",
        "QUOTA_EXCEEDED",
        "VALUE_NOT_JSON",
        "NOT_CONFIGURED",
    ),
    examples=(
        Example(arguments={"workflow_id": "daily_report", "task_id": "fetch", "input": {"day": "2026-01-31"}}),
        Example(
            arguments={
                "task": {"id": "ask", "type": "llm_call", "model": "fast", "prompt": "${ .input }"},
                "input": "?",
                "sync": True,
            }
        ),
    ),
)
async def task_execute(context: Context, given: ExecuteTask) -> Reply[ExecutionHandle | ExecutionResult]:
    """Run one task: a node of a workflow, or one that you send.

    Works for nodes that do work: a step, a request, a call of a tool, a model or an agent, a query. Its expressions
    read `input`, `state` and `results` of the call. Earlier nodes of its workflow do not run, approvals included.
    Starts a durable run and returns a handle at once; with `sync`, it waits for a limited time.
    """
    node, whole, marks = await _source(context, given)
    document = await _checked(context, node, whole)
    workflow = built(document)
    define: tuple[str, JsonObject] = (_DEFINE, {"task": str(document["title"]), "document": document})
    await store_generated(context, workflow.hash, define, chosen=given.execution_id)
    values: JsonObject = {"input": given.input}
    values |= {name: value for name, value in (("results", given.results), ("state", given.state)) if value}
    start = ExecuteWorkflow(
        workflow_id=workflow.name,
        input=values,
        sync=given.sync,
        wait_seconds=given.wait_seconds,
        execution_id=given.execution_id,
        labels=given.labels,
    )
    return await started_reply(context, start, workflow.hash, marks)


OPERATIONS: tuple[Capability, ...] = (task_execute, task_define)
