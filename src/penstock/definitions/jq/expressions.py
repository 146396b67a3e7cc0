"""jq expressions: compiled once, evaluated many times, always with the same result for the same input.

A program is first checked against the deny-list of `text`, then compiled by libjq and kept in a bounded cache. The
engine evaluates through the `Evaluator` protocol: in this process here, or with a time budget in `runtime.sandbox`.

Numbers: a plain path passes its value on untouched. Everything else goes through libjq, where numbers are doubles:
whole numbers come back as int (`1.0` as `1`), integers beyond 2^53 lose their last digits, NaN and infinities are
failures. Only the plain conditions of `conditions` are evaluated here, with libjq's results.

Threads: libjq's bindings give every evaluation its own interpreter state, from a pool of one per program. Concurrent
evaluations of one program are safe; the second one pays for another compilation (about a millisecond).
"""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Protocol

import jq

from penstock.base import limits
from penstock.base.encoding import SafeEncoder
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.agent_results import QUICK_PROGRAMS
from penstock.definitions.jq.bounds import has_linear_bound
from penstock.definitions.jq.conditions import Condition, condition_of
from penstock.definitions.jq.reads import Reads, project, reads_of
from penstock.definitions.jq.syntax import parse_program
from penstock.definitions.jq.text import (
    constant_is_too_large,
    forbidden_uses,
    formats_used,
    may_give_non_finite,
    path_of,
)
from penstock.definitions.schemas.compiled import CompiledSchema, Violation, apply_defaults, violations
from penstock.definitions.source.findings import suggestion

__all__ = [
    "Evaluated",
    "EvaluationFailed",
    "Evaluator",
    "Expression",
    "ExpressionProblem",
    "InProcessEvaluator",
    "NotAnExpression",
    "WouldWait",
    "compile_expression",
    "evaluate_expression",
    "evaluate_text",
    "input_text",
    "load_expression",
    "quick_value",
]

MESSAGE_CHARACTERS_MAX = 500
NOT_FINITE_MESSAGE = "the result contains a number that JSON cannot hold (not a number, or infinite)"
# The bindings turn NaN into null; writing the value and reading it back shows the difference. The empty lines end a
# comment that continues after a backslash.
NOT_FINITE_CHECK = f'(%s\n\n) | if . == (tojson | fromjson) then . else error("{NOT_FINITE_MESSAGE}") end'
# What the bindings return for infinities. They return a finite number of this size as int, so the two differ.
INFINITY = sys.float_info.max
INFINITY_TEXT = b"1.7976931348623157e308"
COMPILE_ERROR = re.compile(r"jq: error: (?P<message>.*?) at <top-level>, line (?P<line>\d+), column (?P<column>\d+)")
UNDEFINED = re.compile(r"(?P<name>[\w:]+)/(?P<arity>\d+) is not defined")
# What the token names of libjq's grammar mean to a reader.
GRAMMAR_WORDS = {
    "BINDING": "variable",
    "FIELD": "field",
    "FORMAT": "format",
    "IDENT": "name",
    "INVALID_CHARACTER": "character",
    "LITERAL": "number",
    "QQSTRING_START": "text",
}
FORMATS = ("base32", "base64", "base64d", "csv", "html", "json", "sh", "text", "tsv", "uri")
HINTS = (
    ("unexpected end of file", "something is missing at the end: a bracket, an `end` or a value after an operator"),
    ("INVALID_CHARACTER", 'texts need double quotes; "and" and "or" are written as words'),
    ("is not defined", "variables are bound with `… as $name | …`; the data is read with paths such as `.input.name`"),
    ("syntax error", "check brackets, quotes and operators near this place"),
)

