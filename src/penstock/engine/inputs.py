"""Everything that can happen to a run, as a closed set of inputs.

New, retried, resumed and recovered work all enter through `decide` as one of these. An input carries the time at which
it happened (`at`, epoch milliseconds), because the engine has no clock of its own.

Above it: the driver, the control plane, the simulator and replay create inputs. Below it: nothing but JSON.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.approved import APPROVED, AUTHORS

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
    """Who starts a run, as stored in its first record.

    The principal is stored in `startedBy`, the rest in `starter`. Child runs and the next runs of a chain inherit both;
    a fork belongs to the principal who made it.
    """

    principal: str
    credential: str | None = None
    """The credential they used: the id of a key, the name of a webhook's secret; never a secret itself."""
    on_behalf_of: str | None = None
    """The principal whose rights applied, if they act for somebody else."""
    principal_kind: str | None = None
    """What they are: person, agent, service, local, schedule, webhook, system; None in older histories."""
    groups: tuple[str, ...] = ()
    """The groups that they belonged to when they started it."""
    acting_for: tuple[str, ...] = ()
    """The chain of principals that they act for, the nearest first."""
    owner: str | None = None
    """Who made the key that they used."""
    authority: JsonObject | None = None
    """What they might do when they started it, if that cannot be looked up later."""
    approved: JsonObject | None = None
    """What the run may reach, by name and version, if a person approved its start: see `engine.approved`."""
    subject: str | None = None
    """The person or machine behind the principal; None if it stands for itself."""
    lineage: tuple[str, ...] = ()
    """The subjects that made the key that they used, or a key before it."""
    authors: tuple[str, ...] = ()
    """The agents that wrote what is started, and who is behind them, who may be excluded from approving it."""
    accounts: tuple[str, ...] = ()
    """Whose quotas the run counts for, if that is not the principal alone."""

    @property
    def kind(self) -> str:
        """How they are known: key, token, local, schedule, webhook, system, program."""
        return self.principal.partition(":")[0]

    def to_json(self) -> JsonObject:
        """Return the part that the first record stores beside the principal."""
        found: JsonObject = {"kind": self.kind}
        known: dict[str, JsonValue] = {
            "credential": self.credential,
            "onBehalfOf": self.on_behalf_of,
            "principalKind": self.principal_kind,
            "groups": list(self.groups) or None,
            "actingFor": list(self.acting_for) if len(self.acting_for) > 1 else None,
            "owner": self.owner,
            "authority": self.authority,
            APPROVED: self.approved,
            # What follows from the principal is left out.
            "subject": None if self.subject in (self.principal, self.on_behalf_of) else self.subject,
            "lineage": None if self.lineage in ((), (self.owner,)) else list(self.lineage),
            AUTHORS: list(self.authors) or None,
            "accounts": None if self.accounts in ((), (self.principal,), (self.on_behalf_of,)) else list(self.accounts),
        }
        found.update({name: value for name, value in known.items() if value is not None})
        return found


# The program that embeds Penstock and owns the host.
PROGRAM = Initiator(principal="program")


class Predecessor(msgspec.Struct, frozen=True, kw_only=True):
    """What a run inherits from the run that it continues, see `walk.starting.successor_start`.

    `deadline` is that of the whole chain, `signals` are still buffered (in the form of their records), `signal_ids`
    were already received.
    """

    run_id: str
    deadline: int | None = None
    runs_without_wait: int = 0
    signals: tuple[JsonObject, ...] = ()
    signal_ids: tuple[str, ...] = ()


class StartRun(msgspec.Struct, frozen=True, kw_only=True):
    """Start a run of the definition passed to `decide`. `timeout_ms` covers the run and all runs that continue it."""

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
    client_kinds: tuple[str, ...] = ()  # the requests that the program that started it can answer: sampling, roots
    started_by: str | None = None  # the principal who started it; inherited by every run that it starts
    starter: JsonObject | None = None  # their kind, their credential, and on whose behalf they act
    untrusted: bool = False  # the input comes from outside, see `trust`
    sealed: dict[str, str] | None = None
    """The secret parts of the input (`starting.secrets_of_input`), sealed by the host; recorded in place of the
    secrets, which no history contains."""
    recorded: Recorded | None = None  # for an input that comes from a history


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What a history says of a start: its input was checked then, and is masked where it is secret."""

    refusal: str | None = None
    code: str | None = None
    """Why the run failed at once, if it did; such a run continues another one."""


class ContinueRun(msgspec.Struct, frozen=True, kw_only=True):
    """Continue after a history that was cut in the middle of a decision. Has no effect on a settled run."""

    at: int


# `gc=False`: it holds plain JSON and cannot be part of a reference cycle, so the garbage collector can skip it.
class CompleteActivity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An activity returned a result. Visit and attempt identify it; absent means the one that is pending."""

    at: int
    node_id: str
    result: JsonValue = None
    visit: int | None = None
    attempt: int | None = None
    round: int | None = None
    holder: str | None = None  # the host that holds the lease
    extra: JsonObject | None = None  # delegateCorrelationId, externalTaskId, usage: stored beside the result


