"""Which questions a form can ask."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.mcp_surface.questions.client_questions import form_of
from penstock.operations.runs.waits import QuestionView


def question(schema: Any) -> QuestionView:
    return QuestionView(interrupt_id="i:1", node_id="ask", visit=1, prompt="May I?", answer_schema=schema)


def test_a_flat_object_is_a_form() -> None:
    schema = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean", "x-hidden": 1}}}
    form = form_of(question(schema))
    assert form is not None
    assert form.schema == {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}
    assert form.answer({"ok": True}) == {"ok": True}


@pytest.mark.parametrize("schema", [None, {}, {"type": "string"}])
def test_a_simple_answer_is_one_field(schema: Any) -> None:
    form = form_of(question(schema))
    assert form is not None
    assert form.answer({"answer": "yes"}) == "yes"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"list": {"type": "array"}}},
        {"type": "object", "properties": {"inner": {"type": "object"}}},
        {"type": "object", "properties": {"secret": {"type": "string", "format": "password"}}},
        {"type": "object", "properties": {"secret": {"type": "string", "writeOnly": True}}},
        {"type": "array"},
        {"anyOf": [{"type": "string"}]},
    ],
)
def test_everything_else_is_answered_with_a_tool(schema: Any) -> None:
    assert form_of(question(schema)) is None
