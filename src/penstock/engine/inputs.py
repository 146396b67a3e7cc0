"""Everything that can happen to a run, as a closed set of inputs.

New, retried, resumed and recovered work all enter by `decide` as one of these. An input carries the time at which it
happened (`at`, epoch milliseconds), because the engine has no clock of its own.

Above it: the driver, the control plane, the simulator and replay make inputs. Below it: nothing but JSON.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from penstock.base.json import JsonObject, JsonValue

__all__ = [
    "AcknowledgeEmit",
    "AnswerInterrupt",
    "CancelRun",
    "CompleteActivity",
    "ContinueRun",
    "FailActivity",
    "FinishChild",
    "FireTimer",
    "Input",
    "PauseRun",
    "ReportOutcomeUnknown",
    "ResumeRun",
    "RetryActivity",
    "SendSignal",
    "StartRun",
]


class StartRun(msgspec.Struct, frozen=True, kw_only=True):
    """Begin a run of the definition that `decide` is given."""

    at: int
    run_id: str
    input: JsonValue
    mode: str = "in_process"
    run_attempt: int = 1
    parent_run_id: str | None = None
    depth: int = 0
    timeout_ms: int | None = None


class ContinueRun(msgspec.Struct, frozen=True, kw_only=True):
    """Go on after a history that was cut in the middle of a decision; no effect on a settled run."""

    at: int


class CompleteActivity(msgspec.Struct, frozen=True, kw_only=True):
    """An activity came back with a result. Visit and attempt say which; absent means the one that is pending."""

    at: int
    node_id: str
    result: JsonValue = None
    visit: int | None = None
    attempt: int | None = None
    extra: JsonObject | None = None  # delegateCorrelationId, externalTaskId, usage: kept beside the result


class FailActivity(msgspec.Struct, frozen=True, kw_only=True):
    """An activity came back with an error."""

    at: int
    node_id: str
    error: str
    code: str | None = None
    visit: int | None = None
    attempt: int | None = None
    retryable: bool = True


class ReportOutcomeUnknown(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody knows whether an at-most-once activity took effect; it waits for a decision."""

    at: int
    node_id: str
    visit: int | None = None
    attempt: int | None = None


class RetryActivity(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody decided that an activity of unknown outcome is to be tried again."""

    at: int
    node_id: str
    visit: int | None = None
    by: str | None = None


class AnswerInterrupt(msgspec.Struct, frozen=True, kw_only=True):
    """A person answered a question; without a node, the only open question."""

    at: int
    answer: JsonValue
    node_id: str | None = None
    visit: int | None = None
    by: str | None = None


class SendSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal arrived; it is kept until somebody waits for it. The same `signal_id` counts once."""

    at: int
    name: str
    payload: JsonValue = None
    signal_id: str | None = None


class FireTimer(msgspec.Struct, frozen=True, kw_only=True):
    """A timer that `pending` listed is due. Kind is wait, retry, timeout or run."""

    at: int
    kind: str
    node_id: str = ""
    visit: int = 0


class FinishChild(msgspec.Struct, frozen=True, kw_only=True):
    """A child run reached its end."""

    at: int
    child_id: str
    status: str
    result: JsonValue = None
    final_state: JsonValue = None
    error: str | None = None
    code: str | None = None


class AcknowledgeEmit(msgspec.Struct, frozen=True, kw_only=True):
    """A signal to another run was stored there, or could not be."""

    at: int
    node_id: str
    visit: int
    delivered: bool = True
    code: str | None = None
    error: str | None = None


class CancelRun(msgspec.Struct, frozen=True, kw_only=True):
    """Stop the run; what must be undone is undone first."""

    at: int
    reason: str | None = None


class PauseRun(msgspec.Struct, frozen=True, kw_only=True):
    """Make no new moves; results that come in are kept."""

    at: int
    reason: str | None = None


class ResumeRun(msgspec.Struct, frozen=True, kw_only=True):
    """Go on after a pause."""

    at: int


Input: TypeAlias = (
    StartRun
    | ContinueRun
    | CompleteActivity
    | FailActivity
    | ReportOutcomeUnknown
    | RetryActivity
    | AnswerInterrupt
    | SendSignal
    | FireTimer
    | FinishChild
    | AcknowledgeEmit
    | CancelRun
    | PauseRun
    | ResumeRun
)
