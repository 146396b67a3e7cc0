"""Conversations that build an answer from a schema."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.terminal.prompts import AnswerAbandoned, AnswerGiven, ask_answer


@dataclass
class Scripted:
    """Somebody who types these lines and then is gone."""

    lines: list[str]
    heard: list[str] = field(default_factory=list)

    async def ask(self, prompt: str) -> str | None:
        self.heard.append(prompt)
        return self.lines.pop(0) if self.lines else None

    def tell(self, text: str) -> None:
        self.heard.append(text)


def converse(schema: JsonObject, lines: Iterable[str]) -> tuple[AnswerGiven | AnswerAbandoned, str]:
    person = Scripted(list(lines))
    outcome = asyncio.run(ask_answer(schema, person))
    assert isinstance(outcome, AnswerAbandoned) or person.lines == []
    return outcome, "\n".join(person.heard)


def answer(schema: JsonObject, *lines: str) -> JsonValue:
    outcome, heard = converse(schema, lines)
    assert isinstance(outcome, AnswerGiven), heard
    return outcome.value


def object_of(properties: JsonObject, *required: str) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required)}


@pytest.mark.parametrize(
    ("line", "value"),
    [("y", True), ("YES", True), ("true", True), ("n", False), ("no", False), ("false", False), ("", False)],
)
def test_a_truth_value_is_y_or_n_and_nothing_means_no(line: str, value: bool) -> None:
    schema = object_of({"ok": {"type": "boolean"}, "quick": {"type": "boolean"}}, "ok", "quick")
    assert answer(schema, line, "n") == {"ok": value, "quick": False}


@pytest.mark.parametrize(("line", "value"), [("approve", True), ("Decline", False), ("y", True), ("n", False)])
def test_what_is_approved_or_declined_is_answered_with_a_word_and_never_with_nothing(line: str, value: bool) -> None:
    schema = object_of({"approve": {"type": "boolean"}, "note": {"type": "string"}}, "approve")
    outcome, heard = converse(schema, ["", line, ""])
    assert outcome == AnswerGiven({"approve": value})
    assert "[approve/decline]" in heard
    assert "nothing is decided yet" in heard
    assert answer({"type": "boolean"}, "", line) is value


def test_a_default_is_taken_when_nothing_is_typed() -> None:
    properties: JsonObject = {
        "ok": {"type": "boolean", "default": True},
        "count": {"type": "integer", "default": 3},
        "kind": {"enum": ["a", "b"], "default": "b"},
    }
    outcome, heard = converse(object_of(properties, "ok", "count", "kind"), ["", "", ""])
    assert outcome == AnswerGiven({"ok": True, "count": 3, "kind": "b"})
    for prompt in ("ok [Y/n]: ", "count [3]: ", "kind [1-2, b]: "):
        assert prompt in heard


def test_a_choice_is_a_number_or_the_value_itself() -> None:
    schema = object_of({"kind": {"type": "string", "enum": ["small", "large"], "title": "How large"}}, "kind")
    assert answer(schema, "2") == {"kind": "large"}
    assert answer(schema, "small") == {"kind": "small"}
    outcome, heard = converse(schema, ["3", "tiny", "", "1"])
    assert outcome == AnswerGiven({"kind": "small"})
    assert "  1) small\n  2) large\nHow large [1-2]: " in heard
    assert heard.count("choose a number from 1 to 2") == 2
    assert "something is needed here" in heard


def test_numbers_are_checked_as_they_are_typed() -> None:
    schema = object_of({"count": {"type": "integer", "minimum": 2}, "rate": {"type": "number"}}, "count", "rate")
    outcome, heard = converse(schema, ["many", "2.5", "1", "1_000", "half", "0.5"])
    assert outcome == AnswerGiven({"count": 1000, "rate": 0.5})
    assert heard.count("that is not a whole number") == 2
    assert "must be >= 2" in heard
    assert "that is not a number" in heard


def test_texts_are_taken_as_they_are_and_what_may_be_left_out_is_left_out() -> None:
    schema = object_of({"note": {"type": "string"}, "name": {"type": "string"}, "age": {"type": "integer"}}, "name")
    outcome, heard = converse(schema, ['  Ada, "Countess" ', "", ""])
    assert outcome == AnswerGiven({"name": '  Ada, "Countess" '})
    assert heard.splitlines() == ["name: ", "note (may be left out): ", "age (may be left out): "]


def test_everything_else_is_json() -> None:
    schema = object_of({"tags": {"type": "array", "items": {"type": "string"}}}, "tags")
    outcome, heard = converse(schema, ["red", '["red", 1]', '["red"]'])
    assert outcome == AnswerGiven({"tags": ["red"]})
    assert "that is not JSON" in heard
    assert "/1 must be string" in heard
    assert answer({}, '{"free": true}') == {"free": True}
    assert answer({"type": "boolean"}, "y") is True
    assert answer({"const": 7}) == 7


def test_references_to_definitions_are_followed() -> None:
    schema: JsonObject = {
        "type": "object",
        "required": ["size"],
        "properties": {"size": {"$ref": "#/$defs/size"}},
        "$defs": {"size": {"type": "integer", "maximum": 9}},
    }
    outcome, heard = converse(schema, ["10", "9"])
    assert outcome == AnswerGiven({"size": 9})
    assert "must be <= 9" in heard


def test_the_whole_is_checked_at_the_end_and_asked_again() -> None:
    schema: JsonObject = {
        **object_of({"a": {"type": "integer"}, "b": {"type": "integer"}}, "a"),
        "if": {"properties": {"a": {"const": 1}}},
        "then": {"required": ["b"]},
    }
    outcome, heard = converse(schema, ["1", "", "2", ""])
    assert outcome == AnswerGiven({"a": 2})
    assert "This does not fit" in heard


def test_a_question_mark_tells_more() -> None:
    schema = object_of({"ok": {"type": "boolean", "description": "Whether it is fine."}}, "ok")
    outcome, heard = converse(schema, ["?", "y"])
    assert outcome == AnswerGiven({"ok": True})
    assert "Whether it is fine." in heard
    assert '"type": "boolean"' in heard


def test_somebody_who_leaves_has_not_answered() -> None:
    outcome, _ = converse(object_of({"a": {"type": "string"}, "b": {"type": "string"}}, "a", "b"), ["x"])
    assert outcome == AnswerAbandoned()


def test_texts_of_a_schema_cannot_write_control_characters() -> None:
    schema = object_of({"ok": {"type": "string", "title": "\x1b[31mred", "enum": ["\x1b[2Ja", "b"]}}, "ok")
    _, heard = converse(schema, ["1"])
    assert "\x1b" not in heard


def test_choices_have_titles() -> None:
    named: JsonObject = {"oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
    older: JsonObject = {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}
    for schema in (named, older):
        outcome, heard = converse(object_of({"colour": schema}, "colour"), ["2"])
        assert outcome == AnswerGiven({"colour": "g"})
        assert "1) Red" in heard
        assert answer(object_of({"colour": schema}, "colour"), "Red") == {"colour": "r"}


def test_several_are_chosen_with_commas() -> None:
    items: JsonObject = {"anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
    plain: JsonObject = {"type": "string", "enum": ["r", "g"]}
    for inner in (items, plain):
        schema = object_of({"colours": {"type": "array", "items": inner, "minItems": 1}}, "colours")
        assert answer(schema, "1, 2") == {"colours": ["r", "g"]}
        outcome, heard = converse(schema, ["1,3", "g"])
        assert outcome == AnswerGiven({"colours": ["g"]})
        assert "several with commas" in heard
        assert "choose a number from 1 to 2" in heard


def test_what_the_document_says_to_decline_is_sent_whole_and_nothing_else_is_asked_for() -> None:
    schema = object_of(
        {"amount": {"type": "number"}, "approve": {"type": "boolean"}, "note": {"type": "string"}}, "approve", "amount"
    )
    decline: JsonObject = {"approve": False, "amount": 0}
    person = Scripted(["decline", "too much"])
    assert asyncio.run(ask_answer(schema, person, decline)) == AnswerGiven({**decline, "note": "too much"})
    person = Scripted(["approve", "12", ""])
    assert asyncio.run(ask_answer(schema, person, decline)) == AnswerGiven({"approve": True, "amount": 12})
    assert person.heard[0].endswith("[approve/decline]: ")


def test_a_decision_with_a_default_is_not_made_by_an_empty_line() -> None:
    schema = object_of({"approve": {"type": "boolean", "default": True}}, "approve")
    outcome, heard = converse(schema, ["", "approve"])
    assert outcome == AnswerGiven({"approve": True})
    assert "nothing is decided yet" in heard


def test_a_choice_is_taken_in_small_letters() -> None:
    assert answer({"type": "string", "enum": ["Blue", "Green"]}, "green") == "Green"


@pytest.mark.parametrize(("line", "value"), [("approve", "Approve"), ("d", "Decline"), ("n", "Decline")])
def test_a_form_that_offers_the_two_words_is_asked_like_any_decision(line: str, value: str) -> None:
    outcome, heard = converse({"type": "string", "enum": ["Approve", "Decline"]}, ["", "maybe", line])
    assert outcome == AnswerGiven(value)
    assert "[approve/decline]" in heard
    assert heard.count("nothing is decided yet") == 2
