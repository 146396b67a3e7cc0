"""Answers that were given: who gave them, and that no model uses the answer of a person again.

Who may give an answer is decided by the engine when it takes one (`engine.approvers`, `permissions.answering`).

Above it: the operations that fork runs, surfaces. Below it: histories.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from penstock.base.errors import Denied
from penstock.definitions.secret_answers import is_secret
from penstock.engine.records import commands, events
from penstock.engine.walk.questions import interrupt_id_of
from penstock.operations.gate.context import Context
from penstock.operations.runs.views import HistoryPage

__all__ = ["answers_in", "is_secret", "refuse_used_answer"]

# A node, its visit, and the number of the question that an activity asks.
_Question: TypeAlias = tuple[str, int | None, int]
_ABOUT_QUESTIONS = frozenset(
    {events.ExecutionStarted, events.InterruptRaised, events.ActivityAsked, commands.ResumeInterrupt}
)


async def refuse_used_answer(context: Context, run_id: str, at_sequence: int) -> None:
    """Refuse a fork by a model that would reuse the answer of a person."""
    if not context.request.by_agent:
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
