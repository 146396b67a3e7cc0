"""The worker process for work that might not end; started and killed by `pool`.

It reads one request per line, `[kind, …]`, and writes one reply per line. The replies are: for jq `{"value": …}`,
`{"error": …}` or, if the text is not an expression, `{"problem": …}`; for a value and its schema `{"violations": […]}`;
for a document `{"findings": […]}`; for a schema alone `{"problem": …}`; for two documents their differences.

It runs with an empty environment and limited memory. It exits when a request computes for far too long and when its
input closes, so it cannot outlive the server by more than one request.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.definitions.jq.expressions import Evaluated, ExpressionProblem, compile_expression, evaluate_text
from penstock.definitions.schemas.compiled import SchemaProblem, compile_schema, violations

if TYPE_CHECKING:
    from penstock.definitions import validate
    from penstock.definitions.diff import compare
else:
    compare = lazy_import("penstock.definitions.diff.compare")
    validate = lazy_import("penstock.definitions.validate")

if sys.platform != "win32":
    import resource

__all__ = ["READY", "main", "serve"]

READY = b"ready\n"
# The server kills a worker whose time is up. This is for a worker whose server has died. Processor time counts: nothing
# that a request does waits for anything else.
PATIENCE = 5

Request = list[msgspec.Raw]


def main() -> None:
    """Limit this process, then serve until the input closes."""
    if sys.platform != "win32":
        # An interrupt from the terminal goes to the whole process group; the server decides when its workers end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # Some systems do not have this limit; the time budget still applies.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (limits.JQ_WORKER_MEMORY_BYTES_MAX,) * 2)
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    serve(sys.stdin.buffer, sys.stdout.buffer)


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests line by line until the input ends."""
    for line in requests:
        kind, *parts = msgspec.json.decode(line, type=Request)
        named = msgspec.json.decode(kind, type=str)
        budget_ms = limits.JQ_TIME_BUDGET_MS if named in _OF_RUNS else limits.DOCUMENT_CHECK_MS_MAX
        _limit_processor_time(budget_ms * PATIENCE)
        try:
            reply = encode_bytes(_ANSWERS[named](*parts))
        except MemoryError:
            reply = encode_bytes({"error": "it needs too much memory"})
        _limit_processor_time(0)
        replies.write(reply + b"\n")
        replies.flush()


def _jq(program: msgspec.Raw, root: msgspec.Raw) -> JsonObject:
    expression = compile_expression(msgspec.json.decode(program, type=str))
    if isinstance(expression, ExpressionProblem):
        return {"error": expression.message, "problem": True, "hint": expression.hint}
    outcome = evaluate_text(expression, bytes(root).decode())
    return {"value": outcome.value} if isinstance(outcome, Evaluated) else {"error": outcome.message}


def _schema(schema: msgspec.Raw, value: msgspec.Raw) -> JsonObject:
    compiled = compile_schema(msgspec.json.decode(schema))
    if isinstance(compiled, SchemaProblem):
        return {"error": f"its schema cannot be used: {compiled.message}"}
    found = violations(compiled, msgspec.json.decode(value))
    return {"violations": msgspec.to_builtins(found)}


def _document(document: msgspec.Raw) -> JsonObject:
    return {"findings": msgspec.to_builtins(validate.validate_document(msgspec.json.decode(document)))}


def _source(text: msgspec.Raw) -> JsonObject:
    checked = validate.check_source(msgspec.json.decode(text, type=str))
    return {"findings": msgspec.to_builtins(checked.findings), "document": checked.document}


def _difference(before: msgspec.Raw, after: msgspec.Raw) -> JsonObject:
    return compare.diff_documents(msgspec.json.decode(before), msgspec.json.decode(after)).to_json()


def _schema_problem(schema: msgspec.Raw) -> JsonObject:
    problem = compile_schema(msgspec.json.decode(schema))
    return {"problem": msgspec.to_builtins(problem) if isinstance(problem, SchemaProblem) else None}


_OF_RUNS = frozenset({"jq", "schema"})
_ANSWERS: dict[str, Callable[..., JsonObject]] = {
    "jq": _jq,
    "schema": _schema,
    "document": _document,
    "source": _source,
    "difference": _difference,
    "schema_problem": _schema_problem,
}


def _limit_processor_time(budget_ms: int) -> None:
    """End this process if it computes for longer; 0 takes the limit away."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, budget_ms / 1000)


if __name__ == "__main__":
    main()
