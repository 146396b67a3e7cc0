"""The port that executors implement to perform activities, and the outcomes that they return.

Above it: hosts call `perform`. Below it: executors under `runtime.executors`, scripted ones in the simulator.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, TypeAlias

import msgspec

from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject, JsonValue
from penstock.base.masking import mask
from penstock.engine import inputs
from penstock.engine.effects import PerformActivity
from penstock.engine.outcomes import Decision, Refused
from penstock.engine.state import RunState
from penstock.engine.values import NOT_JSON
from penstock.runtime.activities.budgets import RunBudget

__all__ = [
    "ActivityAsks",
    "ActivityCall",
    "ActivityDeferred",
    "ActivityDone",
    "ActivityError",
    "ActivityOutcome",
    "AsyncPerformer",
    "NodeAction",
    "NodePolicy",
    "Ownership",
    "Performer",
    "Slot",
    "TextReaders",
    "Unconfigured",
    "Withdrawn",
    "input_of",
    "unfit_outcome",
]


# `gc=False`: it holds plain JSON and cannot be part of a reference cycle, so the garbage collector can skip it.
class ActivityDone(msgspec.Struct, frozen=True, gc=False):
    """The work is done. `extra` is stored beside the result in the history (external task id, usage)."""

    result: JsonValue
    extra: JsonObject | None = None


class ActivityError(msgspec.Struct, frozen=True):
    """The work failed. `extra` is stored beside the error in the history (its cost, external task id)."""

    error: str
    code: str
    retryable: bool = True
    extra: JsonObject | None = None


class ActivityAsks(msgspec.Struct, frozen=True):
    """The work needs a person's answer. Once answered, it is performed again with `resume` and the answer.

    With `ask`, the question goes to the program that started the run: its `kind`, and the `request` to send.
    """

    question: str
    answer_schema: JsonObject
    resume: JsonValue = None
    ask: JsonObject | None = None


class ActivityDeferred(msgspec.Struct, frozen=True):
    """The result will be reported later, from elsewhere."""


ActivityOutcome: TypeAlias = ActivityDone | ActivityError | ActivityAsks | ActivityDeferred


def input_of(at: int, effect: PerformActivity, outcome: ActivityOutcome) -> inputs.Input:
    """Return the input that reports an attempt to its run. A deferred attempt has nothing to report yet."""
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
    """Return the failure of an activity whose result no history can store. Without it the run would wait forever."""
    if not isinstance(decision, Refused) or decision.code not in ("SUBMIT_VALIDATION_ERROR", NOT_JSON):
        return None  # accepted, or a result that is late or was not awaited
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
    """Performs activities."""

    def perform(self, state: RunState, activity: PerformActivity) -> ActivityOutcome:
        """Perform one attempt."""


class Ownership(Protocol):
    """Whether this process still owns the run that an attempt belongs to."""

    def holds(self) -> bool:
        """Whether the attempt certainly belongs to this process, without asking the store."""

    async def confirm(self) -> None:
        """Ask the store; the attempt is cancelled if another process has taken over the run."""


class Slot(Protocol):
    """The slot of an attempt among those that a host performs at once."""

    def leave(self) -> None:
        """Free the slot for another attempt."""

    async def retake(self) -> None:
        """Take a slot again, waiting for a free one. Does nothing if the attempt has ended."""


class TextReaders(Protocol):
    """Readers that follow the text of a run's attempts while it is written. Nothing of it is stored."""

    def is_heard(self, call: ActivityCall) -> bool:
        """Whether there are readers, or may be soon."""

    def write(self, call: ActivityCall, text: str, offset: int) -> None:
        """Deliver a piece and its offset in the text. Offset 0 restarts the text."""

    def written(self, call: ActivityCall) -> None:
        """Note that the attempt has ended."""


class NodeAction(msgspec.Struct, frozen=True, kw_only=True):
    """What a node is about to do outside, as policies know it. The type of the node is the action."""

    resource: str
    facts: JsonObject


