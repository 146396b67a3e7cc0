"""Operations that change the course of runs: pause, resume, cancel, retry, fork, delete.

Each gives the run one input; an input that does not fit is refused and changes nothing.

Above it: the catalogue. Below it: `runs.handles`, `retry_point`, the handle of a run in `runtime`. Signals, answers and
results are in `messages`.
"""

from __future__ import annotations

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Conflict, Rejected
from penstock.base.ids import id_for_callers
from penstock.engine.approved import authors_of
from penstock.engine.inputs import Initiator
from penstock.engine.records import events
from penstock.engine.transitions import Phase, RunStatus
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted
from penstock.operations.catalogue.reaching import named
from penstock.operations.executions.answers import refuse_used_answer
from penstock.operations.executions.inputs import (
    ForkExecution,
    NamedExecution,
    ReasonedChange,
    RetryExecution,
)
from penstock.operations.executions.retry_point import retry_point
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.permissions.admission import admit_restart
from penstock.operations.runs.handles import changeable_run, find_changeable, handle_after
from penstock.operations.runs.held_access import refuse_settling
from penstock.operations.runs.held_calls import HELD_LABEL
from penstock.operations.runs.starting import called_by, new_run_id, refuse_restart
from penstock.operations.runs.views import ExecutionHandle
from penstock.runtime.ports.runs import RunQuery, RunRow

__all__ = ["OPERATIONS"]

_SEEN = "EXECUTION_NOT_FOUND"


@operation(
    "execution.pause",
    route=Route(method="POST", path="/executions/{execution_id}/pause"),
    scopes=("execution:control",),
    subject="execution_id",
    find=find_changeable,
    errors=(_SEEN, "DRAFT_NOT_YOURS", "PAUSE_NOT_ALLOWED", "RUN_ENDED"),
    examples=(Example(arguments={"execution_id": "order-1042", "reason": "the shop is being moved"}),),
)
async def execution_pause(context: Context, given: ReasonedChange) -> Reply[ExecutionHandle]:
    """Pause a run.

    It makes no new moves until execution.resume. Results that arrive meanwhile are kept, and its timers wait.
    """
    row = await changeable_run(context, given.execution_id)
    return await handle_after(context, row.run_id, context.run(row.run_id).pause(given.reason))


@operation(
    "execution.resume",
    route=Route(method="POST", path="/executions/{execution_id}/resume"),
    scopes=("execution:control",),
    subject="execution_id",
    find=find_changeable,
    errors=(_SEEN, "DRAFT_NOT_YOURS", "RESUME_NOT_ALLOWED", "RUN_ENDED"),
)
async def execution_resume(context: Context, given: NamedExecution) -> Reply[ExecutionHandle]:
    """Resume a paused run.

    It continues where it was. To answer a question that a run waits for, call execution.answer instead.
    """
    row = await changeable_run(context, given.execution_id)
    return await handle_after(context, row.run_id, context.run(row.run_id).resume())


@operation(
    "execution.cancel",
    route=Route(method="POST", path="/executions/{execution_id}/cancel"),
    scopes=("execution:control",),
    destructive=True,
    risk="medium",
    subject="execution_id",
    find=find_changeable,
    errors=(_SEEN, "CANCEL_NOT_ALLOWED", "DRAFT_NOT_YOURS"),
    examples=(Example(arguments={"execution_id": "order-1042", "reason": "the customer changed their mind"}),),
)
async def execution_cancel(context: Context, given: ReasonedChange) -> Reply[ExecutionHandle]:
    """Cancel a run.

    Stops its work and its child runs. The steps that the workflow declares for undoing run first, so the status may be
    `cancelling` for a while.
    """
    row = await changeable_run(context, given.execution_id)
    return await handle_after(context, row.run_id, context.run(row.run_id).cancel(given.reason))


