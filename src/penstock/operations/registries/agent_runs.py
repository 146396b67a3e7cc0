"""`agent.execute`: gives work to an agent, which is a run of the workflow that it stands for.

The agent is an entry of the registry, a stored workflow whose document has an `agent` block, or one that the settings
name for `agent_delegate` nodes, which count first. When an entry or an agent of the settings first runs, an internal
call stores its document under an owner that no tenant can be.

Above it: the catalogue. Below it: `agents`, `runs.starting`, `runs.results`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base.errors import Conflict, NotFound
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.agents.schemas import DEFAULT_INPUT, is_agent
from penstock.definitions.model import Workflow
from penstock.definitions.nodes import delegating_node
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route, StreamEvent
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.reaching import named
from penstock.operations.catalogue.reasons import SIGNATURE_ERRORS
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.permissions.authorship import RunMarks, marks_of, refuse_proposed
from penstock.operations.registered_tools.generated import built, register_generated, store_generated
from penstock.operations.registries.agents import AGENTS, document_of_agent
from penstock.operations.registries.registry import resource_id_type
from penstock.operations.runs.fields import ChosenId, Labels, Text, Wait
from penstock.operations.runs.handles import handle, patience
from penstock.operations.runs.held_access import with_held_calls
from penstock.operations.runs.results import ExecutionResult, wait_for_result
from penstock.operations.runs.starting import ExecuteWorkflow, find_startable, row_of, started_run
from penstock.operations.runs.streams.reader import open_stream
from penstock.operations.runs.views import ExecutionHandle
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.tables.resources import read_resource

__all__ = ["OPERATIONS"]

_OWNER = "-agents"
"""The owner of the workflows of entries. No tenant can have this name."""
_DEFINE = "agent.define"
_ENDED = ("completed", "failed", "cancelled")


class ExecuteAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the agent is to do."""

    agent_id: resource_id_type("agent", "helper")  # type: ignore[valid-type]  # made by a function
    prompt: Annotated[str, Meta(description="What to do.", min_length=1, max_length=100_000)]
    context: Annotated[dict[str, Any] | None, Meta(description="Facts that it needs.")] = None
    sync: Annotated[bool, Meta(description="Wait for the end, for a bounded time; see `wait_seconds`.")] = False
    wait_seconds: Wait = None
    execution_id: ChosenId = None
    labels: Labels = msgspec.field(default_factory=dict)
    etag: Annotated[
        Text | None,
        Meta(description="Give work only to this version of a registered agent: its `etag` in agent.get."),
    ] = None


class DefineAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which agent."""

    agent_id: str


class DefinedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """The version that is stored."""

    hash: str


@operation(_DEFINE, route=None, scopes=("workflow:write",), subject="agent_id")
async def agent_define(context: Context, given: DefineAgent) -> DefinedAgent:
    """Store the workflow that an entry of the registry, or an agent of the settings, stands for."""
    workflow = _delegate_workflow(context, given.agent_id)
    if workflow is None:
        workflow = _workflow(given.agent_id, (await AGENTS.table.find(context, given.agent_id)).body)
    await register_generated(context, workflow, _OWNER)
    return DefinedAgent(hash=workflow.hash)


def _workflow(agent_id: str, body: JsonObject) -> Workflow:
    return built({**document_of_agent(agent_id, body), "name": f"agent:{agent_id}"})


def _delegate_workflow(context: Context, agent_id: str) -> Workflow | None:
    """Return the workflow that gives work to an agent of the settings; None if they have no such agent."""
    protocol = context.services.delegates.get(agent_id)
    if protocol is None:
        return None
    nodes: list[JsonValue] = [
        delegating_node(agent_id, protocol),
        {"id": "done", "type": "end", "output": "${ .work }"},
    ]
    workflow = built({"penstock": "v1", "name": f"agent:{agent_id}", "input": DEFAULT_INPUT, "nodes": nodes})
    context.services.signatures.vouch(workflow.hash)  # made of the settings alone
    return workflow


class _Start(msgspec.Struct, frozen=True):
    """What is started: `definition_hash` for an entry, whose workflow is in no list."""

    given: ExecuteWorkflow
    definition_hash: str | None = None
    marks: RunMarks | None = None
    """What is said of its run: whether an agent wrote the entry."""


async def _start_of(context: Context, given: ExecuteAgent) -> _Start:
    """Return what a call starts; raise NotFound if there is no such agent."""
    work: JsonObject = {"prompt": given.prompt}
    if given.context is not None:
        work["context"] = given.context
    workflow, marks = _delegate_workflow(context, given.agent_id), None
    row = await read_resource(context.services.platform, context.tenant, AGENTS.kind, given.agent_id)
    if workflow is None and row is not None:
        refuse_proposed(context.services, row.author, f"agent {given.agent_id}", row.etag)
        workflow, marks = _workflow(given.agent_id, row.body), marks_of(row.author)
    more: dict[str, Any] = {"input": work, "execution_id": given.execution_id, "labels": given.labels}
    if workflow is not None:
        return _Start(ExecuteWorkflow(workflow_id=workflow.name, **more), workflow.hash, marks)
    stored = await context.services.store.definitions.find_named(given.agent_id, tenant=context.tenant)
    if stored is None or not is_agent(stored.document):
        message = f"there is no agent {given.agent_id}"
        named = ", ".join(sorted(context.services.delegates))
        hint = "list them with agent.list, and workflows with workflow.list"
        raise NotFound("AGENT_NOT_FOUND", message, f"{hint}; the settings have {named}" if named else hint)
    return _Start(ExecuteWorkflow(workflow_id=given.agent_id, **more))


async def _refuse_changed(context: Context, given: ExecuteAgent) -> None:
    """Refuse work for an agent that is not the entry of the registry any more that the caller means."""
    if given.etag is None:
        return
    row = await read_resource(context.services.platform, context.tenant, AGENTS.kind, given.agent_id)
    is_entry = row is not None and given.agent_id not in context.services.delegates
    if row is None or not is_entry or row.etag != given.etag:
        now = f"its etag is {row.etag}" if row is not None and is_entry else "it is not in the registry"
        message = f"the agent {given.agent_id} does not have the etag {given.etag[:100]}: {now}"
        raise Conflict("AGENT_CHANGED", message, "read it again with agent.get")


async def _find(context: Context, given: ExecuteAgent) -> object:
    start = await _start_of(context, given)
    return start if start.definition_hash is not None else await find_startable(context, start.given)


@operation(
    "agent.execute",
    route=Route(method="POST", path="/agents/{agent_id}/executions", status=202, other_statuses=(200,), streams=True),
    scopes=("agent:run",),
    open_world=True,
    risk="medium",
    subject="agent_id",
    find=_find,
    reaches=named("agent:", "agent_id"),
    errors=(
        *SIGNATURE_ERRORS,
        "AGENT_NOT_FOUND",
        "AGENT_CHANGED",
        "LABEL_RESERVED",
        "WORKFLOW_NOT_FOUND",
        "INPUT_INVALID",
        "EXECUTION_ID_TAKEN",
        "QUOTA_EXCEEDED",
        "VALUE_NOT_JSON",
        "NOT_CONFIGURED",
        "STREAMS_LIMITED",
    ),
    examples=(
        Example(arguments={"agent_id": "helper", "prompt": "Which refunds wait for approval?"}),
        Example(arguments={"agent_id": "helper", "prompt": "Is A-1042 paid?", "sync": True}),
    ),
)
async def agent_execute(context: Context, given: ExecuteAgent) -> Reply[ExecutionHandle | ExecutionResult]:
    """Give work to an agent.

    Starts a durable run and returns a handle at once; wait for the result with execution.wait. The agent calls tools
    with your rights, and may ask you questions: see `questions` in its result. With `sync`, the call waits for a
    limited time until the agent has answered or asks something. To continue a conversation, use agent.message instead.
    """
    await _refuse_changed(context, given)
    start = await _start_of(context, given)
    if start.definition_hash is not None:
        define = (_DEFINE, {"agent_id": given.agent_id})
        await store_generated(context, start.definition_hash, define, chosen=given.execution_id)
    if context.request.streams:
        idempotency.answered_by(context, lambda decision: _handle(context, row_of(decision.state, {})))
        with context.services.host.progress.starting():
            row = await started_run(context, start.given, definition_hash=start.definition_hash, marks=start.marks)
        begun = StreamEvent(event="begun", data={"execution_id": id_for_callers(context.tenant, row.run_id)})
        return open_stream(context, row, first=begun)  # type: ignore[return-value]  # the gate takes both
    if not given.sync and not given.wait_seconds:
        idempotency.answered_by(context, lambda decision: _handle(context, row_of(decision.state, {})))
        row = await started_run(context, start.given, definition_hash=start.definition_hash, marks=start.marks)
        return _handle(context, row)
    with context.services.host.progress.starting():
        row = await started_run(context, start.given, definition_hash=start.definition_hash, marks=start.marks)
    result = await with_held_calls(
        context, await wait_for_result(context, row.run_id, patience(context, given.wait_seconds))
    )
    return _reply(context, row, result, ended=result.status in _ENDED)


def _handle(context: Context, row: RunRow) -> Reply[ExecutionHandle | ExecutionResult]:
    return _reply(context, row, handle(context, row), ended=False)


def _reply(
    context: Context, row: RunRow, value: ExecutionHandle | ExecutionResult, *, ended: bool
) -> Reply[ExecutionHandle | ExecutionResult]:
    place = f"/executions/{id_for_callers(context.tenant, row.run_id)}"
    return Reply(value=value, status=200 if ended else 202, location=place)


OPERATIONS: tuple[Capability, ...] = (agent_execute, agent_define)
