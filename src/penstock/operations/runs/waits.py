"""What a run waits for, as callers see it: questions, activities, signals, timers and child runs.

Above it: `views`, `results`, the operations on runs. Below it: the engine's state.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from penstock.base.ids import id_for_callers
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.decline_answers import answer_fits, deciding_member, declined_answer
from penstock.definitions.model import Workflow
from penstock.engine.effects import PerformActivity
from penstock.engine.pending import pending_activities
from penstock.engine.state import Key, RunState
from penstock.engine.transitions import Phase
from penstock.engine.walk.questions import OpenQuestion, open_questions
from penstock.engine.walk.timers import timers_of
from penstock.operations.catalogue.fields import instant

__all__ = [
    "HELD_PREFIX",
    "ActivityView",
    "ChildView",
    "QuestionView",
    "SignalWaitView",
    "TimerView",
    "WaitingFor",
    "activity_view",
    "answer_fits",
    "asks_for_approval",
    "question_views",
    "waiting_for",
]


HELD_PREFIX = "held:"
"""What the names of the workflows of held calls begin with."""


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
    """people, or anyone: then a model may answer, too."""
    decline: Any = None
    """The answer that declines, or null."""
    decides: str | None = None
    """The member of the answer that is true to approve and false to decline; "" if that is the whole answer. Forms show
    two buttons for it. Null if the question is not one to approve or decline."""
    ask: dict[str, Any] | None = None
    """For the program that started the run, not for a person: the kind (sampling, roots) and the request."""
    sign_in: bool = False
    """Whether people must sign in to answer, as for calls that wait for approval. A link alone is not enough then."""
    votes: list[dict[str, Any]] = []
    """Who has agreed so far, if several have to: `by` and `at`."""
    escalates_at: str | None = None
    """When the question is escalated; `approvers.escalate` says to whom."""
    escalated_at: str | None = None
    """When others were asked, because it was not decided in time; `approvers` has them."""
    execution_id: str | None = None
    """The child run that asks, if it is not the requested one itself."""


def asks_for_approval(questions: Any) -> bool:
    """Whether any of these questions, as callers see them, is for approvers."""
    listed = questions if isinstance(questions, list) else []
    return any(isinstance(item, dict) and item.get("approvers") is not None for item in listed)


class ActivityView(msgspec.Struct, frozen=True, kw_only=True):
    """Work that is in progress, or waits for execution.submit_activity or execution.retry."""

    node_id: str
    visit: int
    attempt: int
    type: str
    done_by: str
    """server, or caller."""
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


class ChildView(msgspec.Struct, frozen=True, kw_only=True):
    """A child run that has not ended."""

    execution_id: str
    workflow_id: str
    node_id: str
    visit: int


class WaitingFor(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the run waits for."""

    questions: list[QuestionView]
    activities: list[ActivityView]
    signals: list[SignalWaitView]
    timers: list[TimerView]
    children: list[ChildView]


def question_views(state: RunState, *, execution_id: str | None = None) -> list[QuestionView]:
    """Return the open questions of a run; `execution_id` is set if it is a child of the run that is viewed."""
    found = []
    for item in open_questions(state):
        decline = None if item.ask is not None else declined_answer(item.answer_schema, item.decline)
        found.append(_question_view(state, item, decline, execution_id))
    return found


def _question_view(state: RunState, item: OpenQuestion, decline: JsonValue, execution_id: str | None) -> QuestionView:
    return QuestionView(
        interrupt_id=item.interrupt_id,
        node_id=item.node_id,
        visit=item.visit,
        prompt=item.prompt,
        answer_schema=item.answer_schema,
        expires_at=instant(item.deadline),
        prompt_ref=item.prompt_ref,
        approvers=item.approvers,
        answered_by="anyone" if item.anyone else "people",
        decline=decline,
        decides=deciding_member(item.answer_schema, decline),
        ask=item.ask,
        sign_in=state.workflow_name.startswith(HELD_PREFIX),
        votes=[{"by": vote.get("by"), "at": _voted_at(vote)} for vote in item.votes],
        escalates_at=instant(item.escalates_at),
        escalated_at=instant(item.escalated_at),
        execution_id=execution_id,
    )


def _voted_at(vote: JsonObject) -> str | None:
    at = vote.get("at")
    return instant(at) if isinstance(at, int) else None


def waiting_for(tenant: str, workflow: Workflow, state: RunState) -> WaitingFor:
    """Return everything that a run of a tenant waits for."""
    unknown = {item.key for item in state.activations() if item.phase is Phase.OUTCOME_UNKNOWN}
    return WaitingFor(
        questions=question_views(state),
        activities=[activity_view(state, item, unknown) for item in pending_activities(workflow, state)],
        signals=[
            SignalWaitView(
                name=str((item.external or {}).get("signalName")),
                node_id=item.node_id,
                visit=item.visit,
                expires_at=instant(item.deadline),
            )
            for item in state.activations()
            if item.phase is Phase.AWAITING_SIGNAL
        ],
        timers=[
            TimerView(
                kind=item.kind, due_at=instant(item.due_at), node_id=item.node_id or None, visit=item.visit or None
            )
            for item in timers_of(state)
        ],
        children=[
            ChildView(
                execution_id=id_for_callers(tenant, item.child_id),
                workflow_id=item.workflow_ref,
                node_id=item.node_id,
                visit=item.visit,
            )
            for item in state.children.values()
            if not item.abandoned
        ],
    )


def activity_view(state: RunState, activity: PerformActivity, unknown: Collection[Key] = ()) -> ActivityView:
    """Return the view of an activity; `unknown` holds the ones with an unknown outcome."""
    lease = activity.lease
    return ActivityView(
        node_id=activity.node_id,
        visit=activity.visit,
        attempt=activity.attempt,
        type=activity.node_type,
        done_by="caller" if state.mode == "host_mediated" else "server",
        outcome_unknown=(activity.node_id, activity.visit) in unknown,
        at_most_once=activity.at_most_once,
        idempotency_key=activity.idempotency_key,
        config=activity.config,
        arguments=activity.arguments,
        deadline=instant(activity.deadline),
        timeout_ms=activity.timeout_ms,
        output_schema=activity.output_schema,
        leased_to=lease.holder if lease else None,
        leased_until=instant(lease.until) if lease else None,
    )
