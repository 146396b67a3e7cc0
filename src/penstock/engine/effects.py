"""Effects: what a run asks the outside world to do, as a closed set.

Effects are not emitted; `pending` reads them off the state: an effect that the state asks for and that is not done is
due. That is why recovery needs no special case. The id of an effect is the same every time it is listed. Performing an
effect twice must be harmless, and the idempotency key is there to make it so.

Above it: the driver performs effects and answers with inputs.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.engine.state import Lease

__all__ = [
    "CancelChild",
    "DeliverSignal",
    "Effect",
    "PerformActivity",
    "StartChild",
    "StartSuccessor",
    "WakeUp",
    "WithdrawTask",
]


# `gc=False`: it holds plain JSON and cannot be part of a reference cycle, so the garbage collector can skip it.
class PerformActivity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Perform one attempt and answer with `CompleteActivity`, `FailActivity` or `AskInActivity`.

    After a question is answered, the same attempt is due again, with the state that its performer saved (`resume`), the
    answer, and the number of questions asked so far (`round`). `secrets` and `answer_secrets` name the places in the
    arguments and the answer whose values only the performer fills in.
    """

    effect_id: str
    idempotency_key: str
    node_id: str
    visit: int
    attempt: int
    node_type: str
    config: JsonObject
    arguments: JsonValue = None
    secrets: dict[str, str] | None = None
    deadline: int | None = None
    timeout_ms: int | None = None
    at_most_once: bool = False
    parallel_span: JsonObject | None = None
    delegate: JsonObject | None = None
    output_schema: JsonObject | None = None
    round: int = 0
    resume: JsonValue = None
    answer: JsonValue = None
    answer_secrets: dict[str, str] | None = None
    lease: Lease | None = None


class StartChild(msgspec.Struct, frozen=True, kw_only=True):
    """Start a child run (its id makes that idempotent) and answer with `FinishChild` when it has ended."""

    effect_id: str
    child_id: str
    workflow_ref: str
    input: JsonValue
    version_pin: str | None
    depth: int


class StartSuccessor(msgspec.Struct, frozen=True, kw_only=True):
    """Start the run that continues this one, which has ended. The successor's id makes that idempotent.

    `walk.starting.successor_start` builds its input. `newest` asks for the newest version of the definition instead of
    the same one. The ended run lists this effect every time: the driver has to remember that it is done.
    """

    effect_id: str
    successor_id: str
    newest: bool


class CancelChild(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel a child run that its parent no longer waits for."""

    effect_id: str
    child_id: str


class WithdrawTask(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel the task in which an outside agent asked something: the run has ended, and nobody answers any more.

    Nothing is recorded of it, because an ended run takes no records: the driver has to remember that it is done.
    """

    effect_id: str
    activity: PerformActivity
    """The attempt that asked, with the state that its performer saved; without its arguments."""


class DeliverSignal(msgspec.Struct, frozen=True, kw_only=True):
    """Send a signal to another run and answer with `AcknowledgeEmit`; the effect id is its signal id."""

    effect_id: str
    node_id: str
    visit: int
    target_run_id: str
    signal_name: str
    payload: JsonValue


class WakeUp(msgspec.Struct, frozen=True, kw_only=True):
    """A timer is due; answer with `FireTimer`."""

    effect_id: str
    kind: str
    node_id: str
    visit: int
    due_at: int


Effect: TypeAlias = PerformActivity | StartChild | StartSuccessor | CancelChild | WithdrawTask | DeliverSignal | WakeUp
