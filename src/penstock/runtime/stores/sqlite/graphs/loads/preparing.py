"""Records of a load as rows: checked one by one, and made ready to be written.

Most records of most loads have plain values and nothing wrong. Their rows are made in one pass over the columns of the
type; everything else goes the long way, which finds out what is wrong.

Above it: `staged_work`. Below it: `penstock.graph.versions`, `mutating`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from penstock.base import limits
from penstock.graph.records import EdgeRecord, GraphRecord, NodeRecord
from penstock.graph.schema.model import Base, Check, EdgeType, EntityType, NodeType, Range, Scalar
from penstock.graph.sql.access import is_text_key
from penstock.graph.sql.layout import Table
from penstock.graph.typing.patterns import EntityKind
from penstock.graph.values import GraphValue
from penstock.graph.versions.checking import check_identifier, check_values, kind_of
from penstock.graph.versions.entities import Violation, ViolationKind
from penstock.graph.versions.identity import key_of
from penstock.runtime.ports.graphs import Stamp
from penstock.runtime.stores.sqlite.graphs.catalogue import StoredSchema
from penstock.runtime.stores.sqlite.graphs.mutating import stored_row
from penstock.runtime.stores.sqlite.graphs.versions import StoredRow

__all__ = ["Prepared", "Preparing", "violation_of"]

_INTEGER_MAX = (1 << 63) - 1
_TEXTS = frozenset({Base.STRING})
_FLOATS = frozenset({Base.F32, Base.F64})
_INTEGERS = frozenset({Base.I32, Base.I64, Base.U32, Base.U64, Base.DATE_TIME})


class Prepared(NamedTuple):
    """A row with the number of its record. `fresh` ones have a generated identifier, which cannot exist."""

    row: StoredRow
    number: int
    fresh: bool


class _Plan:
    """How rows of one type are made of plain values."""

    __slots__ = ("columns", "entity", "key", "table")

    def __init__(self, entity: EntityType, table: Table) -> None:
        self.entity = entity
        self.table = table
        self.columns: tuple[tuple[str, type | None, bool], ...] | None = None
        self.key: str | None = None
        if any(isinstance(each, Range | Check) for each in entity.constraints):
            return
        if isinstance(entity, NodeType) and entity.key is not None:
            if not is_text_key(entity):
                return
            self.key = entity.key[0]
        self.columns = tuple((name, _plain_type(entity, name), entity.by_name[name].nullable) for name in table.columns)

    def cells(self, values: Mapping[str, GraphValue | None]) -> list[Any] | None:
        """The cells of a row, if every value is of its plain type and can be stored as it is."""
        columns = self.columns
        if columns is None or len(values) != len(columns):
            return None
        found: list[Any] = []
        for name, plain, nullable in columns:
            if name not in values:
                return None
            value = values[name]
            if value is None:
                if not nullable:
                    return None
            elif type(value) is not plain:
                return None
            elif isinstance(value, str):
                if not value.isascii() or "\0" in value:
                    return None
            elif isinstance(value, int) and not -_INTEGER_MAX <= value <= _INTEGER_MAX:
                return None
            found.append(value)
        return found


def _plain_type(entity: EntityType, name: str) -> type | None:
    """The type whose values are stored unchanged; None if no type is."""
    type_ = entity.by_name[name].type
    if not isinstance(type_, Scalar):
        return None
    if type_.base in _TEXTS:
        return str
    if type_.base in _FLOATS:
        return float
    return int if type_.base in _INTEGERS else None


class Preparing:
    """Makes rows of records of one schema."""

    def __init__(self, stored: StoredSchema) -> None:
        self._stored = stored
        self._plans: dict[str, _Plan] = {}

    def rows(
        self, records: Sequence[GraphRecord], first_number: int, stamp: Stamp
    ) -> tuple[dict[str, list[Prepared]], list[Violation]]:
        """The rows of each type, and what is wrong with records, up to `GRAPH_VIOLATIONS_MAX`."""
        violations: list[Violation] = []
        found: dict[str, list[Prepared]] = {}
        for number, record in enumerate(records, first_number):
            made = self._plain(record, number, stamp) or self._any(record, number, stamp)
            if isinstance(made, Prepared):
                found.setdefault(record.type.name, []).append(made)
                continue
            violations += [replace(each, record=number) for each in made]
            if len(violations) >= limits.GRAPH_VIOLATIONS_MAX:
                break
        return found, violations

    def _plain(self, record: GraphRecord, number: int, stamp: Stamp) -> Prepared | None:
        """The row of a record that has only plain values; None for other records, and if something may be wrong."""
        plan = self._plans.get(record.type.name)
        if plan is None:
            entity = self._stored.schema.entity_type(record.type.name)
            if entity is None:
                return None
            plan = self._plans[entity.name] = _Plan(entity, self._stored.layout.tables[entity.name])
        is_edge = isinstance(record, EdgeRecord)
        cells = plan.cells(record.properties)
        if cells is None or plan.table.is_node is is_edge:
            return None
        identifier = record.id
        if plan.key is not None:
            key = record.properties[plan.key]
            if not isinstance(key, str) or (identifier is not None and identifier != key):
                return None
            identifier = key
        fresh = identifier is None
        if identifier is None:
            identifier = stamp.new_id()
        if not 0 < len(identifier) <= limits.GRAPH_ENTITY_ID_CHARACTERS_MAX:
            return None
        if not identifier.isascii() or "\0" in identifier:
            return None
        if isinstance(record, EdgeRecord):
            return Prepared((identifier, record.source, record.target, *cells), number, fresh)
        return Prepared((identifier, *cells), number, fresh)

    def _any(self, record: GraphRecord, number: int, stamp: Stamp) -> Prepared | list[Violation]:
        """The row of any record, or everything that is wrong with it."""
        schema = self._stored.schema
        entity: EntityType | None = (
            schema.node_types.get(record.type.name)
            if isinstance(record, NodeRecord)
            else schema.edge_types.get(record.type.name)
        )
        if entity is None:
            return [_unknown_type(record)]
        key = key_of(entity, record.properties) if isinstance(entity, NodeType) else None
        given = record.id if key is None else key
        violations = check_values(entity, record.properties, given)
        identifier = stamp.new_id() if given is None else given
        violations += check_identifier(entity, identifier)
        if key is not None and record.id is not None and record.id != key:
            message = f"the identifier {record.id} is not what the key gives, which is {key}"
            violations.append(violation_of(ViolationKind.VALUE, entity, record.id, message))
        if violations:
            return violations
        ends = (record.source, record.target) if isinstance(record, EdgeRecord) else ()
        row = stored_row(self._stored.layout.tables[entity.name], entity, (identifier, *ends), record.properties)
        return Prepared(row, number, fresh=key is None and record.id is None)


def _unknown_type(record: GraphRecord) -> Violation:
    kind = EntityKind.NODE if isinstance(record, NodeRecord) else EntityKind.EDGE
    return Violation(
        kind=ViolationKind.UNKNOWN_TYPE,
        entity_kind=kind,
        type_name=record.type.name,
        entity_id=record.id,
        message=f"the schema has no {kind.value} type {record.type.name}",
    )


def violation_of(kind: ViolationKind, entity: NodeType | EdgeType, entity_id: str, message: str) -> Violation:
    """A violation of one entity."""
    return Violation(
        kind=kind, entity_kind=kind_of(entity), type_name=entity.name, entity_id=entity_id, message=message
    )
