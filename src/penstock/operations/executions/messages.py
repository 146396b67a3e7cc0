"""Operations that send a run something: signals, answers to questions, results of activities.

Each gives the run one input; an input that does not fit is refused and changes nothing. A second answer to a question
is refused, and the refusal names who gave the first.

Above it: the catalogue. Below it: `runs.handles`, the handle of a run in `runtime`.
"""

from __future__ import annotations

import msgspec

from penstock.base.errors import Conflict, PenstockError, Rejected
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import CompiledSchema, load_schema
from penstock.definitions.schemas.misfits import tell_violations
from penstock.definitions.secret_answers import secrets_in, without_values_of
from penstock.engine.outcomes import Accepted
from penstock.engine.records import commands, events
from penstock.engine.walk.questions import OpenQuestion, interrupt_id_of, open_questions
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import instant
from penstock.operations.executions.inputs import (
    AnswerQuestion,
    LeaseActivity,
    SignalExecution,
    SubmitActivity,
    UpdateExecution,
)
from penstock.operations.executions.outside_work import Submitted, take_outside_work
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.permissions.answering import answerer_of
from penstock.operations.permissions.people import names_of
from penstock.operations.runs.decisions import note_decision
from penstock.operations.runs.handles import (
    changeable_run,
    find_changeable,
    find_run,
    handle_after,
    seconds_to_wait,
    visible_run,
)
from penstock.operations.runs.held_access import refuse_settling
from penstock.operations.runs.held_calls import HELD_LABEL, approval_id
from penstock.operations.runs.secret_arguments import secret_answers
from penstock.operations.runs.starting import new_run_id
from penstock.operations.runs.views import ExecutionHandle, UpdateAnswer
from penstock.operations.runs.waits import ActivityView, activity_view
from penstock.runtime.control_plane.leasing import leased_activity
from penstock.runtime.ports.runs import RunRow

__all__ = ["OPERATIONS"]

_SEEN = "EXECUTION_NOT_FOUND"


@operation(
    "execution.signal",
    route=Route(method="POST", path="/executions/{execution_id}/signals", status=202),
    scopes=("execution:write",),
    subject="execution_id",
    find=find_changeable,
    errors=(_SEEN, "DRAFT_NOT_YOURS", "SIGNAL_NOT_AWAITING", "SIGNAL_LIMIT_EXCEEDED", "VALUE_NOT_JSON"),
    examples=(Example(arguments={"execution_id": "order-1042", "name": "paid", "payload": {"amount": 180}}),),
)
async def execution_signal(context: Context, given: SignalExecution) -> Reply[ExecutionHandle]:
    """Send a signal to a run.

    A node that waits for a signal of this name takes it; otherwise the run keeps it until one does. With the same
    `signal_id`, it counts once, however often you send it.
    """
    row = await changeable_run(context, given.execution_id)
    signal_id = given.signal_id or _derived_signal(context)
    sent = context.run(row.run_id).signal(
        given.name, given.payload, signal_id=signal_id, by=context.principal.id, note=given.note
    )
    return await handle_after(context, row.run_id, sent)


def _derived_signal(context: Context) -> str | None:
    """Return a signal id derived from the idempotency key, so that a repeated call after a crash counts once."""
    made, derived = new_run_id(context, None)
    return made if derived else None


@operation(
    "execution.update",
    route=Route(method="POST", path="/executions/{execution_id}/updates", other_statuses=(202,)),
    scopes=("execution:write",),
    subject="execution_id",
    find=find_changeable,
    errors=(
        _SEEN,
        "DRAFT_NOT_YOURS",
        "SIGNAL_NOT_AWAITING",
        "SIGNAL_LIMIT_EXCEEDED",
        "VALUE_NOT_JSON",
        "JQ_INVALID",
        "JQ_FAILED",
        "FIELDS_HIDDEN",
    ),
    examples=(
        Example(
            arguments={"execution_id": "order-1042", "name": "paid", "payload": {"amount": 180}, "query": ".state"}
        ),
    ),
    reveals="run",
)
async def execution_update(context: Context, given: UpdateExecution) -> Reply[UpdateAnswer]:
    """Send a signal and wait until a node takes it.

    Returns the result of `query` when a node has taken the signal. If no node takes it in time, `taken` is false, and
    the signal waits in the run as with execution.signal.
    """
    row = await changeable_run(context, given.execution_id)
    public = id_for_callers(context.tenant, row.run_id)
    signal_id = given.signal_id or _derived_signal(context) or context.services.new_id()
    answer = UpdateAnswer(execution_id=public, signal_id=signal_id, taken=False)
    run = await context.run(row.run_id).newest()
    await run.signal(given.name, given.payload, signal_id=signal_id)

    async def taken() -> UpdateAnswer:
        seconds = seconds_to_wait(context, given.wait_seconds)
        value = await run.outcome_of_signal(signal_id, query=given.query, timeout_seconds=seconds)
        return msgspec.structs.replace(answer, taken=True, value=value)

    try:
        found = await context.caller.while_connected(taken)
    except TimeoutError:
        found = None
    return Reply(value=answer, status=202) if found is None else Reply(value=found)


