"""What is wrong with a single node or edge: values that are missing, out of range, or not one of those allowed.

What only a store can see (uniqueness, ends of edges, cardinality) is checked there.

Above it: the stores. Below it: `schema`, `entities`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from penstock.base import limits
from penstock.definitions.schemas.compiled import CompiledSchema
from penstock.graph.schema.model import Check, EntityType, Enum, Property, Range, Vector
from penstock.graph.schema.regular import compile_pattern, matches
from penstock.graph.typing.patterns import EntityKind
from penstock.graph.values import GraphValue
from penstock.graph.versions.entities import Violation, ViolationKind

__all__ = ["check_identifier", "check_values", "kind_of"]

_INTEGER_MAX = (1 << 63) - 1


def kind_of(entity: EntityType) -> EntityKind:
    """Whether a type is of nodes or of edges."""
    return EntityKind.EDGE if hasattr(entity, "source") else EntityKind.NODE


def check_values(
    entity: EntityType, values: Mapping[str, GraphValue | None], entity_id: str | None, *, partial: bool = False
) -> list[Violation]:
    """The violations of an entity's own values; with `partial`, only of those that are given."""
    found = []
    for kind, message in _problems(entity, values, partial):
        found.append(
            Violation(
                kind=kind,
                entity_kind=kind_of(entity),
                type_name=entity.name,
                entity_id=entity_id,
                message=message,
            )
        )
    return found


def check_identifier(entity: EntityType, entity_id: str) -> list[Violation]:
    """The violation of an identifier that cannot be stored."""
    message = None
    if not entity_id:
        message = "an identifier must not be empty"
    elif len(entity_id) > limits.GRAPH_ENTITY_ID_CHARACTERS_MAX:
        message = f"an identifier has at most {limits.GRAPH_ENTITY_ID_CHARACTERS_MAX} characters, not {len(entity_id)}"
    elif not _is_storable(entity_id):
        message = "an identifier has a NUL character or one half of a surrogate pair"
    if message is None:
        return []
    kind = kind_of(entity)
    shown = entity_id[:100] or None
    return [
        Violation(kind=ViolationKind.VALUE, entity_kind=kind, type_name=entity.name, entity_id=shown, message=message)
    ]


def _is_storable(text: str) -> bool:
    if text.isascii():
        return "\0" not in text
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _problems(
    entity: EntityType, values: Mapping[str, GraphValue | None], partial: bool
) -> Iterator[tuple[ViolationKind, str]]:
    for name in values.keys() - entity.by_name.keys():
        yield ViolationKind.UNKNOWN_PROPERTY, f"{entity.name} has no property {name}"
    for item in entity.properties:
        if partial and item.name not in values:
            continue
        value = values.get(item.name)
        if value is not None:
            yield from _value_problems(entity.name, item, value)
        elif not item.nullable:
            yield ViolationKind.REQUIRED, f"{entity.name}.{item.name} must have a value"
    yield from _constraint_problems(entity, values)


def _constraint_problems(
    entity: EntityType, values: Mapping[str, GraphValue | None]
) -> Iterator[tuple[ViolationKind, str]]:
    for constraint in entity.constraints:
        if isinstance(constraint, Range):
            yield from _range_problems(entity.name, constraint, values.get(constraint.property))
        elif isinstance(constraint, Check):
            value = values.get(constraint.property)
            if isinstance(value, str) and not matches(_pattern(constraint.pattern), value):
                message = f"{entity.name}.{constraint.property} does not match {constraint.pattern}"
                yield ViolationKind.CHECK, message


def _value_problems(type_name: str, item: Property, value: GraphValue) -> Iterator[tuple[ViolationKind, str]]:
    place = f"{type_name}.{item.name}"
    texts = value if isinstance(value, tuple) else (value,)
    if any(isinstance(each, str) and not _is_storable(each) for each in texts):
        yield ViolationKind.VALUE, f"{place} has a NUL character or one half of a surrogate pair"
    if isinstance(item.type, Enum) and value not in item.type.values:
        yield ViolationKind.ENUM, f"{place} must be one of {', '.join(item.type.values)}"
    if isinstance(item.type, Vector) and (not isinstance(value, tuple) or len(value) != item.type.dimension):
        yield ViolationKind.VALUE, f"{place} must have {item.type.dimension} numbers"
    if isinstance(value, int) and abs(value) > _INTEGER_MAX:
        yield ViolationKind.VALUE, f"{place} must not be above {_INTEGER_MAX}"


def _range_problems(type_name: str, constraint: Range, value: GraphValue | None) -> Iterator[tuple[ViolationKind, str]]:
    if not isinstance(value, int | float):
        return
    place = f"{type_name}.{constraint.property}"
    if constraint.minimum is not None and value < constraint.minimum:
        yield ViolationKind.RANGE, f"{place} is {value}, and must be at least {constraint.minimum}"
    if constraint.maximum is not None and value > constraint.maximum:
        yield ViolationKind.RANGE, f"{place} is {value}, and must be at most {constraint.maximum}"


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> CompiledSchema:
    compiled = compile_pattern(pattern)
    assert not isinstance(compiled, str), f"a schema with a pattern that is not valid was stored: {compiled}"
    return compiled