@operation(
    "execution.retry",
    route=Route(method="POST", path="/executions/{execution_id}/retry"),
    scopes=("execution:control",),
    risk="medium",
    subject="execution_id",
    find=find_changeable,
    reaches=named("execution:", "execution_id"),
    errors=(
        _SEEN,
        "ACTIVITY_RETRY_NOT_ALLOWED",
        "ACTIVITY_SUBMIT_NOT_AWAITING",
        "ACTIVITY_SUBMIT_NODE_MISMATCH",
        "DRAFT_NOT_YOURS",
        "EXECUTION_ID_TAKEN",
        "HELD_CALL_FIXED",
        "PERSON_REQUIRED",
        "QUOTA_EXCEEDED",
        "RETRY_AMBIGUOUS",
        "RETRY_NOT_ALLOWED",
        "RUN_ENDED",
    ),
    examples=(
        Example(arguments={"execution_id": "order-1042"}),
        Example(arguments={"execution_id": "order-1042", "node_id": "charge"}),
    ),
)
async def execution_retry(context: Context, given: RetryExecution) -> Reply[ExecutionHandle]:
    """Retry what failed.

    A failed run stays as it is: a new run is forked from just before the failure, continues from there, and is
    returned. An activity that must not happen twice waits for a decision if its process died: retry repeats it in its
    own run, and execution.submit_activity reports its outcome instead.
    """
    row = await changeable_run(context, given.execution_id)
    refuse_settling(context, row)
    if HELD_LABEL not in row.labels:  # a call that was held is made with the authority of its caller
        await refuse_restart(context, row)
    if row.status == RunStatus.FAILED and given.node_id is None:
        point = retry_point(await context.run(row.run_id).history())
        return await _forked(context, row, point.seq, given.new_execution_id)
    node_id, visit = await _in_doubt(context, row, given)
    run = context.run(row.run_id)
    retried = run.retry_activity(node_id, visit=visit, by=context.principal.id, note=given.note)
    return await handle_after(context, row.run_id, retried)


async def _in_doubt(context: Context, row: RunRow, given: RetryExecution) -> tuple[str, int | None]:
    """Return the activity whose outcome is unknown. If the caller names one, the engine checks it."""
    if given.node_id is not None:
        return given.node_id, given.visit
    state = await context.run(row.run_id).state()
    doubtful = [item.key for item in state.activations() if item.phase is Phase.OUTCOME_UNKNOWN]
    meant = [key for key in doubtful if given.visit in (None, key[1])]
    if len(meant) == 1:
        return meant[0]
    if meant:
        listed = ", ".join(f"{node_id} (visit {visit})" for node_id, visit in meant)
        message = f"the outcome of several activities is unknown: {listed}"
        raise Rejected("RETRY_AMBIGUOUS", message, "choose one with `node_id` and `visit`")
    message = f"the run {given.execution_id} is {row.status}: nothing failed, and no outcome is unknown"
    hint = "retry a run only after it failed, or an activity whose outcome is unknown"
    raise Conflict("RETRY_NOT_ALLOWED", message, hint)


@operation(
    "execution.fork",
    route=Route(method="POST", path="/executions/{execution_id}/fork", status=201),
    scopes=("execution:control", "workflow:run"),
    open_world=True,
    risk="medium",
    subject="execution_id",
    find=find_changeable,
    reaches=named("execution:", "execution_id"),
    errors=(
        _SEEN,
        "DRAFT_NOT_YOURS",
        "FORK_POINT_INVALID",
        "EXECUTION_ID_TAKEN",
        "HELD_CALL_FIXED",
        "PERSON_REQUIRED",
        "QUOTA_EXCEEDED",
    ),
    examples=(Example(arguments={"execution_id": "order-1042", "at_sequence": 14}),),
)
async def execution_fork(context: Context, given: ForkExecution) -> Reply[ExecutionHandle]:
    """Start a new run from the middle of another.

    Everything up to a record of the history counts as done; the new run continues from there. Use it to repeat the part
    of a failed run that went wrong. The original stays as it is.
    """
    row = await changeable_run(context, given.execution_id)
    await refuse_restart(context, row)
    return await _forked(context, row, given.at_sequence, given.new_execution_id)


