"""What people decided in a run: who answered which of its questions, how, and when. All of it is in the records.

Above it: the timeline of a run, `approval.list`, drafts. Below it: the records of a run, `permissions.people`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonValue
from penstock.definitions.decline_answers import decided_by
from penstock.engine.outcomes import Accepted
from penstock.engine.records import Record, commands, events
from penstock.engine.state import RunState
from penstock.engine.walk.questions import interrupt_id_of, open_questions
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate.context import Context
from penstock.operations.permissions.people import names_of
from penstock.runtime.ports.audit import AuditOutcome
from penstock.runtime.ports.platform import CallRecord

__all__ = ["DecisionView", "decisions_in", "note_decision", "with_names"]

_OUTCOMES: dict[str, AuditOutcome] = {"approved": "approved", "declined": "rejected"}

_PROMPT_CHARACTERS_MAX = 2_000
_TIMEOUT = "timeout"

_QUESTIONS = frozenset({events.InterruptRaised.__name__, events.ActivityAsked.__name__})
_ANSWERS = _QUESTIONS | {
    events.InterruptVoted.__name__,
    events.TimerFired.__name__,
    commands.ResumeInterrupt.__name__,
}
# A node, its visit, and the number of the question that an activity asks.
_Place: TypeAlias = tuple[str, int, int]


class DecisionView(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody decided about a question, or that nobody did in time."""

    interrupt_id: str
    node_id: str
    visit: int
    sequence: int
    """The record that says so."""
    decision: Literal["approved", "declined", "answered", "expired"] | None
    """`answered` if the question was not one to approve or decline, `expired` if nobody decided in time. Null where a
    policy hides the contents of the run from you; so are `prompt` and `note`."""
    by: str | None
    """Who decided, or null."""
    name: str
    """What they are called: the name of their key, or of their account."""
    at: str | None
    final: bool
    """False for the vote of one of several who have to agree."""
    prompt: str | None = None
    """What was asked."""
    note: str | None = None
    """What they said about it."""


class _Asked(NamedTuple):
    prompt: JsonValue
    answer_schema: JsonValue
    decline: JsonValue = None


def decisions_in(records: Iterable[Record]) -> list[DecisionView]:
    """Return the last decisions of a history, oldest first. They have the names that were recorded, if any."""
    asked: dict[_Place, _Asked] = {}
    found: list[tuple[Record, _Asked]] = []
    for record in records:
        if record.name not in (_ANSWERS if asked else _QUESTIONS):
            continue
        match record.body:
            case events.InterruptRaised() as raised:
                place = (raised.node_id, raised.visit or 0, 0)
                asked[place] = _Asked(raised.prompt, raised.answer_schema, raised.decline)
            case events.ActivityAsked(ask=None) as question:
                place = (question.node_id, question.visit or 0, question.round or 0)
                asked[place] = _Asked(question.prompt, question.answer_schema)
            case events.InterruptVoted() as vote if about := asked.get((vote.node_id, vote.visit or 0, 0)):
                found.append((record, about))
            case commands.ResumeInterrupt() as answer:
                about = asked.pop((answer.node_id, answer.visit or 0, answer.round or 0), None)
                if about is not None:
                    found.append((record, about))
            case events.TimerFired(kind=kind) as fired if kind == _TIMEOUT:
                about = asked.pop((fired.node_id, fired.visit or 0, 0), None)
                if about is not None:
                    found.append((record, about))
    return [_view_decision(record, about) for record, about in found[-limits.DECISIONS_SHOWN_MAX :]]


def _view_decision(record: Record, asked: _Asked) -> DecisionView:
    body = record.body
    assert isinstance(body, commands.ResumeInterrupt | events.InterruptVoted | events.TimerFired)
    round_number = (body.round or 0) if isinstance(body, commands.ResumeInterrupt) else 0
    prompt = asked.prompt if isinstance(asked.prompt, str) else encode_bytes(asked.prompt).decode()
    view = DecisionView(
        interrupt_id=interrupt_id_of(body.node_id, body.visit or 0, round_number),
        node_id=body.node_id,
        visit=body.visit or 0,
        sequence=record.seq,
        decision="expired",
        by=None,
        name="",
        at=instant(record.at),
        final=True,
        prompt=prompt[:_PROMPT_CHARACTERS_MAX],
    )
    if isinstance(body, events.TimerFired):
        return view
    answer = None if body.answer is UNSET else body.answer
    name = (body.approver or {}).get("name")
    return msgspec.structs.replace(
        view,
        decision=decided_by(asked.answer_schema, asked.decline, answer),
        by=body.answered_by,
        name=name if isinstance(name, str) else "",
        final=isinstance(body, commands.ResumeInterrupt),
        note=body.note,
    )


async def with_names(context: Context, decisions: Sequence[DecisionView]) -> list[DecisionView]:
    """Return decisions with the names of the people who decided."""
    names = await names_of(context, (item.by for item in decisions if not item.name))
    return [msgspec.structs.replace(item, name=item.name or names.get(item.by or "", "")) for item in decisions]


def note_decision(context: Context, state: RunState | None) -> None:
    """Let the audit record of a call say what its answer decides, and in which record of the run, once that is known.

    `state` is the run before the answer.
    """
    asked = {} if state is None else {item.interrupt_id: item for item in open_questions(state) if item.ask is None}

    def note(call: CallRecord, decision: Accepted) -> None:
        for record in decision.records:
            body = record.body_as(commands.ResumeInterrupt) or record.body_as(events.InterruptVoted)
            if body is None:
                continue
            round_number = (body.round or 0) if isinstance(body, commands.ResumeInterrupt) else 0
            question = asked.get(interrupt_id_of(body.node_id, body.visit or 0, round_number))
            if question is None or body.answer is UNSET:
                return
            decided = decided_by(question.answer_schema, question.decline, body.answer)
            call.note(outcome=_OUTCOMES.get(decided))
            call.about(
                None,
                interrupt_id=question.interrupt_id,
                sequence=record.seq,
                final=isinstance(body, commands.ResumeInterrupt),
            )
            return

    context.call.notes_of = note
