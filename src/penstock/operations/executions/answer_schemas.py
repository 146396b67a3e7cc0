"""Answers as surfaces need to know them: who gave which.

Above it: surfaces. Below it: views of histories. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.definitions.secret_answers import is_secret
from penstock.engine.records import commands
from penstock.engine.walk.questions import interrupt_id_of
from penstock.operations.executions.views import HistoryPage

__all__ = ["answers_in", "is_secret"]


def answers_in(page: HistoryPage) -> Iterator[tuple[str, str | None]]:
    """The questions that were answered in a part of a history, each with who answered."""
    for record in page.items:
        if record.name == commands.ResumeInterrupt.__name__:
            told = record.payload
            yield interrupt_id_of(told["nodeId"], told["visit"], told.get("round", 0)), told.get("answeredBy")
