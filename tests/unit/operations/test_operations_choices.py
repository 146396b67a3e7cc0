"""A choice from a fixed list is refused if it is none of them, wherever in the arguments of an operation it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.operations.builtin import builtin_operations
from penstock.operations.catalogue.capability import Capability

CAPABILITIES = {item.name: item for item in builtin_operations()}
_DEPTH_MAX = 6


class Choice(NamedTuple):
    """A place in the arguments that takes one of several words, and those words."""

    operation: str
    path: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def pointer(self) -> str:
        return "".join(f"/{part}" for part in self.path)


def choices(capability: Capability) -> Iterator[Choice]:
    """Every place of an operation's input where the schema lists words, however deep."""
    schema = capability.input_schema
    for path, words in listed_choices(schema, object_or_empty(schema.get("$defs")), (), _DEPTH_MAX):
        yield Choice(capability.name, path, words)


def listed_choices(
    schema: JsonObject, definitions: JsonObject, path: tuple[str, ...], depth: int
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    if depth == 0:
        return
    parts = list(_parts(schema, definitions))
    words = tuple(word for part in parts for word in _words(part))
    # A place that takes any other text, too, is not a choice.
    if words and not any("enum" not in part and _takes_text(part) for part in parts):
        yield path, words
    for part in parts:
        for name, member in object_or_empty(part.get("properties")).items():
            yield from listed_choices(object_or_empty(member), definitions, (*path, name), depth - 1)
        for keyword, name in (("items", "0"), ("additionalProperties", "any")):
            if isinstance(inner := part.get(keyword), dict):
                yield from listed_choices(inner, definitions, (*path, name), depth - 1)


def _parts(schema: JsonObject, definitions: JsonObject) -> Iterator[JsonObject]:
    """A schema's alternatives, with references followed."""
    reference, options = schema.get("$ref"), schema.get("anyOf")
    if isinstance(reference, str):
        yield from _parts(object_or_empty(definitions.get(reference.rpartition("/")[2])), definitions)
    elif isinstance(options, list):
        for option in options:
            yield from _parts(object_or_empty(option), definitions)
    else:
        yield schema


def _words(schema: JsonObject) -> tuple[str, ...]:
    listed = schema.get("enum")
    return tuple(word for word in listed if isinstance(word, str)) if isinstance(listed, list) else ()


def _takes_text(schema: JsonObject) -> bool:
    named = schema.get("type")
    return "string" in named if isinstance(named, list) else named in ("string", None)


def _arguments(path: tuple[str, ...], value: JsonValue) -> JsonObject:
    """The smallest arguments with a value at a place."""
    for part in reversed(path):
        value = [value] if part == "0" else {part: value}
    return object_or_empty(value)


CHOICES = [choice for capability in CAPABILITIES.values() for choice in choices(capability)]


def _messages(choice: Choice, value: str) -> list[str]:
    with pytest.raises(Rejected) as refused:
        CAPABILITIES[choice.operation].convert(_arguments(choice.path, value))
    errors = (refused.value.details or {})["errors"]
    assert isinstance(errors, list)
    told = [object_or_empty(item) for item in errors]
    return [str(item["message"]) for item in told if item["pointer"] == choice.pointer]


def test_there_are_choices_to_refuse_at_the_top_and_further_down() -> None:
    assert sum(len(choice.path) == 1 for choice in CHOICES) > 20, CHOICES
    assert sum(len(choice.path) > 1 for choice in CHOICES) > 10, CHOICES


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: f"{choice.operation}{choice.pointer}")
def test_an_unknown_choice_is_refused_with_the_nearest_one(choice: Choice) -> None:
    for word in choice.words:
        # A hyphen for an underscore is refused, too: nothing guesses what a caller means.
        mistyped = word.replace("_", "-") if "_" in word else f"{word}{word[-1:]}" if word else "-"
        if mistyped in choice.words:
            continue
        messages = _messages(choice, mistyped)
        assert any(message.startswith(f"unknown value `{mistyped}`") for message in messages), messages
        assert not word or any("; did you mean `" in message for message in messages), messages


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: f"{choice.operation}{choice.pointer}")
def test_a_choice_that_resembles_none_is_refused_and_named(choice: Choice) -> None:
    messages = _messages(choice, "§§§")
    assert any(message.startswith("unknown value `§§§`") for message in messages), messages
