"""jq expressions: compiled once, evaluated many times, always with the same answer for the same input.

Skeleton: the final version adds the deny-list, the fast path for plain paths and the limits.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import jq

from penstock.base import limits
from penstock.base.json import JsonValue

__all__ = [
    "Evaluated",
    "EvaluationFailed",
    "Evaluator",
    "Expression",
    "ExpressionProblem",
    "InProcessEvaluator",
    "compile_expression",
    "evaluate_expression",
]


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled jq program."""

    text: str
    bounded: bool
    program: Any = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ExpressionProblem:
    """Why a text is not a usable expression."""

    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an expression gave."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class EvaluationFailed:
    """Why an expression gave nothing."""

    message: str


class Evaluator(Protocol):
    """Whoever evaluates expressions."""

    def evaluate(self, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        """Evaluate an expression on a root value."""


class InProcessEvaluator:
    """Evaluates in this process."""

    def evaluate(self, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        """Evaluate an expression on a root value."""
        return evaluate_expression(expression, root)


@lru_cache(maxsize=limits.JQ_CACHE_ENTRIES_MAX)
def compile_expression(text: str) -> Expression | ExpressionProblem:
    """Compile a jq program."""
    try:
        return Expression(text, False, jq.compile(text))
    except ValueError as error:
        return ExpressionProblem(str(error).splitlines()[0])


def evaluate_expression(expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
    """Evaluate a compiled program on a root value."""
    try:
        outputs = expression.program.input_value(root).all()
    except ValueError as error:
        return EvaluationFailed(str(error))
    return Evaluated(None if not outputs else outputs[0] if len(outputs) == 1 else outputs)
