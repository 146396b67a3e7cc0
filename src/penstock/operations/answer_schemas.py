"""Answers as surfaces need to know them: whether one fits a question, and who gave which.

Above it: surfaces. Below it: the schemas of documents. It decides nothing: the execution checks every answer itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from penstock.base.json import JsonValue
from penstock.definitions.json_schemas import CompiledSchema, is_prompt, is_valid, load_schema
from penstock.engine.questions import interrupt_id_of
from penstock.operations.execution_views import HistoryPage

__all__ = ["answer_fits", "answers_in"]


def answer_fits(schema: JsonValue, answer: JsonValue) -> bool:
    """Whether a question with this schema takes the answer; where that takes its time, the run finds out itself."""
    compiled = load_schema(schema) if isinstance(schema, dict) else None
    if not isinstance(compiled, CompiledSchema):
        return False
    return not is_prompt(compiled, answer, len(msgspec.json.encode(answer))) or is_valid(compiled, answer)


def answers_in(page: HistoryPage) -> Iterator[tuple[str, str | None]]:
    """The questions that were answered in a part of a history, each with who answered."""
    for record in page.items:
        if record.name == "ResumeInterrupt":
            told = record.payload
            yield interrupt_id_of(told["nodeId"], told["visit"], told.get("round", 0)), told.get("answeredBy")
