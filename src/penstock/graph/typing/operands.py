"""Expressions that stand for one value: fields, parameters, literals, the time of the call.

Above it: `conditions`, `reads`, `mutations`. Below it: `context`, `literals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.definitions.source.findings import Position
from penstock.graph.query.tree import (
    Aggregate,
    Alias,
    BlockAggregate,
    Constant,
    Expression,
    Field,
    ListLiteral,
    Now,
    Rank,
    Rrf,
    TextMatch,
    Variable,
)
from penstock.graph.schema.model import Base, EdgeType, Enum, NodeType, Property, Scalar, ValueType
from penstock.graph.schema.types import written_type
from penstock.graph.typing.context import ANONYMOUS, QueryContext, Scope
from penstock.graph.typing.patterns import (
    TARGET,
    EdgeVariable,
    EntityKind,
    FieldValue,
    MetaField,
    MetaValue,
    NodeVariable,
    NowValue,
    ParameterValue,
)

__all__ = ["Literal", "Operand", "Operands", "position_of"]

_NODE_META = (MetaField.ID, MetaField.TYPE)


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal whose type follows from the other side."""

    value: Constant | ListLiteral


Operand = FieldValue | MetaValue | ParameterValue | NowValue | Literal


def position_of(expression: Expression) -> Position | None:
    """Return the place of an expression."""
    return expression.position


