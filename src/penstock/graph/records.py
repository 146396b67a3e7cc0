"""Records of NDJSON: one node or edge on a line, read and checked against a schema, and written.

    {"type": "Person", "data": {"name": "Ada", "age": 36}}
    {"edge": "Knows", "from": "Ada", "to": "Grace", "data": {"since": "2026-01-31"}}

`data` of an edge may be left out. A node or edge whose identifier is generated may carry it as `"id"`, so that what
was exported can be loaded again; a node with a key may not, as its key is its identifier. Properties that are missing
are null; `parameters.values` says what JSON is accepted for which type. Empty lines are skipped. Everything that is
wrong with a line is reported at once, with its number.

Above it: loads and exports of the stores. Below it: `schema.model`, `parameters.values`. It checks no keys, ranges,
patterns or cardinalities: those need the graph, or are the task of its writer.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.source.findings import NameSuggestions
from penstock.graph.parameters.values import Unfit, from_json, to_json
from penstock.graph.schema.model import Base, EdgeType, EntityType, NodeType, Scalar, Schema
from penstock.graph.values import GraphValue

__all__ = ["EdgeRecord", "GraphRecord", "NodeRecord", "RecordProblem", "parse_record", "parse_records", "write_record"]


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node. Every property of its type is in `properties`."""

    type: NodeType
    properties: Mapping[str, GraphValue | None]
    id: str | None = None
    """Only for a type without a key; None to generate one."""


@dataclass(frozen=True, slots=True)
class EdgeRecord:
    """An edge between two nodes, by their identifiers. Every property of its type is in `properties`."""

    type: EdgeType
    source: str
    target: str
    properties: Mapping[str, GraphValue | None] = field(default_factory=dict)
    id: str | None = None


GraphRecord: TypeAlias = NodeRecord | EdgeRecord


@dataclass(frozen=True, slots=True)
class RecordProblem:
    """What is wrong with a line; lines count from 1."""

    line: int
    message: str
    property: str | None = None

    def __str__(self) -> str:
        place = "" if self.property is None else f"property `{self.property}` "
        return f"line {self.line}: {place}{self.message}"


_NODE_KEYS = frozenset({"type", "id", "data"})
_EDGE_KEYS = frozenset({"edge", "id", "from", "to", "data"})
_Type = TypeVar("_Type", NodeType, EdgeType)


class _NotJson(ValueError):
    """A constant that JSON does not have."""


def _refuse_constant(name: str) -> None:
    raise _NotJson(f"{name} is not a JSON number")


