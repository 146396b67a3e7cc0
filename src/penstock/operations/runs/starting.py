"""Starting runs: the input of a start, the id of a new run, and what is refused.

A caller may choose the id; the same id with the same input is the same run, however often it is requested. With an
idempotency key the id is derived from the key, so that a call that is repeated after a crash finds the run that the
first one started.

Above it: every operation that starts a run. Below it: `permissions.starting`, the host port.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from penstock.base.errors import Conflict, Rejected
from penstock.base.ids import id_for_callers, id_in_tenant
from penstock.base.json import JsonValue
from penstock.base.traces import TRACE_LABEL, current_traceparent
from penstock.definitions.durations import parse_native_duration_ms
from penstock.definitions.jq.templates import SECRET_MASK
from penstock.definitions.model import Workflow
from penstock.definitions.schemas.compiled import apply_defaults
from penstock.definitions.schemas.misfits import tell_violations
from penstock.definitions.secret_answers import has_marks, secrets_in, with_values, without_values_of
from penstock.engine import inputs
from penstock.engine.approved import with_authors
from penstock.engine.outcomes import Refused
from penstock.engine.records import events
from penstock.engine.state import RunState
from penstock.engine.status import run_status
from penstock.operations.catalogue.fields import WorkflowId
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.permissions.admission import admit_run, admit_start
from penstock.operations.permissions.authorship import RunMarks, refuse_proposed_version
from penstock.operations.permissions.starting import UNKNOWN_WORKFLOW, found_definition, needs_of, refuse_start
from penstock.operations.permissions.weaker import refuse_by_author, refuse_proposed_run
from penstock.operations.runs.fields import ChosenId, Labels, ShortText, Text, Wait
from penstock.operations.runs.start_policies import TRUST_LABEL, StartCounts, start_denial, starts_freely
from penstock.runtime.chains import SENT_LABEL, UNTRUSTED
from penstock.runtime.ports.runs import DefinitionRow, RunRow
from penstock.runtime.run_handle import refusal_error
from penstock.runtime.spending import CALLER_LABEL

__all__ = [
    "CALLER_LABEL",
    "DEPTH_LABEL",
    "TRUST_LABEL",
    "UNTRUSTED",
    "ExecuteWorkflow",
    "StartedRun",
    "called_by",
    "find_startable",
    "new_run_id",
    "refuse_restart",
    "refuse_unfit_input",
    "row_of",
    "start_or_find",
    "startable_definition",
    "started_run",
    "with_origin",
]


class ExecuteWorkflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflow, its input, and how to start it."""

    workflow_id: WorkflowId
    input: Annotated[Any, Meta(description="The input, as the workflow's input schema says.")] = None
    sync: Annotated[bool, Meta(description="Wait for the end, for a bounded time; see `wait_seconds`.")] = False
    wait_seconds: Wait = None
    execution_id: ChosenId = None
    labels: Labels = msgspec.field(default_factory=dict)
    timeout: Annotated[ShortText | None, Meta(description="How long it may take at most.", examples=["30m"])] = None
    hash: Annotated[Text | None, Meta(description="A version of the workflow by its hash.")] = None
    mode: Annotated[
        Literal["in_process", "host_mediated"],
        Meta(description="Who does the activities: this server, or the caller with execution.submit_activity."),
    ] = "in_process"


_OUR_LABELS = "penstock."
DEPTH_LABEL = "penstock.depth"
"""Its label that says how many runs called each other to get there."""


def new_run_id(context: Context, chosen: str | None) -> tuple[str, bool]:
    """Return the stored id for a run to be started, and whether such a run may exist already.

    With an idempotency key the id is derived from the key: a call that is repeated after a crash finds its run.
    """
    request, derived = context.request, None
    if request.idempotency_key is not None:
        named = msgspec.structs.replace(request, operation=context.capability.name)
        derived = idempotency.derived_id(context.principal, named)
    made = chosen or (f"r_{derived}" if derived else context.services.new_id())
    return id_in_tenant(context.tenant, made), chosen is not None or derived is not None


class StartedRun(msgspec.Struct, frozen=True, gc=False):
    """A run that a call started, now or earlier."""

    row: RunRow
    state: RunState | None = None
    """Its state as it was just stored; None if an earlier call started it."""


async def started_run(
    context: Context,
    given: ExecuteWorkflow,
    *,
    definition_hash: str | None = None,
    chosen: tuple[str, bool] | None = None,
    marks: RunMarks | None = None,
    untrusted: bool = False,
) -> RunRow:
    """Start a run and return its index row; the arguments are those of `start_or_find`."""
    started = await start_or_find(
        context, given, definition_hash=definition_hash, chosen=chosen, marks=marks, untrusted=untrusted
    )
    return started.row