class FailActivity(msgspec.Struct, frozen=True, kw_only=True):
    """An activity returned an error."""

    at: int
    node_id: str
    error: str
    code: str | None = None
    visit: int | None = None
    attempt: int | None = None
    round: int | None = None
    holder: str | None = None
    retryable: bool = True
    extra: JsonObject | None = None  # usage, delegateCorrelationId, externalTaskId: stored beside the error


class AskInActivity(msgspec.Struct, frozen=True, kw_only=True):
    """An activity cannot continue until a person has answered. Its performer gets `resume` back with the answer.

    `round` is the number of questions that the visit had asked when the work was handed out; it identifies a repeated
    question. `ask` is for requests to the program that started the run: their `kind`, and the `request` to send.
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
    """A host leases a host-mediated activity, extends the lease (`extend`), or gives it back (0 ms)."""

    at: int
    node_id: str
    holder: str
    lease_ms: int
    visit: int | None = None
    extend: bool = False


class ReportOutcomeUnknown(msgspec.Struct, frozen=True, kw_only=True):
    """It is unknown whether an at-most-once activity took effect. The activity waits for a decision."""

    at: int
    node_id: str
    visit: int | None = None
    attempt: int | None = None


class RetryActivity(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody decided to retry an activity whose outcome is unknown."""

    at: int
    node_id: str
    visit: int | None = None
    by: str | None = None
    note: str | None = None
    """See `AnswerInterrupt`."""


class Answerer(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers a question, for questions that not everybody may answer."""

    by_model: bool = False
    """Whether a model answers instead of a person. Text that it has read may have led it to this answer."""
    groups: tuple[str, ...] | None = None
    """The approver groups they belong to, `*` for all of them; None if their identity was not checked."""
    kind: str | None = None
    """What they are: person, agent, service, local; None if their identity was not checked."""
    owner: str | None = None
    """Who made the key that they use."""
    acting_for: tuple[str, ...] = ()
    """The principals that they act for, the nearest first."""
    subject: str | None = None
    """The person or machine behind them; None if they stand for themselves."""
    lineage: tuple[str, ...] = ()
    """The subjects that made the key that they use, or a key before it."""
    name: str | None = None
    """Their name, for later readers of the approval."""
    note: str | None = None
    """See `AnswerInterrupt`."""


class AnswerInterrupt(msgspec.Struct, frozen=True, kw_only=True):
    """A person answered a question; without a node, the only open question.

    The interrupt id names exactly one question, so an answer to an earlier question is never taken for this one.
    """

    at: int
    answer: JsonValue
    node_id: str | None = None
    visit: int | None = None
    interrupt_id: str | None = None
    by: str | None = None
    """The principal who answers."""
    note: str | None = None
    """Their comment (on whose word, and why). It is stored with the answer and not verified."""
    by_model: bool = False
    """See `Answerer`."""
    groups: tuple[str, ...] | None = None
    kind: str | None = None
    owner: str | None = None
    acting_for: tuple[str, ...] = ()
    subject: str | None = None
    lineage: tuple[str, ...] = ()
    name: str | None = None
    untrusted: bool = False
    sealed: dict[str, str] | None = None
    """The secret parts of the answer (`questions.secrets_of_answer`), sealed by the host; recorded in place of the
    values.
    """
    is_recorded: bool = False
    """Whether the answer comes from a record. Its secret parts are masked, and it was validated before."""


class SendSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal arrived. It is buffered until a node waits for it. Signals with the same `signal_id` count once."""

    at: int
    name: str
    payload: JsonValue = None
    signal_id: str | None = None
    by: str | None = None
    note: str | None = None
    """See `AnswerInterrupt`."""
    untrusted: bool = False


class FireTimer(msgspec.Struct, frozen=True, kw_only=True):
    """A timer listed by `pending` is due. `kind` is wait, retry, timeout or run."""

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
    """A signal to another run was stored there, or could not be delivered."""

    at: int
    node_id: str
    visit: int
    delivered: bool = True
    code: str | None = None
    error: str | None = None


class CancelRun(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel the run; completed nodes are compensated first."""

    at: int
    reason: str | None = None


class PauseRun(msgspec.Struct, frozen=True, kw_only=True):
    """Pause the run: make no new moves, but store the results that come in."""

    at: int
    reason: str | None = None


class ResumeRun(msgspec.Struct, frozen=True, kw_only=True):
    """Resume a paused run."""

    at: int


# Inputs that concern a run as a whole: a run that was continued forwards them to its successor. Answers and results
# concern one visit of one node, and that visit ended with its run.
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
