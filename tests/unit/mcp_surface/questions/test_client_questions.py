"""Which questions a form can ask."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.definitions.decline_answers import deciding_member, declined_answer
from penstock.mcp_surface.questions.client_questions import form_of
from penstock.operations.runs.waits import QuestionView


def question(schema: Any) -> QuestionView:
    decline = declined_answer(schema)
    return QuestionView(
        interrupt_id="i:1",
        node_id="ask",
        visit=1,
        prompt="May I?",
        answer_schema=schema,
        decline=decline,
        decides=deciding_member(schema, decline),
    )


def test_a_flat_object_is_a_form() -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "x-hidden": 1}}}
    form = form_of(question(schema))
    assert form is not None
    assert form.schema == {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    assert form.answer({"n": 1}) == {"n": 1}


def test_an_approval_is_a_choice_of_two_and_no_check_box_that_may_be_left_empty() -> None:
    member = {"type": "boolean", "title": "Refund it?", "default": False}
    schema = {"type": "object", "properties": {"ok": member, "note": {"type": "string"}}, "required": ["ok"]}
    form = form_of(question(schema))
    assert form is not None
    choice = {"type": "string", "title": "Refund it?", "enum": ["Approve", "Decline"]}
    assert form.schema["properties"] == {"ok": choice, "note": {"type": "string"}}
    assert form.schema["required"] == ["ok"]
    assert form.answer({"ok": "Approve", "note": "fine"}) == {"ok": True, "note": "fine"}
    assert form.answer({"ok": "Decline"}) == {"ok": False}
    assert [form.answer({"ok": truth}) for truth in (True, False)] == [{"ok": True}, {"ok": False}]
    assert form.answer({"ok": "approve"}) == {"ok": "approve"}, "what was not offered decides nothing"
    assert form.answer({}) == {}


def test_an_approval_without_a_title_asks_for_the_decision() -> None:
    form = form_of(question({"type": "boolean"}))
    assert form is not None
    choice = {"type": "string", "title": "Your decision", "enum": ["Approve", "Decline"]}
    assert form.schema == {"type": "object", "required": ["answer"], "properties": {"answer": choice}}
    assert [form.answer({"answer": word}) for word in ("Approve", "Decline")] == [True, False]


def test_a_decision_that_is_not_required_is_asked_for_all_the_same() -> None:
    form = form_of(question({"type": "object", "properties": {"ok": {"type": "boolean"}}}))
    assert form is not None
    assert form.schema["required"] == ["ok"]


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