async def start_or_find(
    context: Context,
    given: ExecuteWorkflow,
    *,
    definition_hash: str | None = None,
    chosen: tuple[str, bool] | None = None,
    marks: RunMarks | None = None,
    untrusted: bool = False,
) -> StartedRun:
    """Start a run, or find the run that the same call started earlier.

    `definition_hash` names a workflow that is in no tenant's list; without it, the caller's tenant must have the
    workflow. `chosen` is the result of `new_run_id`, if the caller has it already. `marks` are what the server says of
    the run. `untrusted` says that the input has something from outside in it, wherever the call comes from.
    """
    services = context.services
    run_id, may_exist = chosen or new_run_id(context, given.execution_id)
    known = await _known_run(context, run_id, given) if may_exist else None
    if known is not None:
        await refuse_restart(context, known, counts="earlier")
        return StartedRun(known)
    if given.labels and any(name.startswith(_OUR_LABELS) for name in given.labels):
        message = f"labels that begin with {_OUR_LABELS} are the server's"
        raise Rejected("LABEL_RESERVED", message, "choose another name")
    if definition_hash is None:
        versions = await _startable_versions(context, given.workflow_id, given.hash)
        await _refuse_by_policy(context, versions, given.input)
        await admit_start(context, [needs_of(services, row) for row in versions])
        definition_hash = versions[-1].hash
    else:
        await admit_run(context)
    start = inputs.StartRun(
        at=context.now_ms(),
        run_id=run_id,
        input=given.input,
        mode=given.mode,
        timeout_ms=_timeout(given.timeout),
        client_kinds=context.request.client_kinds,
        started_by=context.principal.id,
        starter=with_authors(context.initiator.to_json(), () if marks is None else marks.authors),
        untrusted=untrusted or context.request.from_outside,
    )
    labels = with_origin(
        context, {**given.labels, **(marks.labels if marks else {}), **called_by(context), **_traced()}
    )
    context.call.note(run_id=id_for_callers(context.tenant, run_id))
    decision = await services.host.start(
        start, workflow_hash=definition_hash, labels=labels, tenant=context.tenant, call=context.call
    )
    if isinstance(decision, Refused):
        if decision.code == "DUPLICATE_EXECUTION_ID" and may_exist:
            known = await _known_run(context, run_id, given)
            if known is not None:
                return StartedRun(known)
        workflow = await services.host.workflow(definition_hash)
        raise await _input_error(context, workflow, given.input, decision) or refusal_error(decision)
    return StartedRun(row_of(decision.state, labels), decision.state)


async def find_startable(context: Context, given: ExecuteWorkflow) -> DefinitionRow:
    """Find the workflow that a call would start, as the start itself would; raise `HoldRequired` if that waits."""
    versions = await _startable_versions(context, given.workflow_id, given.hash)
    await _refuse_by_policy(context, versions, given.input)
    return versions[-1]


async def startable_definition(context: Context, workflow_id: str, definition_hash: str | None = None) -> DefinitionRow:
    """Return a workflow of the caller's tenant that the caller may start; raise the refusal otherwise."""
    return (await _startable_versions(context, workflow_id, definition_hash))[-1]


async def _startable_versions(
    context: Context, workflow_id: str, definition_hash: str | None = None
) -> tuple[DefinitionRow, ...]:
    """Return the newest version of a workflow and the chosen one, if that is another; raise as above."""
    newest = await found_definition(context, workflow_id)
    versions: tuple[DefinitionRow, ...] = (newest,)
    if definition_hash not in (None, newest.hash):
        versions = (newest, await found_definition(context, workflow_id, definition_hash))
    await refuse_start(context.services, context.principal, *versions)
    await refuse_by_author(context.services, versions[-1])
    return versions


async def refuse_restart(context: Context, row: RunRow, *, counts: StartCounts = "now") -> None:
    """Refuse to repeat a run, or a part of it, if the caller may not start its workflow."""
    services, tenant = context.services, context.tenant
    newest = await services.store.definitions.find_named(row.workflow_name, tenant=tenant)
    own = await services.store.definitions.find(row.definition_hash, tenant=tenant)
    if own is None:  # the server made it: of an entry of a registry, of a node, or of the newest version
        own = await services.store.definitions.find(row.definition_hash)
        if newest is not None:
            refuse_proposed_version(services, newest)
    versions = list({found.hash: found for found in (newest, own) if found is not None}.values())
    await refuse_proposed_run(services, row)
    if versions:
        await refuse_start(services, context.principal, *versions, is_sent=_is_sent(row))
        await refuse_by_author(services, versions[-1])
        begun = await services.host.history(row.run_id, limit=1)
        first = begun[0].body_as(events.ExecutionStarted) if begun else None
        given = None if first is None or first.input is msgspec.UNSET else first.input
        await _refuse_by_policy(context, versions, given, counts)


def _is_sent(row: RunRow) -> bool:
    """Whether a model sent the version of a run along."""
    return row.labels.get(SENT_LABEL) == row.definition_hash


async def _refuse_by_policy(
    context: Context, versions: Iterable[DefinitionRow], given: JsonValue, counts: StartCounts = "now"
) -> None:
    """Refuse a start that policies do not permit for one of these versions; an unfit input is reported first."""
    for row in versions:
        if starts_freely(context, row):
            continue
        denial = await start_denial(context, row.name, row.document, given, counts=counts, author=row.author)
        if denial is None:
            continue
        workflow = await context.services.host.workflow(row.hash)
        if workflow is not None and denial.code != UNKNOWN_WORKFLOW:
            await refuse_unfit_input(context, workflow, given)
        raise denial


