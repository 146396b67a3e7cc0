"""Worker processes for steps that compute: they cannot slow the server down, and can be killed.

A worker performs one step at a time and is reused. Cancelling a step kills its worker; the next step gets a new one.
Workers exit by themselves when the server is gone, because their pipe closes.

Above it: the step executor. Below it: `threads` (each pipe needs a thread that waits for it).
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, TypeAlias

from msgspec.structs import replace

from penstock.base.json import JsonValue
from penstock.runtime.activities.performing import ActivityCall, ActivityError, ActivityOutcome
from penstock.runtime.executors.step.threads import DaemonThreads, confirmed_in_thread
from penstock.runtime.steps.binding import BindingProblem
from penstock.runtime.steps.outcomes import bad_arguments, failed, finished
from penstock.runtime.steps.registry import RegisteredStep, StepContext, StepObserver

__all__ = ["StepProcesses", "serve"]

_LOGGER = logging.getLogger("penstock.step")
# Spawn: a fork of a process with threads and open files inherits locks that nobody will release.
_SPAWN = multiprocessing.get_context("spawn")
# A process whose pipe is closed is about to exit, if it has not exited already.
_REAP_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class _Task:
    function: Callable[..., Any]
    call: ActivityCall


@dataclass(frozen=True, slots=True)
class _Heartbeat:
    details: JsonValue


@dataclass(frozen=True, slots=True)
class _Progress:
    value: float
    message: str | None


@dataclass(frozen=True, slots=True)
class _Log:
    level: int
    message: str


@dataclass(frozen=True, slots=True)
class _Outcome:
    outcome: ActivityOutcome
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class _Died:
    exit_code: int | None


_Message: TypeAlias = _Heartbeat | _Progress | _Log | _Outcome


# --- in the worker --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PipeObserver:
    pipe: Connection

    def heartbeat(self, call: ActivityCall, details: JsonValue) -> None:
        """Send a heartbeat to the server."""
        self.pipe.send(_Heartbeat(details))

    def progress(self, call: ActivityCall, value: float, message: str | None) -> None:
        """Send progress to the server."""
        self.pipe.send(_Progress(value, message))

    def log(self, call: ActivityCall, level: int, message: str) -> None:
        """Send a log message to the server."""
        self.pipe.send(_Log(level, message))


def serve(pipe: Connection) -> None:
    """The main loop of a worker: receive a task, send its outcome, repeat until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which decides what happens to its workers
    while True:
        try:
            sent = pipe.recv_bytes()
            pipe.send(_perform(sent, pipe))
        except (EOFError, OSError):
            return  # the server is gone


def _perform(sent: bytes, pipe: Connection) -> _Outcome:
    try:
        task: _Task = pickle.loads(sent)
        step = _registered(task.function)
        arguments = step.signature.bind(task.call.activity.arguments)
        if isinstance(arguments, BindingProblem):
            return _Outcome(bad_arguments(arguments.message))
        if step.context_parameter is not None:
            arguments[step.context_parameter] = StepContext(task.call, _PipeObserver(pipe))
        return _Outcome(finished(step, step.function(**arguments)))
    except (Exception, SystemExit) as error:  # anything that a step raises is its outcome
        return _Outcome(failed(error), traceback.format_exc())


@lru_cache(maxsize=128)
def _registered(function: Callable[..., Any]) -> RegisteredStep:
    return RegisteredStep.of(function)


