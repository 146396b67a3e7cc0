"""What a document declares about the data that expressions read: the schema behind a plain path such as `.input.a.b`.

Above it: `types`. Below it: `schemas.types`. Where nothing is declared, or another value may take its place (a
fallback, the answers of several people), anything is possible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.nodes import kind_named
from penstock.definitions.outline.document import Outline, OutlineNode
from penstock.definitions.schemas.types import ANY_TYPE, Presence, SchemaView, TypeSet

__all__ = ["Declarations", "NoMember", "NotAContainer", "PathMeaning", "Steps", "declarations_of", "path_text"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
Steps: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathMeaning:
    """The types that a path can give. Null is always among them, because optional members may be missing."""

    types: TypeSet


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMember:
    """A path that names an undeclared member. `certain` means that the schema also forbids it."""

    parent: Steps
    name: str
    declared: Collection[str]
    certain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAContainer:
    """A path that goes into a value without members."""

    parent: Steps
    types: TypeSet
    name: str


def path_text(steps: Steps) -> str:
    """A path in jq notation."""
    return "".join(f".{step}" if _PLAIN.fullmatch(step) else f".[{json.dumps(step)}]" for step in steps)


def declarations_of(document: JsonObject, outline: Outline) -> Declarations:
    """Collect what a document declares."""
    item_names = frozenset(name for node in outline.nodes if isinstance(name := _item_name(node), str))
    return Declarations(document, outline, outline.by_id(), item_names)


@dataclass(frozen=True, slots=True)
class Declarations:
    """The declared schemas of a document, by the name at the root of a path."""

    document: JsonObject
    outline: Outline
    nodes: dict[str, OutlineNode]
    item_names: frozenset[str]

    def meaning(self, steps: Steps) -> PathMeaning | NoMember | NotAContainer:
        """Return the types that a plain path gives, or the reason why it gives nothing."""
        view, position = self._source(steps)
        while view is not None and position < len(steps):
            name, types = steps[position], view.types()
            if types and not types & {"object", "null"}:
                return NotAContainer(parent=steps[:position], types=types, name=name)
            member = view.member(name)
            if member.presence is not Presence.DECLARED and (member.names or member.presence is Presence.FORBIDDEN):
                certain = member.presence is Presence.FORBIDDEN
                return NoMember(parent=steps[:position], name=name, declared=member.names, certain=certain)
            view = member.view
            position += 1
        return PathMeaning(types=ANY_TYPE if view is None else view.types() | {"null"})

    def state_schema(self) -> SchemaView | None:
        """The declared state, wherever the format writes it."""
        return _view(self.document.get("state" if self.outline.native else "state_schema"))

    def output_of(self, node: OutlineNode) -> SchemaView | None:
        """The declared output of a node, or None when it is unknown."""
        if _has_fallback(node.fields.get("on_error")) or _has_fallback(self.document.get("on_error")):
            return None
        kind = kind_named(node.type)
        return _view(node.fields.get("output_schema") if kind is None else kind.output(node.fields))

    def _source(self, steps: Steps) -> tuple[SchemaView | None, int]:
        """The schema that a path starts from, and the number of steps that lead to it."""
        if not self.outline.native:
            return self.state_schema(), 0
        first = steps[0] if steps else None
        if first == "input":
            return _view(self.document.get("input")), 1
        if first == "state":
            return self.state_schema(), 1
        # The name of an item shadows a node with the same name.
        node = self.nodes.get(first) if first is not None and first not in self.item_names else None
        return (self.output_of(node) if node is not None else None), 1


def _item_name(node: OutlineNode) -> JsonValue:
    """The name that the author chose for the items of a node."""
    kind = kind_named(node.type)
    if kind is None or kind.bodies is None or kind.bodies.item_name is None:
        return None
    return node.fields.get(kind.bodies.item_name[0])


def _view(schema: JsonValue) -> SchemaView | None:
    return SchemaView(schema, schema) if isinstance(schema, dict) else None


def _has_fallback(routes: JsonValue) -> bool:
    listed = routes if isinstance(routes, list) else [routes]
    return any(isinstance(route, dict) and "fallback" in route for route in listed)
