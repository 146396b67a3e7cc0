"""A question as an HTML form, and the browser's form data as an answer.

Simple members of the schema become fields, objects become groups of fields, secrets are masked while they are typed,
and anything else is written as JSON. The execution validates the answer; this module only converts types. Fields, and
the errors about them, are named by their place in the answer, as in a JSON pointer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Literal, TypeAlias

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.base.visible_texts import visible_text
from penstock.operations.executions.answers import is_secret

__all__ = ["SECRET_FIELD", "AnswerForm", "UnreadableField", "answer_form"]

Control: TypeAlias = Literal["text", "secret", "number", "integer", "boolean", "choice", "several", "json", "group"]
Given: TypeAlias = Mapping[str, Sequence[str]]
"""The form data that a browser sent, by field name."""
Wrong: TypeAlias = Mapping[str, Sequence[str]]
"""Error messages, by place in the answer."""
_CONTROLS: dict[str, Control] = {"string": "text", "number": "number", "integer": "integer", "boolean": "boolean"}
_INPUTS = {"email": "email", "uri": "url", "date": "date"}
_WHOLE = "answer"
SECRET_FIELD = "secret_field"
"""A hidden field that names a field with a secret, so that whoever shows the form data again masks it."""
_PREFIX = "field."
# Deeper than this, a form is more confusing than JSON.
_DEPTH_MAX = 3
_SCHEMA_CHARACTERS_MAX = 400
# What a browser can validate before it sends the form.
_BOUNDS = {
    "text": (("minLength", "minlength"), ("maxLength", "maxlength")),
    "secret": (("minLength", "minlength"), ("maxLength", "maxlength")),
    "number": (("minimum", "min"), ("maximum", "max")),
    "integer": (("minimum", "min"), ("maximum", "max")),
}


@dataclass(frozen=True, slots=True)
class UnreadableField:
    """A field whose text is not a value of its type."""

    path: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    name: str
    path: str
    """Its place in the answer."""
    control: Control
    schema: JsonObject
    required: bool
    choices: tuple[tuple[str, str], ...] = ()
    """The values to choose from, with their labels."""
    fields: tuple[_Field, ...] = ()
    """The fields of a group."""
    optional: bool = False
    """Whether its parent may lack it. The parent itself may still be left out as a whole."""

    def html(self, given: Given, wrong: Wrong) -> str:
        """Render the field with its previous text and its errors."""
        title = self.schema.get("title")
        label = escape(visible_text(title if isinstance(title, str) else self.name))
        if self.optional and self.control not in ("boolean", "several"):
            label += " <span>(may be left out)</span>"
        message = visible_text("; ".join(wrong.get(self.path, ())))
        mistake = f'<small class="wrong" id="{self._id}-wrong">{escape(message)}</small>' if message else ""
        about = visible_text(self._about())
        notes = mistake + (f'<small id="{self._id}-about">{escape(about)}</small>' if about else "")
        if self.control == "group":
            inner = "\n".join(field.html(given, wrong) for field in self.fields)
            return f"<fieldset><legend>{label}</legend>{notes}{inner}</fieldset>"
        described = [f"{self._id}-{part}" for part, there in (("wrong", message), ("about", about)) if there]
        more = f' aria-describedby="{" ".join(described)}"' if described else ""
        control = self._control(given.get(_PREFIX + self.path, ()), more + (' aria-invalid="true"' if message else ""))
        if self.control == "boolean":
            return f'<p class="tick"><label>{control} {label}</label>{notes}</p>'
        if self.control == "several":
            return f"<fieldset><legend>{label}</legend>{control}{notes}</fieldset>"
        return f'<p><label for="{self._id}">{label}</label>{control}{notes}</p>'

    @property
    def _id(self) -> str:
        return escape(_PREFIX + self.path, quote=True)

    def _about(self) -> str:
        """Return the notes that accompany the title."""
        found = self.schema.get("description")
        about = [found] if isinstance(found, str) else []
        if self.control == "json":
            shape = {name: value for name, value in self.schema.items() if name not in ("title", "description")}
            text = msgspec.json.encode(shape).decode()
            fits = f" that fits {text}" if len(shape) > 1 and len(text) <= _SCHEMA_CHARACTERS_MAX else ""
            about.append(f"Written as JSON{fits}")
        return " ".join(about)

    def _bounds(self) -> str:
        known = ((word, self.schema.get(name)) for name, word in _BOUNDS.get(self.control, ()))
        return "".join(
            f' {word}="{bound}"'
            for word, bound in known
            if isinstance(bound, int | float) and not isinstance(bound, bool)
        )

    def _control(self, given: Sequence[str], more: str) -> str:
        needed = " required" if self.required else ""
        named = f'name="{self._id}" id="{self._id}"{more}{self._bounds()}'
        first = given[0] if given else self._default()
        match self.control:
            case "boolean":
                ticked = " checked" if first == "true" else ""
                return f'<input type="checkbox" value="true" {named}{ticked}>'
            case "choice":
                empty = "" if self.required and first else '<option value=""></option>'
                return f"<select {named}{needed}>{empty}{self._options(first)}</select>"
            case "several":
                return "".join(
                    f'<label><input type="checkbox" name="{self._id}" value="{escape(value)}"'
                    f"{' checked' if value in given else ''}> {escape(visible_text(called))}</label>"
                    for value, called in self.choices
                )
            case "json":
                return f'<textarea {named} rows="4" spellcheck="false"{needed}>{escape(first)}</textarea>'
            case "secret":
                mark = f'<input type="hidden" name="{SECRET_FIELD}" value="{self._id}">'
                return f'<input type="password" autocomplete="off" {named}{needed}>{mark}'
            case "number" | "integer":
                step = "any" if self.control == "number" else "1"
                return f'<input type="number" step="{step}" {named} value="{escape(first)}"{needed}>'
            case "text":
                kind = _INPUTS.get(str(self.schema.get("format")), "text")
                return f'<input type="{kind}" {named} value="{escape(first)}"{needed}>'
            case "group":
                return ""

    def _options(self, chosen: str) -> str:
        return "".join(
            f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>'
            f"{escape(visible_text(called))}</option>"
            for value, called in self.choices
        )

    def _default(self) -> str:
        found = self.schema.get("default")
        if found is None:
            return ""
        return found if isinstance(found, str) else msgspec.json.encode(found).decode()

    def value(self, sent: Given) -> JsonValue | UnreadableField:
        """Return the value that was sent, in its type; None if nothing was sent."""
        given = sent.get(_PREFIX + self.path, ())
        text = given[0] if given else ""
        match self.control:
            case "boolean":
                return text == "true"
            case "several":
                return list(given)
            case "number" | "integer" | "json":
                return _decoded(self.path, text, self.control)
            case "group":
                return _members(self.fields, sent) if self.required or self.is_filled(sent) else None
            case _:
                return text if text or (self.required and self.control != "choice") else None

    def is_filled(self, sent: Given) -> bool:
        """Return whether anything was entered here."""
        if self.control == "group":
            return any(field.is_filled(sent) for field in self.fields)
        return any(text.strip() for text in sent.get(_PREFIX + self.path, ()))


def _members(fields: Sequence[_Field], sent: Given) -> JsonObject | UnreadableField:
    found: JsonObject = {}
    for field in fields:
        value = field.value(sent)
        if isinstance(value, UnreadableField):
            return value
        empty = value is None or (value in ("", []) and not field.required)
        if not empty:
            found[field.name] = value
    return found


def _decoded(path: str, text: str, control: Control) -> JsonValue | UnreadableField:
    if not text.strip():
        return None
    try:
        value: JsonValue = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return UnreadableField(path, "this is not JSON" if control == "json" else "this is not a number")
    return value


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form of a question; `whole` means that its only field is the answer."""

    fields: tuple[_Field, ...]
    whole: bool

    def html(self, given: Given, wrong: Wrong | None = None) -> str:
        """Render the fields with their previous texts and errors; secrets have to be typed again."""
        return "\n".join(field.html(given, wrong or {}) for field in self.fields)

    def answer(self, given: Given) -> JsonValue | UnreadableField:
        """Return the answer that was sent."""
        return self.fields[0].value(given) if self.whole else _members(self.fields, given)

    def has(self, path: str) -> bool:
        """Return whether there is a field at a place."""
        return _has(self.fields, path)


