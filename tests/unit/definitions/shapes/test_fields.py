"""The field tables are complete, and every name in them leads somewhere."""

import re
from collections.abc import Iterator

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.editor_schema import document_schema, schema_shapes
from penstock.definitions.shapes.fields import FRAGMENTS, Shape

SHAPES = list(schema_shapes().values())


def names(shape: Shape) -> list[str]:
    return [member.name for member in shape.fields]


def subschemas(value: JsonValue) -> Iterator[JsonObject]:
    if isinstance(value, dict):
        yield value
        for member in value.values():
            yield from subschemas(member)
    elif isinstance(value, list):
        for item in value:
            yield from subschemas(item)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_every_field_is_described_in_one_line(shape: Shape) -> None:
    assert shape.title
    for text in (shape.description, *(member.description for member in shape.fields)):
        assert text.endswith("."), text
        assert "\n" not in text
        assert len(text) <= 120, text


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_field_is_listed_once(shape: Shape) -> None:
    assert len(names(shape)) == len(set(names(shape)))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_rules_speak_of_fields_that_exist(shape: Shape) -> None:
    groups = (*shape.exactly_one, *shape.at_least_one, *shape.at_most_one)
    spoken_of = {name for group in groups for name in group}
    spoken_of |= {name for field, others in shape.needs for name in (field, *others)}
    spoken_of |= {name for rule in shape.conditions for name in (rule.field, *rule.then_any)}
    assert spoken_of <= set(names(shape))


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.hints], ids=lambda shape: shape.name)
def test_hints_are_for_names_that_are_not_fields(shape: Shape) -> None:
    if not shape.accepts_more:
        assert not set(shape.hints) & set(names(shape))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_hint_names_only_fields_that_exist(shape: Shape) -> None:
    for hint in shape.hints.values():
        written = re.fullmatch(r"write `(\w+)`", hint)
        assert written is None or written[1] in names(shape), hint


def test_patterns_are_anchored_at_both_ends() -> None:
    patterns = [schema["pattern"] for schema in subschemas(document_schema()) if isinstance(schema.get("pattern"), str)]
    assert patterns
    for pattern in patterns:
        assert str(pattern).startswith("^")
        assert str(pattern).endswith("$")


def test_the_examples_of_a_pattern_match_it() -> None:
    for schema in subschemas(document_schema()):
        pattern, examples = schema.get("pattern"), schema.get("examples")
        if isinstance(pattern, str) and isinstance(examples, list):
            assert all(re.fullmatch(pattern, str(example)) for example in examples), schema


@pytest.mark.parametrize(
    "text", ["500ms", "30s", "5m", "24h", "1d", "2w", "1h30m", "1h 30m", "1.5s", "PT5M", "P1DT2H", "250", " 30 s "]
)
def test_the_pattern_of_durations_accepts_every_form(text: str) -> None:
    assert re.fullmatch(str(FRAGMENTS["duration"]["pattern"]), text)


@pytest.mark.parametrize("text", ["", "5 minutes", "s", "-1s", "1.5", "1s!", "soon", "1hh"])
def test_the_pattern_of_durations_refuses_what_is_none(text: str) -> None:
    assert not re.fullmatch(str(FRAGMENTS["duration"]["pattern"]), text)
