"""Who does the work of an activity: the port that executors implement, and what they answer.

Above it: hosts call `perform`. Below it: executors under `runtime.executors`, scripted ones in the simulator.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject, JsonValue
from penstock.engine import inputs
from penstock.engine.effects import PerformActivity
from penstock.engine.outcomes import Decision, Refused
from penstock.engine.state import RunState
from penstock.engine.values import NOT_JSON

__all__ = [
    "ActivityAsks",
    "ActivityCall",
    "ActivityDeferred",
    "ActivityDone",
    "ActivityError",
    "ActivityOutcome",
    "AsyncPerformer",
    "Ownership",
    "Performer",
    "Unconfigured",
    "input_of",
    "unfit_outcome",
]


# `gc=False`: it holds plain JSON and cannot be part of a circle, so the garbage collector need not look at it.
class ActivityDone(msgspec.Struct, frozen=True, gc=False):
    """The work is done. `extra` is kept beside the result in history (external task id, usage)."""

    result: JsonValue
    extra: JsonObject | None = None


class ActivityError(msgspec.Struct, frozen=True):
    """The work failed. `extra` is kept beside the error in history (what it cost all the same, external task id)."""

    error: str
    code: str
    retryable: bool = True
    extra: JsonObject | None = None


class ActivityAsks(msgspec.Struct, frozen=True):
    """The work cannot go on until a person has answered; then it is handed out again, with `resume` and the answer.

    With `ask` the question is for the program that started the run: its `kind`, and the `request` that it is sent.
    """

    question: str
    answer_schema: JsonObject
    resume: JsonValue = None
    ask: JsonObject | None = None


class ActivityDeferred(msgspec.Struct, frozen=True):
    """Somebody else will report the result later."""


ActivityOutcome: TypeAlias = ActivityDone | ActivityError | ActivityAsks | ActivityDeferred


def input_of(at: int, effect: PerformActivity, outcome: ActivityOutcome) -> inputs.Input:
    """What a run is told about an attempt; a deferred one has nothing to tell yet."""
    match outcome:
        case ActivityDone(result=result, extra=extra):
            return inputs.CompleteActivity(
                at=at,
                node_id=effect.node_id,
                visit=effect.visit,
                attempt=effect.attempt,
                round=effect.round,
                result=result,
                extra=extra,
            )
        case ActivityError(error=error, code=code, retryable=retryable, extra=extra):
            return inputs.FailActivity(
                at=at,
                node_id=effect.node_id,
                visit=effect.visit,
                attempt=effect.attempt,
                round=effect.round,
                error=error,
                code=code,
                retryable=retryable,
                extra=extra,
            )
        case ActivityAsks(question=question, answer_schema=schema, resume=resume, ask=ask):
            return inputs.AskInActivity(
                at=at,
                node_id=effect.node_id,
                visit=effect.visit,
                attempt=effect.attempt,
                round=effect.round,
                question=question,
                answer_schema=schema,
                resume=resume,
                ask=ask,
            )
        case ActivityDeferred():
            raise TypeError("a deferred activity has no result yet")


def unfit_outcome(given: inputs.Input, decision: Decision) -> inputs.FailActivity | None:
    """The failure of an activity whose result no history can hold; without it the run would wait for ever."""
    if not isinstance(decision, Refused) or decision.code not in ("SUBMIT_VALIDATION_ERROR", NOT_JSON):
        return None  # taken, or a result that comes too late, or for nobody
    if not isinstance(given, inputs.CompleteActivity | inputs.FailActivity | inputs.AskInActivity):
        return None
    return inputs.FailActivity(
        at=given.at,
        node_id=given.node_id,
        visit=given.visit,
        attempt=given.attempt,
        error=decision.message,
        code=decision.code,
        retryable=False,
    )


class Performer(Protocol):
    """Does the work of activities."""

    def perform(self, state: RunState, activity: PerformActivity) -> ActivityOutcome:
        """Do the work of one attempt."""


class Ownership(Protocol):
    """Says whether this process still owns the run that an attempt belongs to."""

    def holds(self) -> bool:
        """Whether the attempt is this process's for certain, without asking anybody."""

    async def confirm(self) -> None:
        """Ask the store; the attempt is cancelled if another process has taken the run over."""


class ActivityCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt as an executor sees it; being cancelled means that nobody wants the result any more."""

    run_id: str
    workflow_name: str
    activity: PerformActivity
    values: JsonValue = None
    tenant: str = DEFAULT_TENANT
    hidden: tuple[str, ...] = ()
    """Values of secrets that stand in the arguments: nobody may be told what contains one of them."""
    client_kinds: tuple[str, ...] = ()
    """What the program that started the run can be asked."""
    principal: str | None = None
    """On whose behalf the run is; None where nobody said so."""
    epoch: int = 0
    """Grows whenever another process begins to act for the run: a receiver refuses a lower one than it has seen."""
    ownership: Ownership | None = None
    """By which the attempt is this process's; without it nobody else can have taken it over."""

    async def confirm(self) -> None:
        """Make sure that the attempt is still this process's: for executors that waited, directly before the effect.

        Costs a look at the clock; after a gap the store is asked. An attempt that was taken over is cancelled here.
        """
        if self.ownership is not None and not self.ownership.holds():
            await self.ownership.confirm()


class AsyncPerformer(Protocol):
    """Does the work of activities without blocking."""

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Do the work of one attempt."""


class Unconfigured:
    """Performs nothing: every activity fails with a code that says what is missing."""

    def perform(self, state: RunState, activity: PerformActivity) -> ActivityOutcome:
        """Refuse, for good: trying again cannot help."""
        message = f"no executor is configured for {activity.node_type} (node {activity.node_id})"
        return ActivityError(message, "COMPOSITE_EXECUTOR_NOT_CONFIGURED", retryable=False)
