"""Who does the work of an activity: the port that executors implement, and what they answer.

Above it: hosts call `perform`. Below it: executors under `runtime.executors`, scripted ones in the simulator.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.engine.effects import PerformActivity
from penstock.engine.state import RunState

__all__ = [
    "ActivityCall",
    "ActivityDeferred",
    "ActivityDone",
    "ActivityError",
    "ActivityOutcome",
    "AsyncPerformer",
    "Performer",
    "Unconfigured",
]


class ActivityDone(msgspec.Struct, frozen=True):
    """The work is done. `extra` is kept beside the result in history (external task id, usage)."""

    result: JsonValue
    extra: JsonObject | None = None


class ActivityError(msgspec.Struct, frozen=True):
    """The work failed."""

    error: str
    code: str
    retryable: bool = True


class ActivityDeferred(msgspec.Struct, frozen=True):
    """Somebody else will report the result later."""


ActivityOutcome: TypeAlias = ActivityDone | ActivityError | ActivityDeferred


class Performer(Protocol):
    """Does the work of activities."""

    def perform(self, state: RunState, activity: PerformActivity) -> ActivityOutcome:
        """Do the work of one attempt."""


class ActivityCall(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt as an executor sees it; being cancelled means that nobody wants the result any more."""

    run_id: str
    workflow_name: str
    activity: PerformActivity
    values: JsonValue = None


class AsyncPerformer(Protocol):
    """Does the work of activities without blocking."""

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Do the work of one attempt."""


class Unconfigured:
    """Performs nothing: every activity fails with a code that says what is missing."""

    def perform(self, state: RunState, activity: PerformActivity) -> ActivityOutcome:
        """Refuse, for good: trying again cannot help."""
        told = f"no executor is configured for {activity.node_type} (node {activity.node_id})"
        return ActivityError(told, "COMPOSITE_EXECUTOR_NOT_CONFIGURED", retryable=False)