encode: Final = SafeEncoder().encode


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled jq program; `bounded` means that its work is limited by the size of its input."""

    text: str
    bounded: bool
    # Only for `evaluate_expression`: the libjq program, its path if it is a plain path, what it reads, and how it is
    # evaluated without libjq. The program is `None` if it is compiled only when it is evaluated.
    program: Any = field(compare=False, repr=False)
    path: tuple[str, ...] | None = field(compare=False, repr=False)
    reads: Reads | None = field(compare=False, repr=False)
    condition: Condition | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ExpressionProblem:
    """Why a text is not a usable expression, in one line, and what to do about it."""

    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The result of an evaluation. It may share parts with the root and must not be changed."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class EvaluationFailed:
    """Why an evaluation has no result."""

    message: str


@dataclass(frozen=True, slots=True)
class NotAnExpression(EvaluationFailed):
    """A program that was compiled only when it was evaluated, and turned out to be invalid."""

    hint: str | None = None


class WouldWait(Exception):  # not an error: it says where the evaluation belongs
    """An evaluation may take long, and the caller cannot wait."""


class Evaluator(Protocol):
    """Evaluates the expressions and schemas of a document for the engine."""

    @property
    def prompt(self) -> "Evaluator":
        """The evaluator that never waits: it raises `WouldWait` instead. Often the evaluator itself."""
        ...

    def evaluate(self, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        """Evaluate an expression on a root value."""
        ...

    def violations(self, schema: CompiledSchema, value: JsonValue) -> tuple[Violation, ...]:
        """List the ways in which a value does not fit a schema."""
        ...

    def with_defaults(self, schema: JsonObject, value: JsonValue) -> JsonValue:
        """Return a value with the defaults of a schema filled in."""
        ...


class InProcessEvaluator:
    """Evaluates in this process, without a time limit: for trusted definitions, tests and simulations."""

    @property
    def prompt(self) -> "Evaluator":
        """The evaluator itself."""
        return self

    def evaluate(self, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        """Evaluate an expression on a root value."""
        return evaluate_expression(expression, root)

    def violations(self, schema: CompiledSchema, value: JsonValue) -> tuple[Violation, ...]:
        """List the ways in which a value does not fit a schema."""
        return violations(schema, value)

    def with_defaults(self, schema: JsonObject, value: JsonValue) -> JsonValue:
        """Return a value with the defaults of a schema filled in."""
        return apply_defaults(schema, value)


def load_expression(text: str) -> Expression | ExpressionProblem:
    """Like `compile_expression`, but a long program is compiled only where it is evaluated, in a worker.

    Use it for programs that were checked before, and for those that callers send. A mistake or a forbidden call in a
    long program then shows when it is evaluated. Nothing here takes longer than one pass over its characters.
    """
    if len(text) <= limits.JQ_IN_PROCESS_CHARACTERS_MAX:
        return compile_expression(text)
    return _unreadable(text) or Expression(text, False, None, None, None)


@lru_cache(maxsize=limits.JQ_CACHE_ENTRIES_MAX)
def compile_expression(text: str) -> Expression | ExpressionProblem:
    """Check and compile a jq program; the same text gives the same object while it is in the cache."""
    problem = _refusal(text)
    if problem is not None:
        return problem
    try:
        program = jq.compile(text)
    except ValueError as error:
        return _compile_problem(text, str(error))
    unknown = next((name for name in formats_used(text) if not _is_format(name)), None)
    if unknown is not None:
        return ExpressionProblem(f"jq has no format `@{unknown}`", suggestion(unknown, FORMATS))
    tree = parse_program(text)
    if tree is None:
        return Expression(text, False, jq.compile(NOT_FINITE_CHECK % text), None, None)
    if may_give_non_finite(tree):
        program = jq.compile(NOT_FINITE_CHECK % text)
    bounded = has_linear_bound(tree) or text in QUICK_PROGRAMS
    return Expression(text, bounded, program, path_of(tree), reads_of(tree), condition_of(tree))


def evaluate_expression(expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
    """Evaluate a compiled program: no output gives null, one output gives its value, several give a list of them."""
    found = quick_value(expression, root)
    if found is not None:
        return found
    text = input_text(expression, root)
    return text if isinstance(text, EvaluationFailed) else evaluate_text(expression, text)


def quick_value(expression: Expression, root: JsonValue) -> Evaluated | None:
    """The result of a plain path or condition, without libjq; None if libjq has to evaluate it."""
    if expression.path is None:
        verdict = None if expression.condition is None else expression.condition(root)
        return None if verdict is None else Evaluated(verdict)
    value = root
    for name in expression.path:
        if not isinstance(value, dict):
            # Null, or an error in libjq's wording.
            return None
        value = value.get(name)
    return Evaluated(value)


def input_text(expression: Expression, root: JsonValue) -> str | EvaluationFailed:
    """Return the parts of the root that the program reads, as JSON text."""
    try:
        return encode(root if expression.reads is None else project(root, expression.reads)).decode()
    except RecursionError:
        return EvaluationFailed("the data is nested too deeply to be evaluated")
    except UnicodeEncodeError:
        return EvaluationFailed("the data contains text that is not Unicode")


def evaluate_text(expression: Expression, text: str) -> Evaluated | EvaluationFailed:
    """Evaluate a program on a text made by `input_text`."""
    if expression.program is None:
        compiled = compile_expression(expression.text)
        if isinstance(compiled, ExpressionProblem):
            return NotAnExpression(compiled.message, compiled.hint)
        return evaluate_text(compiled, text)
    try:
        return _result(list(islice(expression.program.input_text(text), limits.JQ_OUTPUTS_MAX + 1)))
    except RecursionError:
        return EvaluationFailed("the result is nested too deeply")
    except ValueError as error:
        return EvaluationFailed(_shortened(str(error)))


def _result(outputs: list[Any]) -> Evaluated | EvaluationFailed:
    if not outputs:
        return Evaluated(None)
    if len(outputs) > limits.JQ_OUTPUTS_MAX:
        return EvaluationFailed(f"the expression has more than {limits.JQ_OUTPUTS_MAX:,} outputs; use `limit`")
    value = outputs[0] if len(outputs) == 1 else outputs
    if isinstance(value, str | list | dict):
        text = encode(value)
        if len(text) > limits.JQ_OUTPUT_BYTES_MAX:
            return EvaluationFailed(f"the result is larger than {limits.JQ_OUTPUT_BYTES_MAX:,} bytes")
        if INFINITY_TEXT in text and _has_infinity(value):
            return EvaluationFailed(NOT_FINITE_MESSAGE)
    elif isinstance(value, float) and _has_infinity(value):
        return EvaluationFailed(NOT_FINITE_MESSAGE)
    return Evaluated(value)


def _has_infinity(value: JsonValue) -> bool:
    if isinstance(value, float):
        return abs(value) == INFINITY
    if isinstance(value, dict):
        return any(_has_infinity(member) for member in value.values())
    return isinstance(value, list) and any(_has_infinity(item) for item in value)


def _unreadable(text: str) -> ExpressionProblem | None:
    if not text.strip():
        return ExpressionProblem("the expression is empty", "write `.` for the whole input")
    if len(text) > limits.JQ_PROGRAM_CHARACTERS_MAX:
        return ExpressionProblem(
            f"the expression is longer than {limits.JQ_PROGRAM_CHARACTERS_MAX:,} characters",
            "move the work into a step",
        )
    if "\0" in text or not _is_unicode(text):
        return ExpressionProblem("the expression contains a character that jq cannot read", "remove or escape it")
    return None


def _refusal(text: str) -> ExpressionProblem | None:
    unreadable = _unreadable(text)
    if unreadable is not None:
        return unreadable
    uses = forbidden_uses(text)
    if uses:
        reason, _, hint = uses[0].reason.partition("; ")
        names = " and ".join(f"`{name}`" for name in dict.fromkeys(use.name for use in uses))
        verb = "is" if len({use.name for use in uses}) == 1 else "are"
        return ExpressionProblem(f"{names} {verb} not allowed in an expression: {reason}", hint or None)
    if constant_is_too_large(text):
        return ExpressionProblem(
            f"the expression multiplies a text to more than {limits.JQ_CONSTANT_CHARACTERS_MAX:,} characters",
            "repeat it less often",
        )
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _compile_problem(text: str, errors: str) -> ExpressionProblem:
    """The first of libjq's errors in one line, with a hint for common mistakes."""
    match = COMPILE_ERROR.search(errors)
    if match is None:
        first = errors.removeprefix("jq: error: ").partition("\n")[0]
        return ExpressionProblem(_shortened(first or "the expression is not valid jq"))
    message = match["message"].partition(", expecting ")[0]
    for word, meaning in GRAMMAR_WORDS.items():
        message = message.replace(word, meaning)
    place = f"line {match['line']}, column {match['column']}" if "\n" in text else f"column {match['column']}"
    return ExpressionProblem(_shortened(f"{message} ({place})"), _hint(text, match))