@operation(
    "execution.answer",
    route=Route(method="POST", path="/executions/{execution_id}/answers"),
    scopes=("execution:write",),
    subject="execution_id",
    find=find_run,
    secrets=secret_answers,
    errors=(
        _SEEN,
        "ANSWER_INVALID",
        "QUESTION_AMBIGUOUS",
        "ALREADY_ANSWERED",
        "NO_OPEN_QUESTION",
        "PERSON_REQUIRED",
        "APPROVER_REQUIRED",
        "ALREADY_VOTED",
        "VOTES_DIFFER",
        "VALUE_NOT_JSON",
    ),
    examples=(Example(arguments={"execution_id": "order-1042", "answer": {"approved": True}}),),
)
async def execution_answer(context: Context, given: AnswerQuestion) -> Reply[ExecutionHandle]:
    """Answer a question of a run.

    See `waiting_for.questions` of execution.status for the prompt and the schema of the answer. If several questions
    are open, name the node, its visit or the interrupt id. The first answer that fits is taken. People answer: a model
    may only where a question says `answered_by: anyone`, and where `approvers` are named, only they may.
    """
    row = await visible_run(context, given.execution_id)
    if HELD_LABEL in row.labels:
        draft_id = id_for_callers(context.tenant, row.run_id)
        agreed = isinstance(given.answer, dict) and given.answer.get("approved") is True
        context.call.note(
            outcome="approved" if agreed else "rejected", draft_id=draft_id, approval_id=approval_id(draft_id)
        )
    note_decision(context, await context.services.host.read(row.run_id))
    answered = context.run(row.run_id).answer(
        given.answer,
        node=given.node_id,
        visit=given.visit,
        interrupt_id=given.interrupt_id,
        by=context.principal.id,
        answerer=msgspec.structs.replace(answerer_of(context), note=given.note),
    )
    try:
        return await handle_after(context, row.run_id, answered)
    except PenstockError as error:
        if error.code != "INVALID_RESUME_PAYLOAD":
            raise
        raise await _answer_error(context, row, given, error) from None


async def _answer_error(context: Context, row: RunRow, given: AnswerQuestion, error: PenstockError) -> PenstockError:
    """Return the error that says why an answer was not taken."""
    run = context.run(row.run_id)
    asked = [
        item for item in open_questions(await run.state()) if _is_meant(given, item.node_id, item.visit, item.round)
    ]
    if len(asked) > 1:
        ids: list[JsonValue] = [item.interrupt_id for item in asked]
        message = "several questions are open"
        return Rejected("QUESTION_AMBIGUOUS", message, "choose one with `interrupt_id`", {"interrupt_ids": ids})
    if asked:
        return Rejected(
            "ANSWER_INVALID", error.message, error.hint, {"errors": await _violations(context, asked[0], given.answer)}
        )
    answered = [
        (body, record.at)
        for record in await run.history()
        if (body := record.body_as(commands.ResumeInterrupt)) is not None
        and _is_meant(given, body.node_id, body.visit, body.round)
    ]
    if not answered:
        where = f" at {given.node_id}" if given.node_id else ""
        message = f"run {given.execution_id} is not waiting for an answer{where}"
        return Conflict("NO_OPEN_QUESTION", message, "look at `waiting_for` of execution.status")
    body, at = answered[-1]
    by = body.answered_by
    name = (await names_of(context, [by])).get(by or "", "")
    message = f"{body.node_id} was answered by {name or 'somebody'} at {instant(at)}"
    details: JsonObject = {"answered_by": by, "answered_by_name": name, "answered_at": instant(at)}
    details.update({"node_id": body.node_id, "visit": body.visit})
    return Conflict(
        "ALREADY_ANSWERED", message, "look at the run with execution.status; the first answer counts", details
    )


def _is_meant(given: AnswerQuestion, node_id: str, visit: int | None, round_number: int | None) -> bool:
    named = interrupt_id_of(node_id, visit or 0, round_number or 0)
    return given.node_id in (None, node_id) and given.visit in (None, visit) and given.interrupt_id in (None, named)