# Replaces a secret in texts.


class ActivityCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt as an executor sees it. Cancellation means that the result is no longer wanted."""

    run_id: str
    workflow_name: str
    activity: PerformActivity
    values: JsonValue = None
    tenant: str = DEFAULT_TENANT
    hidden: tuple[str, ...] = ()
    """Secret values in the arguments. No text that contains one of them may be shown to anybody."""
    secret_hosts: tuple[str, ...] | None = None
    """The hosts that the secrets in the arguments may be sent to; None if they are bound to no host."""
    client_kinds: tuple[str, ...] = ()
    """The kinds of requests that the program that started the run can answer."""
    principal: str | None = None
    """On whose behalf the run acts; None if unknown."""
    epoch: int = 0
    """Increases whenever another process takes over the run. A receiver refuses an epoch lower than one it has seen."""
    ownership: Ownership | None = None
    """How this process owns the attempt; without it, no other process can have taken it over."""
    slot: Slot | None = None
    """The slot of the attempt among those that the host performs at once; without it, there is no bound."""
    policy: NodePolicy | None = None
    """Decides what the attempt may reach; without it, everything may be reached."""
    readers: TextReaders | None = None
    """Who reads what the attempt writes while it writes it; without it, nobody can."""
    trace: str | None = None
    """The span that the run was started in, as W3C Trace Context writes it; None if it was not traced."""
    labels: Mapping[str, str] = {}
    """The labels of its run, which no run changes."""
    budget: RunBudget | None = None
    """What the run may still spend on models; without it, neither the run nor one above it has a limit."""
    approved: JsonObject | None = None
    """What its run may reach, by name and version, if its start was approved; None if no approval was required."""
    withdraws: bool = False
    """Whether the call only cancels what the attempt began, because its question will never be answered."""

    async def refusal(self, action: NodeAction) -> ActivityError | None:
        """Return why policies do not permit an action; None if they do.

        For executors that reach something outside: call it directly before the effect, once for each effect.
        """
        return None if self.policy is None else await self.policy(self, action)

    def masked(self, text: str) -> str:
        """Return a text without the secrets of the call, for logs and messages."""
        return mask(text, self.hidden)

    def only_waits(self) -> None:
        """Declare that the attempt only waits from now on, perhaps for days.

        It frees its slot for other attempts. A host that stops does not wait for it and starts it again later.
        """
        if self.slot is not None:
            self.slot.leave()

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """Free the slot of this attempt while the block waits for something that needs a slot itself.

        Otherwise waiting attempts could occupy all slots and wait for each other.
        """
        if self.slot is None:
            yield
            return
        self.slot.leave()
        yield
        await self.slot.retake()

    async def confirm(self) -> None:
        """Make sure that the attempt still belongs to this process.

        For executors that waited: call it directly before the effect. Costs one look at the clock; after a gap the
        store is asked. An attempt that was taken over is cancelled here.
        """
        if self.ownership is not None and not self.ownership.holds():
            await self.ownership.confirm()


NodePolicy: TypeAlias = Callable[[ActivityCall, NodeAction], Awaitable[ActivityError | None]]
"""Says why an attempt may not do something; None if it may."""


Withdrawn: TypeAlias = Callable[[ActivityCall, ActivityOutcome], Awaitable[None]]
"""Receives the outcome of a call that withdraws something."""


class AsyncPerformer(Protocol):
    """Performs activities without blocking."""

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform one attempt."""


class Unconfigured:
    """Performs nothing: every activity fails with a code that says what is missing."""

    def perform(self, state: RunState, activity: PerformActivity) -> ActivityOutcome:
        """Fail for good: a retry cannot help."""
        message = f"no executor is configured for {activity.node_type} (node {activity.node_id})"
        return ActivityError(message, "COMPOSITE_EXECUTOR_NOT_CONFIGURED", retryable=False)
