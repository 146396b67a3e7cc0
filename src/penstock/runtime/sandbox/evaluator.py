"""Expressions and schemas with a budget of time and memory: what is quick here, all else in a process of its own.

The engine asks for values through the `Evaluator` protocol and cannot tell where they come from. Neither libjq nor the
validator can be interrupted, so what might not end goes to a worker; when its time is over the worker is killed and the
next request starts another one.

Above it: `Decider`, queries, webhooks. Below it: `pool`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import msgspec

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.expressions import (
    Evaluated,
    EvaluationFailed,
    Expression,
    NotAnExpression,
    WouldWait,
    evaluate_text,
    input_text,
    path_value,
)
from penstock.definitions.schemas.compiled import CompiledSchema, Violation, apply_defaults, is_prompt, violations
from penstock.runtime.sandbox.pool import WorkerDied, WorkerPool

__all__ = ["SandboxedEvaluator"]

DIED = "the expression needs too much memory or nests too deeply; its evaluation was stopped"
UNCHECKED = "cannot be checked within {:g} s and the memory that there is; send less, or simplify the schema"

_JQ, _SCHEMA = b'"jq"', b'"schema"'
_encode = msgspec.json.Encoder().encode


class SandboxedEvaluator:
    """An `Evaluator` that never blocks much longer than its time budget; safe to use from several threads."""

    def __init__(self, *, time_budget_ms: int = limits.JQ_TIME_BUDGET_MS) -> None:
        self.pool = WorkerPool(workers_max=limits.JQ_WORKERS_MAX, time_budget_ms=time_budget_ms)
        self.prompt = _PromptEvaluator()
        """The same for whoever cannot wait: it raises `WouldWait` where a worker is needed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def evaluate(self, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        """Evaluate an expression on a root value."""
        try:
            return self.prompt.evaluate(expression, root)
        except _NeedsWorker as needed:
            text = needed.text
        try:
            compiling_ms = limits.JQ_COMPILE_MS_MAX if expression.program is None else 0
            reply = self.pool.exchange(_JQ, _encode(expression.text), text, extra_ms=compiling_ms)
        except TimeoutError:
            seconds = self.pool.time_budget_ms / 1000
            return EvaluationFailed(f"the expression took longer than {seconds:g} s and was stopped; make it do less")
        except WorkerDied:
            return EvaluationFailed(DIED)
        if "problem" in reply:
            return NotAnExpression(str(reply["error"]), reply.get("hint"))
        return Evaluated(reply["value"]) if "value" in reply else EvaluationFailed(str(reply.get("error")))

    def violations(self, schema: CompiledSchema, value: JsonValue) -> tuple[Violation, ...]:
        """Every way in which a value does not fit a schema; what cannot be checked does not fit."""
        try:
            return self.prompt.violations(schema, value)
        except _NeedsWorker as needed:
            text = needed.text
        try:
            reply = self.pool.exchange(_SCHEMA, schema.text, text)
        except (TimeoutError, WorkerDied):
            return (Violation("", "schema", UNCHECKED.format(self.pool.time_budget_ms / 1000)),)
        if "error" in reply:
            return (Violation("", "schema", str(reply["error"])),)
        return msgspec.convert(reply["violations"], tuple[Violation, ...])

    def with_defaults(self, schema: JsonObject, value: JsonValue) -> JsonValue:
        """A value with the defaults of a schema filled in."""
        return apply_defaults(schema, value)

    def close(self) -> None:
        """End the workers; a later evaluation starts a new one."""
        self.pool.close()


class _NeedsWorker(WouldWait):
    """A program that might not end, or a value that is large: both belong into a worker."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self.text = text


class _PromptEvaluator:
    """Evaluates what is known to be quick."""

    @property
    def prompt(self) -> _PromptEvaluator:
        """The evaluator itself."""
        return self

    def evaluate(self, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        """Evaluate an expression on a root value; raises `WouldWait` for one that may take its time."""
        found = path_value(expression, root)
        if found is not None:
            return found
        text = input_text(expression, root)
        if isinstance(text, EvaluationFailed):
            return text
        if expression.bounded and len(text) <= limits.JQ_IN_PROCESS_BYTES_MAX:
            return evaluate_text(expression, text)
        raise _NeedsWorker(text.encode())

    def violations(self, schema: CompiledSchema, value: JsonValue) -> tuple[Violation, ...]:
        """Every way in which a value does not fit; raises `WouldWait` where finding out may take its time."""
        try:
            text = _encode(value)
        except (UnicodeEncodeError, RecursionError):
            return violations(schema, value)  # which cannot be given to the validator either
        if is_prompt(schema, value, len(text)):
            return violations(schema, value)
        raise _NeedsWorker(text)

    def with_defaults(self, schema: JsonObject, value: JsonValue) -> JsonValue:
        """A value with the defaults of a schema filled in; raises `WouldWait` for a large one."""
        if isinstance(value, list | dict) and len(text := _encode(value)) > limits.SCHEMA_IN_PROCESS_BYTES_MAX:
            raise _NeedsWorker(text)
        return apply_defaults(schema, value)
