"""A form made from a schema, as pages use it: its markup, what was sent, and where errors belong.

Lists grow and shrink by buttons that send the form: `edited` says what the form is after one was pressed. That works
without script; a page with script may send it in the background.

Above it: the pages with forms. Below it: `fields`, `markup`, `values`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.html_form.fields import (
    FIELD_PREFIXES,
    PREFIX,
    Field,
    Given,
    Wrong,
    fields_of,
    item_at,
    item_count,
    items_key,
    pointer_part,
    variant_key,
    whole_field,
)
from penstock.html_form.markup import EDIT, SECRET_FIELD, html_of
from penstock.html_form.values import Absent, read, read_members, starred, texts, texts_of_members

__all__ = ["EDIT", "FIELD_PREFIXES", "SECRET_FIELD", "AnswerForm", "Given", "UnreadableFields", "answer_form"]

# The whole value as JSON, if the fields cannot show it. No member has this place: a tilde is escaped in a pointer.
_RAW_FIELD = Field(name="~", path="~", key="~", control="json", schema={"title": "All of it"}, required=True)
_RAW = PREFIX + _RAW_FIELD.key
_MISSING = re.compile(r"required property '(.{1,200})'")


@dataclass(frozen=True, slots=True)
class UnreadableFields:
    """The form data cannot be read: messages by place."""

    wrong: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form of a value; `whole` means that its only field is the value."""

    fields: tuple[Field, ...]
    whole: bool

    @property
    def is_long(self) -> bool:
        """Whether what is written may be too long for an address."""
        return any(field.is_composite or field.control in ("json", "numbers") for field in self.fields)

    def html(self, given: Given, wrong: Wrong | None = None) -> str:
        """Render the fields with their previous texts and errors; secrets have to be typed again."""
        return "\n".join(html_of(field, given, wrong or {}) for field in self._shown(given))

    def _shown(self, given: Given) -> tuple[Field, ...]:
        return (_RAW_FIELD,) if _RAW in given and not self.whole else self.fields

    def answer(self, given: Given) -> JsonValue | UnreadableFields:
        """Return the value that was sent."""
        wrong: dict[str, list[str]] = {}
        if self.whole or _RAW in given:
            value = read(self._shown(given)[0], given, wrong)
        else:
            value = read_members(self.fields, given, wrong)
        if wrong:
            return UnreadableFields(wrong)
        return None if isinstance(value, Absent) else value

    def without_secrets(self, given: Given) -> Given:
        """Return the form data with stars in place of secrets."""
        return starred(self.fields, given)

    def filled(self, value: JsonValue) -> Given:
        """Return the form data of a value, to show it in the form."""
        if self.whole:
            return texts(self.fields[0], value)
        found = texts_of_members(self.fields, value)
        return texts(_RAW_FIELD, value) if found is None else found

    def edited(self, given: Given) -> Given | None:
        """Return the form data after a button of a list was pressed; None if none was."""
        action, _, key = (given.get(EDIT) or [""])[0].partition(" ")
        rest = {name: list(listed) for name, listed in given.items() if name != EDIT}
        match action:
            case "add":
                return {**rest, items_key(key): [str(min(_count(given, key) + 1, limits.FORM_ITEMS_MAX))]}
            case "remove":
                above, _, index = key.rpartition("/")
                return _without_item(rest, above, int(index)) if index.isascii() and index.isdecimal() else rest
            case _:
                return None

    def placed(self, error: PenstockError, below: str, given: Given) -> dict[str, list[str]]:
        """Return the messages of a refusal by the fields that they are about; those about no field are general.

        `below` is where the value is in the arguments of the call, as a JSON pointer.
        """
        found: dict[str, list[str]] = {}
        listed = error.details.get("errors")
        for item in listed if isinstance(listed, list) else []:
            if not isinstance(item, dict):
                continue
            place, message = _place_of(item, below)
            near = self.nearest(place, given)
            found.setdefault(near, []).append(f"{place}: {message}" if place and not near else message)
        return found or {"": [error.message]}

    def nearest(self, place: str, given: Given) -> str:
        """Return the place of the field at a place or around it; an empty text if no field is."""
        if self.whole or _RAW in given:
            return self._shown(given)[0].path
        return _nearest(self.fields, place, given)


def _place_of(item: dict[str, Any], below: str) -> tuple[str, str]:
    """Return the place and the words of an error; a missing member is reported where it would be."""
    message, place = str(item.get("message")), str(item.get("pointer", "")).removeprefix(below).removeprefix("/")
    missing = _MISSING.search(message) if item.get("keyword") == "required" else None
    if missing is not None:
        name = pointer_part(missing[1])
        return (f"{place}/{name}" if place else name), "this field is required"
    return place, message


def _nearest(fields: tuple[Field, ...], place: str, given: Given) -> str:
    for field in fields:
        if place != field.path and not place.startswith(f"{field.path}/"):
            continue
        if (PREFIX + field.key) in given:
            return field.path  # errors inside a field with JSON are shown at the field
        inner = field.fields
        if field.control == "list":
            inner = tuple(item_at(field, index) for index in range(item_count(field, given)))
        if field.control == "variant":
            chosen = (given.get(variant_key(field.key)) or [""])[0]
            inner = tuple(one for number, one in enumerate(inner) if str(number) == chosen)
            inner = inner[0].fields if inner and inner[0].control == "group" else ()
        return _nearest(inner, place, given) or field.path
    return ""


def _count(given: Given, key: str) -> int:
    text = (given.get(items_key(key)) or ["0"])[0]
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0  # noqa: PLR2004 - as in a list


def _without_item(given: dict[str, list[str]], key: str, index: int) -> Given:
    """Return the form data without one item of a list; those after it move up."""
    found: dict[str, list[str]] = {}
    for name, listed in given.items():
        kind, dot, rest = name.partition(".")
        inside = rest.removeprefix(f"{key}/") if dot and rest.startswith(f"{key}/") else ""
        number = re.match(r"[0-9]{1,5}(?=[/(]|$)", inside)
        if number is None or int(number[0]) < index:
            found[name] = listed
        elif int(number[0]) > index:
            found[f"{kind}.{key}/{int(number[0]) - 1}{inside[number.end() :]}"] = listed
    found[items_key(key)] = [str(max(_count(given, key) - 1, 0))]
    return found


def answer_form(schema: JsonValue) -> AnswerForm:
    """Build a form from the schema of its value."""
    shape: JsonObject = schema if isinstance(schema, dict) else {}
    if shape.get("type", "object") == "object" and (members := fields_of(shape)):
        return AnswerForm(members, whole=False)
    # Without a schema, any text is an answer.
    return AnswerForm((whole_field({"type": "string"} if shape == {} else shape),), whole=True)
