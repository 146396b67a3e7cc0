"""Operations that start a workflow and wait for a run: `workflow.execute`, `execution.wait`.

Above it: the catalogue. Below it: `runs.starting`, `runs.results`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.base.ids import id_for_callers
from penstock.definitions.reached import ANY, Reached, workflow_key
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.reaching import argument
from penstock.operations.catalogue.reasons import SIGNATURE_ERRORS
from penstock.operations.executions.inputs import WaitForExecution
from penstock.operations.executions.reads import ended_view, execution_view
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.permissions.witnesses import workflow_witness
from penstock.operations.runs.handles import handle, seconds_to_wait, visible_run
from penstock.operations.runs.held_access import with_held_calls
from penstock.operations.runs.results import ExecutionResult, wait_for_result
from penstock.operations.runs.secret_arguments import secret_inputs
from penstock.operations.runs.starting import (
    ExecuteWorkflow,
    find_startable,
    new_run_id,
    row_of,
    started_run,
)
from penstock.operations.runs.views import ExecutionHandle, ExecutionView
from penstock.runtime.ports.runs import RunRow

__all__ = ["OPERATIONS"]


def _reaches(arguments: Mapping[str, Any]) -> Iterator[Reached]:
    """Yield the workflow that a call starts, and the version if it names one."""
    name, pin = argument(arguments, "workflow_id"), argument(arguments, "hash")
    if isinstance(name, str):
        yield Reached(workflow_key(name))
        if isinstance(pin, str) and ANY not in (name, pin):
            yield Reached(workflow_key(name, pin))


@operation(
    "workflow.execute",
    route=Route(method="POST", path="/workflows/{workflow_id}/executions", status=202, other_statuses=(200,)),
    scopes=("workflow:run",),
    open_world=True,
    risk="medium",
    subject="workflow_id",
    witness=workflow_witness,
    find=find_startable,
    reaches=_reaches,
    secrets=secret_inputs,
    errors=(
        *SIGNATURE_ERRORS,
        "WORKFLOW_NOT_FOUND",
        "INPUT_INVALID",
        "EXECUTION_ID_TAKEN",
        "QUOTA_EXCEEDED",
        "DURATION_INVALID",
        "LABEL_RESERVED",
        "VALUE_NOT_JSON",
    ),
    examples=(
        Example(arguments={"workflow_id": "refund_order", "input": {"order_id": "A-1042", "amount": 180}}),
        Example(arguments={"workflow_id": "refund_order", "input": {"order_id": "A-1043"}, "sync": True}),
    ),
)
async def workflow_execute(context: Context, given: ExecuteWorkflow) -> Reply[ExecutionHandle | ExecutionView]:
    """Start a workflow.

    Starts a durable run of the newest version and returns a handle at once; look at it with execution.status or wait
    for it with execution.wait. With `sync`, the call waits for a limited time and returns the finished run; if the run
    takes longer, it returns the handle and the run continues.
    """
    if not given.sync and not given.wait_seconds:
        idempotency.answered_by(context, lambda decision: _reply(context, row_of(decision.state, {})))
        return _reply(context, await started_run(context, given))
    host, chosen = context.services.host, new_run_id(context, given.execution_id)
    with context.services.run_memory.transcribed(chosen[0]) as transcript:
        row = await started_run(context, given, chosen=chosen)
        run_id, seconds = row.run_id, seconds_to_wait(context, given.wait_seconds)
        state = await context.caller.while_connected(lambda: host.wait_for_end(run_id, timeout_seconds=seconds))
        if state is None or not state.terminal or state.continued_as is not None:
            return _reply(context, await host.row(run_id if state is None else state.run_id) or row)
        stored = transcript.stored(state.seq) if state.run_id == run_id else None
    if stored is not None:
        return _reply(context, stored.row, await ended_view(context, stored, state))
    row = await host.row(state.run_id) or row
    return _reply(context, row, await execution_view(context, row))


def _reply(context: Context, row: RunRow, ended: ExecutionView | None = None) -> Reply[ExecutionHandle | ExecutionView]:
    """Reply with the run if it has ended; otherwise with its handle."""
    public = id_for_callers(context.tenant, row.run_id)
    status = 202 if ended is None else 200
    return Reply(value=ended or handle(context, row), status=status, location=f"/executions/{public}")


@operation(
    "execution.wait",
    route=Route(method="GET", path="/executions/{execution_id}/wait", query=("wait_seconds", "after_sequence")),
    scopes=("execution:read",),
    reads=True,
    subject="execution_id",
    errors=("EXECUTION_NOT_FOUND",),
    examples=(Example(arguments={"execution_id": "order-1042", "wait_seconds": 20}),),
)
async def execution_wait(context: Context, given: WaitForExecution) -> ExecutionResult:
    """Wait for a run.

    Returns as soon as the run has ended or asks a question, or when the time is up; `status` says which. Use it instead
    of polling the status, and call it again if the run continues.
    """
    row = await visible_run(context, given.execution_id)
    asked, patience = given.wait_seconds, context.request.patience_seconds
    seconds = patience if asked is None and patience is not None else seconds_to_wait(context, asked)
    result = await wait_for_result(context, row.run_id, seconds, after_sequence=given.after_sequence or 0)
    return await with_held_calls(context, result)


OPERATIONS: tuple[Capability, ...] = (workflow_execute, execution_wait)
