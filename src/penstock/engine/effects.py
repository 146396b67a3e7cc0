"""Effects: what a run asks the world to do, as a closed set.

Effects are not emitted, they are read off the state by `pending`: whatever is in the state and not done is due. That
is why recovery needs no special case. Each carries an id that is the same every time it is listed; performing it twice
must be harmless, and the idempotency key is there to make it so.

Above it: the driver performs them and answers with inputs.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.engine.state import Lease

__all__ = ["CancelChild", "DeliverSignal", "Effect", "PerformActivity", "StartChild", "StartSuccessor", "WakeUp"]


# `gc=False`: it holds plain JSON and cannot be part of a circle, so the garbage collector need not look at it.
class PerformActivity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Do the work of one attempt and answer with `CompleteActivity`, `FailActivity` or `AskInActivity`.

    After a question was answered the same attempt is due again, with what its performer left (`resume`), the answer,
    and the number of questions asked so far (`round`). `secrets` and `answer_secrets` are the places in arguments and
    answer that only a performer fills.
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
    """Start a child run (its id makes that idempotent) and answer with `FinishChild` when it ended."""

    effect_id: str
    child_id: str
    workflow_ref: str
    input: JsonValue
    version_pin: str | None
    depth: int


class StartSuccessor(msgspec.Struct, frozen=True, kw_only=True):
    """Start the run that goes on in place of this one, which has ended; its id makes that idempotent.

    `starting.successor_start` says how. `newest` asks for the newest definition of the name instead of the same one.
    The ended run lists it every time: whoever performs it has to remember that it is done.
    """

    effect_id: str
    successor_id: str
    newest: bool


class CancelChild(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel a child run that nobody waits for any more."""

    effect_id: str
    child_id: str


class DeliverSignal(msgspec.Struct, frozen=True, kw_only=True):
    """Send a signal to another run and answer with `AcknowledgeEmit`; the effect id is its signal id."""

    effect_id: str
    node_id: str
    visit: int
    target_run_id: str
    signal_name: str
    payload: JsonValue


class WakeUp(msgspec.Struct, frozen=True, kw_only=True):
    """A timer is due: answer with `FireTimer`."""

    effect_id: str
    kind: str
    node_id: str
    visit: int
    due_at: int


Effect: TypeAlias = PerformActivity | StartChild | StartSuccessor | CancelChild | DeliverSignal | WakeUp
