"""Conditions: from the syntax tree to typed conditions.

Above it: `blocks`, `mutations`. Below it: `comparisons`, `operands`. Blocks inside conditions are read by a function
that is passed in, as they have conditions again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.definitions.source.findings import Position
from penstock.graph.query.tree import (
    And,
    BlockAggregate,
    Clause,
    Comparison,
    Condition,
    Constant,
    Exists,
    Expression,
    Field,
    In,
    IsNull,
    Negation,
    Operator,
    Or,
    TextMatch,
    TextMatchKind,
    Truth,
)
from penstock.graph.schema.model import Base, Scalar
from penstock.graph.schema.types import written_type
from penstock.graph.typing.comparisons import Comparisons, Side
from penstock.graph.typing.literals import is_number
from penstock.graph.typing.operands import Literal, Operands
from penstock.graph.typing.patterns import (
    All,
    Any,
    BlockExists,
    BlockValue,
    ConstantValue,
    FieldValue,
    IsNullTest,
    Not,
    ParameterValue,
    Pattern,
    TextSearch,
    TruthTest,
    TypedCondition,
)

__all__ = ["BlockReader", "Conditions"]

BlockReader = Callable[
    [tuple[Clause, ...], "Field | None", Position | None, str], "tuple[Pattern, FieldValue | None] | None"
]
"""Reads a block, and a field of its variables; the text is the code for a block that refers to nothing outside."""
_STRING = Scalar(Base.STRING)
_BOOL = Scalar(Base.BOOL)
_ORDERED = frozenset(each for each in Operator if not each[0].isalpha())
_FUZZY_DISTANCE_MAX = 2


@dataclass(slots=True)
class Conditions:
    """Resolves conditions in a scope. Without a `block`, as in mutations, blocks and searches are refused."""

    operands: Operands
    block: BlockReader | None = None

    @property
    def _comparisons(self) -> Comparisons:
        return Comparisons(self.operands.context)

    def _report(self, code: str, message: str, position: Position | None, hint: str | None = None) -> None:
        self.operands.context.report(code, message, position, hint)

    def condition(self, condition: Condition) -> TypedCondition | None:
        """Resolve a condition; None if it has an error, which is reported."""
        match condition:
            case And(operands) | Or(operands):
                found = [each for each in map(self.condition, operands) if each is not None]
                if len(found) != len(operands):
                    return None
                return All(tuple(found)) if isinstance(condition, And) else Any(tuple(found))
            case Negation(operand):
                inner = self.condition(operand)
                return None if inner is None else Not(inner)
            case Comparison():
                return self._comparison(condition)
            case IsNull():
                return self._is_null(condition)
            case In():
                return self._in(condition)
            case Truth(operand):
                return self._truth(operand, condition.position)
            case TextMatch():
                return self._text_match(condition)
            case Exists():
                return self._exists(condition.clauses, condition.position, negated=False)

    def _exists(
        self, clauses: tuple[Clause, ...], position: Position | None, *, negated: bool
    ) -> TypedCondition | None:
        if self.block is None:
            self._report("T44", "the condition of a mutation has no blocks", position, "find the nodes by a read first")
            return None
        found = self.block(clauses, None, position, "T9" if negated else "T39")
        return None if found is None else BlockExists(found[0], negated)

    def not_block(self, clauses: tuple[Clause, ...], position: Position | None) -> TypedCondition | None:
        """Resolve `not { … }`."""
        return self._exists(clauses, position, negated=True)

    # Comparisons

    def _in(self, condition: In) -> TypedCondition | None:
        value = self.operands.operand(condition.operand)
        items = self.operands.operand(condition.items)
        if value is None or items is None:
            return None
        return self._comparisons.within(value, items, condition.negated, condition.position)

    def _comparison(self, comparison: Comparison) -> TypedCondition | None:
        if isinstance(comparison.left, TextMatch) and _is_true(comparison):
            return self._text_match(comparison.left)
        left = self._side(comparison.left, comparison.operator)
        right = self.operands.operand(comparison.right)
        if left is None or right is None:
            return None
        if isinstance(left, Literal) and isinstance(right, Literal):
            self._report("T41", "both sides are constants", comparison.position, "compare a property or a parameter")
            return None
        if isinstance(left, BlockValue) and not (isinstance(right, Literal) or is_number(right.type)):
            self._report("T40", "a block is compared with a number", comparison.position, "write `count { … } > 2`")
            return None
        return self._comparisons.compared(left, comparison.operator, right, comparison.position)

    def _side(self, expression: Expression, operator: Operator) -> Side | None:
        if not isinstance(expression, BlockAggregate):
            return self.operands.operand(expression)
        if operator not in _ORDERED:
            self._report("T40", f"a block has no `{operator}`", expression.position, "compare it with a number")
            return None
        return self._block_value(expression)

    def _block_value(self, expression: BlockAggregate) -> BlockValue | None:
        if self.block is None:
            message = "the condition of a mutation has no blocks"
            self._report("T44", message, expression.position, "find the nodes by a read first")
            return None
        argument = expression.argument
        if argument is not None and not isinstance(argument, Field):
            self._report("T40", "`sum` adds a property", expression.position, "write `sum($x.size) { … }`")
            return None
        found = self.block(expression.clauses, argument, expression.position, "T39")
        if found is None:
            return None
        pattern, field = found
        if argument is not None and (field is None or not is_number(field.type)):
            if field is not None:
                message = f"`sum` adds numbers, not {written_type(field.type)}"
                self._report("T40", message, argument.position, "choose a property that is a number")
            return None
        base = Base.I64 if expression.function == "count" else Base.F64
        return BlockValue(function=expression.function, argument=field, pattern=pattern, type=Scalar(base))

    def _is_null(self, condition: IsNull) -> TypedCondition | None:
        operand = self.operands.operand(condition.operand)
        if operand is None:
            return None
        if isinstance(operand, Literal):
            self._report("T41", "a constant is never null", condition.position, "test a property or a parameter")
            return None
        if isinstance(operand, ParameterValue):
            self.operands.context.used(operand.name, ())
        return IsNullTest(operand, condition.negated)

    def _truth(self, expression: Expression, position: Position | None) -> TypedCondition | None:
        if isinstance(expression, Constant) and expression.kind == "bool":
            return TruthTest(ConstantValue(expression.value, _BOOL))
        operand = self.operands.operand(expression)
        if operand is None:
            return None
        if isinstance(operand, Literal) or operand.type != _BOOL:
            shown = "a constant" if isinstance(operand, Literal) else written_type(operand.type)
            self._report("T41", f"a condition is true or false, not {shown}", position, "compare it: `… = …`")
            return None
        if isinstance(operand, ParameterValue):
            self.operands.context.used(operand.name, (_BOOL,))
        return TruthTest(operand)

    # Text

    def _text_match(self, match: TextMatch) -> TypedCondition | None:
        code = "T20" if match.kind is TextMatchKind.MATCH_TEXT else "T19"
        if self.block is None:
            message = f"the condition of a mutation has no `{match.kind}`"
            self._report("T44", message, match.position, "find the nodes by a read first")
            return None
        subject = self.operands.field(match.subject)
        query = self.text_query(match.query, code)
        if subject is None or query is None:
            return None
        if not isinstance(subject, FieldValue) or subject.type != _STRING:
            self._report(code, f"`{match.kind}` searches a String", match.position, "choose a String property")
            return None
        if match.distance is not None and match.distance > _FUZZY_DISTANCE_MAX:
            self._report("T19", f"the distance is at most {_FUZZY_DISTANCE_MAX}", match.position, "use 1 or 2")
            return None
        return TextSearch(kind=match.kind, subject=subject, query=query, distance=match.distance)

    def text_query(self, expression: Expression, code: str) -> ConstantValue | ParameterValue | None:
        """Resolve the text that is searched for."""
        operand = self.operands.operand(expression)
        if operand is None:
            return None
        if isinstance(operand, Literal) and isinstance(operand.value, Constant) and operand.value.kind == "string":
            return ConstantValue(operand.value.value, _STRING)
        if isinstance(operand, ParameterValue) and operand.type == _STRING:
            self.operands.context.used(operand.name, (_STRING,))
            return operand
        self._report(code, "the text to search for is a String", expression.position, "pass a String parameter")
        return None


def _is_true(comparison: Comparison) -> bool:
    """Whether it is the long form `… = true`."""
    right = comparison.right
    return comparison.operator is Operator.EQUAL and isinstance(right, Constant) and right.value is True
