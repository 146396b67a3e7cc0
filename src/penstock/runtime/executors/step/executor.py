"""The executor of `step` nodes: calls Python functions.

Async functions run on the event loop, plain ones on a thread, and those that ask for it in a process of their own. An
async function costs only a dictionary lookup and one conversion: a step that does nothing takes a few microseconds.

Above it: `app` adds it to the router. Below it: `runtime.steps`, `threads`, `processes`.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.runtime.activities.performing import ActivityCall, ActivityError, ActivityOutcome
from penstock.runtime.executors.step.threads import DaemonThreads, confirmed_in_thread
from penstock.runtime.steps.binding import Arguments, BindingProblem
from penstock.runtime.steps.missing import handler_hint
from penstock.runtime.steps.outcomes import bad_arguments, failed, finished
from penstock.runtime.steps.registry import (
    CancelToken,
    NoObserver,
    RegisteredStep,
    StepContext,
    StepFailed,
    StepKind,
    StepObserver,
    StepRegistry,
)

if TYPE_CHECKING:
    from penstock.runtime.executors.step import processes as step_processes
else:
    step_processes = lazy_import("penstock.runtime.executors.step.processes")

__all__ = ["StepExecutor"]

_LOGGER = logging.getLogger("penstock.step")
# As module names, because looking up a member in its class takes as long as calling a step that does nothing.
_PROCESS, _THREAD = StepKind.PROCESS, StepKind.THREAD


class StepExecutor:
    """Performs steps. `observer` receives their heartbeats and progress."""

    def __init__(
        self,
        registry: StepRegistry,
        *,
        threads: int = limits.STEP_THREADS_MAX,
        processes: int = limits.STEP_PROCESSES_MAX,
        observer: StepObserver | None = None,
    ) -> None:
        self._registry = registry
        self._observer = observer or NoObserver()
        self._threads = DaemonThreads(threads, name="penstock-step")
        self._processes_max = processes
        self._processes: step_processes.StepProcesses | None = None

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform one attempt of a step."""
        step = self._resolved(call)
        if isinstance(step, ActivityError):
            return step
        if step.kind is _PROCESS:
            if self._processes is None:
                self._processes = step_processes.StepProcesses(self._processes_max, self._observer)
            return await self._processes.perform(step, call)
        arguments = step.signature.bind(call.activity.arguments)
        if isinstance(arguments, BindingProblem):
            return bad_arguments(arguments.message)
        if step.kind is _THREAD:
            return await self._in_thread(step, call, arguments)
        if step.context_parameter is not None:
            context = StepContext(call, self._observer, task=asyncio.current_task())
            arguments[step.context_parameter] = context
        try:
            value = await step.function(**arguments)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return _failed(step, call, error)  # the step cancelled a task of its own; the activity continues
        except (Exception, SystemExit) as error:  # anything that a step raises is its outcome
            return _failed(step, call, error)
        return finished(step, value)

    def use(self, registry: StepRegistry) -> None:
        """Switch to another registry. Attempts in progress finish with the functions they started with."""
        self._registry = registry
        if self._processes is not None:
            self._processes.renew()

    async def close(self) -> None:
        """Kill worker processes and let threads end."""
        self._threads.close()
        if self._processes is not None:
            self._processes.close()

    def _resolved(self, call: ActivityCall) -> RegisteredStep | ActivityError:
        config = call.activity.config
        handler = config.get("handler")
        if not isinstance(handler, str):
            message = "only steps with a `handler` can be called here; `code_ref` is for other hosts"
            return bad_arguments(f"node {call.activity.node_id}: {message}")
        step = self._registry.resolve(handler)
        if step is not None:
            return step
        hint = handler_hint(handler, self._registry.names(), Path.cwd())
        message = f"there is no step {handler} (node {call.activity.node_id}); {hint}"
        return ActivityError(message, "HANDLER_NOT_FOUND", retryable=False)

    async def _in_thread(self, step: RegisteredStep, call: ActivityCall, arguments: Arguments) -> ActivityOutcome:
        token, loop = CancelToken(), asyncio.get_running_loop()
        if step.context_parameter is not None:
            observer = _ThreadObserver(loop, self._observer)
            arguments[step.context_parameter] = StepContext(call, observer, token=token)

        def work() -> ActivityOutcome | None:
            if not confirmed_in_thread(call, loop):  # it may have waited long for a thread
                return None
            try:
                return finished(step, step.function(**arguments))
            except (Exception, SystemExit) as error:  # anything that a step raises is its outcome
                return _failed(step, call, error)

        try:
            outcome = await self._threads.run(work)
        except asyncio.CancelledError:
            token.cancel()
            raise
        if outcome is None:
            raise asyncio.CancelledError("another process has taken over")
        return outcome


class _ThreadObserver:
    """Forwards heartbeats, progress and logs of a step from its thread to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, observer: StepObserver) -> None:
        self._loop = loop
        self._observer = observer

    def heartbeat(self, call: ActivityCall, details: JsonValue) -> None:
        """Forward a heartbeat, if the loop is still running."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._observer.heartbeat, call, details)

    def progress(self, call: ActivityCall, value: float, message: str | None) -> None:
        """Forward progress, if the loop is still running."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._observer.progress, call, value, message)

    def log(self, call: ActivityCall, level: int, message: str) -> None:
        """Forward a log message, if the loop is still running."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._observer.log, call, level, message)


def _failed(step: RegisteredStep, call: ActivityCall, error: BaseException) -> ActivityError:
    extra = {"run_id": call.run_id, "node_id": call.activity.node_id, "attempt": call.activity.attempt}
    if isinstance(error, StepFailed):
        _LOGGER.info("step %s failed: %s", step.name, call.masked(str(error)), extra=extra)
    elif call.hidden:
        told = call.masked("".join(traceback.format_exception(error)).rstrip())
        _LOGGER.warning("step %s failed\n%s", step.name, told, extra=extra)
    else:
        _LOGGER.warning("step %s failed", step.name, exc_info=error, extra=extra)
    return failed(error)