async def _violations(context: Context, question: OpenQuestion, answer: JsonValue) -> list[JsonValue]:
    schema = load_schema(question.answer_schema) if isinstance(question.answer_schema, dict) else None
    if not isinstance(schema, CompiledSchema):
        return []
    found = await context.services.host.violations(schema, answer, tenant=context.tenant)
    return tell_violations(schema.schema, without_values_of(found, secrets_in(schema, answer)), "/answer")


@operation(
    "execution.submit_activity",
    route=Route(method="POST", path="/executions/{execution_id}/activities/{node_id}"),
    scopes=("execution:write",),
    subject="execution_id",
    find=find_changeable,
    errors=(
        _SEEN,
        "ACTIVITY_SUBMIT_NOT_AWAITING",
        "ACTIVITY_SUBMIT_NODE_MISMATCH",
        "ACTIVITY_LEASE_LOST",
        "DRAFT_NOT_YOURS",
        "PERSON_REQUIRED",
        "SUBMIT_VALIDATION_ERROR",
        "VALUE_NOT_JSON",
    ),
    examples=(Example(arguments={"execution_id": "order-1042", "node_id": "charge", "ok": True, "result": {"n": 1}}),),
)
async def execution_submit_activity(context: Context, given: SubmitActivity) -> Reply[ExecutionHandle]:
    """Report the outcome of an activity.

    For activities that are performed outside the server (`waiting_for.activities` of execution.status lists them),
    and for activities whose outcome is unknown. A result that does not fit the node's schema counts as a failed
    attempt. What a model or agent used counts toward the limits of the run and of all runs above it; beyond them, the
    activity fails.
    """
    row = await changeable_run(context, given.execution_id)
    refuse_settling(context, row)
    error, code = (None if given.ok else (given.error or "failed")), given.code
    outcome = Submitted(node_id=given.node_id, visit=given.visit, ok=given.ok, result=given.result)
    work = await take_outside_work(context, row.run_id, outcome)
    if work is not None and work.refusal is not None:
        error, code = work.refusal.message, work.refusal.code
    submitted = context.run(row.run_id).submit(
        given.node_id,
        given.result if error is None else None,
        error=error,
        code=code,
        visit=given.visit,
        attempt=given.attempt,
        holder=_holder(context, given.holder) if given.holder else None,
    )
    try:
        return await handle_after(context, row.run_id, submitted)
    except PenstockError:
        if work is not None:
            await work.give_back()
        raise


@operation(
    "execution.lease_activity",
    route=Route(method="POST", path="/executions/{execution_id}/activities/{node_id}/lease"),
    scopes=("execution:write",),
    subject="execution_id",
    find=find_changeable,
    errors=(
        _SEEN,
        "ACTIVITY_LEASED",
        "ACTIVITY_LEASE_LOST",
        "ACTIVITY_LEASE_NOT_ALLOWED",
        "ACTIVITY_OUTCOME_UNKNOWN",
        "ACTIVITY_SUBMIT_NOT_AWAITING",
        "ACTIVITY_SUBMIT_NODE_MISMATCH",
        "DRAFT_NOT_YOURS",
        "PERSON_REQUIRED",
        "VALIDATION_ERROR",
        "FIELDS_HIDDEN",
    ),
    examples=(Example(arguments={"execution_id": "order-1042", "node_id": "charge", "seconds": 60}),),
    reveals="run",
)
async def execution_lease_activity(context: Context, given: LeaseActivity) -> Reply[ActivityView]:
    """Lease an activity for a while.

    For several workers that perform the activities of one run: while one holds the lease, no other gets the activity.
    Extend the lease while you work, then call execution.submit_activity.
    """
    row = await changeable_run(context, given.execution_id)
    refuse_settling(context, row)
    run = context.run(row.run_id)
    workflow = await context.services.host.workflow(row.definition_hash)

    def decided(decision: Accepted) -> Reply[ActivityView] | None:
        lease = next((body for item in decision.records if (body := item.body_as(events.ActivityLeased))), None)
        if lease is None or workflow is None:
            return None
        return Reply(value=activity_view(decision.state, leased_activity(workflow, decision.state, lease)))

    answer = idempotency.answered_by(context, decided)
    activity = await run.lease_activity(
        given.node_id, _holder(context, given.holder), given.seconds, visit=given.visit, extend=given.extend
    )
    return answer.reply or Reply(value=activity_view(await run.state(), activity))


def _holder(context: Context, name: str | None) -> str:
    """Return the name of a lease holder. It contains the principal, so that nobody can act in the name of another."""
    return f"{context.principal.id}/{name}" if name else context.principal.id


OPERATIONS: tuple[Capability, ...] = (
    execution_signal,
    execution_update,
    execution_answer,
    execution_submit_activity,
    execution_lease_activity,
)
