"""Ask a person for an answer, field by field, by the JSON Schema of a question.

To approve or decline, you type either word; there is no default. You answer a boolean with y or n, and a choice with
its number (with commas, if you may choose several). You type texts and numbers as they are, and everything else as
JSON. The prompt checks each field when you enter it, and the whole answer at the end. If a value does not fit, it says
why and asks again.

Above it: the commands that answer questions. Below it: `definitions.schemas`. Reading and printing are passed in, so
that a test can hold the conversation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.terminal.values import parse_json
from penstock.definitions.decline_answers import deciding_member, declined_answer
from penstock.definitions.schemas.compiled import SchemaProblem, compile_schema, violations
from penstock.definitions.schemas.misfits import tell_violation
from penstock.runtime.simulation.tracing import shorten

__all__ = ["AnswerAbandoned", "AnswerGiven", "Conversation", "ask_answer"]

_YES = frozenset({"y", "yes", "true"})
_NO = frozenset({"n", "no", "false"})
_APPROVES = frozenset({"approve", "a"})
_DECLINES = frozenset({"decline", "d"})
_DECISION = ("approve", "decline")
_HELP = "?"
_CHOICES_MAX = 40
_CHOICE_CHARACTERS_MAX = 60


class Conversation(Protocol):
    """A person to ask, or a test in its place."""

    async def ask(self, prompt: str) -> str | None:
        """The next line without its line end; None at the end of input."""

    def tell(self, text: str) -> None:
        """Say something."""


@dataclass(frozen=True, slots=True)
class AnswerGiven:
    """A complete answer that fits the schema."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class AnswerAbandoned:
    """The input ended without an answer."""


@dataclass(frozen=True, slots=True)
class _Skipped:
    """An optional field that was left out."""


@dataclass(frozen=True, slots=True)
class _Unclear:
    """A line that cannot be read as a value for the field, and why."""

    reason: str


_Read: TypeAlias = AnswerGiven | _Skipped | _Unclear


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    name: str
    schema: JsonObject
    required: bool
    definitions: JsonObject
    decides: bool = False
    """Whether it is what somebody approves or declines: then it has no default."""

    @property
    def label(self) -> str:
        title = self.schema.get("title")
        return clean(title if isinstance(title, str) else self.name)

    @property
    def decision(self) -> tuple[JsonValue, JsonValue] | None:
        """What approves and what declines, if that is asked; the forms of MCP servers ask for one of two words."""
        if self.decides:
            return True, False
        words = tuple(word.lower() for word in self.choices if isinstance(word, str))
        return (self.choices[0], self.choices[1]) if words == _DECISION and not self.takes_several else None

    @property
    def choices(self) -> list[JsonValue]:
        return [value for value, _ in _choices(self._choosing)]

    @property
    def labels(self) -> list[str]:
        """What each choice is called."""
        return [label for _, label in _choices(self._choosing)]

    @property
    def takes_several(self) -> bool:
        return self._choosing is not self.schema

    @property
    def _choosing(self) -> JsonObject:
        """The schema that has the choices: a list of choices has them in its items."""
        items = self.schema.get("items")
        return items if self.schema.get("type") == "array" and isinstance(items, dict) else self.schema


def _choices(schema: JsonObject) -> list[tuple[JsonValue, str]]:
    """The values that a schema lists, each with what it is called."""
    listed, names = schema.get("enum"), schema.get("enumNames")
    if isinstance(listed, list):
        titles = names if isinstance(names, list) and len(names) == len(listed) else listed
        found = [(value, _choice_text(title)) for value, title in zip(listed, titles, strict=True)]
    else:
        options = schema.get("oneOf", schema.get("anyOf"))
        known = [item for item in options if isinstance(item, dict)] if isinstance(options, list) else []
        found = [(item["const"], _choice_text(item.get("title", item["const"]))) for item in known if "const" in item]
        found = found if isinstance(options, list) and len(found) == len(options) else []
    return found if len(found) <= _CHOICES_MAX else []


async def ask_answer(
    schema: JsonObject, conversation: Conversation, decline: JsonValue = None
) -> AnswerGiven | AnswerAbandoned:
    """Ask until an answer fits, or until the input ends. `decline` is the answer that declines, if one is declared."""
    while True:
        outcome = await _ask_once(schema, conversation, declined_answer(schema, decline))
        if isinstance(outcome, AnswerAbandoned):
            return outcome
        wrong = _misfit(schema, outcome.value)
        if wrong is None:
            return outcome
        conversation.tell(f"This does not fit: {wrong}. Please try again.")


async def _ask_once(
    schema: JsonObject, conversation: Conversation, declined: JsonValue
) -> AnswerGiven | AnswerAbandoned:
    properties, deciding = schema.get("properties"), deciding_member(schema, declined)
    definitions: JsonObject = {name: inner for name, inner in schema.items() if name in ("$defs", "definitions")}
    if not isinstance(properties, dict) or not properties or schema.get("type", "object") != "object":
        whole = _Field(name="Answer", schema=schema, required=True, definitions={}, decides=deciding == "")
        read = await _ask_field(whole, conversation)
        return AnswerGiven(None) if isinstance(read, _Skipped) else read
    otherwise = schema.get("else")  # a schema with a way to refuse has here what is required of any other answer
    listed = schema.get("required", otherwise.get("required") if isinstance(otherwise, dict) else None)
    required = listed if isinstance(listed, list) else []
    answer: JsonObject = {}
    fields = [
        _Field(
            name=name,
            schema=inner,
            required=name in required,
            definitions=definitions,
            decides=name == deciding,
        )
        for name, inner in properties.items()
        if isinstance(inner, dict) and inner.get("x-refusal") is not True
    ]
    for field in sorted(fields, key=lambda field: (not field.decides, not field.required)):
        if field.name in answer:
            continue  # the answer that declines has it
        read = await _ask_field(field, conversation)
        if isinstance(read, AnswerAbandoned):
            return read
        if isinstance(read, AnswerGiven):
            answer[field.name] = read.value
        if field.decides and answer[field.name] is False and isinstance(declined, dict):
            answer |= declined
    return AnswerGiven(answer)


