"""Timers: which ones a run has, when they are due, and what happens when one fires.

Timers are not stored separately: a timer is a deadline in the state, so it survives whatever the state survives.

Above it: `decide` (firing), `pending` (listing). Below it: `turn`, `activities`.
"""

from __future__ import annotations

import msgspec

from penstock.engine.approvers import escalated
from penstock.engine.inputs import FailActivity, FireTimer
from penstock.engine.outcomes import Refused
from penstock.engine.records import events
from penstock.engine.state import Activation, RunState
from penstock.engine.transitions import Phase
from penstock.engine.walk.activities import AT_WORK, fail_activity
from penstock.engine.walk.turn import Turn, happens_at_most_once

__all__ = ["Timer", "fire_timer", "soonest_timer_at", "timers_of"]

_KIND_BY_PHASE = {Phase.SLEEPING: "wait", Phase.BACKING_OFF: "retry", Phase.INTERRUPTED: "escalation"}


class Timer(msgspec.Struct, frozen=True, order=True):
    """A deadline of a run. `kind` is wait, retry, escalation, timeout or run."""

    due_at: int
    kind: str
    node_id: str = ""
    visit: int = 0


def timers_of(state: RunState) -> list[Timer]:
    """Return every timer of a run, soonest first."""
    if state.terminal:
        return []
    timers = [timer for activation in state.activations() for timer in _timers(activation)]
    if state.deadline is not None and state.ending is None:
        timers.append(Timer(state.deadline, "run"))
    timers.sort()
    return timers


def soonest_timer_at(state: RunState) -> int | None:
    """Return when the first of `timers_of` is due. Called after every decision, so it does not build the list."""
    if state.terminal:
        return None
    soonest = state.deadline if state.ending is None else None
    for scope in state.scopes.values():
        activation = scope.activation
        if activation is None:
            continue
        due_at, deadline = activation.due_at, activation.deadline
        if due_at is not None and activation.phase in _KIND_BY_PHASE and (soonest is None or due_at < soonest):
            soonest = due_at
        if deadline is not None and (soonest is None or deadline < soonest):
            soonest = deadline
    return soonest


def _timers(activation: Activation) -> list[Timer]:
    timers = []
    if activation.due_at is not None and activation.phase in _KIND_BY_PHASE:
        timers.append(Timer(activation.due_at, _KIND_BY_PHASE[activation.phase], *activation.key))
    if activation.deadline is not None:
        timers.append(Timer(activation.deadline, "timeout", *activation.key))
    return timers


def fire_timer(turn: Turn, given: FireTimer) -> Refused | None:
    """Handle a fired timer; refuse one that is unknown or not due yet."""
    wanted = (given.kind, given.node_id, given.visit)
    timer = next((item for item in timers_of(turn.state) if (item.kind, item.node_id, item.visit) == wanted), None)
    if timer is None:
        return Refused("TIMER_NOT_FOUND", f"run {turn.state.run_id} has no {given.kind} timer for {given.node_id}")
    if given.at < timer.due_at:
        return Refused("TIMER_NOT_DUE", f"the {given.kind} timer of {given.node_id} is due at {timer.due_at}")
    if given.kind == "run":
        turn.record(events.TimerFired(kind=given.kind))
        return None
    activation = turn.state.activation(given.node_id, given.visit)
    if activation is not None and given.kind == "escalation":
        asked = activation.external or {}
        interrupt_id = asked.get("interruptId")
        turn.record(
            events.InterruptEscalated(
                *activation.key,
                approvers=escalated(asked.get("approvers")),
                interrupt_id=interrupt_id if isinstance(interrupt_id, str) else None,
            )
        )
        return None
    if activation is not None and activation.phase in AT_WORK:
        message = f"attempt {activation.attempt} of {given.node_id} took longer than its timeout allows"
        if activation.phase is Phase.ASKING:
            message = f"nobody answered what attempt {activation.attempt} of {given.node_id} asked within its timeout"
        failed = FailActivity(
            at=given.at,
            node_id=given.node_id,
            visit=given.visit,
            error=message,
            code="TIMEOUT",
            # The attempt may still take effect, so an at-most-once activity is not retried.
            retryable=not happens_at_most_once(turn.workflow, activation),
        )
        return fail_activity(turn, failed)
    turn.record(events.TimerFired(given.node_id, given.visit, given.kind))
    return None