def _hint(text: str, match: re.Match[str]) -> str | None:
    undefined = UNDEFINED.search(match["message"])
    if undefined is not None:
        return _undefined_hint(text, undefined["name"])
    return next((hint for words, hint in HINTS if words in match["message"]), None)


def _undefined_hint(text: str, name: str) -> str | None:
    if re.search(rf"\.[\w.]*\w-{re.escape(name)}\b", text):
        return f'a name with `-` needs brackets: `.["…-{name}"]`'
    arities = sorted(int(arity) for known, arity in _builtins() if known == name)
    if arities:
        return f"`{name}` takes {' or '.join(map(str, arities))} argument{'' if arities == [1] else 's'}"
    guess = suggestion(name, {known for known, _ in _builtins()})
    return guess or f'write `.{name}` for a field, or `"{name}"` for a text'


@lru_cache(maxsize=64)
def _is_format(name: str) -> bool:
    # libjq notices an unknown format only when it is used.
    try:
        jq.compile(f"@{name}").input_text('""').first()
    except ValueError as error:
        return "is not a valid format" not in str(error)
    return True


@lru_cache(maxsize=1)
def _builtins() -> tuple[tuple[str, str], ...]:
    names: Iterable[str] = jq.compile("builtins").input_text("null").first()
    return tuple((name, arity) for name, _, arity in (entry.partition("/") for entry in names))


def _shortened(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= MESSAGE_CHARACTERS_MAX else line[: MESSAGE_CHARACTERS_MAX - 1] + "…"
