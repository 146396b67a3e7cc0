"""Evaluates expressions and schemas with a budget of time and memory: quick ones here, all others in a worker process.

The engine uses the `Evaluator` protocol and cannot tell where the values come from. Neither libjq nor the validator can
be interrupted, so anything that might not end goes to a worker. A worker that exceeds its time is killed, and the next
request starts another one.

Above it: `Decider`, queries, webhooks. Below it: `pool`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import msgspec

from penstock.base import limits
from penstock.base.encoding import SafeEncoder
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.expressions import (
    Evaluated,
    EvaluationFailed,
    Expression,
    NotAnExpression,
    WouldWait,
    evaluate_text,
    input_text,
    quick_value,
)
from penstock.definitions.schemas.compiled import CompiledSchema, Violation, apply_defaults, is_prompt, violations
from penstock.runtime.sandbox.pool import WorkerDied, WorkerPool

__all__ = ["SandboxedEvaluator"]

DIED = "the expression needs too much memory or nests too deeply; its evaluation was stopped"
UNCHECKED = "cannot be checked within {:g} s and the available memory; send less, or simplify the schema"

_JQ, _SCHEMA = b'"jq"', b'"schema"'
_encode = SafeEncoder().encode


class SandboxedEvaluator:
    """An `Evaluator` that never blocks much longer than its time budget. It is thread-safe."""

    def __init__(self, *, time_budget_ms: int | None = None) -> None:
        budget_ms = limits.JQ_TIME_BUDGET_MS if time_budget_ms is None else time_budget_ms
        self.pool = WorkerPool(workers_max=limits.JQ_WORKERS_MAX, time_budget_ms=budget_ms)
        self.prompt = _PromptEvaluator()
        """An evaluator for callers that cannot wait: it raises `WouldWait` if a worker is needed."""

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
        """All violations of a schema. A value that cannot be checked counts as a violation."""
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
        """End the workers. A later evaluation starts a new one."""
        self.pool.close()


class _NeedsWorker(WouldWait):
    """The program might not end, or the value is large: a worker has to evaluate it."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self.text = text


class _PromptEvaluator:
    """Evaluates only what is known to be quick."""

    @property
    def prompt(self) -> _PromptEvaluator:
        """The evaluator itself."""
        return self

    def evaluate(self, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        """Evaluate an expression on a root value. Raises `WouldWait` if that may take long."""
        found = quick_value(expression, root)
        if found is not None:
            return found
        text = input_text(expression, root)
        if isinstance(text, EvaluationFailed):
            return text
        if expression.bounded and len(text) <= limits.JQ_IN_PROCESS_BYTES_MAX:
            return evaluate_text(expression, text)
        raise _NeedsWorker(text.encode())

    def violations(self, schema: CompiledSchema, value: JsonValue) -> tuple[Violation, ...]:
        """All violations of a schema. Raises `WouldWait` if finding them may take long."""
        try:
            text = _encode(value)
        except (UnicodeEncodeError, RecursionError):
            return violations(schema, value)  # a worker could not validate it either
        if is_prompt(schema, value, len(text)):
            return violations(schema, value)
        raise _NeedsWorker(text)

    def with_defaults(self, schema: JsonObject, value: JsonValue) -> JsonValue:
        """A value with the defaults of a schema filled in. Raises `WouldWait` for a large value."""
        if isinstance(value, list | dict) and len(text := _encode(value)) > limits.SCHEMA_IN_PROCESS_BYTES_MAX:
            raise _NeedsWorker(text)
        return apply_defaults(schema, value)