async def _forked(context: Context, row: RunRow, at_seq: int, chosen: str | None) -> Reply[ExecutionHandle]:
    """Fork a run, and return the new one; or return the one that the same call made earlier."""
    if HELD_LABEL in row.labels:
        message = "a run that holds a call cannot be repeated: the approval is for this call only"
        raise Conflict("HELD_CALL_FIXED", message, "propose the call again with draft.propose")
    await refuse_used_answer(context, row.run_id, at_seq)
    run_id, _ = new_run_id(context, chosen)

    async def fork() -> None:
        if await _is_that_fork(context, run_id, row.run_id, at_seq):
            return
        await admit_restart(context, row)
        try:
            await context.run(row.run_id).fork(
                at_seq=at_seq, run_id=run_id, by=await _repeating(context, row), labels=called_by(context)
            )
        except Conflict as error:
            if error.code != "DUPLICATE_EXECUTION_ID":
                raise
            if not await _is_that_fork(context, run_id, row.run_id, at_seq):
                raise _taken(chosen) from None

    return await handle_after(context, run_id, fork(), is_new=True)


async def _repeating(context: Context, row: RunRow) -> Initiator:
    """Return who repeats a run: the caller, with the agents that wrote what the run is of."""
    state = await context.services.host.read(row.run_id)
    authors = () if state is None else authors_of(state.starter)
    return replace(context.initiator, authors=authors)


async def _is_that_fork(context: Context, run_id: str, original: str, at_seq: int) -> bool:
    """Whether the run with this id is the requested fork; False without such a run, `Conflict` for another one."""
    begun = await context.services.host.history(run_id, limit=1)
    if not begun:
        return False
    first = begun[0].body_as(events.ExecutionStarted)
    origin = None if first is None else first.forked_from
    if origin is None or (origin.get("executionId"), origin.get("seq")) != (original, at_seq):
        raise _taken(id_for_callers(context.tenant, run_id))
    return True


def _taken(execution_id: str | None) -> Conflict:
    message = f"run {execution_id} exists, with another workflow, input or origin"
    return Conflict("EXECUTION_ID_TAKEN", message, "choose another `execution_id`, or leave it out")


async def _find_ended(context: Context, given: NamedExecution) -> None:
    """Find the run that is to be deleted; raise Conflict if it has not ended."""
    row = await changeable_run(context, given.execution_id)
    if not row.terminal:
        raise _not_ended(given.execution_id, row)


def _not_ended(execution_id: str, row: RunRow) -> Conflict:
    message = f"run {execution_id} is {row.status}, or another run still needs it"
    return Conflict("EXECUTION_NOT_ENDED", message, "cancel it first, or delete its parent")


@operation(
    "execution.delete",
    route=Route(method="DELETE", path="/executions/{execution_id}"),
    scopes=("execution:delete",),
    destructive=True,
    risk="high",
    subject="execution_id",
    find=_find_ended,
    errors=(_SEEN, "DRAFT_NOT_YOURS", "EXECUTION_NOT_ENDED"),
)
async def execution_delete(context: Context, given: NamedExecution) -> Deleted:
    """Delete a run that has ended.

    Deletes its history and its child runs too. Cancel a run that has not ended first.
    """
    row = await changeable_run(context, given.execution_id)
    family = [row.run_id, *await _descendants(context, row.run_id)]
    answer = Deleted(id=id_for_callers(context.tenant, row.run_id))
    await context.services.store.delete_runs(family, call=idempotency.answered(context, Reply(value=answer)))
    if await context.services.store.row(row.run_id) is not None:
        raise _not_ended(given.execution_id, row)
    return answer


async def _descendants(context: Context, run_id: str) -> list[str]:
    """Return the child runs of a run and theirs, parents first."""
    found: list[str] = []
    waiting = [run_id]
    while waiting:
        parent, cursor = waiting.pop(), None
        while True:
            query = RunQuery(parent_run_id=parent, limit=limits.PAGE_LIMIT_MAX, cursor=cursor, tenant=context.tenant)
            page = await context.services.store.list_runs(query)
            found.extend(row.run_id for row in page.rows)
            waiting.extend(row.run_id for row in page.rows)
            cursor = page.next_cursor
            if cursor is None:
                break
    return found


OPERATIONS: tuple[Capability, ...] = (
    execution_pause,
    execution_resume,
    execution_cancel,
    execution_retry,
    execution_fork,
    execution_delete,
)
