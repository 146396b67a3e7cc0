"""Finding a run that a caller names, and the handle that the caller gets to continue with it.

A run is a run: `execution_id` is the id of the run as its tenant writes it. Runs of other tenants are not found,
nor, by an agent, are those that hold a call of somebody else (`held_access`).

Above it: the operations that start, read and change runs. Below it: the index of runs, `views`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from penstock.base.errors import NotFound
from penstock.base.ids import DEFAULT_TENANT, id_for_callers, id_in_tenant
from penstock.engine.outcomes import Accepted
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.runs.held_access import may_see_run, refuse_withdrawing
from penstock.operations.runs.held_calls import HELD_LABEL
from penstock.operations.runs.views import (
    ExecutionHandle,
    handle_of,
    handle_of_state,
)
from penstock.runtime.ports.runs import RunRow

__all__ = [
    "changeable_run",
    "find_changeable",
    "find_run",
    "handle",
    "handle_after",
    "handle_now",
    "patience",
    "seconds_to_wait",
    "visible_run",
]


async def visible_run(context: Context, execution_id: str) -> RunRow:
    """Return the index row of a run that the caller named; raise NotFound, also if the caller may not see it."""
    store, tenant = context.services.store, context.tenant
    row = await store.row(id_in_tenant(tenant, execution_id))
    if row is None and tenant != DEFAULT_TENANT:
        row = await store.row(execution_id)
    if row is not None and HELD_LABEL in row.labels and not await may_see_run(context.services, context.principal, row):
        row = None
    if row is None or row.tenant != tenant:
        message = f"there is no run {execution_id[:200]}"
        raise NotFound("EXECUTION_NOT_FOUND", message, "list the runs with execution.list")
    return row


async def changeable_run(context: Context, execution_id: str) -> RunRow:
    """Return the index row of a run that the caller named and may change.

    What a run without a held call does is decided by scopes alone.
    """
    row = await visible_run(context, execution_id)
    await refuse_withdrawing(context, row)
    return row


async def find_run(context: Context, given: Any) -> RunRow:
    """Find the run that the input of a call names."""
    return await visible_run(context, given.execution_id)


async def find_changeable(context: Context, given: Any) -> RunRow:
    """Find the run that the input of a call names, for a change."""
    return await changeable_run(context, given.execution_id)


def handle(context: Context, row: RunRow) -> ExecutionHandle:
    """Return the handle of a run."""
    return handle_of(row, context.services.base_path)


async def handle_now(context: Context, run_id: str) -> ExecutionHandle:
    """Return a handle with the current status of a run of the caller's tenant."""
    row = await context.services.store.row(run_id)
    if row is None:
        raise NotFound("EXECUTION_NOT_FOUND", f"run {id_for_callers(context.tenant, run_id)} was deleted")
    return handle(context, row)


async def handle_after(
    context: Context, run_id: str, change: Awaitable[object], *, is_new: bool = False
) -> Reply[ExecutionHandle]:
    """Change a run and return its handle afterwards; this answer is stored with the change.

    If the change was made earlier, nothing changes and the answer shows the run as it is now. The answer for a new run
    has its location.
    """

    def reply(found: ExecutionHandle) -> Reply[ExecutionHandle]:
        return Reply(value=found, location=f"/executions/{found.execution_id}" if is_new else None)

    def decided(decision: Accepted) -> Reply[ExecutionHandle] | None:
        # A continued run passes the change on to its successor; the handle of that run is not the answer.
        state = decision.state
        return reply(handle_of_state(state, context.services.base_path)) if state.run_id == run_id else None

    answer = idempotency.answered_by(context, decided)
    await change
    return answer.reply or reply(await handle_now(context, run_id))


def seconds_to_wait(context: Context, asked: float | None) -> float:
    """Return how long a call waits: as long as it asks for, within what the server grants."""
    chosen = context.services.limits
    return min(chosen.sync_wait_seconds if asked is None else asked, chosen.sync_wait_max_seconds)


def patience(context: Context, asked: float | None) -> float:
    """Return how long a call waits for a run: as long as it asks for, or else as long as its surface lets it."""
    granted = context.request.patience_seconds
    return granted if asked is None and granted is not None else seconds_to_wait(context, asked)
