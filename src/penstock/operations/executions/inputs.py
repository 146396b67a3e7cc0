"""The inputs of the operations on runs.

Above it: `reads`, `changes`, `messages`, `streams`. Below it: nothing but data.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.operations.catalogue.fields import Cursor, Limit, WorkflowId
from penstock.operations.runs.fields import (
    WAIT_SECONDS_ACCEPTED,
    AnyId,
    ChosenId,
    Name,
    RunStatusName,
    ShortText,
    Text,
    Wait,
)

__all__ = [
    "AnswerQuestion",
    "ExecutionId",
    "ForkExecution",
    "LeaseActivity",
    "ListExecutions",
    "ListWorkflowExecutions",
    "NamedExecution",
    "QueryExecution",
    "ReadHistory",
    "ReasonedChange",
    "RetryExecution",
    "SignalExecution",
    "StreamExecution",
    "SubmitActivity",
    "UpdateExecution",
    "WaitForExecution",
]

Count = Annotated[int, Meta(ge=1, le=2**31)]

ExecutionId = Annotated[AnyId, Meta(description="The id of the run.", examples=["r_01KA4T8R9B6S3VQ2XHJ7M5N0PE"])]
NodeId = Annotated[Name, Meta(description="The id of the node in the workflow.")]
Visit = Annotated[Count | None, Meta(description="Which visit of the node, counted from 1.")]
Sequence = Annotated[int, Meta(description="Only what happened after this sequence number.", ge=0, le=2**53)]
Statuses = Annotated[list[RunStatusName], Meta(description="Only runs with one of these statuses.", max_length=16)]
SignalName = Annotated[Name, Meta(description="The name that the workflow waits for.")]
SignalId = Annotated[Name | None, Meta(description="Makes the signal unique: the same id counts once.")]
Holder = Annotated[
    ShortText | None, Meta(description="The name of the worker, to tell workers with the same key apart.")
]
Note = Annotated[
    Annotated[str, Meta(max_length=1_000)] | None,
    Meta(description="What you say about it, such as on whose word; kept in the history, proved by nothing."),
]
Instant = Annotated[ShortText | None, Meta(description="RFC 3339 with an offset.", examples=["2026-01-31T09:00:00Z"])]


class ListExecutions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs; everything given must hold."""

    status: Statuses = msgspec.field(default_factory=list)
    workflow_id: Annotated[Name | None, Meta(description="Only runs of this workflow.")] = None
    started_by: Annotated[
        Annotated[str, Meta(min_length=1, max_length=200)] | None,
        Meta(description="Only runs that this principal started, and their children.", examples=["key:k_1"]),
    ] = None
    label: Annotated[
        Annotated[str, Meta(pattern="^[^=]+=", max_length=330)] | None,
        Meta(description="A label and its value.", examples=["team=red"]),
    ] = None
    created_after: Instant = None
    created_before: Instant = None
    updated_after: Instant = None
    parent_id: Annotated[AnyId | None, Meta(description="Only child runs of this one.")] = None
    text: Annotated[Text | None, Meta(description="Words of ids, workflow names or label values.")] = None
    order: Annotated[
        Literal["created", "updated"],
        Meta(description="What comes first: the newest, or what moved last (slower where very many fit)."),
    ] = "created"
    count: Annotated[bool, Meta(description="Say how many there are on all pages, as `total`: 10,000 at most.")] = False
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class ListWorkflowExecutions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflow, and which of its runs."""

    workflow_id: WorkflowId
    status: Statuses = msgspec.field(default_factory=list)
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class NamedExecution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which execution."""

    execution_id: ExecutionId


class WaitForExecution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which run, for what, and for how long."""

    execution_id: ExecutionId
    wait_seconds: Wait = None
    after_sequence: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Return only after the run has moved past this `sequence` of an earlier answer."),
    ] = None


class ReasonedChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which run, and why."""

    execution_id: ExecutionId
    reason: Annotated[Annotated[str, Meta(max_length=1_000)] | None, Meta(description="Why, for the history.")] = None