def _has(fields: Sequence[_Field], path: str) -> bool:
    return any(field.path == path or _has(field.fields, path) for field in fields)


def answer_form(schema: JsonValue) -> AnswerForm:
    """Build the form of a question from the schema of its answer."""
    shape = schema if isinstance(schema, dict) else {}
    members = _fields(shape, "", 0, required=True)
    if members and shape.get("type", "object") == "object":
        return AnswerForm(members, whole=False)
    # Without a schema, any text is an answer.
    alone: JsonObject = {"type": "string"} if shape == {} else shape
    return AnswerForm((_field(_WHOLE, alone, _WHOLE, _DEPTH_MAX, required=True),), whole=True)


def _fields(shape: JsonObject, above: str, depth: int, *, required: bool) -> tuple[_Field, ...]:
    """Build the fields of an object; a required member is required only if the object itself is."""
    members, needed = shape.get("properties"), shape.get("required")
    if not isinstance(members, dict):
        return ()
    listed = needed if isinstance(needed, list) else []
    found = (
        _field(name, member, above + _escaped(name), depth, required=required and name in listed)
        for name, member in members.items()
    )
    return tuple(replace(field, optional=field.name not in listed) for field in found)


def _escaped(name: str) -> str:
    """Escape a name for a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _field(name: str, member: JsonValue, path: str, depth: int, *, required: bool) -> _Field:
    schema = member if isinstance(member, dict) else {}
    choices = _choices(schema)
    items = schema.get("items")
    control = _CONTROLS.get(str(schema.get("type")), "json")
    inner: tuple[_Field, ...] = ()
    if choices:
        control = "choice"
    elif schema.get("type") == "array" and isinstance(items, dict) and (choices := _choices(items)):
        control = "several"
    elif control == "text" and is_secret(schema):
        control = "secret"
    elif schema.get("type") == "object" and depth < _DEPTH_MAX:
        inner = _fields(schema, f"{path}/", depth + 1, required=required)
        control = "group" if inner else control
    return _Field(
        name=name, path=path, control=control, schema=schema, required=required, choices=choices, fields=inner
    )


def _choices(schema: JsonObject) -> tuple[tuple[str, str], ...]:
    """Return the texts to choose from, with their labels."""
    listed = schema.get("enum")
    if isinstance(listed, list) and listed and all(isinstance(item, str) for item in listed):
        return tuple((str(item), str(item)) for item in listed)
    for name in ("oneOf", "anyOf"):
        titled = schema.get(name)
        if isinstance(titled, list) and titled and all(_is_choice(item) for item in titled):
            return tuple(
                (str(item["const"]), str(item.get("title", item["const"]))) for item in titled if isinstance(item, dict)
            )
    return ()


def _is_choice(item: JsonValue) -> bool:
    return isinstance(item, dict) and isinstance(item.get("const"), str)
