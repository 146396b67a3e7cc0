"""Forms made from schemas: types, lists that grow and shrink, choices between schemas, and values put back in."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.html_form.form import UnreadableFields, answer_form

_WIDE: JsonObject = {"type": ["integer", "string"], "minimum": -(2**63), "pattern": "^-?[0-9]{1,19}$"}
_VECTOR: JsonObject = {"type": ["array", "null"], "items": {"type": "number"}, "minItems": 3, "maxItems": 3}
LINES: JsonObject = {
    "type": "object",
    "required": ["lines"],
    "properties": {
        "lines": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["item"],
                "properties": {
                    "item": {"type": "string"},
                    "count": {"type": "integer"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
            },
        }
    },
}
PAID: JsonObject = {
    "type": "object",
    "required": ["by"],
    "properties": {
        "by": {
            "oneOf": [
                {"$ref": "#/$defs/card"},
                {"title": "Invoice", "type": "object", "properties": {"kind": {"const": "invoice"}, "number": _WIDE}},
                {"type": "string", "title": "In words"},
            ]
        }
    },
    "$defs": {
        "card": {
            "type": "object",
            "properties": {"kind": {"const": "card"}, "number": {"type": "string", "writeOnly": True}},
        }
    },
}


@pytest.mark.parametrize(
    ("schema", "sent", "answer"),
    [
        ({"type": "string"}, {"field.answer": ["hello"]}, "hello"),
        ({}, {"field.answer": ["hello"]}, "hello"),
        ({"type": "boolean"}, {}, False),
        ({"type": "array"}, {"field.answer": ["[1]"]}, [1]),
        ({"enum": ["a", "b"]}, {"field.answer": ["b"]}, "b"),
        (
            {
                "type": "object",
                "properties": {
                    "n": {"type": "integer"},
                    "x": {"type": "number"},
                    "s": {"type": "string"},
                    "c": {"oneOf": [{"const": "a", "title": "A"}]},
                    "m": {"type": "array", "items": {"enum": ["p", "q"]}},
                    "j": {"type": "object"},
                },
            },
            {
                "field.n": ["7"],
                "field.x": ["0.5"],
                "field.s": [""],
                "field.c": ["a"],
                "field.m": ["p", "q"],
                "field.j": [""],
            },
            {"n": 7, "x": 0.5, "c": "a", "m": ["p", "q"]},
        ),
    ],
)
def test_what_a_browser_sends_gets_its_types(schema: Any, sent: Any, answer: Any) -> None:
    assert answer_form(schema).answer(sent) == answer


def test_what_is_no_number_is_told() -> None:
    form = answer_form({"type": "object", "properties": {"n": {"type": "number"}}})
    assert form.answer({"field.n": ["many"]}) == UnreadableFields({"n": ["many is not a number"]})


class Tags(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}


@given(st.text(), st.text(), st.lists(st.text(), max_size=2))
def test_nothing_that_is_written_becomes_a_tag(name: str, title: str, typed: list[str]) -> None:
    member: JsonObject = {"type": "string", "title": title, "description": title, "default": title}
    several: JsonObject = {"type": "array", "items": {"enum": [title or "-"]}}
    group: JsonObject = {"type": "object", "title": title, "properties": {name: member}}
    listed: JsonObject = {"type": "array", "title": title, "items": group, "minItems": 1}
    choice: JsonObject = {"title": title, "oneOf": [group, {"type": "string", "title": title}]}
    members: JsonObject = {name: member, f"{name}2": several, f"{name}3": {}, f"{name}4": group}
    members |= {f"{name}5": listed, f"{name}6": choice}
    form = answer_form({"type": "object", "properties": members, "required": [f"{name}5"]})
    seen = Tags()
    seen.feed(form.html({f"field.{name}": typed, f"field.{name}3": typed}, {name: typed, f"{name}4": typed}))
    assert seen.tags <= {"p", "label", "input", "small", "fieldset", "legend", "textarea", "span", "div", "button"}
    assert seen.names <= {
        *("for", "type", "name", "id", "value", "aria-describedby", "rows", "spellcheck", "checked"),
        *("class", "aria-invalid", "aria-label", "formnovalidate", "required"),
    }


CONTACT: JsonObject = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "a/b": {"type": "object", "properties": {"n": {"type": "integer"}}}},
}


def test_an_object_in_an_answer_is_a_group_of_fields() -> None:
    form = answer_form({"type": "object", "required": ["contact"], "properties": {"contact": CONTACT, "more": CONTACT}})
    sent = {"field.contact/name": ["Ada"], "field.contact/a~1b/n": ["7"], "field.more/name": [""]}
    assert form.answer(sent) == {"contact": {"name": "Ada", "a/b": {"n": 7}}}
    assert form.answer({"field.more/a~1b/n": ["x"]}) == UnreadableFields({"more/a~1b/n": ["x is not a whole number"]})
    shown = form.html(sent, {"contact/name": ["too short"]})
    assert 'name="field.contact/name" id="field.contact/name" aria-describedby="field.contact/name-wrong"' in shown
    assert '<label for="field.more/name">name</label>' in shown
    # Who leaves a group out need not fill in what the group needs.
    assert 'name="field.more/name" id="field.more/name" value="" required' not in shown


def test_a_browser_is_told_what_it_can_check_itself() -> None:
    number: JsonObject = {"type": "number", "minimum": 0, "maximum": 10000}
    form = answer_form({"properties": {"n": number, "s": {"type": "string", "maxLength": 5}, "j": {"type": "array"}}})
    shown = form.html({})
    assert 'min="0" max="10000"' in shown
    assert 'maxlength="5"' in shown
    assert "Written as JSON" in shown


# --- lists ------------------------------------------------------------------------------------------------------------


def test_a_list_grows_and_shrinks_by_its_buttons_and_keeps_what_was_written() -> None:
    form = answer_form(LINES)
    assert form.html({}).count('class="item"') == 1  # as many as are needed at least
    sent = {"items.lines": ["1"], "field.lines/0/item": ["tea"], "items.lines/0/tags": ["0"]}
    added = form.edited({**sent, "form.edit": ["add lines"]})
    assert added is not None
    more = form.edited({**added, "field.lines/1/item": ["milk"], "form.edit": ["add lines/1/tags"]})
    assert more is not None
    tagged = {**more, "field.lines/1/tags/0": ["fresh"], "field.lines/1/count": ["2"]}
    both = [{"item": "tea"}, {"item": "milk", "count": 2, "tags": ["fresh"]}]
    assert form.answer(tagged) == {"lines": both}
    less = form.edited({**tagged, "form.edit": ["remove lines/0"]})
    assert less is not None
    assert form.answer(less) == {"lines": both[1:]}
    assert 'value="milk"' in form.html(less)
    assert "tea" not in form.html(less)
    assert form.edited(tagged) is None


@pytest.mark.parametrize("pressed", ["remove lines/x", "remove ", "add ", "remove nothing/7", "add lines/9/tags"])
def test_a_button_that_the_form_does_not_have_changes_nothing(pressed: str) -> None:
    form, sent = answer_form(LINES), {"items.lines": ["1"], "field.lines/0/item": ["tea"]}
    edited = form.edited({**sent, "form.edit": [pressed]})
    assert edited is not None
    assert form.answer(edited) == {"lines": [{"item": "tea"}]}


def test_a_list_has_an_end_and_says_at_which_item_something_is_missing() -> None:
    form = answer_form({"properties": {"n": {"type": "array", "maxItems": 2, "items": {"type": "integer"}}}})
    two = {"items.n": ["2"], "field.n/0": ["1"], "field.n/1": [""]}
    assert "add n" not in form.html(two)
    assert form.answer(two) == UnreadableFields({"n/1": ["this field is required"]})
    many = answer_form(LINES).edited({"items.lines": ["99999"], "form.edit": ["add lines"]})
    assert many is not None
    assert many["items.lines"] == [str(limits.FORM_ITEMS_MAX)]
    assert 'id="field.n/1-wrong"' in form.html(two, {"n/1": ["this field is required"]})


def test_the_errors_of_an_operation_are_told_at_the_nearest_field() -> None:
    form, sent = answer_form(LINES), {"items.lines": ["1"], "field.lines/0/tags": ["[1]"]}
    listed: Any = [
        {"pointer": "/input/lines/0", "keyword": "required", "message": "must have required property 'item'"},
        {"pointer": "/input/lines/0/tags/0", "keyword": "type", "message": "must be string"},
        {"pointer": "/input/other", "keyword": "x", "message": "is unknown"},
    ]
    assert form.placed(Rejected("INPUT_INVALID", "no", None, {"errors": listed}), "/input", sent) == {
        "lines/0/item": ["this field is required"],
        "lines/0/tags": ["must be string"],  # written as JSON, so it is told at the field
        "": ["other: is unknown"],
    }
    assert form.placed(Rejected("OTHER", "no"), "/input", sent) == {"": ["no"]}


# --- choices between schemas ------------------------------------------------------------------------------------------


def test_a_choice_between_schemas_reads_the_fields_of_the_one_that_was_chosen() -> None:
    form = answer_form(PAID)
    sent = {"field.by(0)/number": ["1111"], "field.by(1)/number": ["9007199254740993"], "field.by(2)": ["later"]}
    assert form.answer({**sent, "variant.by": ["0"]}) == {"by": {"kind": "card", "number": "1111"}}
    assert form.answer({**sent, "variant.by": ["1"]}) == {"by": {"kind": "invoice", "number": "9007199254740993"}}
    assert form.answer({**sent, "variant.by": ["2"]}) == {"by": "later"}
    assert form.answer({**sent, "variant.by": ["3"]}) == {}
    shown = form.html({**sent, "variant.by": ["0"]})
    assert "1111" not in shown  # a secret is typed again
    assert "> card</label>" in shown
    starred = form.without_secrets({**sent, "variant.by": ["0"]})
    assert form.answer(starred) == {"by": {"kind": "card", "number": "********"}}


def test_a_schema_that_refers_to_itself_ends_in_json() -> None:
    wide: JsonObject = {f"p{number}": {"$ref": "#"} for number in range(40)}
    form = answer_form({"type": "object", "properties": wide})
    assert form.html({}).count("<textarea") < limits.FORM_SCHEMA_FIELDS_MAX
    assert answer_form({"$ref": "#/$defs/no", "$defs": {}}).whole
    assert answer_form({"$ref": "#/$defs/me", "$defs": {"me": {"$ref": "#/$defs/me"}}}).whole


# --- parameters of queries --------------------------------------------------------------------------------------------


def one(schema: JsonObject, text: str, *, needed: bool = True) -> Any:
    form = answer_form({"type": "object", "properties": {"p": schema}, "required": ["p"] if needed else []})
    found = form.answer({"field.p": [text]})
    return found.wrong["p"][0] if isinstance(found, UnreadableFields) else found


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (_WIDE, " 9007199254740993 ", "9007199254740993"),
        (_WIDE, "-9223372036854775808", "-9223372036854775808"),
        ({"type": "integer"}, "9007199254740993", 9007199254740993),
        ({"type": "number"}, "2e-3", 0.002),
        ({"type": "number"}, ".5", 0.5),
        ({"type": "string"}, "", ""),
        ({"type": "string"}, " kept\r\nlines ", " kept\nlines "),
        ({"type": "string", "enum": ["a", "b"]}, "b", "b"),
        ({"enum": [1, 2, None]}, "2", 2),
        ({"type": "array", "items": {"type": "string"}}, '["with\\nline"]', ["with\nline"]),
        (_VECTOR, "1, 2.5\n-3", [1, 2.5, -3]),
        (_VECTOR, "[1,2,3]", [1, 2, 3]),
    ],
)
def test_what_is_typed_becomes_a_value_of_the_type(schema: JsonObject, text: str, value: object) -> None:
    assert one(schema, text) == {"p": value}


def test_an_empty_field_is_null_where_that_is_allowed_and_an_empty_text_can_still_be_written() -> None:
    text: JsonObject = {"type": ["string", "null"]}
    assert one(text, "", needed=False) == {}
    assert one(text, "") == {"p": None}
    assert one(text, '""') == {"p": ""}
    assert one({"type": ["integer", "string", "null"]}, " ", needed=False) == {}
    assert one({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7") == {"p": 7}
    assert one({"type": ["boolean", "null"]}, "false") == {"p": False}
    assert one({"type": ["boolean", "null"]}, "", needed=False) == {}


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        (_WIDE, "1.5", "1.5 is not a whole number"),
        ({"type": "integer"}, "0x10", "0x10 is not a whole number"),
        ({"type": "number"}, "NaN", "NaN is not a number"),
        ({"type": "number"}, "1e999", "1e999 is not a number"),
        (_VECTOR, "1 two 3", "two is not a number"),
        (_VECTOR, "[1, 2", "this is not JSON"),
        ({"type": "array", "items": {"type": "string"}}, "[" * 5_000, "this is not JSON"),
    ],
)
def test_what_cannot_be_read_is_told(schema: JsonObject, text: str, message: str) -> None:
    assert one(schema, text) == message


# --- values put back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (LINES, {"lines": [{"item": "tea"}, {"item": "two\nlines", "count": 2, "tags": ["a", ""]}]}),
        (LINES, {"lines": []}),
        (LINES, {"lines": "none", "more": 1}),
        (LINES, {"lines": [{"item": "tea", "more": [1]}]}),
        (LINES, {"lines": [{"item": "tea"}] * 60}),
        (LINES, "something else"),
        (PAID, {"by": {"kind": "invoice", "number": "5"}}),
        (PAID, {"by": {"kind": "cash"}}),
        (
            {"properties": {"on": {"type": "boolean", "default": True}, "n": {"type": ["number", "null"]}}},
            {"on": False},
        ),
        (
            {"properties": {"m": {"type": "array", "items": {"enum": [1, 2]}}, "v": _VECTOR}},
            {"m": [2], "v": [1, 2.5, 3]},
        ),
        ({"properties": {"": {"type": "string"}, "a~/b": {"type": "string"}}}, {"": "x", "a~/b": "y"}),
        ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
        ({"title": "Input", "default": {}}, {"any": ["thing"]}),
    ],
)
def test_a_value_that_is_shown_in_a_form_is_sent_back_as_it_was(schema: Any, value: Any) -> None:
    form = answer_form(schema)
    assert form.answer(form.filled(value)) == value


def test_a_default_is_shown_until_something_was_sent() -> None:
    form = answer_form({"properties": {"on": {"type": "boolean", "default": True}, "s": {"type": "string"}}})
    assert " checked" in form.html({})
    assert " checked" not in form.html({"field.s": ["x"]})
