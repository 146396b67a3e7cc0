"""Which values can be compared, and comparisons of two resolved operands.

Above it: `conditions`, `blocks`. Below it: `operands`, `literals`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.definitions.source.findings import Position
from penstock.graph.query.tree import Constant, ListLiteral, Operator
from penstock.graph.schema.model import Base, Enum, ListOf, Scalar, ValueType
from penstock.graph.schema.types import written_type
from penstock.graph.typing.context import QueryContext
from penstock.graph.typing.literals import constant_for, is_number, list_for, plain_constant
from penstock.graph.typing.operands import Literal, Operand
from penstock.graph.typing.patterns import (
    BlockValue,
    Comparator,
    Compare,
    ConstantList,
    ConstantValue,
    ContainsItem,
    ContainsText,
    InList,
    ParameterValue,
    StartsWith,
    TypedCondition,
    TypedExpression,
)

__all__ = ["Comparisons", "Side", "comparable"]

Side = Operand | BlockValue
_STRING = Scalar(Base.STRING)


def _is_text(value_type: object) -> bool:
    return isinstance(value_type, Enum) or value_type == _STRING


def comparable(left: object, right: object) -> bool:
    """Whether values of two types can be equal: the same single type, numbers, or texts."""
    if is_number(left) and is_number(right):
        return True
    if _is_text(left) and _is_text(right):
        return True
    return left == right and isinstance(left, Scalar) and left.base is not Base.BLOB


def _is_bool(side: TypedExpression) -> bool:
    return side.type == Scalar(Base.BOOL)


@dataclass(slots=True)
class Comparisons:
    """Makes conditions of two sides, and reports those that do not fit together."""

    context: QueryContext
    in_braces: bool = False
    """Whether the values are those of properties in binding braces."""

    def compared(self, left: Side, operator: Operator, right: Side, position: Position | None) -> TypedCondition | None:
        """Make a condition of two sides and an operator."""
        if operator is Operator.CONTAINS:
            return self._contains(left, right, position)
        equality = operator in (Operator.EQUAL, Operator.NOT_EQUAL)
        sides = self._sides(left, right, position, equality=equality)
        if sides is None:
            return None
        first, second = sides
        if operator is Operator.STARTS_WITH:
            return StartsWith(first, second) if self._texts(first, second, operator, position) else None
        if not comparable(first.type, second.type):
            self._mismatch(first, second, position)
            return None
        comparator = Comparator(operator.value)
        if _is_bool(first) and comparator not in (Comparator.EQUAL, Comparator.NOT_EQUAL):
            self.context.report("T7", f"true and false have no order for `{operator}`", position, "compare with `=`")
            return None
        return Compare(first, comparator, second)

    def equal_or_member(self, subject: Side, value: Side, position: Position | None) -> TypedCondition | None:
        """Make the condition of a property in binding braces: membership for a list, else equality."""
        if not isinstance(subject, Literal) and isinstance(subject.type, ListOf):
            return self._contains(subject, value, position)
        return self.compared(subject, Operator.EQUAL, value, position)

    def _texts(
        self, first: TypedExpression, second: TypedExpression, operator: Operator, position: Position | None
    ) -> bool:
        wrong = next((each for each in (first, second) if not _is_text(each.type)), None)
        if wrong is not None:
            message = f"`{operator}` is for texts, not for {_shown(wrong.type)}"
            self.context.report("T7", message, position, "use `=`, or `in` for lists")
        return wrong is None

    # Lists

    def _contains(self, left: Side, right: Side, position: Position | None) -> TypedCondition | None:
        if isinstance(left, Literal) and isinstance(left.value, ListLiteral):
            if isinstance(right, Literal):
                self.context.report("T7", "both sides are constants", position, "compare a property")
                return None
            items = self._list(left.value, right, position)
            return None if items is None else ContainsItem(items, right)
        if not isinstance(left, Literal) and isinstance(left.type, ListOf):
            item = self._item(right, left, position)
            return None if item is None else ContainsItem(left, item)
        sides = self._sides(left, right, position, equality=False)
        if sides is None or not self._texts(*sides, Operator.CONTAINS, position):
            return None
        return ContainsText(*sides)

    def _item(self, value: Side, items: TypedExpression, position: Position | None) -> TypedExpression | None:
        """Resolve the value that is looked for in a list."""
        assert isinstance(items.type, ListOf)
        item_type = Scalar(items.type.base)
        found = self._for_type(value, item_type, position)
        if found is None:
            return None
        if not comparable(found.type, item_type):
            message = f"the list has {items.type.base} in it, not {_shown(found.type)}"
            self.context.report("T7", message, position, "look for a single value of the type of its items")
            return None
        self._note(found, item_type)
        self._note(items, found.type)
        return found

    def _list(
        self, literal: ListLiteral, other: TypedExpression | Operand, position: Position | None
    ) -> ConstantList | None:
        """Resolve a list literal whose items have the type of a single value."""
        value_type = None if isinstance(other, Literal) else other.type
        if not isinstance(value_type, Scalar | Enum) or value_type == Scalar(Base.BLOB):
            self.context.report("T7", "the items of a list are single values", position, "compare a single value")
            return None
        found = list_for(literal, value_type, exact=False)
        if isinstance(found, str):
            self.context.report("T3", f"an item of the list does not fit: {found}", literal.position)
            return None
        return found

    def within(self, value: Side, items: Side, negated: bool, position: Position | None) -> TypedCondition | None:
        """Make the condition of `in`."""
        if isinstance(items, Literal):
            if not isinstance(items.value, ListLiteral):
                self.context.report("T7", "`in` needs a list to its right", position, 'write `in ["a", "b"]`')
                return None
            operand = self._plain(value, position)
            constants = None if operand is None else self._list(items.value, operand, position)
            if operand is None or constants is None:
                return None
            self._note(operand, None)
            return InList(operand, constants, negated)
        if not isinstance(items.type, ListOf):
            message = f"`in` needs a list to its right, not {_shown(items.type)}"
            self.context.report("T7", message, position, "use `=`")
            return None
        operand = self._item(value, items, position)
        return None if operand is None else InList(operand, items, negated)

    # Two sides

    def _sides(
        self, left: Side, right: Side, position: Position | None, *, equality: bool
    ) -> tuple[TypedExpression, TypedExpression] | None:
        """Give literals the type of the other side."""
        first = self._plain(left, position) if isinstance(right, Literal) else None
        if isinstance(right, Literal):
            second = None if first is None else self._for_type(right, first.type, position)
        else:
            second = right
            first = self._for_type(left, right.type, position)
        if first is None or second is None:
            return None
        # A parameter takes the values of an enum only if it has to be one of them.
        self._note(first, second.type if equality else None)
        self._note(second, first.type if equality else None)
        return first, second

    def _plain(self, side: Side, position: Position | None) -> TypedExpression | None:
        if not isinstance(side, Literal):
            return side
        if isinstance(side.value, ListLiteral):
            self.context.report("T7", "a list cannot be compared", position, "use `in` or `contains`")
            return None
        found = plain_constant(side.value)
        if isinstance(found, str):
            self.context.report("T3", found, side.value.position)
            return None
        return found

    def _for_type(self, side: Side, wanted: object, position: Position | None) -> TypedExpression | None:
        """Resolve a side; a literal becomes a value of the wanted type."""
        if not isinstance(side, Literal):
            return side
        if isinstance(side.value, ListLiteral) or not isinstance(wanted, Scalar | Enum):
            self.context.report("T7", "lists and Vectors cannot be compared", position, "use `in` or `contains`")
            return None
        return self._constant(side.value, wanted)

    def _constant(self, literal: Constant, wanted: Scalar | Enum) -> ConstantValue | None:
        found = constant_for(literal, wanted, exact=False)
        if isinstance(found, str):
            hint = _literal_hint(wanted.base, literal) if isinstance(wanted, Scalar) else None
            own = isinstance(wanted, Enum) or isinstance(plain_constant(literal), str)
            self.context.report(
                "T3" if own or self.in_braces else "T7", f"the value does not fit: {found}", literal.position, hint
            )
            return None
        return found

    def _mismatch(self, first: TypedExpression, second: TypedExpression, position: Position | None) -> None:
        message = f"{_shown(first.type)} cannot be compared with {_shown(second.type)}"
        hint = "numbers are compared with numbers, texts with texts, days with days"
        if any(isinstance(each.type, ListOf) for each in (first, second)):
            hint = "use `contains` or `in` for lists"
        self.context.report("T7", message, position, hint)

    def _note(self, side: TypedExpression, other: object) -> None:
        """Remember with what a parameter is compared."""
        if isinstance(side, ParameterValue):
            self.context.used(side.name, (other,))


def _literal_hint(base: Base, literal: Constant) -> str | None:
    if literal.kind != "string":
        return None
    if base is Base.DATE:
        return f'write date("{literal.value}")'
    return f'write datetime("{literal.value}")' if base is Base.DATE_TIME else None


def _shown(value_type: object) -> str:
    return written_type(value_type) if isinstance(value_type, ValueType) else "a node"