def with_origin(context: Context, labels: dict[str, str]) -> dict[str, str]:
    """Return the labels of a run, with the label that marks input that came over MCP, or that a model in a run chose.

    Child runs, forks and successors inherit it. A missing label does not mean that a run is trusted; no label says
    that.
    """
    request = context.request
    by_run = request.visit is not None and request.visit.by_model
    return {**labels, TRUST_LABEL: UNTRUSTED} if request.surface == "mcp" or by_run else labels


def _traced() -> dict[str, str]:
    """Return the label of a run that is started in a trace; child runs, forks and successors inherit it."""
    traceparent = current_traceparent()
    return {} if traceparent is None else {TRACE_LABEL: traceparent}


def called_by(context: Context) -> dict[str, str]:
    """Return the labels of a run that a node of another run starts with a call."""
    caller = context.request.visit
    if caller is None:
        return {}
    return {CALLER_LABEL: id_for_callers(context.tenant, caller.run_id), DEPTH_LABEL: str(caller.depth)}


def row_of(state: RunState, labels: dict[str, str]) -> RunRow:
    """Return the index row of a run that was just stored, without reading it again; it has all that callers see."""
    return RunRow(
        run_id=state.run_id,
        workflow_name=state.workflow_name,
        workflow_version=state.workflow_version,
        definition_hash=state.definition_hash,
        status=run_status(state),
        seq=state.seq,
        created_at=state.started_at,
        updated_at=state.updated_at,
        labels=labels,
        terminal=state.terminal,
        tenant=state.tenant,
        started_by=state.started_by,
    )


async def _known_run(context: Context, run_id: str, given: ExecuteWorkflow) -> RunRow | None:
    """Return the run with this id, if there is one; refuse if it has another workflow or input."""
    row = await context.services.store.row(run_id)
    if row is None:
        return None
    begun = await context.services.host.history(run_id, limit=1)
    workflow = await context.services.host.workflow(row.definition_hash)
    same = row.tenant == context.tenant and row.workflow_name == given.workflow_id
    first = begun[0].body_as(events.ExecutionStarted) if begun else None
    if same and first is not None and workflow is not None and _is_same_input(workflow, first, given.input):
        return row
    if given.execution_id is None:
        message = "this idempotency key was used with another input"
        raise Rejected("IDEMPOTENCY_KEY_REUSED", message, "use a new key for another call")
    message = f"there is a run {given.execution_id} with another workflow or input"
    raise Conflict("EXECUTION_ID_TAKEN", message, "choose another `execution_id`, or leave it out")


def _is_same_input(workflow: Workflow, first: events.ExecutionStarted, given: JsonValue) -> bool:
    """Whether a run was started with this input, as far as it is shown.

    Secrets in it are not compared: a caller who may start runs could otherwise guess the secrets of another run.
    """
    value = _with_defaults(workflow, given)
    if isinstance(first.secrets, dict) and workflow.input_schema is not None:
        value = with_values(value, dict.fromkeys(secrets_in(workflow.input_schema, value), SECRET_MASK))
    return bool(first.input == value)


def _with_defaults(workflow: Workflow | None, given: JsonValue) -> JsonValue:
    value: JsonValue = {} if given is None else given
    schema = workflow.input_schema_json if workflow is not None else None
    return value if schema is None else apply_defaults(schema, value)


def _timeout(text: str | None) -> int | None:
    if text is None:
        return None
    found = parse_native_duration_ms(text)
    if found is None:
        raise Rejected("DURATION_INVALID", f"timeout: {text[:50]!r} is not a duration", "write 30s, 5m or 1h30m")
    return found


async def _input_error(
    context: Context, workflow: Workflow | None, given: JsonValue, refused: Refused
) -> Rejected | None:
    """Return an error with every violation of the input schema, if that is why the start was refused."""
    if refused.code != "VALIDATION_ERROR":
        return None
    listed = await _input_violations(context, workflow, given)
    return Rejected("INPUT_INVALID", refused.message, refused.hint, {"errors": listed} if listed else None)


async def _input_violations(context: Context, workflow: Workflow | None, given: JsonValue) -> list[JsonValue]:
    if workflow is None or workflow.input_schema is None:
        return []
    value = _with_defaults(workflow, given)
    found = await context.services.host.violations(workflow.input_schema, value, tenant=context.tenant)
    if found and has_marks(workflow.input_schema):
        found = without_values_of(found, secrets_in(workflow.input_schema, value))
    return tell_violations(workflow.input_schema.schema, found, "/input")


async def refuse_unfit_input(context: Context, workflow: Workflow, given: JsonValue) -> None:
    """Raise `Rejected` with every violation if a workflow could not be started with this input."""
    listed = await _input_violations(context, workflow, given)
    if listed:
        message = f"the input does not fit {workflow.name}"
        raise Rejected("INPUT_INVALID", message, "look at the workflow's input schema", {"errors": listed})
