"""A field of a workflow that takes one of several words refuses any other, and names the nearest.

The fields come from the tables of which the document's schema is made; `PLACES` says where each kind of object stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from penstock.base.json import object_or_empty
from penstock.definitions.editor_schema import schema_shapes
from penstock.definitions.validate import validate_document

Member = dict[str, Any]
END: Final = {"id": "done", "type": "end"}
PLACES: Final[dict[str, Callable[[Member], Member]]] = {
    "agent_memory": lambda member: {"agent": {"model": "m", "instructions": "Help.", "memory": member}},
    "expose_tool": lambda member: {"expose": {"tool": member}},
    "expose_resource": lambda member: {"expose": {"resource": member}},
    "icon": lambda member: {"expose": {"tool": {"icons": [{"src": "https://x.example/i.png", **member}]}}},
    "prompt_message": lambda member: {"expose": {"prompt": {"messages": [{"text": "hi", **member}]}}},
    "governance": lambda member: {"governance": member},
    "schedule": lambda member: {"triggers": [{"schedule": {"cron": "0 3 * * *", **member}}]},
    "verify": lambda member: {"triggers": [{"webhook": {"path": "p", "verify": member}}]},
    "webhook": lambda member: {"triggers": [{"webhook": {"path": "p", **member}}]},
    "expect": lambda member: {"tests": [{"name": "t", "expect": member}]},
}


def choices() -> Iterator[tuple[str, str, bool, tuple[str, ...]]]:
    """Every kind of object, and every field of it that is a choice or a list of choices."""
    for name, shape in schema_shapes().items():
        for field in shape.fields:
            items = object_or_empty(field.schema.get("items"))
            words = field.schema.get("enum") or items.get("enum")
            if isinstance(words, list) and len(words) > 1:
                yield name, field.name, "enum" in items, tuple(map(str, words))


def document_with(shape: str, member: Member) -> Member:
    """A workflow in which an object of a kind has a member."""
    kind, _, node_type = shape.partition("_")
    if shape.startswith("published_config_"):
        node_type = shape.removeprefix("published_config_")
        about: Member = {"dsl": "1.0.0", "name": "w", "version": "1.0.0", "namespace": "n"}
        return {"document": about, "nodes": [{"id": "n", "type": node_type, "config": member}], "edges": []}
    document: Member = {"penstock": "v1", "name": "w", "nodes": [END]}
    if shape in PLACES:
        made = {**document, **PLACES[shape](member)}
        return {name: value for name, value in made.items() if name != "nodes"} if "agent" in made else made
    if kind == "node":
        return {**document, "nodes": [{"id": "n", "type": node_type, **member}, END]}
    assert kind == "compensate", f"say where {shape} stands in a document"
    step = {"id": "n", "type": "step", "handler": "h", "compensate": {"type": node_type, **member}}
    return {**document, "nodes": [step, END]}


CHOICES = list(choices())


def test_there_are_choices_in_nodes_and_around_them() -> None:
    assert len(CHOICES) > 30
    assert {"node_http", "governance", "published_config_wait"} <= {shape for shape, *_ in CHOICES}


@pytest.mark.parametrize(("shape", "field", "is_list", "words"), CHOICES, ids=lambda value: str(value)[:30])
def test_a_mistyped_choice_is_refused_with_the_nearest(
    shape: str, field: str, is_list: bool, words: tuple[str, ...]
) -> None:
    for word in words:
        mistyped = f"{word}{word[-1:]}"
        member = {field: [mistyped] if is_list else mistyped}
        told = [f"{item.message} {item.hint}" for item in validate_document(document_with(shape, member))]
        assert any(mistyped in text and "did you mean" in text and f"`{word}`" in text for text in told), told
