"""Questions to people: which ones are open in a run, and how an answer is handled.

A question is asked by an interrupt node, or by an activity that cannot continue without a person. Both are answered by
the same input; the first answer counts. The answer to a node becomes its result. The answer to an activity goes to its
performer, which continues the same attempt.

Above it: `decide` (answers), views of runs (open questions). Below it: `turn`.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue, json_problem
from penstock.definitions.canonical import canonical_json
from penstock.definitions.decline_answers import answer_says_no, declined_answer
from penstock.definitions.jq.templates import SECRET_MASK
from penstock.definitions.model import InterruptDetail, Workflow
from penstock.definitions.schemas.compiled import CompiledSchema, SchemaProblem, load_schema
from penstock.definitions.secret_answers import has_marks, secrets_in, with_values, without_values_of
from penstock.engine.approvers import (
    Voter,
    approvers_of,
    groups_counted,
    identity_of_vote,
    is_same_person,
    refuse_answer,
    requester_of,
)
from penstock.engine.inputs import AnswerInterrupt
from penstock.engine.outcomes import Refused
from penstock.engine.records import commands, events
from penstock.engine.state import Activation, RunState
from penstock.engine.transitions import Phase
from penstock.engine.values import refuse_unfit
from penstock.engine.walk.completion import describe_violations
from penstock.engine.walk.turn import Turn, detail_of

__all__ = [
    "OpenQuestion",
    "answer_interrupt",
    "interrupt_id_of",
    "may_be_secret",
    "open_questions",
    "secrets_of_answer",
]


_RecordedAnswer: TypeAlias = tuple[JsonValue, JsonObject | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """A question that can be answered until `deadline`; `round` counts those of an activity, 0 is a node's own."""

    interrupt_id: str
    node_id: str
    visit: int
    round: int
    prompt: JsonValue
    answer_schema: JsonValue
    deadline: int | None = None
    prompt_ref: JsonValue = None
    approvers: JsonValue = None
    anyone: bool = False
    """Whether a model may answer. Otherwise a person must, or the program that was asked."""
    decline: JsonValue = None
    """The answer that means "declined", if the document defines one."""
    ask: JsonObject | None = None
    """For a question to the program that started the run: its kind, and the request."""
    votes: tuple[JsonObject, ...] = ()
    """Who has agreed so far, if several have to."""
    escalates_at: int | None = None
    """When others are asked, if it is not decided by then."""
    escalated_at: int | None = None
    """When others were asked; `approvers` has them then."""


def interrupt_id_of(node_id: str, visit: int, round_number: int = 0) -> str:
    """Return the id of a question. It is derived from what asks it, so it is the same wherever it is computed."""
    return f"{node_id}:{visit}:{round_number}" if round_number else f"{node_id}:{visit}"


def open_questions(state: RunState) -> list[OpenQuestion]:
    """Return every open question of a run, ordered by the creation of their scopes."""
    return [question for item in state.activations() if (question := _question(item)) is not None]


def _question(activation: Activation) -> OpenQuestion | None:
    node_id, visit = activation.key
    if activation.phase is Phase.ASKING and activation.dialogue is not None:
        asked = activation.dialogue
        return OpenQuestion(
            interrupt_id=interrupt_id_of(node_id, visit, asked.round),
            node_id=node_id,
            visit=visit,
            round=asked.round,
            prompt=asked.prompt,
            answer_schema=asked.answer_schema,
            deadline=activation.deadline,
            ask=asked.ask,
        )
    if activation.phase is not Phase.INTERRUPTED:
        return None
    named = activation.external or {}
    escalated_at = named.get("escalatedAt")
    return OpenQuestion(
        interrupt_id=interrupt_id_of(node_id, visit),
        node_id=node_id,
        visit=visit,
        round=0,
        prompt=named.get("prompt"),
        answer_schema=named.get("answerSchema"),
        deadline=activation.deadline,
        prompt_ref=named.get("promptRef"),
        approvers=named.get("approvers"),
        anyone=named.get("anyone") is True,
        decline=named.get("decline"),
        votes=_votes(named.get("votes")),
        escalates_at=activation.due_at,
        escalated_at=escalated_at if isinstance(escalated_at, int) else None,
    )


