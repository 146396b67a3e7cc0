"""Workflows that the server writes itself, for one call: stored under an owner that no tenant can be, when first run.

Above it: the operations that run agents, tools and tasks. Below it: the gate, the store of definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.base.errors import Conflict, Unavailable
from penstock.base.ids import id_for_callers, id_in_tenant
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.definitions.model import Workflow
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context, Request
from penstock.operations.gate.internal_callers import system_principal
from penstock.operations.gate.outcomes import RefusedCall
from penstock.operations.permissions.authorship import RunMarks
from penstock.operations.runs.handles import handle, seconds_to_wait
from penstock.operations.runs.held_access import with_held_calls
from penstock.operations.runs.results import ExecutionResult, wait_for_result
from penstock.operations.runs.starting import ExecuteWorkflow, row_of, started_run
from penstock.operations.runs.views import ExecutionHandle
from penstock.runtime.ports.runs import RunRow

if TYPE_CHECKING:
    from penstock.definitions.build import workflow as build
else:
    build = lazy_import("penstock.definitions.build.workflow")

__all__ = ["built", "register_generated", "started_reply", "store_generated"]

_ENDED = ("completed", "failed", "cancelled")


def built(document: JsonObject) -> Workflow:
    """Build a workflow from a document that was checked before."""
    found: Workflow = build.build_workflow(document)
    return found


async def register_generated(context: Context, workflow: Workflow, owner: str) -> None:
    """Store a workflow, in the internal call that was made for that."""
    context.call.about(None, hash=workflow.hash)
    await context.services.host.register(
        workflow, tenant=owner, created_by=context.principal.id, call=lambda row: context.call
    )


async def store_generated(
    context: Context, definition_hash: str, define: tuple[str, JsonObject], *, chosen: str | None = None
) -> None:
    """Store a workflow with a call of its own, unless that version is stored: the operation and its arguments.

    `chosen` is the id that the caller chose for the run, if any.
    """
    services = context.services
    if await services.store.definitions.find(definition_hash) is not None:
        return
    if chosen is not None and await services.store.row(id_in_tenant(context.tenant, chosen)) is not None:
        # No run has this version yet, so the id is another run's: refused before anything is stored.
        message = f"run {chosen} exists, with another workflow or input"
        raise Conflict("EXECUTION_ID_TAKEN", message, "choose another `execution_id`, or leave it out")
    call = None if context.holds is None else context.holds.call
    if call is None:
        raise Unavailable(
            "NOT_CONFIGURED",
            "this process cannot store the workflow of the tool",
            "send the call to a server (`penstock serve`)",
        )
    operation, arguments = define
    request = Request(
        operation=operation,
        arguments=arguments,
        principal=system_principal(f"{operation.partition('.')[0]}s", "workflow:write", tenant=context.tenant),
        surface="system",
        request_id=context.request.request_id,
    )
    outcome = await call(request)
    if isinstance(outcome, RefusedCall):
        raise outcome.error


async def started_reply(
    context: Context,
    given: ExecuteWorkflow,
    definition_hash: str,
    marks: RunMarks | None = None,
) -> Reply[ExecutionHandle | ExecutionResult]:
    """Start a run of such a workflow; answer with a handle at once, or with its result if the call waits for it.

    `marks` are what the server says of it.
    """
    if not given.sync and not given.wait_seconds:
        idempotency.answered_by(context, lambda decision: _handle(context, row_of(decision.state, {})))
        return _handle(context, await started_run(context, given, definition_hash=definition_hash, marks=marks))
    with context.services.host.progress.starting():
        row = await started_run(context, given, definition_hash=definition_hash, marks=marks)
    result = await with_held_calls(
        context, await wait_for_result(context, row.run_id, seconds_to_wait(context, given.wait_seconds))
    )
    return _reply(context, row, result, ended=result.status in _ENDED)


def _handle(context: Context, row: RunRow) -> Reply[ExecutionHandle | ExecutionResult]:
    return _reply(context, row, handle(context, row), ended=False)


def _reply(
    context: Context, row: RunRow, value: ExecutionHandle | ExecutionResult, *, ended: bool
) -> Reply[ExecutionHandle | ExecutionResult]:
    place = f"/executions/{id_for_callers(context.tenant, row.run_id)}"
    return Reply(value=value, status=200 if ended else 202, location=place)