def _unique_keys(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _NotJson("a key occurs twice")
    return found


# Made once: making them costs more than most lines.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)


def parse_record(line: str, schema: Schema, *, number: int = 1) -> GraphRecord | tuple[RecordProblem, ...]:
    """Read one line, or say everything that is wrong with it."""
    if len(line) > limits.GRAPH_RECORD_CHARACTERS_MAX:
        return (RecordProblem(number, f"has more than {limits.GRAPH_RECORD_CHARACTERS_MAX} characters"),)
    try:
        value = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        return (RecordProblem(number, f"is not valid JSON: {error}"),)
    if not isinstance(value, dict):
        return (RecordProblem(number, "must be an object"),)
    reader = _Reader(schema, number)
    record = reader.record(value)
    return tuple(reader.problems) if record is None or reader.problems else record


def parse_records(
    lines: Iterable[str], schema: Schema, *, first_number: int = 1
) -> Iterator[GraphRecord | tuple[RecordProblem, ...]]:
    """Read lines one by one; empty ones count, and are skipped."""
    for number, line in enumerate(lines, start=first_number):
        if line.strip():
            yield parse_record(line, schema, number=number)


@dataclass(slots=True)
class _Reader:
    schema: Schema
    number: int
    problems: list[RecordProblem] = field(default_factory=list)

    @staticmethod
    def _hint(word: str, known: Collection[str], otherwise: str = "there is") -> str:
        hint = NameSuggestions().hint(word, known, otherwise=otherwise)
        return f"; {hint}" if hint else ""

    def _report(self, message: str, name: str | None = None) -> None:
        self.problems.append(RecordProblem(self.number, message, name))

    def record(self, value: JsonObject) -> GraphRecord | None:
        """Read an envelope."""
        if ("type" in value) == ("edge" in value):
            self._report('needs either "type" (a node) or "edge"')
            return None
        return self._node(value) if "type" in value else self._edge(value)

    def _node(self, value: JsonObject) -> NodeRecord | None:
        self._keys(value, _NODE_KEYS)
        found = self._type(value["type"], self.schema.node_types, "node")
        if found is None:
            return None
        if found.key is not None and "id" in value:
            self._report(f'has an "id", but nodes of type `{found.name}` are identified by their key')
        return NodeRecord(found, self._properties(value.get("data", {}), found), self._identifier(value, "id"))

    def _edge(self, value: JsonObject) -> EdgeRecord | None:
        self._keys(value, _EDGE_KEYS)
        found = self._type(value["edge"], self.schema.edge_types, "edge")
        ends = [self._identifier(value, name, required=True) for name in ("from", "to")]
        if found is None:
            return None
        properties = self._properties(value.get("data", {}), found)
        source, target = ends
        if source is None or target is None:
            return None
        return EdgeRecord(found, source, target, properties, self._identifier(value, "id"))

    def _keys(self, value: JsonObject, known: frozenset[str]) -> None:
        for key in sorted(value.keys() - known):
            self._report(f"has the unknown key `{key}`{self._hint(key, sorted(known), 'keys are')}")

    def _type(self, name: JsonValue, types: Mapping[str, _Type], kind: str) -> _Type | None:
        found = types.get(name) if isinstance(name, str) else None
        if found is None:
            shown = f"`{name}`{self._hint(name, tuple(types))}" if isinstance(name, str) else "which is not a name"
            self._report(f"has an unknown {kind} type, {shown}")
        return found

    def _identifier(self, value: JsonObject, name: str, *, required: bool = False) -> str | None:
        found = value.get(name)
        if isinstance(found, str) and found.isascii() and found and "\0" not in found:
            return found
        if name not in value and not required:
            return None
        if not found or isinstance(from_json(found, Scalar(Base.STRING)), Unfit) or not isinstance(found, str):
            self._report(f'needs "{name}", the identifier of a node' if required else f'"{name}" is not an identifier')
            return None
        return found

    def _properties(self, data: JsonValue, owner: EntityType) -> Mapping[str, GraphValue | None]:
        if not isinstance(data, dict):
            self._report('"data" must be an object')
            return {}
        for key in data:
            if key not in owner.by_name:
                self._report(f"is unknown in `{owner.name}`{self._hint(key, tuple(owner.by_name))}", key)
        found: dict[str, GraphValue | None] = {}
        for each in owner.properties:
            given = data.get(each.name)
            if given is None and each.nullable:
                found[each.name] = None
                continue
            if each.name not in data:
                self._report("is missing", each.name)
                continue
            value = from_json(given, each.type)
            if isinstance(value, Unfit):
                place = f" at index {value.path[0]}" if value.path else ""
                self._report(f"{value.message}{place}", each.name)
            else:
                found[each.name] = value
        return found


def write_record(record: GraphRecord) -> str:
    """Write a record as one line without a line end. Properties that are null are left out."""
    data: JsonObject = {
        each.name: to_json(record.properties[each.name], each.type)
        for each in record.type.properties
        if record.properties.get(each.name) is not None
    }
    identifier: JsonObject = {} if record.id is None else {"id": record.id}
    envelope: JsonObject
    if isinstance(record, NodeRecord):
        envelope = {"type": record.type.name, **identifier, "data": data}
    else:
        envelope = {"edge": record.type.name, **identifier, "from": record.source, "to": record.target}
        if data:
            envelope["data"] = data
    return _ENCODER.encode(envelope)
