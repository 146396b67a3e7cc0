"""Two buttons in place of a check box: what each stands for, and that nothing is decided without one."""

from __future__ import annotations

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.decline_answers import deciding_member, declined_answer
from penstock.html_form.decisions import APPROVE, CHOOSE, DECLINE, DecisionForm
from penstock.html_form.form import UnreadableFields

APPROVAL: JsonObject = {
    "type": "object",
    "required": ["approve"],
    "properties": {"approve": {"type": "boolean"}, "note": {"type": "string"}},
}


def form_of(schema: JsonObject, declared: JsonValue = None) -> DecisionForm:
    decline = declined_answer(schema, declared)
    return DecisionForm(schema, deciding_member(schema, decline), decline)


def test_an_approval_has_no_check_box_and_keeps_its_other_fields() -> None:
    form = form_of(APPROVAL)
    assert form.decides == "approve"
    shown = form.html({})
    assert "checkbox" not in shown
    assert "note" in shown
    given = {"field.note": ["fine"]}
    assert form.answer(given, APPROVE, declines=False) == {"approve": True, "note": "fine"}
    assert form.answer(given, DECLINE, declines=False) == {"approve": False, "note": "fine"}
    assert form.answer(given, "", declines=True) == {"approve": False, "note": "fine"}


def test_a_form_that_is_sent_without_a_button_decides_nothing() -> None:
    schemas: list[JsonObject] = [APPROVAL, {"type": "boolean"}]
    for schema in schemas:
        assert form_of(schema).answer({}, "", declines=False) == UnreadableFields({"": [CHOOSE]})


def test_a_boolean_alone_is_decided_by_the_buttons() -> None:
    form = form_of({"type": "boolean"})
    assert (form.decides, form.html({})) == ("", "")
    assert form.answer({}, APPROVE, declines=False) is True
    assert form.answer({}, DECLINE, declines=False) is False


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
        {"type": "object", "required": ["skip"], "properties": {"skip": {"type": "boolean"}}},
        {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}},
        {"type": "string"},
    ],
)
def test_other_questions_have_no_such_buttons(schema: JsonObject) -> None:
    assert form_of(schema).decides is None


def test_a_document_that_says_more_to_decline_still_has_two_buttons() -> None:
    declared: JsonObject = {"approve": False, "note": "declined"}
    form = form_of(APPROVAL, declared)
    assert form.decides == "approve"
    assert "checkbox" not in form.html({})
    assert form.answer({"field.note": ["fine"]}, APPROVE, declines=False) == {"approve": True, "note": "fine"}
    assert form.answer({"field.note": ["fine"]}, DECLINE, declines=False) == declared
