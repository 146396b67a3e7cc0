"""The parameters of a stored query as fields of a form, and what was typed as values of their types.

Numbers of 64 bits stay texts, so that none is rounded. A list has one item on each line, a vector numbers with white
space or commas between them; both may be written as JSON. A parameter that may be null is null if its field is empty.
The query checks the values; this module only converts them.

Above it: the pages of graphs. Below it: the fields that a browser sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from penstock.base.json import JsonValue
from penstock.console.forms import Fields

__all__ = ["PREFIX", "QueryField", "Values", "query_fields", "read_values"]

PREFIX = "param."
Control: TypeAlias = Literal["text", "integer", "wide", "number", "choice", "date", "list", "vector"]
_BOOLEANS = ("true", "false")
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_PLAIN: dict[str, Control] = {"integer": "integer", "number": "number"}
_WORDS = {"string": "text", "integer": "whole number", "boolean": "yes or no", "date-time": "date and time"}
_NOTES: dict[Control, str] = {
    "integer": "A whole number.",
    "wide": "A whole number of up to 64 bits.",
    "number": "A number, such as 1.5 or 2e-3.",
    "list": "One item on each line, or a JSON list.",
    "vector": "Numbers with spaces, commas or line ends between them, or a JSON list.",
}


class Values(NamedTuple):
    """What was typed, in the types of the parameters."""

    params: dict[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryField:
    """A field for one parameter."""

    name: str
    control: Control
    item: Control
    """What the items of a list are."""
    nullable: bool
    type_words: str
    about: str
    choices: tuple[str, ...] = ()

    @property
    def field_name(self) -> str:
        """The name in the form."""
        return PREFIX + self.name

    @property
    def is_long(self) -> bool:
        """Whether its text may be too long for an address."""
        return self.control in ("list", "vector")


def query_fields(params: list[dict[str, Any]]) -> list[QueryField]:
    """Return the fields of parameters, as operations describe them."""
    return [_field(item) for item in params]


def _field(param: dict[str, Any]) -> QueryField:
    schema: dict[str, Any] = param["schema"]
    control, items = _control(schema), schema.get("items")
    item = _control(items) if isinstance(items, dict) else "text"
    notes = [param["description"] or "", _NOTES.get(control, "")]
    if control == "vector":
        notes.append(f"There are {schema['maxItems']} of them.")
    if param["nullable"]:
        notes.append('Empty means null; write "" for an empty text.' if control == "text" else "Empty means null.")
    return QueryField(
        name=param["name"],
        control=control,
        item=item,
        nullable=bool(param["nullable"]),
        type_words=_type_words(schema),
        about=" ".join(note for note in notes if note),
        choices=_choices(schema),
    )


def _kinds(schema: dict[str, Any]) -> list[str]:
    listed = schema.get("type")
    kinds = listed if isinstance(listed, list) else [listed]
    return [str(kind) for kind in kinds if kind != "null"]


def _choices(schema: dict[str, Any]) -> tuple[str, ...]:
    listed = schema.get("enum")
    if isinstance(listed, list):
        return tuple(str(item) for item in listed if item is not None)
    return _BOOLEANS if _kinds(schema) == ["boolean"] else ()


def _control(schema: dict[str, Any]) -> Control:
    kinds = _kinds(schema)
    if _choices(schema):
        return "choice"
    if kinds == ["integer", "string"]:
        return "wide"
    if kinds == ["array"]:
        is_vector = schema.get("minItems") is not None and schema.get("minItems") == schema.get("maxItems")
        return "vector" if is_vector else "list"
    if schema.get("format") == "date":
        return "date"
    return _PLAIN.get(kinds[0], "text") if kinds else "text"


def _type_words(schema: dict[str, Any]) -> str:
    items = schema.get("items")
    if isinstance(items, dict):
        return f"list of {_type_words(items)}"
    kinds = _kinds(schema)
    word = str(schema.get("format") or (kinds[0] if kinds else "text"))
    return _WORDS.get(word, word)


def read_values(fields: list[QueryField], sent: Fields) -> Values | dict[str, str]:
    """Return what was typed as values; or, by parameter, why it cannot be read."""
    found: dict[str, JsonValue] = {}
    mistakes: dict[str, str] = {}
    for field in fields:
        text = sent.get(field.field_name, [""])[0].replace("\r\n", "\n")
        if not text.strip() and (field.nullable or field.control in ("choice", "date", "integer", "wide", "number")):
            if not field.nullable:
                mistakes[field.name] = "this is needed"
            continue
        try:
            found[field.name] = _value(field, text)
        except ValueError as error:
            mistakes[field.name] = str(error)
    return mistakes or Values(found)


def _value(field: QueryField, text: str) -> JsonValue:
    match field.control:
        case "list":
            return _items(text, field.item)
        case "vector":
            return [_scalar("number", word) for word in _split(text)] if not _is_json(text) else _json_list(text)
        case "text":
            return "" if field.nullable and text.strip() == '""' else text
        case "choice":
            is_boolean = field.choices == _BOOLEANS
            return text == "true" if is_boolean and text in _BOOLEANS else text
        case _:
            return _scalar(field.control, text)


def _split(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("[")


def _items(text: str, item: Control) -> JsonValue:
    if _is_json(text):
        return _json_list(text)
    lines = [line for line in text.split("\n") if line.strip()]
    return [_scalar(item, line if item == "text" else line.strip()) for line in lines]


def _json_list(text: str) -> JsonValue:
    try:
        found: list[Any] = msgspec.json.decode(text, type=list)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("this is not a JSON list") from None
    return found


def _scalar(control: Control, text: str) -> JsonValue:
    text = text if control == "text" else text.strip()
    match control:
        case "integer" | "wide":
            if _INTEGER.fullmatch(text) is None:
                raise ValueError(f"{text[:40]} is not a whole number")
            return text if control == "wide" else int(text)
        case "number":
            try:
                found = msgspec.json.decode(text, type=float)
            except msgspec.DecodeError:
                raise ValueError(f"{text[:40]} is not a number") from None
            return found
        case "choice":
            return text == "true" if text in _BOOLEANS else text
        case _:
            return text
