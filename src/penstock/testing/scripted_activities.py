"""Activities that follow the script of a test, and record their calls.

Above it: `tester`. Below it: the step executor, for steps whose real functions the test wants.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from penstock.app.executors.steps import step_executor
from penstock.runtime.activities.performing import (
    ActivityAsks,
    ActivityCall,
    ActivityDeferred,
    ActivityDone,
    ActivityError,
    ActivityOutcome,
)
from penstock.runtime.steps.binding import NotJson, to_json
from penstock.runtime.steps.outcomes import failed
from penstock.runtime.steps.registry import StepRegistry

__all__ = ["NEVER", "InTurn", "Scripted", "ScriptedActivities", "in_turn"]

# The outcome of an activity: any JSON value, an exception, a function of the call that returns or raises one of these,
# an outcome as executors return it, or several in turn. There is no narrower type that includes every JSON value.
Scripted: TypeAlias = Any


class _Never:
    """The type of `NEVER`."""

    def __repr__(self) -> str:
        return "NEVER"


# An activity that never ends: for testing timeouts and cancellation.
NEVER: Final = _Never()


class InTurn:
    """Outcomes for consecutive attempts; the last one repeats."""

    def __init__(self, outcomes: Iterable[Scripted]) -> None:
        self._outcomes = list(outcomes)
        self._used = 0
        if not self._outcomes:
            raise ValueError("there must be at least one outcome")

    def next(self) -> Scripted:
        """The outcome of the next attempt."""
        outcome = self._outcomes[min(self._used, len(self._outcomes) - 1)]
        self._used += 1
        return outcome


def in_turn(*outcomes: Scripted) -> InTurn:
    """Outcomes for consecutive attempts; the last one repeats."""
    return InTurn(outcomes)


class ScriptedActivities:
    """Performs every kind of activity by script."""

    def __init__(self, scripts: Mapping[str, Scripted], steps: Iterable[Callable[..., Any]] = ()) -> None:
        registry = StepRegistry()
        for function in steps:
            registry.register(function)
        self._registry = registry
        self._steps = step_executor(registry)
        self._scripts = dict(scripts)
        self._calls: dict[str, list[ActivityCall]] = {}
        self._busy: Counter[str] = Counter()
        self._cancelled: Counter[str] = Counter()
        self._idle = asyncio.Event()
        self._idle.set()

    def script(self, node: str, outcome: Scripted) -> None:
        """Set the outcome of a node's activity from now on."""
        self._scripts[node] = outcome

    def calls(self, node: str) -> list[ActivityCall]:
        """Every attempt so far."""
        return list(self._calls.get(node, ()))

    def cancelled(self, node: str) -> int:
        """How many attempts were cancelled while they were in progress."""
        return self._cancelled[node]

    def busy(self) -> list[str]:
        """The nodes whose activities are in progress, except those that never end."""
        return [node for node, count in self._busy.items() if count]

    async def idle(self, timeout_seconds: float) -> bool:
        """Wait until no activity is in progress. False if the time is up."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Release the threads and processes of the steps."""
        await self._steps.close()

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform an attempt as scripted."""
        node = call.activity.node_id
        self._calls.setdefault(node, []).append(call)
        outcome = self._scripts[node] if node in self._scripts else await self._unscripted(call)
        if isinstance(outcome, InTurn):
            outcome = outcome.next()
        try:
            if outcome is NEVER:
                await asyncio.Event().wait()
            self._begin(node)
            try:
                return await _outcome(outcome, call)
            finally:
                self._end(node)
        except asyncio.CancelledError:
            self._cancelled[node] += 1
            raise

    async def _unscripted(self, call: ActivityCall) -> ActivityOutcome:
        activity = call.activity
        handler = activity.config.get("handler")
        if activity.node_type == "step" and isinstance(handler, str) and self._registry.resolve(handler) is not None:
            self._begin(activity.node_id)
            try:
                return await self._steps.perform(call)
            except asyncio.CancelledError:
                self._cancelled[activity.node_id] += 1
                raise
            finally:
                self._end(activity.node_id)
        text = f"the test has no script for {activity.node_id} ({activity.node_type}); give one in `activities`"
        return ActivityError(text, "ACTIVITY_NOT_SCRIPTED", retryable=False)

    def _begin(self, node: str) -> None:
        self._busy[node] += 1
        self._idle.clear()

    def _end(self, node: str) -> None:
        self._busy[node] -= 1
        if not any(self._busy.values()):
            self._idle.set()


async def _outcome(scripted: Scripted, call: ActivityCall) -> ActivityOutcome:
    """The outcome that a script stands for. Functions are called, and their results are interpreted again."""
    try:
        while callable(scripted) and not isinstance(scripted, type):
            scripted = scripted(call)
            if inspect.isawaitable(scripted):
                scripted = await scripted
    except Exception as error:  # an exception of a test's function is the failure of its activity
        return failed(error)
    if isinstance(scripted, ActivityDone | ActivityError | ActivityAsks | ActivityDeferred):
        return scripted
    if isinstance(scripted, type) and issubclass(scripted, BaseException):
        return failed(scripted())
    if isinstance(scripted, BaseException):
        return failed(scripted)
    try:
        return ActivityDone(to_json(scripted))
    except NotJson as error:
        text = f"the script of {call.activity.node_id} is not JSON: {error}"
        return ActivityError(text, "ACTIVITY_NOT_SCRIPTED", retryable=False)
