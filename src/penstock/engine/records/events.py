"""Events: what happened, one type per record. Published ones first, then ours.

Names and keys are the published ones, with our additional keys beside them. The order matters: it is the wire order.

Above it: the engine and every reader of records. Below it: `body`. `transitions` and `evolve` define what an event
means.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import UNSET, UnsetType

from penstock.engine.records.body import Event, Object, Value, written

__all__ = [
    "ActivityAsked",
    "ActivityCompleted",
    "ActivityFailed",
    "ActivityLeased",
    "ActivityOutcomeUnknown",
    "ActivityRequested",
    "ActivityRetried",
    "CheckpointWritten",
    "ExecutionCancelled",
    "ExecutionCompleted",
    "ExecutionContinued",
    "ExecutionFailed",
    "ExecutionPaused",
    "ExecutionResumed",
    "ExecutionStarted",
    "ForEachStarted",
    "HistoryLimitReached",
    "InterruptEscalated",
    "InterruptRaised",
    "InterruptResumed",
    "InterruptVoted",
    "LoopStarted",
    "NodeScheduled",
    "ParallelBranchCancelled",
    "ParallelForked",
    "ParallelJoined",
    "ScopeCompleted",
    "ScopeFailed",
    "ScopeOpened",
    "SignalBuffered",
    "SignalEmitted",
    "SignalReceived",
    "SignalWaitStarted",
    "StateUpdated",
    "SubworkflowCompleted",
    "SubworkflowStarted",
    "TimerFired",
    "TimerStarted",
]


class _VisitBody(Event, frozen=True):
    node_id: str
    visit: int | None = written()


# --- the run -------------------------------------------------------------------------------------


class _Started(Event, frozen=True):
    workflow_name: str | None = written()
    workflow_version: str | None = written()
    input_keys: Value = written()
    definition_hash: str | None = written()
    format: str | None = written()
    input: Value | UnsetType = written(UNSET)
    state: Value = written()
    entry: str | None = written()
    activity_execution_mode: str | None = written()
    tenant: str | None = None
    client_kinds: Value = None
    started_by: str | None = None
    starter: Object | None = None
    untrusted: bool = False
    run_attempt: int | None = None
    parent_execution_id: str | None = None
    depth: int | None = None
    deadline: int | None = None
    chain_deadline: int | None = None
    continued_from: str | None = None
    generation: int | None = None
    runs_without_wait: int | None = None
    carried_signals: Value = None
    carried_signal_ids: Value = None
    secrets: Object | None = None  # the secret parts of the input, sealed, by their places


class ExecutionStarted(_Started, frozen=True, kw_only=True):
    """The run exists: its definition is pinned, its input kept."""

    forked_from: Object | None = None  # behind `executionId`: a fork gets it in addition to what its original says


class ExecutionCompleted(Event, frozen=True):
    """The run is over, with a result."""

    result: Value = written()


class ExecutionFailed(Event, frozen=True):
    """The run is over, with an error."""

    theirs: ClassVar[tuple[str, ...]] = ("message", "reason")

    node_id: str | None = None
    compensation_failures: Value = None
    error: Value = written()
    code: str | None = written()
    details: Value = None
    context: Object | None = None
    message: Value = None
    reason: str | None = None


class ExecutionCancelled(Event, frozen=True):
    """The run is over because somebody cancelled it."""

    node_id: str | None = None
    compensation_failures: Value = None
    reason: str | None = None


class ExecutionContinued(_VisitBody, frozen=True):
    """The run is over, and another run continues it with this input."""

    successor_execution_id: str | None = written()
    input: Value = written()
    version: str | None = written()


class HistoryLimitReached(Event, frozen=True):
    """No more can be recorded; the run fails."""

    records: int | None = written()
    bytes: int | None = written()
    code: str | None = written()
    error: str | None = written()


class ExecutionPaused(Event, frozen=True):
    """The run makes no move until it is resumed."""

    reason: str | None = None


class ExecutionResumed(Event, frozen=True):
    """The run continues."""


# --- a visit -------------------------------------------------------------------------------------


class NodeScheduled(_VisitBody, frozen=True):
    """The node is the next to be worked on."""


class StateUpdated(_VisitBody, frozen=True):
    """The state changed; this is all of it."""

    state: Value = written()


class CheckpointWritten(Event, frozen=True):
    """The state in full, for readers that do not fold histories."""

    policy: str | None = written()
    workflow_version: str | None = written()
    definition_hash: str | None = written()
    last_applied_event_seq: int | None = written()
    node_id: str = written("")
    visit: int | None = written()
    state_ref: Object | None = written()
    interval_nodes: int | None = None


# --- activities ----------------------------------------------------------------------------------


class ActivityRequested(_VisitBody, frozen=True):
    """Work is waiting for an executor."""

    times_out: ClassVar[bool] = True
    derived_ids: ClassVar[tuple[str, ...]] = ("delegate_correlation_id",)

    node_type: str | None = written()
    attempt: int | None = written()
    timeout_ms: int | None = None
    deadline: int | None = None
    parallel_span: Object | None = None
    agent_id: str | UnsetType | None = UNSET
    protocol: str | UnsetType | None = UNSET
    delegate_correlation_id: str | None = None
    arguments: Value | UnsetType = UNSET
    secrets: Object | None = None
    delegate_input: Value | UnsetType = UNSET
    idempotency_key: str | None = None


class ActivityCompleted(_VisitBody, frozen=True):
    """The work was done. What the executor brought along stands beside the result, under any key."""

    derived_ids: ClassVar[tuple[str, ...]] = ("delegate_correlation_id",)

    attempt: int | None = written()
    result: Value = written()
    node_type: str | None = None
    parallel_span: Object | None = None
    delegate_correlation_id: str | None = None
    external_task_id: Value = None
    usage: Object | None = None
    untrusted: bool = False


class ActivityFailed(_VisitBody, frozen=True):
    """An attempt failed; `willRetry` says that another follows. What the executor adds stands behind the error."""

    theirs: ClassVar[tuple[str, ...]] = ("message", "reason")
    derived_ids: ClassVar[tuple[str, ...]] = ("delegate_correlation_id",)

    attempt: int | None = written()
    error: Value = written()
    usage: Object | None = None
    delegate_correlation_id: str | None = None
    external_task_id: Value = None
    details: Value = None
    untrusted: bool = False
    code: str | None = None
    message: Value = None
    reason: str | None = None
    will_retry: bool = False
    retry_at: int | None = None


class ActivityAsked(_VisitBody, frozen=True):
    """The work cannot go on until a person has answered; then the same attempt does."""

    times_out: ClassVar[bool] = True

    attempt: int | None = written()
    round: int | None = written()
    interrupt_id: str | None = written()
    prompt: str | None = written()
    answer_schema: Object | None = written()
    resume: Value = written()
    ask: Object | None = None
    deadline: int | None = None


class ActivityLeased(_VisitBody, frozen=True):
    """A host has the work for a while; it is given back when `leaseUntil` is now."""

    attempt: int | None = written()
    holder: str | None = written()
    lease_until: int | None = written()


class ActivityOutcomeUnknown(_VisitBody, frozen=True):
    """Nobody knows whether an at-most-once attempt took effect."""

    attempt: int | None = written()


class ActivityRetried(_VisitBody, frozen=True):
    """Somebody decided to try again after an unknown outcome."""

    decided_by: str | None = None
    note: str | None = None


# --- waiting -------------------------------------------------------------------------------------


class InterruptRaised(_VisitBody, frozen=True):
    """The question is open."""

    times_out: ClassVar[bool] = True

    prompt: Value = written()
    interrupt_id: str | None = written()
    answer_schema: Value = written()
    prompt_ref: Value = None
    approvers: Value = None
    anyone: bool = False
    decline: Value = None
    deadline: int | None = None
    checkpoint: bool = False
    escalates_at: int | None = None


class InterruptVoted(_VisitBody, frozen=True):
    """One of several approvers agreed; the question stays open for the others."""

    answer: Value = written()
    answered_by: str | None = None
    approver: Object | None = None
    note: str | None = None
    untrusted: bool = False


class InterruptEscalated(_VisitBody, frozen=True):
    """There was no decision in time, so others may answer. `approvers` are the people who may answer from now on."""

    approvers: Value = written()
    interrupt_id: str | None = None


class InterruptResumed(_VisitBody, frozen=True):
    """The answer was taken; an activity that asked continues with it."""

    deadline: int | None = None


class TimerStarted(_VisitBody, frozen=True):
    """The run sleeps until `deadline`."""

    kind: str | None = written()
    deadline: int | None = written()


class TimerFired(Event, frozen=True):
    """A sleep, a back-off or a timeout is over; of `kind` `run`, the time of the whole run."""

    node_id: str = ""
    visit: int | None = None
    kind: str | None = written()


class SignalWaitStarted(_VisitBody, frozen=True):
    """The run waits for a signal."""

    times_out: ClassVar[bool] = True

    signal_name: str | None = written()
    deadline: int | None = None


class SignalReceived(_VisitBody, frozen=True):
    """The signal was taken."""

    signal_name: str | None = written()
    payload: Value = written()


class SignalBuffered(Event, frozen=True):
    """A signal came before anybody waited for it, and is kept."""

    signal_name: str | None = written()
    payload: Value = written()
    signal_id: str | None = None
    sent_by: str | None = None
    note: str | None = None
    untrusted: bool = False


class SignalEmitted(_VisitBody, frozen=True):
    """The signal to another run was delivered, or refused."""

    delivered: bool | None = written()
    code: str | None = None
    error: str | None = None


# --- bodies inside a node ------------------------------------------------------------------------


class ParallelForked(_VisitBody, frozen=True):
    """The branches may start."""

    times_out: ClassVar[bool] = True

    join: str | None = written()
    branch_names: Value = written()
    needed: int | None = written()
    concurrency: int | None = written()
    deadline: int | None = None


class ParallelJoined(_VisitBody, frozen=True):
    """The branches came together."""

    join: str | None = written()


class ParallelBranchCancelled(_VisitBody, frozen=True):
    """A branch was dropped."""

    branch_name: str | None = written()
    index: int | None = written()


class ForEachStarted(_VisitBody, frozen=True):
    """The items are known."""

    times_out: ClassVar[bool] = True

    items: Value = written()
    concurrency: int | None = written()
    on_item_error: str | None = written()
    deadline: int | None = None


class LoopStarted(_VisitBody, frozen=True):
    """The rounds begin."""

    times_out: ClassVar[bool] = True

    max_iterations: int | None = written()
    deadline: int | None = None


class ScopeOpened(_VisitBody, frozen=True):
    """A branch, an item or a round begins."""

    index: int | None = written()
    scope: int | None = written()
    body: str | None = written()
    entry: str | None = written()
    branch_name: str | None = None
    item_name: str | None = None


class ScopeCompleted(_VisitBody, frozen=True):
    """A branch, an item or a round is done."""

    index: int | None = written()
    branch_name: str | None = None
    output: Value | UnsetType = UNSET


class ScopeFailed(_VisitBody, frozen=True):
    """A branch, an item or a round failed; the node around it decides what that means."""

    index: int | None = written()
    code: str | None = written()
    error: Value = written()
    reason: str | None = written()
    failed_node_id: str | None = written()
    branch_name: str | None = None
    output: Value | UnsetType = UNSET


# --- child runs ----------------------------------------------------------------------------------


class SubworkflowStarted(_VisitBody, frozen=True):
    """The child run is requested."""

    times_out: ClassVar[bool] = True
    derived_ids: ClassVar[tuple[str, ...]] = ("parent_execution_id", "child_execution_id")

    workflow_ref: str | None = written()
    parent_execution_id: str | None = written()
    child_execution_id: str | None = written()
    input: Value = written()
    version_pin: str | None = None
    deadline: int | None = None


class SubworkflowCompleted(_VisitBody, frozen=True):
    """The child run ended."""

    derived_ids: ClassVar[tuple[str, ...]] = ("parent_execution_id", "child_execution_id")

    workflow_ref: str | None = written()
    parent_execution_id: str | None = written()
    child_execution_id: str | None = written()
    child_final_state: Value | UnsetType = written(UNSET)
    child_result: Value = written()
    untrusted: bool = False
    failed: bool = False
    code: str | None = None
    error: Value = None
    will_retry: bool = False
    retry_at: int | None = None
    merged_output: Value | UnsetType = UNSET
