"""What a browser sent as a value, and a value as what a browser would have sent.

Above it: `form`. Below it: `fields`.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import TypeAlias

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.html_form.fields import PREFIX, Field, Given, item_at, item_count, items_key, variant_key

__all__ = ["Absent", "has_text", "read", "read_members", "starred", "texts", "texts_of_members"]

Mistakes: TypeAlias = dict[str, list[str]]
Texts: TypeAlias = dict[str, list[str]]
_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
_NUMBER_CHARACTERS_MAX = 400
_STARS = "********"
_NEEDED = "this field is required"


class Absent:
    """No value: the member is left out."""


_ABSENT = Absent()


def has_text(field: Field, sent: Given) -> bool:
    """Return whether anything was entered in a field, or in one inside of it."""
    if (PREFIX + field.key) in sent:
        return any(text.strip() for text in sent[PREFIX + field.key])
    match field.control:
        case "group":
            return any(has_text(inner, sent) for inner in field.fields)
        case "list":
            return item_count(field, sent) > 0
        case "variant":
            return bool(_chosen(field, sent))
        case _:
            return False


def _chosen(field: Field, sent: Given) -> Field | None:
    text = (sent.get(variant_key(field.key)) or [""])[0]
    numbers = {str(number): inner for number, inner in enumerate(field.fields)}
    return numbers.get(text)


def read_members(fields: tuple[Field, ...], sent: Given, wrong: Mistakes) -> JsonObject:
    """Return the object that was sent. What cannot be read is noted by its place."""
    found: JsonObject = {}
    for field in fields:
        value = read(field, sent, wrong)
        if not isinstance(value, Absent):
            found[field.name] = value
    return found


def read(field: Field, sent: Given, wrong: Mistakes) -> JsonValue | Absent:
    """Return the value that was sent, in its type. What cannot be read is noted by its place."""
    if field.is_composite and (PREFIX + field.key) in sent:
        return _read_json(field, sent[PREFIX + field.key][0], wrong)
    match field.control:
        case "constant":
            return field.schema["const"]
        case "group":
            if field.required or has_text(field, sent):
                return read_members(field.fields, sent, wrong)
            return _nothing(field)
        case "list":
            return _read_list(field, sent, wrong)
        case "variant":
            chosen = _chosen(field, sent)
            return _nothing(field) if chosen is None else _read_chosen(chosen, sent, wrong)
        case "several":
            texts = sent.get(PREFIX + field.key, ())
            picked: list[JsonValue] = [item.value for item in field.choices if item.text in texts]
            return picked if picked or field.required else _nothing(field)
        case _:
            return _read_text(field, (sent.get(PREFIX + field.key) or [""])[0], wrong)


def _read_chosen(field: Field, sent: Given, wrong: Mistakes) -> JsonValue | Absent:
    if field.control == "group" and (PREFIX + field.key) not in sent:
        return read_members(field.fields, sent, wrong)
    value = read(field, sent, wrong)
    return "" if isinstance(value, Absent) and field.control == "text" else value


def _read_list(field: Field, sent: Given, wrong: Mistakes) -> JsonValue | Absent:
    found: list[JsonValue] = []
    for index in range(item_count(field, sent)):
        item = item_at(field, index)
        value = read(item, sent, wrong)
        if isinstance(value, Absent):
            wrong.setdefault(item.path, [_NEEDED])
            value = None
        found.append(value)
    return found if found or field.required else _nothing(field)


def _read_text(field: Field, text: str, wrong: Mistakes) -> JsonValue | Absent:
    match field.control:
        case "boolean":
            return text == "true"
        case "text" | "secret":
            text = text.replace("\r\n", "\n")
            if field.nullable and text.strip() == '""':
                return ""
            return text if text or (field.required and not field.nullable) else _nothing(field)
        case "choice":
            known = {item.text: item.value for item in field.choices}
            if not text:
                return _nothing(field)
            return known.get(text, text)
        case "json":
            return _read_json(field, text, wrong)
        case "numbers":
            return _read_numbers(field, text, wrong)
        case _:
            return _read_number(field, text.strip(), wrong)


def _nothing(field: Field) -> JsonValue | Absent:
    """Return what an empty field means."""
    return None if field.nullable and not field.optional else _ABSENT


def _read_json(field: Field, text: str, wrong: Mistakes) -> JsonValue | Absent:
    if not text.strip():
        return _nothing(field)
    try:
        value: JsonValue = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        wrong[field.path] = ["this is not JSON"]
        return None
    return value


def _read_number(field: Field, text: str, wrong: Mistakes) -> JsonValue | Absent:
    if not text:
        return _nothing(field)
    if field.control == "wide":  # a text, so that nobody on the way rounds it
        if _INTEGER.fullmatch(text) is None:
            wrong[field.path] = [f"{text[:40]} is not a whole number"]
        return text
    value = _number(text)
    if value is None or (field.control == "integer" and _INTEGER.fullmatch(text) is None):
        kind = "whole number" if field.control == "integer" else "number"
        wrong[field.path] = [f"{text[:40]} is not a {kind}"]
    return value


def _number(text: str) -> int | float | None:
    if _INTEGER.fullmatch(text) is not None:
        return int(text)
    if len(text) > _NUMBER_CHARACTERS_MAX or _NUMBER.fullmatch(text) is None:
        return None
    found = float(text)
    return found if isfinite(found) else None


def _read_numbers(field: Field, text: str, wrong: Mistakes) -> JsonValue | Absent:
    if text.lstrip().startswith("["):
        return _read_json(field, text, wrong)
    found: list[JsonValue] = []
    for word in text.replace(",", " ").split():
        number = _number(word)
        if number is None:
            wrong[field.path] = [f"{word[:40]} is not a number"]
            return None
        found.append(number)
    return found if found or (field.required and not field.nullable) else _nothing(field)


# --- the other way ----------------------------------------------------------------------------------------------------


class _Unfit(Exception):
    """A value that a field cannot show."""


def texts_of_members(fields: tuple[Field, ...], value: JsonValue) -> Texts | None:
    """Return the form data of an object; None if the fields cannot show it."""
    try:
        return _members(fields, value)
    except _Unfit:
        return None


def texts(field: Field, value: JsonValue) -> Texts:
    """Return the form data of a value; as JSON, if the field cannot show it."""
    try:
        return _texts(field, value)
    except _Unfit:
        return {PREFIX + field.key: [_pretty(value)]}


def _pretty(value: JsonValue) -> str:
    return msgspec.json.format(encode_bytes(value), indent=2).decode()


def _members(fields: tuple[Field, ...], value: JsonValue) -> Texts:
    if not isinstance(value, dict) or not value.keys() <= {field.name for field in fields}:
        raise _Unfit
    found: Texts = {}
    for field in fields:
        if field.name in value:
            found |= _shown(field, value[field.name])
        elif field.control == "constant":
            raise _Unfit
        else:
            found |= _blank(field)
    return found


def _blank(field: Field) -> Texts:
    """Return the form data of a member that is not there: its default must not be shown in its place."""
    if field.control == "group":
        return {name: text for inner in field.fields for name, text in _blank(inner).items()}
    if field.control == "list":
        return {items_key(field.key): ["0"]}
    return {} if field.is_composite or field.control in ("constant", "several") else {PREFIX + field.key: [""]}


def _shown(field: Field, value: JsonValue) -> Texts:
    """Return the form data of a member; a group, a list or a choice that cannot show it shows JSON."""
    try:
        return _texts(field, value)
    except _Unfit:
        if not field.is_composite:
            raise
        return {PREFIX + field.key: [_pretty(value)]}


def _texts(field: Field, value: JsonValue) -> Texts:
    if value is None and field.nullable:
        return _blank(field)
    match field.control:
        case "constant":
            if value != field.schema["const"]:
                raise _Unfit
            return {}
        case "group":
            return _members(field.fields, value)
        case "list":
            return _texts_of_items(field, value)
        case "variant":
            return _texts_of_variant(field, value)
        case "several":
            return {PREFIX + field.key: [_text_of_choice(field, item) for item in _listed(value)]}
        case _:
            return {PREFIX + field.key: [_text(field, value)]}


def _listed(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise _Unfit
    return value


def _texts_of_items(field: Field, value: JsonValue) -> Texts:
    listed = _listed(value)
    if len(listed) > limits.FORM_ITEMS_MAX:
        raise _Unfit
    found: Texts = {items_key(field.key): [str(len(listed))]}
    for index, item in enumerate(listed):
        found |= _shown(item_at(field, index), item)
    return found


def _texts_of_variant(field: Field, value: JsonValue) -> Texts:
    for number, inner in enumerate(field.fields):
        try:
            return {variant_key(field.key): [str(number)], **_texts(inner, value)}
        except _Unfit:
            continue
    raise _Unfit


def _text_of_choice(field: Field, value: JsonValue) -> str:
    for item in field.choices:
        if item.value == value and type(item.value) is type(value):
            return item.text
    raise _Unfit


def _text(field: Field, value: JsonValue) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match field.control:
        case "text" if isinstance(value, str):
            return value or ('""' if field.nullable else "")
        case "boolean" if isinstance(value, bool):
            return "true" if value else ""
        case "number" if is_number:
            return encode_bytes(value).decode()
        case "integer" if isinstance(value, int) and is_number:
            return str(value)
        case "wide" if isinstance(value, int | str) and not isinstance(value, bool):
            return str(value)
        case "numbers" if isinstance(value, list):
            return " ".join(encode_bytes(item).decode() for item in value)
        case "choice":
            return _text_of_choice(field, value)
        case "json":
            return _pretty(value)
        case "secret":
            return ""
        case _:
            raise _Unfit


def starred(fields: tuple[Field, ...], sent: Given) -> Texts:
    """Return the form data with stars in place of secrets."""
    found: Texts = {name: list(listed) for name, listed in sent.items()}
    for field in fields:
        inner: tuple[Field, ...] = field.fields
        if field.control == "secret" and any(found.get(PREFIX + field.key, ())):
            found[PREFIX + field.key] = [_STARS]
        if field.control == "list":
            inner = tuple(item_at(field, index) for index in range(item_count(field, sent)))
        found = starred(inner, found) if inner else found
    return found
