"""What operations on execution answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "ActivityView",
    "AttemptReport",
    "Bar",
    "ChildView",
    "Cost",
    "DecisionView",
    "ErrorView",
    "ExecutionHandle",
    "ExecutionPage",
    "ExecutionReports",
    "ExecutionResult",
    "ExecutionSummary",
    "ExecutionView",
    "HeldView",
    "HistoryPage",
    "Lane",
    "LogLine",
    "NodeView",
    "QueryAnswer",
    "QuestionView",
    "RecordView",
    "RunDrawing",
    "SignalWaitView",
    "StartedBy",
    "Timeline",
    "TimerView",
    "Undecided",
    "UpdateAnswer",
    "Usage",
    "UsageShare",
    "WaitingFor",
]


class ActivityView(msgspec.Struct, frozen=True, kw_only=True):
    """Work that is in progress, or waits for execution.submit_activity or execution.retry."""

    node_id: str
    visit: int
    attempt: int
    type: str
    done_by: str
    outcome_unknown: bool
    at_most_once: bool
    idempotency_key: str
    config: dict[str, Any]
    arguments: Any = None
    deadline: str | None = None
    timeout_ms: int | None = None
    output_schema: dict[str, Any] | None = None
    leased_to: str | None = None
    leased_until: str | None = None


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True):
    """The newest report of one attempt of an activity."""

    node_id: str
    visit: int
    attempt: int
    at: str | None
    value: float | None = None
    message: str | None = None
    details: Any = None
    under_way: bool = False


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A visit of a node, or several in a row if there are too many to show one by one."""

    visit: int
    visits: int
    status: str
    attempts: int
    begun_seq: int
    ended_seq: int | None
    begun_at: str | None
    ended_at: str | None
    waits_for: str | None = None


class ChildView(msgspec.Struct, frozen=True, kw_only=True):
    """A child run that has not ended."""

    execution_id: str
    workflow_id: str
    node_id: str
    visit: int


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Money, as decimal text."""

    amount: str
    currency: str


class DecisionView(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody decided about a question, or that nobody did in time."""

    interrupt_id: str
    node_id: str
    visit: int
    sequence: int
    decision: str | None
    by: str | None
    name: str
    at: str | None
    final: bool
    prompt: str | None = None
    note: str | None = None


class ErrorView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run did not complete."""

    code: str
    message: str
    node_id: str | None = None
    details: Any = None


class ExecutionHandle(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as much as you need to continue with it."""

    execution_id: str
    workflow_id: str
    workflow_version: str
    definition_hash: str
    status: str
    sequence: int
    url: str
    stream_url: str


class ExecutionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list."""

    execution_id: str
    workflow_id: str
    workflow_version: str
    definition_hash: str
    status: str
    sequence: int
    created_at: str | None
    updated_at: str | None
    parent_id: str | None
    labels: dict[str, str]
    started_by: str | None = None
    started_by_name: str = ""


class ExecutionPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of runs. `total` is the number of runs on all pages, if the request asks to count them."""

    items: list[ExecutionSummary]
    next_cursor: str | None
    total: int | None = None


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the log of an activity, or a log message of an MCP server whose tool it called."""

    node_id: str
    visit: int
    attempt: int
    at: str | None
    level: str
    message: str
    server: str | None = None
    untrusted: bool = False


class ExecutionReports(msgspec.Struct, frozen=True, kw_only=True):
    """What the activities of a run reported lately."""

    execution_id: str
    attempts: list[AttemptReport]
    lines: list[LogLine]
    lines_left_out: int
    under_way: bool
    performed_here: bool
    untrusted: bool = False


class QuestionView(msgspec.Struct, frozen=True, kw_only=True):
    """A question that somebody may answer with execution.answer."""

    interrupt_id: str
    node_id: str
    visit: int
    prompt: Any
    answer_schema: Any
    expires_at: str | None = None
    prompt_ref: Any = None
    approvers: Any = None
    answered_by: str = "people"
    decline: Any = None
    decides: str | None = None
    ask: dict[str, Any] | None = None
    sign_in: bool = False
    votes: list[dict[str, Any]] = msgspec.field(default_factory=list)
    escalates_at: str | None = None
    escalated_at: str | None = None
    execution_id: str | None = None


class HeldView(msgspec.Struct, frozen=True, kw_only=True):
    """That a call waits for approval: which, why, until when, and where to look."""

    draft_id: str
    operation: str
    reason: str
    digest: str
    expires_at: str
    look: str
    denied_code: str | None = None
    approvers: Any = None


class ExecutionResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, or its current status. Questions are the open ones, those of its children included."""

    execution_id: str
    workflow_id: str
    status: str
    sequence: int
    untrusted: bool = False
    output: Any = None
    error: ErrorView | None = None
    questions: list[QuestionView] = msgspec.field(default_factory=list)
    held: HeldView | None = None
    held_calls: list[HeldView] = msgspec.field(default_factory=list)


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node and how its newest visit stands."""

    node_id: str
    type: str
    status: str
    visits: int = 0
    attempts: int = 0
    started_at: str | None = None
    ended_at: str | None = None
    error_code: str | None = None
    error: str | None = None


class SignalWaitView(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that execution.signal can bring."""

    name: str
    node_id: str
    visit: int
    expires_at: str | None = None


