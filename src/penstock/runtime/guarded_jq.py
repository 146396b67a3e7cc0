"""jq with a time and memory budget: bounded programs here, all others in a process that can be killed.

The engine asks for values through the `Evaluator` protocol and cannot tell where they come from. libjq can neither be
interrupted nor limited from outside, so a program that might not end runs in a `jq_worker`; when its time is over the
worker is killed and the next evaluation starts another one.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
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
from penstock.runtime.deciding import WouldWait

__all__ = ["GuardedEvaluator"]

CHUNK_BYTES = 65_536
DIED = "the expression needs too much memory or nests too deeply; its evaluation was stopped"


class GuardedEvaluator:
    """An `Evaluator` that never blocks much longer than its time budget; safe to use from several threads."""

    def __init__(self, *, time_budget_ms: int = limits.JQ_TIME_BUDGET_MS) -> None:
        self._time_budget_ms = time_budget_ms
        self._places = threading.BoundedSemaphore(limits.JQ_WORKERS_MAX)
        self._idle: deque[_Worker] = deque()
        self._closed = 0
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
        with self._places:
            return self._evaluate_in_worker(expression.text, text)

    def close(self) -> None:
        """End the workers; a later evaluation starts a new one."""
        self._closed += 1
        with suppress(IndexError):
            while True:
                _end(self._idle.pop())

    def _evaluate_in_worker(self, program: str, text: str) -> Evaluated | EvaluationFailed:
        request = b"[" + msgspec.json.encode(program) + b"," + text.encode() + b"]\n"
        closed, worker = self._closed, None
        try:
            worker = self._ready_worker()
            reply = worker.exchange(request, self._time_budget_ms)
        except TimeoutError:
            _end(worker)
            seconds = self._time_budget_ms / 1000
            return EvaluationFailed(f"the expression took longer than {seconds:g} s and was stopped; make it do less")
        except (OSError, EOFError):
            _end(worker)
            return EvaluationFailed(DIED)
        self._idle.append(worker)
        if self._closed != closed:
            self.close()
        return Evaluated(reply["value"]) if "value" in reply else EvaluationFailed(str(reply.get("error")))

    def _ready_worker(self) -> _Worker:
        with suppress(IndexError):
            while True:
                worker = self._idle.pop()
                # After a fork both processes would talk to the same worker.
                if worker.owner == os.getpid():
                    return worker
        worker = _Worker()
        try:
            worker.wait_until_ready()
        except BaseException:
            worker.kill()
            raise
        return worker


class _NeedsWorker(WouldWait):
    """A program that might not end, or a root that is large: both belong into a worker."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class _PromptEvaluator:
    """Evaluates what is known to be quick."""

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
        raise _NeedsWorker(text)


def _end(worker: _Worker | None) -> None:
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