async def _ask_field(field: _Field, conversation: Conversation) -> AnswerGiven | _Skipped | AnswerAbandoned:
    if "const" in field.schema:
        return AnswerGiven(field.schema["const"])
    for number, label in enumerate(() if field.decision else field.labels, start=1):
        conversation.tell(f"  {number}) {label}")
    while True:
        line = await conversation.ask(_prompt(field))
        if line is None:
            return AnswerAbandoned()
        if line.strip() == _HELP:
            conversation.tell(_help(field))
            continue
        read = _read(field, line)
        if isinstance(read, AnswerGiven):
            wrong = _misfit({**field.definitions, **field.schema}, read.value)
            read = read if wrong is None else _Unclear(wrong)
        if not isinstance(read, _Unclear):
            return read
        conversation.tell(f"  {read.reason}; ? shows more")


def _prompt(field: _Field) -> str:
    hint = _hint(field)
    return f"{field.label}{'' if field.required else ' (may be left out)'}{f' [{hint}]' if hint else ''}: "


def _hint(field: _Field) -> str:
    default = field.schema.get("default")
    if field.decision is not None:
        return "/".join(_DECISION)
    if field.schema.get("type") == "boolean":
        return "Y/n" if default is True else "y/N"
    if field.choices:
        several = ", several with commas" if field.takes_several else ""
        chosen = f", {_choice_text(default)}" if "default" in field.schema else ""
        return f"1-{len(field.choices)}{several}{chosen}"
    if "default" in field.schema:
        return shorten(default, _CHOICE_CHARACTERS_MAX)
    return "" if field.schema.get("type") in ("string", "number", "integer") else "JSON"


def _choice_text(value: JsonValue) -> str:
    return clean(value) if isinstance(value, str) else clean(shorten(value, _CHOICE_CHARACTERS_MAX))


def _help(field: _Field) -> str:
    description = field.schema.get("description")
    heading = clean(description) + "\n" if isinstance(description, str) else ""
    return f"{heading}{json.dumps({**field.schema, **field.definitions}, indent=2, ensure_ascii=True)}"


def _read(field: _Field, line: str) -> _Read:
    text = line.strip()
    kind = field.schema.get("type")
    if field.decision is not None:
        approves, declines = field.decision
        if text.lower() in _APPROVES | _YES:
            return AnswerGiven(approves)
        if text.lower() in _DECLINES | _NO:
            return AnswerGiven(declines)
        return _Unclear("nothing is decided yet: type approve or decline")
    if not text:
        return _read_nothing(field, kind)
    if field.choices:
        return _read_choices(field, text) if field.takes_several else _read_choice(field, text)
    match kind:
        case "boolean":
            return _read_truth(text)
        case "integer" | "number":
            return _read_number(text, whole=kind == "integer")
        case "string":
            return AnswerGiven(line)
        case _:
            try:
                return AnswerGiven(parse_json(text))
            except (ValueError, RecursionError):
                return _Unclear("that is not JSON; texts need double quotes")


def _read_nothing(field: _Field, kind: JsonValue) -> _Read:
    """What an empty line means: the default, no, an empty text, or that the field is left out."""
    if "default" in field.schema:
        return AnswerGiven(field.schema["default"])
    if not field.required:
        return _Skipped()
    if kind == "boolean":
        return AnswerGiven(False)
    return AnswerGiven("") if kind == "string" and not field.choices else _Unclear("something is needed here")


def _read_choice(field: _Field, text: str) -> AnswerGiven | _Unclear:
    if text.isdecimal() and 1 <= int(text) <= len(field.choices):
        return AnswerGiven(field.choices[int(text) - 1])
    for choice, label in zip(field.choices, field.labels, strict=True):
        if text in (choice, label) or text == shorten(choice):
            return AnswerGiven(choice)
    alike = [choice for choice, label in zip(field.choices, field.labels, strict=True) if label.lower() == text.lower()]
    if len(alike) == 1:
        return AnswerGiven(alike[0])
    return _Unclear(f"choose a number from 1 to {len(field.choices)}")


def _read_choices(field: _Field, text: str) -> _Read:
    chosen: list[JsonValue] = []
    for part in text.split(","):
        read = _read_choice(field, part.strip())
        if isinstance(read, _Unclear):
            return read
        chosen.append(read.value)
    return AnswerGiven(chosen)


def _read_truth(text: str) -> _Read:
    word = text.lower()
    return AnswerGiven(word in _YES) if word in _YES | _NO else _Unclear("answer y or n")


def _read_number(text: str, *, whole: bool) -> _Read:
    try:
        value = parse_json(text.replace("_", ""))
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or (whole and value != int(value)):
        return _Unclear("that is not a whole number" if whole else "that is not a number")
    return AnswerGiven(value)


def _misfit(schema: JsonObject, value: JsonValue) -> str | None:
    """Why a value does not fit a schema, or None."""
    compiled = compile_schema(schema)
    if isinstance(compiled, SchemaProblem):
        return None  # the server checks the answer again
    found = [f"{item.instance_path} {tell_violation(item, schema)}".strip() for item in violations(compiled, value)[:3]]
    return "; ".join(found) or None