def _votes(value: JsonValue) -> tuple[JsonObject, ...]:
    return tuple(vote for vote in value if isinstance(vote, dict)) if isinstance(value, list) else ()


def answer_interrupt(turn: Turn, given: AnswerInterrupt) -> Refused | None:
    """Record the answer to a question, if the question is open and the answer is valid."""
    question = _question_meant(turn.state, given)
    if isinstance(question, Refused):
        return question
    refused = _refuse_answerer(turn, question, given)
    if refused is not None:
        return refused
    unfit = refuse_unfit(given.answer, f"the answer to {question.node_id}", code="INVALID_RESUME_PAYLOAD")
    if unfit is not None:
        return unfit
    recorded = _recorded_answer(turn, question, given)
    if isinstance(recorded, Refused):
        return recorded
    answer, secrets = recorded
    voted = _vote(turn, question, given, answer)
    if voted is not None:
        return voted if isinstance(voted, Refused) else None
    turn.record(
        commands.ResumeInterrupt(
            question.node_id,
            question.visit,
            answer=answer,
            secrets=secrets,
            round=question.round or None,
            answered_by=given.by,
            approver=_approver(question, given),
            note=given.note,
            untrusted=(given.untrusted or given.by_model) and not turn.state.untrusted,
        )
    )
    return None


def _recorded_answer(turn: Turn, question: OpenQuestion, given: AnswerInterrupt) -> _RecordedAnswer | Refused:
    """Return what is recorded of an answer: the answer with its secrets masked, and the sealed secrets."""
    if given.is_recorded and given.sealed:
        # It was checked when it was recorded, and cannot be checked again where it is masked.
        return given.answer, dict(given.sealed)
    schema = _schema_of(turn.workflow, question)
    try:
        # Histories older than secret answers stay as they are.
        secrets = {} if given.is_recorded else secrets_in(schema, given.answer)
    except Rejected as error:
        return Refused("INVALID_RESUME_PAYLOAD", error.message, error.hint)
    found = turn.evaluator.violations(schema, given.answer)
    if found:
        message = describe_violations(without_values_of(found, secrets))
        hint = "correct the answer and send it again; the run is still waiting"
        return Refused("INVALID_RESUME_PAYLOAD", f"the answer to {question.node_id} does not fit: {message}", hint)
    if not secrets:
        return given.answer, None
    sealed = given.sealed or {}
    answer = with_values(given.answer, dict.fromkeys(secrets, SECRET_MASK))
    # A secret without a seal is lost. Its path is recorded anyway, and the node that needs it fails.
    return answer, {pointer: sealed.get(pointer, "") for pointer in secrets}


def may_be_secret(workflow: Workflow, state: RunState, given: AnswerInterrupt) -> bool:
    """Whether an answer may contain secrets for `secrets_of_answer` to find. Costs one look at the schema."""
    question = _question_meant(state, given)
    return not isinstance(question, Refused) and has_marks(_schema_of(workflow, question))


def secrets_of_answer(workflow: Workflow, state: RunState, given: AnswerInterrupt) -> dict[str, JsonValue]:
    """Return the secrets of an answer by path, for the host to seal before the engine records the answer without them.

    Empty if the answer will be refused anyway.
    """
    question = _question_meant(state, given)
    if isinstance(question, Refused) or json_problem(given.answer, limits.JSON_DEPTH_MAX) is not None:
        return {}
    try:
        return secrets_in(_schema_of(workflow, question), given.answer)
    except Rejected:
        return {}


def _refuse_answerer(turn: Turn, question: OpenQuestion, given: AnswerInterrupt) -> Refused | None:
    """Refuse an answer from someone who may not answer this question, even if the answer is valid."""
    if given.is_recorded:
        return None  # it was allowed when it was recorded
    return refuse_answer(
        question.interrupt_id,
        approvers_of(question.approvers),
        _voter(given),
        requester_of(turn.state),
        anyone=_is_open_to_models(turn, question),
    )


def _voter(given: AnswerInterrupt) -> Voter:
    return Voter(
        principal=given.by,
        kind=given.kind,
        groups=given.groups,
        owner=given.owner,
        acting_for=given.acting_for,
        subject=given.subject,
        lineage=given.lineage,
        by_model=given.by_model,
    )


