"""Rankings: `nearest`, `bm25` and `rrf`.

Above it: `reads`. Below it: `conditions`, `operands`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.definitions.source.findings import Position
from penstock.graph.query.tree import Expression, ListLiteral, Rank, RankKind, Rrf
from penstock.graph.schema.model import Base, Scalar, Vector
from penstock.graph.schema.types import written_type
from penstock.graph.typing.conditions import Conditions
from penstock.graph.typing.context import QueryContext, Scope
from penstock.graph.typing.literals import list_for
from penstock.graph.typing.operands import Literal, Operands
from penstock.graph.typing.patterns import ConstantList, FieldValue, ParameterValue, RankFusion, RankValue

__all__ = ["Ranks"]

# The constant that the authors of reciprocal rank fusion found to work, and everybody uses.
_RRF_K = 60


@dataclass(slots=True)
class Ranks:
    """Resolves rankings in a scope."""

    context: QueryContext
    scope: Scope

    def rank(self, rank: Rank) -> RankValue | None:
        """Resolve `nearest` or `bm25`."""
        operands = Operands(self.context, self.scope)
        subject = operands.field(rank.subject)
        if subject is None:
            return None
        if rank.kind is RankKind.BM25:
            query = Conditions(operands).text_query(rank.query, "T20")
            if query is None:
                return None
            if not isinstance(subject, FieldValue) or subject.type != Scalar(Base.STRING):
                message = "`bm25` ranks a String property"
                self.context.report("T20", message, rank.position, "choose a String property")
                return None
            return RankValue(kind=rank.kind, subject=subject, query=query)
        if not isinstance(subject, FieldValue) or not isinstance(subject.type, Vector):
            message = "`nearest` ranks a Vector property"
            self.context.report("T15", message, rank.position, "choose a Vector property")
            return None
        vector = self._vector(operands, rank.query, subject.type)
        return None if vector is None else RankValue(kind=rank.kind, subject=subject, query=vector)

    def _vector(
        self, operands: Operands, expression: Expression, wanted: Vector
    ) -> ConstantList | ParameterValue | None:
        operand = operands.operand(expression)
        if operand is None:
            return None
        position = expression.position
        if isinstance(operand, Literal) and isinstance(operand.value, ListLiteral):
            constant = list_for(operand.value, wanted, exact=True)
            if isinstance(constant, ConstantList):
                return constant
            self._report(f"the vector does not fit: {constant}", position, f"pass {written_type(wanted)}")
            return None
        if isinstance(operand, ParameterValue):
            self.context.used(operand.name, (wanted,))
            if operand.type == wanted:
                return operand
            if operand.type == Scalar(Base.STRING):
                hint = f"compute the embedding before the call and pass {written_type(wanted)}"
                self._report("texts are not embedded here", position, hint)
                return None
        shown = "this" if isinstance(operand, Literal) else written_type(operand.type)
        self._report(f"`nearest` needs {written_type(wanted)}, not {shown}", position, "pass a Vector parameter")
        return None

    def _report(self, message: str, position: Position | None, hint: str) -> None:
        self.context.report("T15", message, position, hint)

    def fusion(self, fusion: Rrf) -> RankFusion | None:
        """Resolve `rrf`."""
        ranks = [self.rank(each) for each in fusion.ranks]
        first, second = ranks[0], ranks[1]
        if first is None or second is None:
            return None
        if fusion.k is not None and fusion.k < 1:
            self.context.report("T21", "the constant of `rrf` is at least 1", fusion.position, f"use {_RRF_K}")
            return None
        return RankFusion((first, second), fusion.k or _RRF_K)
