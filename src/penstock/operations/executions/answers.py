"""Who may answer a question: people, and approvals only those who may give them.

Over MCP a question is answered in a form that the client shows to a person, never by a tool call, unless its document
says `answered_by: anyone`: something that a model has read might have talked it into that call. An approval names a
group, whose members have the scope `approve:GROUP`, or excludes the principal that started the run. The engine checks
this at the moment it takes an answer, so that no way of naming a question and no timing gets around it.

Above it: the operations that answer questions, surfaces. Below it: the request, histories.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from penstock.base.errors import Denied
from penstock.base.scopes import scope_allows
from penstock.definitions.secret_answers import is_secret
from penstock.engine.inputs import Answerer
from penstock.engine.records import commands, events
from penstock.engine.walk.questions import interrupt_id_of
from penstock.operations.gate.context import Context, Principal
from penstock.operations.runs.views import HistoryPage

__all__ = ["answerer_of", "answers_in", "is_by_model", "is_secret", "may_ask_caller", "refuse_used_answer"]


_APPROVE = "approve:"
# A node, its visit, and the number of the question that an activity asks.
_Question: TypeAlias = tuple[str, int | None, int]
_ABOUT_QUESTIONS = frozenset(
    {events.ExecutionStarted, events.InterruptRaised, events.ActivityAsked, commands.ResumeInterrupt}
)


def is_by_model(context: Context) -> bool:
    """Whether a model makes the call, as far as that can be known."""
    request = context.request
    return request.surface == "mcp" and not request.from_person


def may_ask_caller(principal: Principal, approvers: object) -> bool:
    """Whether the caller of a workflow may be asked a question that names these approvers, if any.

    The caller is assumed to have started the run. Questions that it may not approve are answered elsewhere.
    """
    if not isinstance(approvers, dict):
        return True
    group = approvers.get("group")
    is_member = not isinstance(group, str) or scope_allows(principal.scopes, f"{_APPROVE}{group}")
    return is_member and approvers.get("not_requester") is not True


def answerer_of(context: Context) -> Answerer:
    """Return what the engine has to know about a caller that answers a question."""
    scopes = context.principal.scopes
    groups = tuple(sorted(scope.removeprefix(_APPROVE) for scope in scopes if scope.startswith(_APPROVE)))
    every = scope_allows(scopes, f"{_APPROVE}*")
    return Answerer(by_model=is_by_model(context), groups=("*",) if every else groups)


async def refuse_used_answer(context: Context, run_id: str, at_sequence: int) -> None:
    """Refuse a fork by a model that would reuse the answer of a person."""
    if not is_by_model(context):
        return
    native = False
    open_to_models: set[_Question] = set()
    for record in await context.run(run_id).history():
        if record.seq > at_sequence:
            return
        match record.body if record.body_type in _ABOUT_QUESTIONS else None:
            case events.ExecutionStarted(format=form):
                native = form == "native"  # the published format has no questions that only people may answer
            case events.InterruptRaised(anyone=True) as raised:
                open_to_models.add((raised.node_id, raised.visit, 0))
            case events.ActivityAsked(ask=dict()) as asked:
                open_to_models.add((asked.node_id, asked.visit, asked.round or 0))
            case commands.ResumeInterrupt(node_id=node) as answered if native:
                if (node, answered.visit, answered.round or 0) in open_to_models:
                    continue
                message = f"a person answered {node} before {at_sequence}, and only a person can use that answer again"
                hint = "fork at an earlier record, or over REST, or with `penstock runs fork`"
                raise Denied("PERSON_REQUIRED", message, hint, {"node_id": node, "sequence": record.seq})


def answers_in(page: HistoryPage) -> Iterator[tuple[str, str | None]]:
    """Yield the questions that were answered in a page of a history, each with who answered."""
    for record in page.items:
        if record.name == commands.ResumeInterrupt.__name__:
            payload = record.payload
            yield (
                interrupt_id_of(payload["nodeId"], payload["visit"], payload.get("round", 0)),
                payload.get("answeredBy"),
            )
