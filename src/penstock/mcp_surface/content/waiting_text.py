"""Texts that say what a run waits for, who can answer, and where.

A client that cannot be asked must still learn it, however it follows a run: by a task, by the result of a call,
or by reading its status. Models read these texts too, so the address in them grants no rights: it leads to a page that
asks for a key. The signed addresses of `questions.links` answer for the caller and are only for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from penstock.mcp_surface.content.blocks import plain_text
from penstock.operations.runs.results import HeldView
from penstock.operations.runs.views import ExecutionView
from penstock.operations.runs.waits import QuestionView

__all__ = [
    "answer_address",
    "held_text",
    "is_for_person",
    "status_line",
    "waiting_text",
    "where_answered",
    "who_answers",
]

# One line for somebody who looks at a list of tasks; the execution has the whole question.
_ASKED_CHARACTERS_MAX = 200
_DECIDES = "waiting_decision"
_CLIENT_ASKS = {
    "sampling": "the model of the client that started it",
    "roots": "the folders of the client that started it",
}


def is_for_person(status: str, questions: Sequence[QuestionView]) -> bool:
    """Return whether a run with this status waits for a person."""
    return status == _DECIDES or (status.startswith("waiting_") and bool(questions))


def status_line(view: ExecutionView, questions: Sequence[QuestionView], page: str | None) -> str:
    """Return the status of a run in one line; `questions` includes those of child runs."""
    message = waiting_text(view, questions, page)
    return f"{view.status}: {message}" if message else view.status


def waiting_text(view: ExecutionView, questions: Sequence[QuestionView], page: str | None) -> str:
    """Return what it waits for, who answers and where, in one line; empty if the run continues by itself."""
    if questions:
        # Questions for a person come first: a client's program answers the others.
        question = min(questions, key=lambda item: item.ask is not None)
        more = f" ({len(questions) - 1} more questions are open.)" if len(questions) > 1 else ""
        asked = _in_a_line(question)
        return f"{asked} {who_answers(question)} {where_answered(view.execution_id, question, page)}{more}"
    if view.status == _DECIDES:
        unknown = [item.node_id for item in view.waiting_for.activities if item.outcome_unknown]
        named = ", ".join(unknown) or "an activity"
        return (
            f"nobody knows whether {named} happened. A person finds out, then reports the outcome with"
            f" `penstock runs submit {view.execution_id}` or has it done again with"
            f" `penstock runs retry {view.execution_id}`."
        )
    if view.status == "paused":
        return f"somebody paused it; `penstock runs resume {view.execution_id}` continues it."
    return ""


def _in_a_line(question: QuestionView) -> str:
    if question.ask is not None:
        kind = str(question.ask.get("kind"))
        return f"it asks {_CLIENT_ASKS.get(kind, 'the client that started it')}."
    asked = " ".join(plain_text(question.prompt).split())
    return f"{asked[:_ASKED_CHARACTERS_MAX]}…" if len(asked) > _ASKED_CHARACTERS_MAX else asked


def who_answers(question: QuestionView) -> str:
    """Say who can answer a question."""
    if question.ask is not None:
        return "That client answers, or a person."
    if question.approvers is not None:
        by = _by_whom(question.approvers)
        since = f" It was escalated at {question.escalated_at}." if question.escalated_at else ""
        others = f" If nobody decides, others are asked at {question.escalates_at}." if question.escalates_at else ""
        return f"This needs an approval{by}. Only a person can give it; a tool call cannot.{since}{others}"
    if question.answered_by == "anyone":
        return "Anyone who may answer questions of this run can answer."
    return "Only a person can answer this; a tool call cannot."


def _by_whom(approvers: object) -> str:
    named = approvers if isinstance(approvers, dict) else {}
    group, groups, users, count = (named.get(name) for name in ("group", "groups", "users", "count"))
    listed = [group, *(groups if isinstance(groups, list) else []), *(users if isinstance(users, list) else [])]
    whom = " or ".join(name for name in listed if isinstance(name, str))
    many = f"{count} of " if isinstance(count, int) and count > 1 else ""
    by = f" by {many}{whom or 'people'}" if whom or many else ""
    return f"{by}, but not by the starter of the run" if named.get("not_requester") is True else by


def held_text(held: HeldView) -> str:
    """Say which call waits, as which draft, and who decides until when."""
    by = _by_whom(held.approvers) or " by a person"
    return (
        f"The call of {held.operation} is held as draft {held.draft_id} until {held.expires_at}, for an approval{by}."
    )


def where_answered(execution_id: str, question: QuestionView, page: str | None) -> str:
    """Say where and until when to answer; `page` is the address of the page that asks for a key."""
    asking = question.execution_id or execution_id
    until = f" until {question.expires_at}" if question.expires_at else ""
    at = f" at {answer_address(execution_id, question, page)} with a key of their own," if page is not None else ""
    return f"They can answer{at} with `penstock runs answer {asking}` or over REST{until}."


def answer_address(execution_id: str, question: QuestionView, page: str) -> str:
    """Return the address of the page at which somebody with a key answers a question."""
    asking = question.execution_id or execution_id
    return f"{page}?{urlencode({'execution': asking, 'question': question.interrupt_id}, safe=':')}"