# --- in the server --------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Worker:
    process: SpawnProcess | None = None
    pipe: Connection | None = None
    killed: bool = False

    @property
    def is_alive(self) -> bool:
        """False for a worker that has exited unnoticed."""
        return self.process is not None and self.process.is_alive()

    def perform(
        self, sent: bytes, on_message: Callable[[_Message], None], is_wanted: Callable[[], bool]
    ) -> _Outcome | _Died | None:
        """Send a task and wait for its outcome. Blocks, so call it on a thread. None if the task must not be done."""
        try:
            pipe = self.pipe or self._begin()
            if not is_wanted():
                return None
            pipe.send_bytes(sent)
            while True:
                message: _Message = pipe.recv()
                if isinstance(message, _Outcome):
                    return message
                on_message(message)
        except (EOFError, OSError):
            return self._reap()

    def _reap(self) -> _Died:
        """Reap a process that has exited."""
        if self.pipe is not None:
            self.pipe.close()
        if self.process is None:
            return _Died(None)
        self.process.join(_REAP_SECONDS_MAX)
        return _Died(self.process.exitcode)

    def _begin(self) -> Connection:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=serve, args=(theirs,), name="penstock-step", daemon=True)
        process.start()
        theirs.close()
        self.process, self.pipe = process, ours
        if self.killed:
            process.kill()  # it was cancelled while it was starting
        return ours

    def kill(self) -> None:
        """Kill the worker. The thread that waits for its pipe sees that it died."""
        self.killed = True
        if self.process is not None:
            self.process.kill()


@dataclass(slots=True, eq=False)
class StepProcesses:
    """Performs steps in worker processes, up to a maximum. Workers are started when they are needed."""

    processes_max: int
    observer: StepObserver
    _threads: DaemonThreads = field(init=False)
    _slots: asyncio.Semaphore = field(init=False)
    _idle: list[_Worker] = field(default_factory=list)
    _busy: set[_Worker] = field(default_factory=set)
    _outdated: set[_Worker] = field(default_factory=set)

    def __post_init__(self) -> None:
        # The thread of a killed worker may still wait for the pipe to close while its successor starts.
        self._threads = DaemonThreads(2 * self.processes_max, name="penstock-step-pipe")
        self._slots = asyncio.Semaphore(self.processes_max)

    async def perform(self, step: RegisteredStep, call: ActivityCall) -> ActivityOutcome:
        """Perform one attempt. Cancelling it kills the worker that performs it."""
        try:
            sent = pickle.dumps(_Task(step.function, replace(call, ownership=None)))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            return bad_arguments(f"{step.name} cannot be sent to a process: {error}")
        on_message, loop = self._message_handler(call), asyncio.get_running_loop()
        async with self._slots:
            worker = self._worker()
            self._busy.add(worker)
            try:
                reply = await self._threads.run(
                    lambda: worker.perform(sent, on_message, lambda: confirmed_in_thread(call, loop))
                )
            except BaseException:  # usually a cancellation; in any case nobody will read this pipe again
                worker.kill()
                raise
            finally:
                self._busy.discard(worker)
                outdated = worker in self._outdated
                self._outdated.discard(worker)
        if reply is None or isinstance(reply, _Outcome):
            if outdated:
                worker.kill()
            else:
                self._idle.append(worker)
            if reply is None:
                raise asyncio.CancelledError("another process has taken over")
            if reply.traceback is not None:
                _LOGGER.warning("step %s failed in its process\n%s", step.name, call.masked(reply.traceback))
            return reply.outcome
        message = f"the process of {step.name} ended without an answer (exit code {reply.exit_code})"
        return ActivityError(message, "STEP_PROCESS_DIED")

    def renew(self) -> None:
        """Use new processes from now on: the code was changed, and the current ones have imported the old version."""
        for worker in self._idle:
            worker.kill()
        self._idle.clear()
        self._outdated |= self._busy

    def _worker(self) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                return worker
        return _Worker()

    def _message_handler(self, call: ActivityCall) -> Callable[[_Message], None]:
        loop = asyncio.get_running_loop()

        def on_message(message: _Message) -> None:
            match message:
                case _Heartbeat(details=details):
                    loop.call_soon_threadsafe(self.observer.heartbeat, call, details)
                case _Progress(value=value, message=text):
                    loop.call_soon_threadsafe(self.observer.progress, call, value, text)
                case _Log(level=level, message=line):
                    loop.call_soon_threadsafe(self.observer.log, call, level, line)
                case _Outcome():
                    pass

        return on_message

    def close(self) -> None:
        """Kill every worker."""
        for worker in (*self._idle, *self._busy):
            worker.kill()
        self._idle.clear()
        self._threads.close()
