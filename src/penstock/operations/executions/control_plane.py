"""The seven published control-plane functions as operations, with their published parameters, results and errors.

They take any object: arguments that do not fit are refused with the published code, not with ours. A refusal carries
the published error object in `error`. Definitions come with the call and are stored, so starting also needs the scope
to write workflows.

Above it: the catalogue. Below it: `runtime.control_plane`, on the runs of the caller's tenant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base.errors import Conflict, Denied, NotFound, PenstockError, Rejected
from penstock.base.ids import id_for_callers, id_in_tenant
from penstock.base.json import JsonObject, JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.definitions.model import Workflow
from penstock.definitions.reached import ANY, Reached, reached_by
from penstock.definitions.start_needs import start_needs
from penstock.engine.outcomes import Accepted, Refused
from penstock.engine.transitions import RunStatus
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import document_name
from penstock.operations.catalogue.reaching import argument
from penstock.operations.executions.outside_work import OutsideWork, Submitted, take_outside_work
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.gate.holds import runs_as_sent
from penstock.operations.permissions.admission import admit_start
from penstock.operations.permissions.answering import answerer_of
from penstock.operations.permissions.authorship import author_of
from penstock.operations.permissions.starting import needs_of, protecting_version, start_refusal
from penstock.operations.runs.decisions import note_decision
from penstock.operations.runs.fields import CHOSEN_ID
from penstock.operations.runs.handles import visible_run
from penstock.operations.runs.held_access import may_see_run, refuse_settling, refuse_withdrawing
from penstock.operations.runs.secret_arguments import secret_answers, secret_inputs
from penstock.operations.runs.start_policies import start_denial
from penstock.operations.runs.starting import new_run_id, refuse_unfit_input, with_origin
from penstock.runtime.chains import BY_AGENT, SENT_LABEL
from penstock.runtime.ports.runs import DefinitionRow

if TYPE_CHECKING:
    from penstock.runtime.control_plane import functions, hosts, submits, views
else:
    hosts = lazy_import("penstock.runtime.control_plane.hosts")
    functions = lazy_import("penstock.runtime.control_plane.functions")
    submits = lazy_import("penstock.runtime.control_plane.submits")
    views = lazy_import("penstock.runtime.control_plane.views")

__all__ = ["OPERATIONS"]

_CHOSEN_ID = re.compile(CHOSEN_ID)
_NOT_FOUND = frozenset({"EXECUTION_NOT_FOUND", "WORKFLOW_NOT_FOUND"})
_DENIED = frozenset(
    {
        "PERSON_REQUIRED",
        "APPROVER_REQUIRED",
        "SCOPE_REQUIRED",
        "POLICY_DENIED",
        "APPROVAL_REQUIRED",
        "DRAFT_NOT_YOURS",
    }
)
_REJECTED = frozenset(
    {
        "VALIDATION_ERROR",
        "SUBMIT_VALIDATION_ERROR",
        "SIGNAL_VALIDATION_ERROR",
        "CANCEL_VALIDATION_ERROR",
        "INVALID_RESUME_PAYLOAD",
        "ACTIVITY_SUBMIT_PARALLEL_MISMATCH",
        "VALUE_NOT_JSON",
    }
)
# Functions that change a run and then follow it until it comes to rest.
_FOLLOWED = frozenset({"workflow_resume", "workflow_submit_activity", "workflow_signal", "workflow_cancel"})
_RUNS = ("EXECUTION_NOT_FOUND", "VALIDATION_ERROR")
_BEFORE = "version_before"
"""The member of `found_out` with the hash of the version that a definition replaces."""

Definition = Annotated[Any, Meta(description="The workflow document; where a run exists, the one it was started with.")]
ExecutionName = Annotated[Any, Meta(description="The run, as text.", examples=["order-1042"])]
Mode = Annotated[Any, Meta(description="Who does the activities: `in_process` or `host_mediated`.")]
NodeName = Annotated[Any, Meta(description="The node, as text.")]


class WorkflowStart(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of `workflow_start`."""

    definition: Definition = None
    input: Annotated[Any, Meta(description="The input, an object.")] = None
    execution_id: ExecutionName = None
    activity_execution_mode: Mode = None
    allow_existing_execution_id: Annotated[Any, Meta(description="True: continue with a run that exists.")] = None


class WorkflowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of `workflow_status`."""

    execution_id: ExecutionName = None


class WorkflowResume(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of `workflow_resume`."""

    execution_id: ExecutionName = None
    definition: Definition = None
    resume_payload: Annotated[Any, Meta(description="The answer to the open question.")] = None
    node_id: NodeName = None
    interrupt_id: Annotated[Any, Meta(description="The question by its id, as text.")] = None
    activity_execution_mode: Mode = None


class WorkflowSubmitActivity(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of `workflow_submit_activity`."""

    execution_id: ExecutionName = None
    definition: Definition = None
    input: Annotated[Any, Meta(description="The input that the run was started with; not needed.")] = None
    node_id: NodeName = None
    outcome: Annotated[Any, Meta(description="`{ok: true, result}` or `{ok: false, error, code}`.")] = None
    parallel_span: Annotated[Any, Meta(description="The branch, as the pending activity names it.")] = None
    visit: Annotated[Any, Meta(description="Which visit of the node.")] = None
    attempt: Annotated[Any, Meta(description="Which attempt.")] = None
    activity_execution_mode: Mode = None


class WorkflowSignal(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of `workflow_signal`."""

    execution_id: ExecutionName = None
    definition: Definition = None
    input: Annotated[Any, Meta(description="The input that the run was started with; not needed.")] = None
    signal_name: Annotated[Any, Meta(description="The signal, as text.")] = None
    payload: Annotated[Any, Meta(description="What the signal brings.")] = None
    signal_id: Annotated[Any, Meta(description="The same id counts once.")] = None
    activity_execution_mode: Mode = None


class WorkflowCancel(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of `workflow_cancel`."""

    execution_id: ExecutionName = None
    reason: Annotated[Any, Meta(description="Why, as text.")] = None


class WorkflowList(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of `workflow_list`."""

    phase: Annotated[Any, Meta(description="Only runs of this phase.")] = None
    definition_name: Annotated[Any, Meta(description="Only runs of this workflow.")] = None
    updated_after: Annotated[Any, Meta(description="Only runs that moved after this instant.")] = None
    updated_before: Annotated[Any, Meta(description="Only runs that moved before this instant.")] = None
    limit: Annotated[Any, Meta(description="From 1 to 100; 50 without.")] = None
    cursor: Annotated[Any, Meta(description="`next_cursor` of the page before.")] = None


async def _called(context: Context, function: str) -> dict[str, Any]:
    """Call a published function on the runs of the caller's tenant."""
    services, tenant = context.services, context.tenant
    host = hosts.HostControl(
        services.host,
        tenant=tenant,
        labels=with_origin(context, {}),
        starter=context.initiator,
        untrusted=context.request.from_outside,
        refuse=partial(_start_refusal, context),
        call=context.call,
        author=author_of(context),
        stored=partial(_follow_stored, context),
        sees=partial(may_see_run, services, context.principal) if context.principal.kind == "agent" else None,
    )
    plane = functions.ControlPlane(
        host=host,
        new_id=services.new_id,
        by=context.principal.id,
        answerer=answerer_of(context),
    )
    # A null member counts as left out: the published functions do not accept nulls there.
    arguments: JsonObject = {
        name: value
        for name, value in context.request.arguments.items()
        if value is not None or name in ("resume_payload", "payload")
    }
    refused = _prepare(context, function, arguments)
    if function in _FOLLOWED and context.request.by_agent:
        await _refuse_agent(context, function, arguments.get("execution_id"))
    if function == "workflow_resume" and isinstance(named := arguments.get("execution_id"), str):
        note_decision(context, await services.host.read(named))
    if context.call.claim is not None and function in _FOLLOWED:
        await _answer_meanwhile(context, arguments.get("execution_id"))
    work = await _take_outside_work(context, arguments) if function == "workflow_submit_activity" else None
    if work is not None and work.refusal is not None:
        arguments["outcome"] = {"ok": False, "error": work.refusal.message, "code": work.refusal.code}
    reply = refused or await plane.call(function, arguments)
    if work is not None and isinstance(reply, functions.CallProblem) and not context.call.stored:
        await work.give_back()
    match reply:
        case functions.CallResult(body=body):
            return _with_public_ids(tenant, body)
        case functions.CallProblem():
            raise _error(tenant, reply)


async def _take_outside_work(context: Context, arguments: JsonObject) -> OutsideWork | None:
    """Enter what the outcome of an activity says was spent, if the call makes sense."""
    run_id, submit = arguments.get("execution_id"), submits.read_submit(arguments)
    row = await context.services.host.row(run_id) if isinstance(run_id, str) else None
    if row is None or row.tenant != context.tenant or isinstance(submit, Refused):
        return None
    outcome = Submitted(
        node_id=submit.node_id, visit=submit.visit, ok=submit.ok, result=submit.result, usage=submit.extra.get("usage")
    )
    return await take_outside_work(context, row.run_id, outcome)


async def _refuse_agent(context: Context, function: str, run_id: JsonValue) -> None:
    """Refuse an agent what operations on runs refuse it: to change the held call of another, or to settle one."""
    row = await context.services.host.row(run_id) if isinstance(run_id, str) else None
    if row is None or row.tenant != context.tenant or not await may_see_run(context.services, context.principal, row):
        return  # the function says that there is no such run
    try:
        if function != "workflow_resume":  # whose answer counts is decided when it is taken
            await refuse_withdrawing(context, row)
        if function == "workflow_submit_activity":
            refuse_settling(context, row)
    except Denied as error:
        details: JsonObject = {"execution_id": row.run_id, "hint": error.hint}
        raise _error(context.tenant, functions.CallProblem(error.code, error.message, details)) from None


async def _answer_meanwhile(context: Context, run_id: JsonValue) -> None:
    """Store a provisional answer with the change of a run: the view of the run right after the change.

    A repeated call gets it if the first one was not followed further. Starts need none: their run id is derived from
    the idempotency key, so a repeated start follows the same run.
    """
    services = context.services
    row = await services.host.row(run_id) if isinstance(run_id, str) else None
    workflow = None if row is None else await services.host.workflow(row.definition_hash, tenant=context.tenant)

    def decided(decision: Accepted) -> Reply[dict[str, Any]] | None:
        state = decision.state
        if workflow is None or state.definition_hash != workflow.hash or state.status is RunStatus.FAILED:
            return None
        return Reply(value=_with_public_ids(context.tenant, views.run_body(workflow, state)))

    idempotency.answered_by(context, decided, provisional=True)


def _runs_as_sent(context: Context) -> bool:
    return runs_as_sent(context.request, context.capability.governance, context.services.holds.authorship)


def _is_sent(row: DefinitionRow) -> bool:
    """Whether a model sent a version along with a run, and nobody stored it."""
    return row.author is not None and row.author.sent


async def _follow_stored(context: Context, workflow: Workflow) -> Mapping[str, str]:
    """Offer a definition that was sent along, and let its triggers begin; return the labels of its run.

    A version that a model sent takes effect in its own run alone.
    """
    services, tenant = context.services, context.tenant
    if context.found_out.get(_BEFORE) != workflow.hash:
        services.definitions_changed(tenant)
        await services.scheduler.follow(workflow.name, tenant=tenant)
    row = await services.store.definitions.find(workflow.hash, tenant=tenant)
    return {**BY_AGENT, SENT_LABEL: workflow.hash} if row is not None and _is_sent(row) else {}


async def _start_refusal(context: Context, workflow: Workflow) -> Refused | None:
    """Return why the caller may not start the document in the call.

    The stored workflow of its name must permit it, too, and if it was deleted, its last version.
    """
    services = context.services
    newest = await services.store.definitions.find_named(workflow.name, tenant=context.tenant)
    context.found_out[_BEFORE] = None if newest is None else newest.hash
    stored = newest or await protecting_version(services, context.tenant, workflow.name)
    if stored is not None and stored.hash != workflow.hash and not _is_sent(stored) and _runs_as_sent(context):
        message = f"another version of {workflow.name} is stored, which a definition from a model does not replace"
        return Refused("NAME_TAKEN", message, hint="send the definition under another name, or store it first")
    versions = [start_needs(workflow.document), *([needs_of(services, stored)] if stored is not None else [])]
    error = await start_refusal(services, context.principal, workflow.name, versions)
    documents = [workflow.document, *([stored.document] if stored is not None else [])]
    for document in documents if error is None else ():
        error = error or await start_denial(context, workflow.name, document, context.request.arguments.get("input"))
    if error is not None:
        return Refused(error.code, error.message, hint=error.hint)
    try:  # before the definition is stored: a start that is refused anyway should leave nothing behind
        await refuse_unfit_input(context, workflow, context.request.arguments.get("input"))
    except Rejected as unfit:
        return Refused("VALIDATION_ERROR", unfit.message, hint=unfit.hint, details=unfit.details)
    await admit_start(context, versions)
    return None


def _prepare(context: Context, function: str, arguments: JsonObject) -> functions.CallProblem | None:
    """Put the stored form of the run id into the arguments; return the problem if the id is not valid."""
    named = arguments.get("execution_id")
    if function == "workflow_status" and "lease" in arguments:
        return functions.CallProblem("VALIDATION_ERROR", "leases are taken with execution.lease_activity", {})
    if function == "workflow_start" and not named:
        run_id, is_repeated = new_run_id(context, None)
        arguments["execution_id"] = run_id
        if is_repeated:
            arguments["allow_existing_execution_id"] = True
    elif isinstance(named, str):
        if function == "workflow_start" and not _CHOSEN_ID.fullmatch(named):
            message = "execution_id must begin with a letter or digit, followed by up to 127 of these, _, . and -"
            return functions.CallProblem("VALIDATION_ERROR", message, {"execution_id": named[:200]})
        arguments["execution_id"] = id_in_tenant(context.tenant, named)
    return None


def _error(tenant: str, problem: functions.CallProblem) -> PenstockError:
    """Convert a published problem to an error; REST derives the status from its class."""
    kind: type[PenstockError] = Conflict
    if problem.code in _NOT_FOUND:
        kind = NotFound
    elif problem.code in _REJECTED:
        kind = Rejected
    elif problem.code in _DENIED:
        kind = Denied
    published: JsonObject = {
        "code": problem.code,
        "message": problem.message,
        "details": _with_public_ids(tenant, problem.details),
    }
    return kind(problem.code, problem.message, None, {"error": published})


def _with_public_ids(tenant: str, body: JsonObject) -> dict[str, Any]:
    """Return a body with run ids as the tenant writes them; data of the run itself stays as it is."""
    found: JsonObject = {}
    for name, value in body.items():
        if name.endswith("execution_id") and isinstance(value, str):
            found[name] = id_for_callers(tenant, value)
        elif name in ("executions", "pending_activities") and isinstance(value, list):
            found[name] = [_with_public_ids(tenant, item) if isinstance(item, dict) else item for item in value]
        else:
            found[name] = value
    return found


def _started(arguments: JsonObject) -> str | None:
    """Return the run that is to be started, if the call names one; otherwise the workflow."""
    chosen = arguments.get("execution_id")
    return chosen if isinstance(chosen, str) and chosen else document_name(arguments.get("definition"))


def _reaches(arguments: Mapping[str, Any]) -> Iterable[Reached]:
    """Return what the document that is sent along names."""
    definition = argument(arguments, "definition")
    return reached_by(definition) if isinstance(definition, dict) else (Reached(ANY),) if definition == ANY else ()


_START: JsonValue = {"penstock": "v1", "name": "hello", "nodes": [{"id": "done", "type": "end", "output": "hello"}]}


_FOLLOWS = "Follows the run until it waits for input or ends."


async def _find(function: str, context: Context, given: Any) -> None:
    """Find the run that a call names; raise the published problem if it does not exist."""
    named = given.execution_id
    if not isinstance(named, str):
        return  # the function itself says what is wrong with it
    try:
        await visible_run(context, named)
    except NotFound as error:
        code = "ACTIVITY_SUBMIT_NOT_AWAITING" if function == "workflow_submit_activity" else error.code
        problem = functions.CallProblem(code, error.message, {"execution_id": named[:200]})
        raise _error(context.tenant, problem) from None


def _function(
    name: str, takes: type[msgspec.Struct], words: str, *, errors: tuple[str, ...], **more: Any
) -> Capability:
    """Declare a published function as an operation; by default it writes to the run that it names."""

    async def handler(context: Context, given: msgspec.Struct) -> dict[str, Any]:
        return await _called(context, name)

    declared = {"scopes": ("execution:write",), "subject": "execution_id", **more}
    if name in _FOLLOWED:
        declared["find"] = partial(_find, name)
    route = Route(method="POST", path=f"/control/{name}")
    make = operation(
        f"control.{name}",
        route=route,
        errors=(*errors, "FIELDS_HIDDEN"),
        reveals="runs",
        takes=takes,
        gives=dict[str, Any],
        words=words,
        **declared,
    )
    return make(handler)


OPERATIONS: tuple[Capability, ...] = (
    _function(
        "workflow_start",
        WorkflowStart,
        "Start a run of a definition that you send (workflow profile).\n\n"
        f"{_FOLLOWS} To start a stored workflow, call workflow.execute.",
        errors=("VALIDATION_ERROR", "DUPLICATE_EXECUTION_ID", "SUBMIT_VALIDATION_ERROR", "ENGINE_FAILURE"),
        scopes=("workflow:write", "workflow:run"),
        open_world=True,
        risk="medium",
        stores="sent_workflow",
        subject=_started,
        reaches=_reaches,
        secrets=secret_inputs,
        examples=(Example(arguments={"definition": _START, "input": {}}),),
    ),
    _function(
        "workflow_status",
        WorkflowStatus,
        "Show what a run is doing (workflow profile).\n\n"
        "Returns the phase, the current node, the state and what the run waits for, in the published terms; "
        "execution.status says more.",
        errors=_RUNS,
        scopes=("execution:read",),
        reads=True,
    ),
    _function(
        "workflow_resume",
        WorkflowResume,
        f"Answer the open question of a run (workflow profile).\n\n{_FOLLOWS}",
        secrets=secret_answers,
        errors=(
            "EXECUTION_NOT_FOUND",
            "INVALID_RESUME_PAYLOAD",
            "PERSON_REQUIRED",
            "APPROVER_REQUIRED",
            "ENGINE_FAILURE",
            "VALUE_NOT_JSON",
        ),
    ),
    _function(
        "workflow_submit_activity",
        WorkflowSubmitActivity,
        f"Report the outcome of an activity (workflow profile).\n\n{_FOLLOWS}",
        errors=(
            "ACTIVITY_SUBMIT_NOT_AWAITING",
            "ACTIVITY_SUBMIT_NODE_MISMATCH",
            "ACTIVITY_SUBMIT_PARALLEL_MISMATCH",
            "ACTIVITY_LEASE_LOST",
            "DRAFT_NOT_YOURS",
            "PERSON_REQUIRED",
            "SUBMIT_VALIDATION_ERROR",
            "ENGINE_FAILURE",
            "VALUE_NOT_JSON",
        ),
    ),
    _function(
        "workflow_signal",
        WorkflowSignal,
        f"Send a signal to a run (workflow profile).\n\n{_FOLLOWS}",
        errors=(
            "EXECUTION_NOT_FOUND",
            "DRAFT_NOT_YOURS",
            "SIGNAL_VALIDATION_ERROR",
            "SIGNAL_NOT_AWAITING",
            "SIGNAL_LIMIT_EXCEEDED",
            "ENGINE_FAILURE",
            "VALUE_NOT_JSON",
        ),
    ),
    _function(
        "workflow_cancel",
        WorkflowCancel,
        "Cancel a run and its children (workflow profile).",
        errors=(
            "EXECUTION_NOT_FOUND",
            "CANCEL_VALIDATION_ERROR",
            "CANCEL_NOT_ALLOWED",
            "DRAFT_NOT_YOURS",
            "ENGINE_FAILURE",
        ),
        scopes=("execution:control",),
        destructive=True,
        risk="medium",
    ),
    _function(
        "workflow_list",
        WorkflowList,
        "List runs (workflow profile).\n\nNewest first, by phase, name and time; execution.list offers more.",
        errors=("VALIDATION_ERROR",),
        scopes=("execution:read",),
        reads=True,
        subject=None,
    ),
)
