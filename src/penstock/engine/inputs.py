"""Everything that can happen to a run, as a closed set of inputs.

New, retried, resumed and recovered work all enter by `decide` as one of these. An input carries the time at which it
happened (`at`, epoch milliseconds), because the engine has no clock of its own.

Above it: the driver, the control plane, the simulator and replay make inputs. Below it: nothing but JSON.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject, JsonValue

__all__ = [
    "FORWARDED_TO_SUCCESSOR",
    "PROGRAM",
    "AcknowledgeEmit",
    "AnswerInterrupt",
    "AskInActivity",
    "CancelRun",
    "CompleteActivity",
    "ContinueRun",
    "FailActivity",
    "FinishChild",
    "FireTimer",
    "Initiator",
    "Input",
    "LeaseActivity",
    "PauseRun",
    "Predecessor",
    "ReportOutcomeUnknown",
    "ResumeRun",
    "RetryActivity",
    "SendSignal",
    "StartRun",
]


class Initiator(msgspec.Struct, frozen=True, kw_only=True):
    """Who starts a run, as its first record says it.

    The principal stands in `startedBy`, the rest in `starter`. Child runs and the next runs of a chain take both over;
    a fork belongs to whoever made it.
    """

    principal: str
    credential: str | None = None
    """Which credential they showed: the id of a key, the name of a webhook's secret; never a secret itself."""
    on_behalf_of: str | None = None
    """The principal whose rights counted, if they act for somebody."""

    @property
    def kind(self) -> str:
        """What sort of principal: key, local, schedule, webhook, system, program."""
        return self.principal.partition(":")[0]

    def to_json(self) -> JsonObject:
        """What the first record says beside the principal."""
        found: JsonObject = {"kind": self.kind}
        if self.credential is not None:
            found["credential"] = self.credential
        if self.on_behalf_of is not None:
            found["onBehalfOf"] = self.on_behalf_of
        return found


# The program that embeds Penstock: it has the host in its hands.
PROGRAM = Initiator(principal="program")


class Predecessor(msgspec.Struct, frozen=True, kw_only=True):
    """What a run takes over from the one that it continues, see `starting.successor_start`.

    `deadline` is that of the whole chain, `signals` nobody took (as their records tell them), `signal_ids` are known.
    """

    run_id: str
    deadline: int | None = None
    runs_without_wait: int = 0
    signals: tuple[JsonObject, ...] = ()
    signal_ids: tuple[str, ...] = ()


class StartRun(msgspec.Struct, frozen=True, kw_only=True):
    """Begin a run of the definition that `decide` is given. `timeout_ms` is for it and all that continue it."""

    at: int
    run_id: str
    input: JsonValue
    mode: str = "in_process"
    run_attempt: int = 1
    parent_run_id: str | None = None
    depth: int = 0
    timeout_ms: int | None = None
    predecessor: Predecessor | None = None
    tenant: str = DEFAULT_TENANT
    client_kinds: tuple[str, ...] = ()  # what the program that started it can be asked: sampling, roots
    started_by: str | None = None  # the principal who started it, and all that it starts
    starter: JsonObject | None = None  # their kind, which credential they showed, on whose behalf they act
    untrusted: bool = False  # what it is given comes from outside, see `trust`


class ContinueRun(msgspec.Struct, frozen=True, kw_only=True):
    """Go on after a history that was cut in the middle of a decision; no effect on a settled run."""

    at: int


# `gc=False`: it holds plain JSON and cannot be part of a circle, so the garbage collector need not look at it.
class CompleteActivity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An activity came back with a result. Visit and attempt say which; absent means the one that is pending."""

    at: int
    node_id: str
    result: JsonValue = None
    visit: int | None = None
    attempt: int | None = None
    round: int | None = None
    holder: str | None = None  # who has the lease and says so
    extra: JsonObject | None = None  # delegateCorrelationId, externalTaskId, usage: kept beside the result


class FailActivity(msgspec.Struct, frozen=True, kw_only=True):
    """An activity came back with an error."""

    at: int
    node_id: str
    error: str
    code: str | None = None
    visit: int | None = None
    attempt: int | None = None
    round: int | None = None
    holder: str | None = None
    retryable: bool = True
    extra: JsonObject | None = None  # usage, delegateCorrelationId, externalTaskId: kept beside the error


class AskInActivity(msgspec.Struct, frozen=True, kw_only=True):
    """An activity cannot go on until a person has answered; `resume` comes back to its performer with the answer.

    `round` is how many questions the visit had asked when the work was handed out: a repeated question is known by it.
    `ask` is for questions to the program that started the run: their `kind`, and the `request` that it is sent.
    """

    at: int
    node_id: str
    question: str
    answer_schema: JsonObject
    resume: JsonValue = None
    ask: JsonObject | None = None
    visit: int | None = None
    attempt: int | None = None
    round: int | None = None


class LeaseActivity(msgspec.Struct, frozen=True, kw_only=True):
    """A host takes a host-mediated activity for a while, keeps it longer (`extend`), or gives it back (0 ms)."""

    at: int
    node_id: str
    holder: str
    lease_ms: int
    visit: int | None = None
    extend: bool = False


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
    note: str | None = None
    """As of `AnswerInterrupt`."""


class Answerer(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of whoever answers a question, for those questions that not everybody may answer."""

    by_model: bool = False
    """Whether a model answers instead of a person. It may have read text that made it answer so."""
    groups: tuple[str, ...] | None = None
    """The groups of approvers that they belong to, `*` for all of them; None where nobody asked who it is."""
    note: str | None = None
    """As of `AnswerInterrupt`."""


class AnswerInterrupt(msgspec.Struct, frozen=True, kw_only=True):
    """A person answered a question; without a node, the only open question.

    The id of the interrupt names exactly one question, so an answer to an earlier question is never taken for this one.
    """

    at: int
    answer: JsonValue
    node_id: str | None = None
    visit: int | None = None
    interrupt_id: str | None = None
    by: str | None = None
    """The principal who answers."""
    note: str | None = None
    """What they say about it (on whose word, and why): kept with the answer, and not verified."""
    by_model: bool = False
    """As of `Answerer`."""
    groups: tuple[str, ...] | None = None
    untrusted: bool = False
    sealed: dict[str, str] | None = None
    """What is secret in the answer (`questions.secrets_of_answer`), sealed by the host; it is recorded in its place."""
    is_recorded: bool = False
    """Whether the answer comes from a record: what is secret in it is masked, and was found fit before."""


class SendSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal arrived; it is kept until somebody waits for it. The same `signal_id` counts once."""

    at: int
    name: str
    payload: JsonValue = None
    signal_id: str | None = None
    by: str | None = None
    note: str | None = None
    """As of `AnswerInterrupt`."""
    untrusted: bool = False


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
    untrusted: bool = False


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


# What is meant for a run as a whole: one that was continued hands it on to its successor. Answers and results are
# about one visit of one node, which ended with its run.
FORWARDED_TO_SUCCESSOR = (SendSignal, CancelRun, PauseRun, ResumeRun)

Input: TypeAlias = (
    StartRun
    | ContinueRun
    | CompleteActivity
    | FailActivity
    | AskInActivity
    | LeaseActivity
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
