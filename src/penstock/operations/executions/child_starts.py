"""The internal call with which a run starts a child, where policies decide about it.

The principal is the process, acting for the starter of the run. Policies decide about that principal, with the input
of the child, as about every other start of the workflow. A start that they refuse, or want approved, fails the node of
the parent with the code of the refusal. Where there are no policies, nothing is called and the child starts at once.

Above it: `app`, which hands it to the driver. Below it: `runs.start_policies`, `permissions.run_principals`.
"""

from __future__ import annotations

import msgspec

from penstock.base.errors import Conflict, Denied, NotFound, Rejected
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonObject
from penstock.definitions.model import Workflow
from penstock.engine.effects import StartChild
from penstock.engine.outcomes import Refused
from penstock.engine.pending import start_of_child
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.policies.history import run_tree_of
from penstock.operations.permissions.run_principals import principal_of_run, run_caller
from penstock.operations.permissions.starting import RUN_SCOPE
from penstock.operations.permissions.weaker import narrow_to_authors
from penstock.operations.runs.actions.workflows import start_arguments, start_target
from penstock.operations.runs.start_policies import RunAction, run_denial
from penstock.runtime.chains import child_labels
from penstock.runtime.child_starts import ChildStarted, ChildStarter, child_start, child_workflow
from penstock.runtime.ports.host import RunSnapshot
from penstock.runtime.run_handle import refusal_error

__all__ = ["OPERATIONS", "START_CHILD", "start_children_through"]

START_CHILD = "execution.start_child"
# These refuse the child; after any other error its start is tried again.
_FINAL = (Conflict, Denied, NotFound, Rejected)


class StartChildRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which run starts which child, by the ids that they are stored under."""

    execution_id: str
    child_id: str


class StartedChild(msgspec.Struct, frozen=True, kw_only=True):
    """What was started."""

    execution_id: str


@operation(START_CHILD, route=None, scopes=(RUN_SCOPE,), open_world=True, risk="medium", subject="execution_id")
async def execution_start_child(context: Context, given: StartChildRun) -> StartedChild:
    """Start a child of a run, if policies permit it to the principal of the run."""
    services, host = context.services, context.services.host
    state, row = await host.read(given.execution_id), await services.store.row(given.execution_id)
    child = None if state is None else state.children.get(given.child_id)
    if state is None or row is None or child is None or state.tenant != context.tenant:
        raise Conflict("CHILD_NOT_WANTED", f"the run {given.execution_id} waits for no child {given.child_id}")
    effect = start_of_child(state, child)
    workflow = await child_workflow(host, state, effect)
    if isinstance(workflow, Refused):
        raise refusal_error(workflow)
    root = await run_tree_of(services.store, state.run_id)
    first = await services.store.row(root)
    principal = await principal_of_run(services, state, row.workflow_name if first is None else first.workflow_name)
    principal = await narrow_to_authors(services, principal, state.run_id)
    for version in await _versions(context, workflow):
        action = RunAction(
            target=start_target(version.name, version.document),
            arguments=start_arguments(version.document, child.input),
            words=f"starting {version.name}",
            run=root,
            labels=row.labels,
        )
        denial = await run_denial(context, principal, action)
        if denial is not None:
            raise denial
    context.call.note(run_id=id_for_callers(state.tenant, given.child_id))
    decision = await host.start(
        child_start(state, effect, context.now_ms()),
        workflow_hash=workflow.hash,
        labels=child_labels(row.labels),
        call=context.call,
    )
    if isinstance(decision, Refused) and decision.code != "DUPLICATE_EXECUTION_ID":
        raise refusal_error(decision)
    return StartedChild(execution_id=id_for_callers(state.tenant, given.child_id))


async def _versions(context: Context, workflow: Workflow) -> list[Workflow]:
    """Return the version that starts, and the newest one: an older one must not allow what the newest forbids."""
    newest = await context.services.host.workflow_named(workflow.name, tenant=context.tenant)
    return [workflow] if newest is None or newest.hash == workflow.hash else [newest, workflow]


def start_children_through(gate: Gate) -> ChildStarter:
    """Return the function with which runs start their children: a call through the gate, where there are policies."""

    async def start(run: RunSnapshot, effect: StartChild) -> Refused | ChildStarted | None:
        state, stage = run.state, gate.services.policies
        if stage is None or await stage.of(state.tenant) is None:
            return None
        acts_for = (state.starter or {}).get("onBehalfOf") or state.started_by
        principal = run_caller(state.tenant, acts_for if isinstance(acts_for, str) else None, RUN_SCOPE)
        arguments: JsonObject = {"execution_id": state.run_id, "child_id": effect.child_id}
        try:
            await internal_call(gate, principal, START_CHILD, arguments)
        except _FINAL as error:
            return Refused(error.code, error.message, hint=error.hint)
        return ChildStarted()

    return start


OPERATIONS: tuple[Capability, ...] = (execution_start_child,)