def _vote(turn: Turn, question: OpenQuestion, given: AnswerInterrupt, answer: JsonValue) -> Refused | bool | None:
    """Record an answer as one of several votes; None if it decides the question.

    All approvers must give the same answer, and one decline ends it. The same vote twice counts once.
    """
    approvers = approvers_of(question.approvers)
    if approvers is None or approvers.count == 1 or question.round:
        return None
    voter = _voter(given)
    earlier = next((vote for vote in question.votes if is_same_person(voter, identity_of_vote(vote))), None)
    if earlier is not None:
        if earlier.get("by") == given.by and earlier.get("answer") == answer:
            return True
        message = (
            f"you have already answered {question.interrupt_id}, with this or another key; it needs several people"
        )
        return Refused(
            "ALREADY_VOTED", message, "ask another approver to answer", {"interrupt_id": question.interrupt_id}
        )
    if _declines(question, answer):
        return None
    if question.votes and question.votes[0].get("answer") != answer:
        message = f"the other approvers gave a different answer to {question.interrupt_id}"
        hint = "give the same answer, or decline; a comment goes into the note"
        return Refused("VOTES_DIFFER", message, hint, {"answer": question.votes[0].get("answer")})
    if len(question.votes) + 1 >= approvers.count:
        return None
    turn.record(
        events.InterruptVoted(
            question.node_id,
            question.visit,
            answer=answer,
            answered_by=given.by,
            approver=_approver(question, given),
            note=given.note,
            untrusted=given.untrusted and not turn.state.untrusted,
        )
    )
    return True


def _declines(question: OpenQuestion, answer: JsonValue) -> bool:
    """Whether an answer declines a question."""
    return answer_says_no(declined_answer(question.answer_schema, question.decline), answer)


def _approver(question: OpenQuestion, given: AnswerInterrupt) -> JsonObject | None:
    """Return what is recorded about who approved: what they are, and the digest of what they were shown."""
    if question.approvers is None or given.kind is None:
        return None
    shown: JsonObject = {
        "interruptId": question.interrupt_id,
        "prompt": question.prompt,
        "answerSchema": question.answer_schema,
        "approvers": question.approvers,
    }
    found: JsonObject = {"kind": given.kind}
    counted = groups_counted(approvers_of(question.approvers), _voter(given))
    if counted:
        found["groups"] = list(counted)
    if given.owner is not None:
        found["owner"] = given.owner
    if given.acting_for:
        found["actingFor"] = list(given.acting_for)
    if given.name:
        found["name"] = given.name
    if given.subject not in (None, given.by):
        found["subject"] = given.subject
    if given.lineage not in ((), (given.owner,)):
        found["lineage"] = list(given.lineage)
    return {**found, "shown": sha256(canonical_json(shown, exact_integers=True)).hexdigest()}


def _is_open_to_models(turn: Turn, question: OpenQuestion) -> bool:
    """Whether a model may answer: if the document allows it, or if the question went to the model's own program."""
    if question.round:
        return question.ask is not None
    return detail_of(turn.workflow.nodes[question.node_id], InterruptDetail).anyone


def _schema_of(workflow: Workflow, question: OpenQuestion) -> CompiledSchema:
    if not question.round:
        return detail_of(workflow.nodes[question.node_id], InterruptDetail).answer_schema
    asked = question.answer_schema
    compiled = load_schema(asked if isinstance(asked, dict) else {})
    if isinstance(compiled, SchemaProblem):
        raise TypeError(f"the question of {question.node_id} was recorded with an impossible schema")
    return compiled


def _question_meant(state: RunState, given: AnswerInterrupt) -> OpenQuestion | Refused:
    questions = [item for item in open_questions(state) if given.node_id in (None, item.node_id)]
    if given.visit is not None:
        questions = [item for item in questions if item.visit == given.visit]
    if given.interrupt_id is not None:
        questions = [item for item in questions if item.interrupt_id == given.interrupt_id]
    if not questions:
        named = given.interrupt_id or given.node_id
        return Refused(
            "INVALID_RESUME_PAYLOAD", f"run {state.run_id} has no open question{f' at {named}' if named else ''}"
        )
    if len(questions) > 1:
        names = ", ".join(item.interrupt_id for item in questions)
        return Refused(
            "INVALID_RESUME_PAYLOAD", f"several questions are open ({names})", "name the node that the answer is for"
        )
    return questions[0]