class ReadHistory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which run, and which page of its history."""

    execution_id: ExecutionId
    after: Sequence = 0
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None
    wait_seconds: Annotated[
        Annotated[float, Meta(ge=0, le=WAIT_SECONDS_ACCEPTED)] | None,
        Meta(description="Where there is no record yet: how many seconds to wait for the next one at most."),
    ] = None


class StreamExecution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which run, from where on, and which events."""

    execution_id: ExecutionId
    events: Annotated[
        Text | None,
        Meta(description="Only events of these types, separated by commas.", examples=["status,complete"]),
    ] = None
    after: Sequence = 0
    last_event_id: Annotated[
        ShortText | None, Meta(description="The id of the last event that arrived; goes before `after`.")
    ] = None


class SignalExecution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signal to a run."""

    execution_id: ExecutionId
    name: SignalName
    payload: Annotated[Any, Meta(description="What the signal brings.")] = None
    signal_id: SignalId = None
    note: Note = None


class UpdateExecution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signal, and what to look at when it was taken."""

    execution_id: ExecutionId
    name: SignalName
    payload: Annotated[Any, Meta(description="What the signal brings.")] = None
    signal_id: SignalId = None
    query: Annotated[
        str, Meta(description="jq for what to answer with.", max_length=limits.JQ_PROGRAM_CHARACTERS_MAX)
    ] = ".state"
    wait_seconds: Wait = None


class AnswerQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to a question; node, visit or interrupt id are needed only when several questions are open."""

    execution_id: ExecutionId
    answer: Annotated[Any, Meta(description="The answer, as the question's schema says.")]
    node_id: Annotated[Name | None, Meta(description="The node that asks.")] = None
    visit: Visit = None
    interrupt_id: Annotated[Text | None, Meta(description="The question by its id.")] = None
    note: Note = None


class SubmitActivity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of an activity that was performed elsewhere."""

    execution_id: ExecutionId
    node_id: NodeId
    ok: Annotated[bool, Meta(description="Whether it succeeded.")]
    result: Annotated[Any, Meta(description="With `ok`: the result.")] = None
    error: Annotated[
        Annotated[str, Meta(max_length=limits.ERROR_TEXT_CHARACTERS_MAX)] | None,
        Meta(description="Without `ok`: what went wrong."),
    ] = None
    code: Annotated[Text | None, Meta(description="Without `ok`: the code that retries and error routes match.")] = None
    visit: Visit = None
    attempt: Annotated[Count | None, Meta(description="Which attempt, counted from 1.")] = None
    holder: Holder = None


class LeaseActivity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which activity to take, and for how long."""

    execution_id: ExecutionId
    node_id: NodeId
    seconds: Annotated[
        float, Meta(description="How long the lease lasts; 0 gives it back.", ge=0, le=WAIT_SECONDS_ACCEPTED)
    ]
    visit: Visit = None
    extend: Annotated[bool, Meta(description="Extend a lease; refused if it was lost.")] = False
    holder: Holder = None


class ForkExecution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a new run is to begin."""

    execution_id: ExecutionId
    at_sequence: Annotated[int, Meta(description="The last record of the history to carry over.", ge=1, le=2**53)]
    new_execution_id: ChosenId = None


class RetryExecution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to try again; the node is needed only when the outcome of several activities is unknown."""

    execution_id: ExecutionId
    node_id: Annotated[Name | None, Meta(description="The node whose outcome is unknown.")] = None
    visit: Visit = None
    new_execution_id: ChosenId = None
    note: Note = None


class QueryExecution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to look at."""

    execution_id: ExecutionId
    expression: Annotated[
        str,
        Meta(
            description="jq over what nodes see: `input`, `state`, `run` and the outputs of nodes by id.",
            min_length=1,
            max_length=limits.JQ_PROGRAM_CHARACTERS_MAX,
            examples=[".order.total"],
        ),
    ]
