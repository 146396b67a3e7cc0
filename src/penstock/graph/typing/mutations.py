"""Mutations: inserts, updates and deletes.

Above it: `check`. Below it: `conditions`, `operands`, `literals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.definitions.source.findings import Position
from penstock.graph.query.tree import (
    Constant,
    Delete,
    Expression,
    Insert,
    ListLiteral,
    Mutation,
    Now,
    Update,
    Variable,
)
from penstock.graph.schema.model import Base, EdgeType, Enum, ListOf, NodeType, Property, Scalar, ValueType, Vector
from penstock.graph.schema.types import written_type
from penstock.graph.typing.conditions import Conditions
from penstock.graph.typing.context import QueryContext, Scope
from penstock.graph.typing.literals import constant_for, list_for
from penstock.graph.typing.model import (
    Assignment,
    CheckedMutation,
    DeleteEdges,
    DeleteNodes,
    InsertEdge,
    InsertNode,
    MutationStep,
    UpdateNodes,
)
from penstock.graph.typing.operands import Operands
from penstock.graph.typing.patterns import (
    ConstantList,
    ConstantValue,
    NowValue,
    ParameterValue,
    TypedCondition,
)

__all__ = ["read_mutation"]

_STRING = Scalar(Base.STRING)
_ENDS = ("from", "to")
_WIDER: Mapping[Base, tuple[Base, ...]] = {
    Base.I32: (Base.I64, Base.F64),
    Base.U32: (Base.I64, Base.U64, Base.F64),
    Base.F32: (Base.F64,),
}
_Stored = ConstantValue | ConstantList | ParameterValue | NowValue


def read_mutation(context: QueryContext, statements: Sequence[Mutation]) -> CheckedMutation | None:
    """Check a mutation; None if it has errors, which are reported."""
    deletes = [isinstance(each, Delete) for each in statements]
    if len(set(deletes)) > 1:
        other = statements[deletes.index(not deletes[0])]
        hint = "write two queries"
        message = "one mutation either deletes, or inserts and updates"
        context.report("MIXED_MUTATION", message, other.position, hint)
    reader = _Reader(context)
    steps = [reader.step(each) for each in statements]
    complete = tuple(each for each in steps if each is not None)
    return CheckedMutation(complete) if complete and len(complete) == len(steps) else None


@dataclass(slots=True)
class _Reader:
    context: QueryContext
    scope: Scope = field(default_factory=Scope)

    def _report(self, code: str, message: str, position: Position | None, hint: str | None = None) -> None:
        self.context.report(code, message, position, hint)

    def step(self, statement: Mutation) -> MutationStep | None:
        """Check one statement."""
        target = self._target(statement.type_name, statement.position)
        if target is None:
            return None
        match statement:
            case Insert():
                if isinstance(target, NodeType):
                    return self._insert_node(target, statement)
                return self._insert_edge(target, statement)
            case Update():
                return self._update(target, statement)
            case Delete():
                return self._delete(target, statement)

    def _target(self, name: str, position: Position | None) -> NodeType | EdgeType | None:
        found = self.context.schema.entity_type(name)
        if found is None:
            known = (*self.context.schema.node_types, *self.context.schema.edge_types)
            self._report("T1", f"there is no type `{name}`", position, self.context.suggestions.hint(name, known))
            return None
        self.context.reads.add(name)
        self.context.writes.add(name)
        if isinstance(found, EdgeType):
            self.context.read_edge(found)
        return found

    # Inserts

    def _insert_node(self, target: NodeType, statement: Insert) -> InsertNode | None:
        values = self._assignments(target.by_name, target.name, statement.values, statement.position)
        missing = self._missing(target.properties, statement)
        return None if values is None or missing else InsertNode(type=target, values=values)

    def _insert_edge(self, target: EdgeType, statement: Insert) -> InsertEdge | None:
        ends = {name: value for name, value in statement.values if name in _ENDS}
        others = tuple((name, value) for name, value in statement.values if name not in _ENDS)
        for name in _ENDS:
            if sum(1 for each, _ in statement.values if each == name) > 1:
                self._report("T13", f"`{name}` is here twice", statement.position, "remove one")
        source, destination = (self._end(name, ends.get(name), target, statement.position) for name in _ENDS)
        values = self._assignments(target.by_name, target.name, others, statement.position)
        missing = self._missing(target.properties, statement)
        if source is None or destination is None or values is None or missing:
            return None
        return InsertEdge(type=target, source=source, target=destination, values=values)

    def _end(
        self, name: str, value: Expression | None, edge: EdgeType, position: Position | None
    ) -> ConstantValue | ParameterValue | None:
        node = edge.source if name == "from" else edge.target
        if value is None:
            hint = f"write `{name}: $id`, the identifier of a `{node}`"
            self._report("T12", f"`{edge.name}` needs `{name}`", position, hint)
            return None
        found = self._value(value, Property(name=name, type=_STRING), position)
        if isinstance(found, ConstantValue | ParameterValue):
            return found
        if found is not None:
            self._report("T7", f"`{name}` is an identifier", value.position or position, "pass a String")
        return None

    def _missing(self, properties: Iterable[Property], statement: Insert) -> bool:
        given = {name for name, _ in statement.values}
        missing = [each.name for each in properties if not each.nullable and each.name not in given]
        if missing:
            names = ", ".join(f"`{name}`" for name in missing)
            hint = "give every property that is not nullable a value"
            self._report("T12", f"`{statement.type_name}` needs {names}", statement.position, hint)
        return bool(missing)

    # Updates and deletes

    def _update(self, target: NodeType | EdgeType, statement: Update) -> UpdateNodes | None:
        if isinstance(target, EdgeType):
            message = f"`{target.name}` is an edge type; edges are not updated"
            self._report("T16", message, statement.position, "delete the edge and insert another")
            return None
        for name, value in statement.values:
            if name in (target.key or ()):
                message = f"`{name}` is part of the key of `{target.name}` and never changes"
                hint = "insert another node and delete this one"
                self._report("T11", message, value.position or statement.position, hint)
        values = self._assignments(target.by_name, target.name, statement.values, statement.position)
        where = self._where(target, statement)
        if values is None or where is None:
            return None
        return UpdateNodes(type=target, values=values, where=where)

    def _delete(self, target: NodeType | EdgeType, statement: Delete) -> DeleteNodes | DeleteEdges | None:
        where = self._where(target, statement)
        if isinstance(target, NodeType):
            touched = [each for each in self.context.schema.edges if target.name in (each.source, each.target)]
            for edge in touched:
                self.context.writes.add(edge.name)
                self.context.read_edge(edge)
        if where is None:
            return None
        if isinstance(target, NodeType):
            return DeleteNodes(type=target, where=where)
        return DeleteEdges(type=target, where=where)

    def _where(self, target: NodeType | EdgeType, statement: Update | Delete) -> TypedCondition | None:
        return Conditions(Operands(self.context, self.scope, target)).condition(statement.where)

    # Values

    def _assignments(
        self,
        properties: Mapping[str, Property],
        owner: str,
        values: Sequence[tuple[str, Expression]],
        position: Position | None,
    ) -> tuple[Assignment, ...] | None:
        found: list[Assignment] = []
        seen: set[str] = set()
        for name, expression in values:
            place = expression.position or position
            if name in seen:
                self._report("T13", f"`{name}` is assigned twice", place, "remove one")
                continue
            seen.add(name)
            prop = properties.get(name)
            if prop is None:
                self.context.unknown_property(name, owner, tuple(properties), place)
                continue
            value = self._value(expression, prop, place)
            if value is not None:
                found.append(Assignment(prop, value))
        return tuple(found) if len(found) == len(values) else None

    def _value(self, expression: Expression, prop: Property, position: Position | None) -> _Stored | None:
        wanted = prop.type
        match expression:
            case Constant():
                return self._constant(expression, prop, position)
            case ListLiteral():
                if not isinstance(wanted, ListOf | Vector):
                    message = f"`{prop.name}` is {written_type(wanted)}, not a list"
                    self._report("T3", message, position, "give it a single value")
                    return None
                items = list_for(expression, wanted, exact=True)
                if isinstance(items, ConstantList):
                    return items
                self._report("T3", f"the list does not fit `{prop.name}`: {items}", position)
            case Now():
                if wanted == Scalar(Base.DATE_TIME):
                    return NowValue()
                message = f"`now()` is a DateTime, and `{prop.name}` is {written_type(wanted)}"
                self._report("T7", message, position, "pass the value as a parameter")
            case Variable():
                return self._parameter(expression, prop, position)
            case _:
                self._report("T45", f"`{prop.name}` needs a literal, a parameter or `now()`", position)
        return None

    def _constant(self, constant: Constant, prop: Property, position: Position | None) -> ConstantValue | None:
        found = constant_for(constant, prop.type, exact=True)
        if isinstance(found, ConstantValue):
            return found
        hint = "pass it as a parameter" if prop.type == Scalar(Base.BLOB) else None
        self._report("T3", f"the value does not fit `{prop.name}`: {found}", position, hint)
        return None

    def _parameter(self, variable: Variable, prop: Property, position: Position | None) -> ParameterValue | None:
        parameter = self.context.parameter(variable.name)
        if parameter is None:
            self.context.no_parameter(variable.name, position)
            return None
        self.context.used(variable.name, (prop.type,))
        if not _assignable(parameter.type, prop.type):
            wanted = "String" if isinstance(prop.type, Enum) else written_type(prop.type)
            message = f"`${variable.name}` is {written_type(parameter.type)}, and `{prop.name}` is {wanted}"
            self._report("T7", message, position, f"declare `${variable.name}: {wanted}`")
            return None
        return parameter


def _assignable(given: ValueType, wanted: ValueType) -> bool:
    """Whether every value of a parameter can be stored, unless it is not a value of the enum. No value is rounded."""
    if given == wanted or (isinstance(wanted, Enum) and given == _STRING):
        return True
    return isinstance(given, Scalar) and isinstance(wanted, Scalar) and wanted.base in _WIDER.get(given.base, ())
