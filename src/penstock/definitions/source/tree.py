"""The tree that both source readers build: values with the place where each was written.

`json_reader` and `yaml_reader` make it from text; `document` turns it into a plain value and a map of positions. The
helpers here make both readers stop at the same limits.
"""

from dataclasses import dataclass
from typing import TypeAlias

from penstock.base import limits
from penstock.base.json import JsonValue, json_pointer
from penstock.definitions.source.findings import Finding, Position

__all__ = [
    "AliasNode",
    "MappingNode",
    "ScalarNode",
    "SequenceNode",
    "SourceNode",
    "SourceRefused",
    "assemble",
    "duplicate_key",
    "has_finite_value",
    "not_finite",
    "too_deep",
    "too_many_values",
]


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """Text, a number, true, false or null."""

    value: str | float | bool | None
    position: Position
    values: int = 1
    depth: int = 0


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list."""

    items: tuple["SourceNode", ...]
    position: Position
    values: int
    depth: int


@dataclass(frozen=True, slots=True)
class MappingNode:
    """An object. Each member is its key, the position of the key, and its value."""

    members: tuple[tuple[str, Position, "SourceNode"], ...]
    position: Position
    values: int
    depth: int


@dataclass(frozen=True, slots=True)
class AliasNode:
    """A place where YAML repeats a value written elsewhere."""

    target: "SourceNode"
    position: Position
    values: int
    depth: int


SourceNode: TypeAlias = ScalarNode | SequenceNode | MappingNode | AliasNode


class SourceRefused(Exception):
    """Reading cannot continue. Never leaves the readers, which return its finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def assemble(node: SourceNode) -> tuple[JsonValue, dict[str, Position]]:
    """Return the plain value of a tree, and the position of every JSON pointer into it."""
    positions: dict[str, Position] = {"": node.position}
    return _assemble(node, "", positions), positions


def _assemble(node: SourceNode, pointer: str, positions: dict[str, Position]) -> JsonValue:
    match node:
        case ScalarNode(value=value):
            return value
        case AliasNode(target=target):
            return _assemble(target, pointer, positions)
        case SequenceNode(items=items):
            elements: list[JsonValue] = []
            for index, item in enumerate(items):
                place = f"{pointer}/{index}"
                positions[place] = item.position
                elements.append(_assemble(item, place, positions))
            return elements
        case MappingNode(members=members):
            fields: dict[str, JsonValue] = {}
            for key, key_position, member in members:
                place = pointer + json_pointer((key,))
                positions[place] = key_position
                fields[key] = _assemble(member, place, positions)
            return fields


def has_finite_value(number: float) -> bool:
    """Whether a number, integers included, is one that every JSON reader can hold."""
    try:
        as_double = float(number)
    except OverflowError:
        return False
    return as_double - as_double == 0.0


def not_finite(text: str, path: str, position: Position) -> Finding:
    """The finding for NaN, infinities and numbers beyond the range of a double."""
    return Finding(
        code="NUMBER_NOT_FINITE",
        message=f"`{text if len(text) <= 40 else text[:40] + '…'}` is not a number that JSON can hold",  # noqa: PLR2004
        path=path,
        hint="write a finite number, or put it in quotes if text is meant",
        position=position,
    )


def duplicate_key(key: str, path: str, position: Position, first: Position) -> Finding:
    """The finding for a key that occurs twice in an object."""
    return Finding(
        code="DUPLICATE_KEY",
        message=f"the key `{key}` is already at line {first.line}, column {first.column} of the same object",
        path=path,
        hint="remove or rename one of the two; only one value could count",
        position=position,
    )


def too_deep(path: str, position: Position) -> Finding:
    """The finding for nesting beyond the limit."""
    return Finding(
        code="DOCUMENT_TOO_DEEP",
        message=f"lists and objects are nested more than {limits.DOCUMENT_DEPTH_MAX} levels deep",
        path=path,
        hint="flatten the structure, or move a part of it into another workflow",
        position=position,
    )


def too_many_values(position: Position) -> Finding:
    """The finding for a document with more values than the limit, aliases expanded."""
    return Finding(
        code="DOCUMENT_TOO_LARGE",
        message=f"the document has more than {limits.DOCUMENT_VALUES_MAX:,} values once its aliases are expanded",
        hint="use fewer aliases of aliases, or split the document",
        position=position,
    )
