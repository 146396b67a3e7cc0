"""Worker processes that answer requests within a time limit, or are killed.

The limit is one of processor time: on a machine whose cores are busy, a small request takes long by the clock and is
not at fault. By the clock a worker gets several times as much. Where the system does not tell the processor time of
another process, the clock alone counts.

Above it: the evaluator and the document checks, each with a pool of its own. Below it: `worker`, as a process.
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
from typing import Any

import msgspec

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.runtime.sandbox import worker as worker_module

__all__ = ["WorkerDied", "WorkerPool"]

CHUNK_BYTES = 65_536
# A process that has used up almost all of its time and gets no processor is not asked all the time.
_ASKED_AGAIN_SECONDS = 0.01


class WorkerDied(Exception):  # not one of our errors: the request was too much for its process
    """The worker died during a request, most likely because its memory is limited."""


class WorkerPool:
    """Sends requests to workers and returns their replies. It is thread-safe."""

    def __init__(self, *, workers_max: int, time_budget_ms: int) -> None:
        self.time_budget_ms = time_budget_ms
        self._places = threading.BoundedSemaphore(workers_max)
        self.idle: deque[Worker] = deque()
        self._busy: set[Worker] = set()
        self._closed = 0

    def exchange(self, *parts: bytes, extra_ms: int = 0) -> dict[str, Any]:
        """Send the parts of a request, each as JSON, and return the reply if the time budget plus `extra_ms` suffices.

        Raises TimeoutError or `WorkerDied`. If the pool was closed in the meantime it raises `Unavailable`, so that a
        failure caused by the shutdown does not count as the outcome.
        """
        request = b"[" + b",".join(parts) + b"]\n"
        with self._places:
            closed, worker = self._closed, None
            try:
                worker = self._ready_worker()
                reply = worker.exchange(request, self.time_budget_ms + extra_ms)
            except (OSError, EOFError) as error:
                _end(worker)
                if self._closed != closed:
                    raise Unavailable(
                        "SERVER_STOPPING", "the server is stopping", "send the call again after the restart"
                    ) from None
                if isinstance(error, TimeoutError):
                    raise
                raise WorkerDied from None
            finally:
                if worker is not None:
                    self._busy.discard(worker)
            self.idle.append(worker)
            if self._closed != closed:
                self.close()
            return reply

    def close(self) -> None:
        """End the workers, including busy ones. A later request starts a new one."""
        self._closed += 1
        for worker in list(self._busy):
            worker.interrupt()
        with suppress(IndexError):
            while True:
                _end(self.idle.pop())

    def _ready_worker(self) -> Worker:
        with suppress(IndexError):
            while True:
                worker = self.idle.pop()
                # After a fork, both processes would talk to the same worker.
                if worker.owner == os.getpid():
                    self._busy.add(worker)
                    return worker
        worker = Worker()
        self._busy.add(worker)
        try:
            worker.wait_until_ready()
        except BaseException:
            self._busy.discard(worker)
            worker.kill()
            raise
        return worker


def _end(worker: Worker | None) -> None:
    if worker is not None and worker.owner == os.getpid():
        worker.kill()


class Worker:
    """One worker process and the two pipes to it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", worker_module.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            # Not the server's environment: results must not depend on it, and workers must not see it.
            env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TZ": "UTC", "LC_ALL": "C.UTF-8"},
        )
        if self.process.stdin is None or self.process.stdout is None:
            raise OSError("the worker has no pipes")
        self._input = self.process.stdin.fileno()
        self._output = self.process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        self._writable = _selector(self._input, selectors.EVENT_WRITE)
        self._readable = _selector(self._output, selectors.EVENT_READ)

    def wait_until_ready(self) -> None:
        """Wait for the worker's first message. Raises TimeoutError or EOFError."""
        self._receive(Allowance(self.process.pid, limits.JQ_WORKER_START_MS_MAX))

    def exchange(self, request: bytes, time_budget_ms: int) -> dict[str, Any]:
        """Send a request and wait for its reply. Raises TimeoutError, or EOFError if the worker died."""
        allowance = Allowance(self.process.pid, time_budget_ms)
        self._send(request, allowance)
        return msgspec.json.decode(self._receive(allowance), type=dict[str, Any])

    def interrupt(self) -> None:
        """Kill the process. A thread that waits for it sees that it died."""
        if self.owner == os.getpid():
            self.process.kill()

    def kill(self) -> None:
        """Kill the process and close the pipes."""
        self.process.kill()
        self.process.wait()
        self._writable.close()
        self._readable.close()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _send(self, request: bytes, allowance: Allowance) -> None:
        rest = memoryview(request)
        while rest:
            try:
                rest = rest[os.write(self._input, rest) :]
            except BlockingIOError:
                _wait(self._writable, allowance)

    def _receive(self, allowance: Allowance) -> bytes:
        """The next line. The worker writes nothing after it until the next request."""
        chunks: list[bytes] = []
        while not chunks or not chunks[-1].endswith(b"\n"):
            _wait(self._readable, allowance)
            chunk = os.read(self._output, CHUNK_BYTES)
            if not chunk:
                raise EOFError
            chunks.append(chunk)
        return b"".join(chunks)


def _selector(descriptor: int, events: int) -> selectors.BaseSelector:
    selector = selectors.DefaultSelector()
    selector.register(descriptor, events)
    return selector


def _wait(selector: selectors.BaseSelector, allowance: Allowance) -> None:
    while not selector.select(allowance.seconds_left()):
        if allowance.seconds_left() <= 0:
            raise TimeoutError


class Allowance:
    """The time that a process may take from now on: some of a processor, and several times as much by the clock."""

    def __init__(self, pid: int, budget_ms: int) -> None:
        self._pid = pid
        self._began = time.monotonic()
        self._used_before = _processor_seconds(pid)
        self._budget_seconds = budget_ms / 1000

    def seconds_left(self) -> float:
        """How long to wait before asking again; zero if the time is used up."""
        elapsed = time.monotonic() - self._began
        used, before = _processor_seconds(self._pid), self._used_before
        if used is None or before is None:
            return max(0.0, self._budget_seconds - elapsed)
        # A process never uses a processor for longer than the clock says, so it is not asked too late.
        of_clock = self._budget_seconds * limits.WORKER_CLOCK_FACTOR_MAX - elapsed
        left = min(self._budget_seconds - (used - before), of_clock)
        return max(left, _ASKED_AGAIN_SECONDS) if left > 0 else 0.0


def _processor_seconds(pid: int) -> float | None:
    """How long a process has computed; None if the system does not tell, or the process has ended."""
    if sys.platform != "linux":
        return None
    with suppress(OSError):
        # The id of a process's clock, as the C function clock_getcpuclockid computes it.
        return time.clock_gettime((~pid << 3) | 2)
    return None
