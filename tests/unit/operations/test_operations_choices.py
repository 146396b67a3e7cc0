"""A choice from a fixed list is refused if it is none of them, in every argument of every operation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.operations.builtin import builtin_operations
from penstock.operations.catalogue.capability import Capability

CAPABILITIES = {item.name: item for item in builtin_operations()}


def choices(capability: Capability) -> Iterator[str]:
    """The arguments of an operation that take one of several words."""
    schema = capability.input_schema
    definitions = object_or_empty(schema.get("$defs"))
    for name, member in object_or_empty(schema.get("properties")).items():
        if _is_choice(member, definitions):
            yield name


def _is_choice(member: JsonValue, definitions: JsonObject) -> bool:
    given = object_or_empty(member)
    if isinstance(given.get("enum"), list):
        return True
    reference, options = given.get("$ref"), given.get("anyOf")
    if isinstance(reference, str):
        return _is_choice(definitions.get(reference.rpartition("/")[2]), definitions)
    if not isinstance(options, list):
        return False
    kinds = [object_or_empty(item) for item in options]
    return any("enum" in kind for kind in kinds) and all("enum" in kind or kind.get("type") == "null" for kind in kinds)


CHOICES = [(name, choice) for name, capability in CAPABILITIES.items() for choice in choices(capability)]


def test_there_are_choices_to_refuse() -> None:
    assert len(CHOICES) > 5, CHOICES


@pytest.mark.parametrize(("name", "choice"), CHOICES)
def test_an_unknown_choice_is_refused_and_named(name: str, choice: str) -> None:
    with pytest.raises(Rejected) as refused:
        CAPABILITIES[name].convert({choice: "no-such-choice"})
    errors = (refused.value.details or {})["errors"]
    assert isinstance(errors, list)
    assert any(str(object_or_empty(item)["pointer"]).startswith(f"/{choice}") for item in errors), errors