@dataclass(slots=True)
class Operands:
    """Resolves expressions in a scope; in the condition of a mutation, `target` is the type that is changed."""

    context: QueryContext
    scope: Scope
    target: NodeType | EdgeType | None = None

    def operand(self, expression: Expression, *, blob: bool = False) -> Operand | None:
        """Resolve an expression that stands for one value; report if it does not."""
        match expression:
            case Constant() | ListLiteral():
                return Literal(expression)
            case Now():
                return NowValue()
            case Variable():
                return self._variable(expression)
            case Field():
                return self.field(expression, blob=blob)
            case Aggregate():
                code, hint = ("T7", "compare a block: `count { … } > n`") if self.target is None else ("T44", None)
                self.context.report(code, "an aggregate stands in `return` only", expression.position, hint)
            case Rank() | Rrf():
                message = "a ranking stands in `order` only"
                self.context.report("T38", message, expression.position, "or repeat it in `return`")
            case TextMatch():
                message = f"`{expression.kind}` is a condition of its own and has no value"
                self.context.report("T38", message, expression.position, "write it as a clause")
            case BlockAggregate():
                message = f"a block of `{expression.function}` stands to the left of a comparison only"
                self.context.report("T40", message, expression.position, "turn the comparison around")
            case Alias():
                message = f"`{expression.name}` is not a value here"
                self.context.report("T36", message, expression.position, "a property is written `$x.name`")
        return None

    def _variable(self, variable: Variable) -> ParameterValue | None:
        found = self.scope.find(variable.name)
        position = variable.position
        if isinstance(found, NodeVariable):
            hint = f"compare a property of it, or `${variable.name}.@id`"
            self.context.report("T7", f"`${variable.name}` is a node, not a value", position, hint)
            return None
        if isinstance(found, EdgeVariable):
            hint = f"use a property of it, or `${variable.name}.@id`"
            self.context.report("T23", f"`${variable.name}` is an edge, not a value", position, hint)
            return None
        parameter = self.context.parameter(variable.name)
        if parameter is None:
            if self.target is not None:
                self.context.no_parameter(variable.name, position)
            else:
                self.context.unbound(variable.name, self.scope, position)
        return parameter

    # Fields

    def field(self, expression: Field, *, blob: bool = False) -> FieldValue | MetaValue | None:
        """Resolve a field; Blobs are readable only if `blob` says so."""
        if expression.variable == TARGET:
            return self._target_field(expression)
        found = self.scope.find(expression.variable)
        if found is None:
            if expression.variable in self.context.parameters and expression.variable != ANONYMOUS:
                message = f"`${expression.variable}` is a parameter and has no properties"
                self.context.report("T6", message, expression.position, "use it without a property")
            else:
                self.context.unbound(expression.variable, self.scope, expression.position)
            return None
        types: tuple[NodeType, ...] | tuple[EdgeType, ...]
        if isinstance(found, NodeVariable):
            kind, types = EntityKind.NODE, (found.type,)
        else:
            kind, types = EntityKind.EDGE, found.types
        if expression.name.startswith("@"):
            return self._meta(expression, kind, types)
        return self._property(expression, kind, types, blob=blob)

    def _meta(self, expression: Field, kind: EntityKind, types: Sequence[NodeType | EdgeType]) -> MetaValue | None:
        known = _NODE_META if kind is EntityKind.NODE else tuple(MetaField)
        if expression.name not in known:
            owner = " or ".join(each.name for each in types) or kind
            self.context.unknown_property(expression.name, owner, [str(each) for each in known], expression.position)
            return None
        return MetaValue(variable=expression.variable, kind=kind, field=MetaField(expression.name))

    def _property(
        self, expression: Field, kind: EntityKind, types: Sequence[NodeType | EdgeType], *, blob: bool
    ) -> FieldValue | None:
        found: list[Property] = []
        for owner in types:
            prop = owner.by_name.get(expression.name)
            if prop is None:
                known = (*owner.by_name, *(str(each) for each in MetaField))
                self.context.unknown_property(expression.name, owner.name, known, expression.position)
                return None
            found.append(prop)
        if not found:
            message = f"no edge type connects these nodes, so `${expression.variable}` has no properties"
            self.context.report("T2", message, expression.position, "name the edge types: `(a|b)`")
            return None
        merged = _merged([each.type for each in found])
        if merged is None:
            shown = ", ".join(
                f"{owner.name}: {written_type(each.type)}" for owner, each in zip(types, found, strict=True)
            )
            message = f"`{expression.name}` has different types: {shown}"
            self.context.report("T7", message, expression.position, "use edge types whose properties agree")
            return None
        if merged == Scalar(Base.BLOB) and not blob:
            message = f"`{expression.name}` is a Blob, which queries cannot read"
            self.context.report("T24", message, expression.position, "read Blobs through their own operation")
            return None
        return FieldValue(
            variable=expression.variable,
            kind=kind,
            owners=tuple(each.name for each in types),
            name=expression.name,
            type=merged,
            nullable=any(each.nullable for each in found),
        )

    def _target_field(self, expression: Field) -> FieldValue | MetaValue | None:
        """Resolve a bare name in the condition of a mutation."""
        target = self.target
        if target is None:
            self.context.report("T6", f"`{expression.name}` has no variable", expression.position, "write `$x.name`")
            return None
        kind = EntityKind.NODE if isinstance(target, NodeType) else EntityKind.EDGE
        ends = {"from": MetaField.SRC, "to": MetaField.DST}
        if kind is EntityKind.EDGE and expression.name in ends:
            return MetaValue(variable=TARGET, kind=kind, field=ends[expression.name])
        if expression.name == MetaField.TYPE:
            message = f"`@type` is always `{target.name}` here"
            self.context.report("T11", message, expression.position, "leave the condition out")
            return None
        if expression.name.startswith("@"):
            return self._meta(expression, kind, (target,))
        return self._property(expression, kind, (target,), blob=False)


def _merged(types: Sequence[ValueType]) -> ValueType | None:
    """Return the type of a property over several types: the same, or texts if some are enums."""
    first = types[0]
    if all(each == first for each in types):
        return first
    if not all(isinstance(each, Enum) or each == Scalar(Base.STRING) for each in types):
        return None
    values: set[str] = set()
    for each in types:
        if not isinstance(each, Enum):
            return Scalar(Base.STRING)
        values.update(each.values)
    return Enum(tuple(sorted(values)))