class TimerView(msgspec.Struct, frozen=True, kw_only=True):
    """A time at which the run continues by itself: wait, retry, escalation, timeout or run."""

    kind: str
    due_at: str | None
    node_id: str | None = None
    visit: int | None = None


class WaitingFor(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the run waits for."""

    questions: list[QuestionView]
    activities: list[ActivityView]
    signals: list[SignalWaitView]
    timers: list[TimerView]
    children: list[ChildView]


class UsageShare(msgspec.Struct, frozen=True, kw_only=True):
    """What models used so far, failed attempts included."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cost: Cost | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What the models of a run used so far, with those of all runs that it started or called."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cost: Cost | None = None
    own: UsageShare | None = None


class StartedBy(msgspec.Struct, frozen=True, kw_only=True):
    """Who started a run."""

    principal: str
    kind: str
    credential: str | None
    on_behalf_of: str | None
    principal_kind: str | None = None


class ExecutionView(msgspec.Struct, frozen=True, kw_only=True):
    """A run, with everything that is known about it but its history."""

    execution_id: str
    workflow_id: str
    workflow_version: str
    definition_hash: str
    status: str
    sequence: int
    url: str
    stream_url: str
    created_at: str | None
    updated_at: str | None
    ended_at: str | None
    mode: str
    untrusted: bool = False
    input: Any
    output: Any
    error: ErrorView | None
    state: Any
    nodes: list[NodeView]
    waiting_for: WaitingFor
    labels: dict[str, str]
    parent_id: str | None
    forked_from: str | None
    continued_from: str | None
    continued_as: str | None
    should_continue: bool = False
    usage: Usage | None
    started_by: StartedBy | None = None


class RecordView(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a history."""

    seq: int
    kind: str
    name: str
    at: str | None
    payload: dict[str, Any]


class HistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a run, oldest first."""

    items: list[RecordView]
    next_cursor: str | None
    ended: bool = False


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """The visits of one node."""

    node_id: str
    bars: list[Bar]


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an expression gave."""

    value: Any


class RunDrawing(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow as SVG, for a page that brings the style sheet."""

    svg: str | None
    nodes: int


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """An open question, and whether the caller may decide it."""

    interrupt_id: str
    decidable: bool
    why_not: str | None


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """The visits of a run along time, in the order in which its nodes were first visited."""

    began_at: str | None
    updated_at: str | None
    sequence: int
    lanes: list[Lane]
    lanes_left_out: int
    first_failure: int | None
    last_failure: int | None
    waits: list[int]
    at_sequence: int | None = None
    decisions: list[DecisionView] = msgspec.field(default_factory=list)
    starter_name: str = ""
    undecided: list[Undecided] = msgspec.field(default_factory=list)


class UpdateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a signal was taken in time, and its result."""

    execution_id: str
    signal_id: str
    taken: bool
    value: Any = None
