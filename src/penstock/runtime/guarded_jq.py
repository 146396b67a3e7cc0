"""jq with a time and memory budget: bounded programs here, all others in a process that can be killed.

The engine asks for values through the `Evaluator` protocol and cannot tell where they come from. libjq can neither be
interrupted nor limited from outside, so a program that might not end runs in a `jq_worker`; when its time is over the
worker is killed and the next evaluation starts another one.
"""

import os
import selectors
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Any, Self

import msgspec

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.definitions.expressions import (
    Evaluated,
    EvaluationFailed,
    Expression,
    evaluate_text,
    input_text,
    path_value,
)
from penstock.runtime import jq_worker

__all__ = ["GuardedEvaluator"]

CHUNK_BYTES = 65_536
DIED = "the expression needs too much memory or nests too deeply; its evaluation was stopped"


class GuardedEvaluator:
    """An `Evaluator` that never blocks much longer than its time budget; safe to use from several threads."""

    def __init__(self, *, time_budget_ms: int = limits.JQ_TIME_BUDGET_MS) -> None:
        self._time_budget_ms = time_budget_ms
        self._lock = threading.Lock()
        self._worker: _Worker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def evaluate(self, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        """Evaluate an expression on a root value."""
        found = path_value(expression, root)
        if found is not None:
            return found
        text = input_text(expression, root)
        if isinstance(text, EvaluationFailed):
            return text
        if expression.bounded and len(text) <= limits.JQ_IN_PROCESS_BYTES_MAX:
            return evaluate_text(expression, text)
        with self._lock:
            return self._evaluate_in_worker(expression.text, text)

    def close(self) -> None:
        """End the worker; a later evaluation starts a new one."""
        with self._lock:
            self._drop()

    def _evaluate_in_worker(self, program: str, text: str) -> Evaluated | EvaluationFailed:
        request = b"[" + msgspec.json.encode(program) + b"," + text.encode() + b"]\n"
        try:
            worker = self._ready_worker()
            reply = worker.exchange(request, self._time_budget_ms)
        except TimeoutError:
            self._drop()
            seconds = self._time_budget_ms / 1000
            return EvaluationFailed(f"the expression took longer than {seconds:g} s and was stopped; make it do less")
        except (OSError, EOFError):
            self._drop()
            return EvaluationFailed(DIED)
        return Evaluated(reply["value"]) if "value" in reply else EvaluationFailed(str(reply.get("error")))

    def _ready_worker(self) -> "_Worker":
        # After a fork both processes would talk to the same worker.
        if self._worker is not None and self._worker.owner != os.getpid():
            self._worker = None
        if self._worker is None:
            self._worker = _Worker()
            self._worker.wait_until_ready()
        return self._worker

    def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None and worker.owner == os.getpid():
            worker.kill()


class _Worker:
    """One worker process and the two pipes to it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", jq_worker.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            # Nothing of the server's environment: expressions must not depend on it, or see it.
            env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TZ": "UTC", "LC_ALL": "C.UTF-8"},
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise OSError("the jq worker has no pipes")
        self._input = self._process.stdin.fileno()
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        self._writable = _selector(self._input, selectors.EVENT_WRITE)
        self._readable = _selector(self._output, selectors.EVENT_READ)

    def wait_until_ready(self) -> None:
        self._receive(time.monotonic() + limits.JQ_WORKER_START_MS_MAX / 1000)

    def exchange(self, request: bytes, time_budget_ms: int) -> dict[str, Any]:
        """Send a request and wait for its reply; raises TimeoutError, or EOFError when the worker died."""
        deadline = time.monotonic() + time_budget_ms / 1000
        self._send(request, deadline)
        return msgspec.json.decode(self._receive(deadline), type=dict[str, Any])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._writable.close()
        self._readable.close()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _send(self, request: bytes, deadline: float) -> None:
        rest = memoryview(request)
        while rest:
            try:
                rest = rest[os.write(self._input, rest) :]
            except BlockingIOError:
                _wait(self._writable, deadline)

    def _receive(self, deadline: float) -> bytes:
        """The next line; the worker writes nothing after it until it is asked again."""
        chunks: list[bytes] = []
        while not chunks or not chunks[-1].endswith(b"\n"):
            _wait(self._readable, deadline)
            chunk = os.read(self._output, CHUNK_BYTES)
            if not chunk:
                raise EOFError
            chunks.append(chunk)
        return b"".join(chunks)


def _selector(descriptor: int, events: int) -> selectors.BaseSelector:
    selector = selectors.DefaultSelector()
    selector.register(descriptor, events)
    return selector


def _wait(selector: selectors.BaseSelector, deadline: float) -> None:
    if not selector.select(max(0.0, deadline - time.monotonic())):
        raise TimeoutError
