"""The process that evaluates expressions which might not end; started and killed by `runtime.guarded_jq`.

Reads one request per line, `[program, input]`, and writes one reply per line, `{"value": …}` or `{"error": …}`. It
runs with an empty environment and limited memory, ends itself when an evaluation takes far too long, and ends when its
input closes, so it cannot outlive the server by more than one evaluation.
"""

import signal
import sys
from contextlib import suppress
from typing import BinaryIO

import msgspec

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.definitions.expressions import Evaluated, ExpressionProblem, compile_expression, evaluate_text

if sys.platform != "win32":
    import resource

__all__ = ["READY", "main", "serve"]

READY = b"ready\n"
# The server kills the worker when the budget is over; this is for a worker whose server has died.
PATIENCE = 5

Request = tuple[str, msgspec.Raw]


def main() -> None:
    """Limit this process, then serve until the input closes."""
    if sys.platform != "win32":
        # An interrupt from the terminal goes to the whole group; the server decides when its workers end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # Some systems do not know this limit; the time budget still holds.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (limits.JQ_WORKER_MEMORY_BYTES_MAX,) * 2)
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    serve(sys.stdin.buffer, sys.stdout.buffer)


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests line by line until there are no more."""
    for line in requests:
        _alarm(limits.JQ_TIME_BUDGET_MS * PATIENCE)
        reply = _answer(line)
        _alarm(0)
        replies.write(msgspec.json.encode(reply) + b"\n")
        replies.flush()


def _answer(line: bytes) -> JsonObject:
    program, root = msgspec.json.decode(line, type=Request)
    expression = compile_expression(program)
    if isinstance(expression, ExpressionProblem):
        return {"error": expression.message}
    try:
        outcome = evaluate_text(expression, bytes(root).decode())
    except MemoryError:
        return {"error": "the expression needs too much memory"}
    return {"value": outcome.value} if isinstance(outcome, Evaluated) else {"error": outcome.message}


def _alarm(delay_ms: int) -> None:
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, delay_ms / 1000)


if __name__ == "__main__":
    main()
