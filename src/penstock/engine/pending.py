"""`pending`: the effects that are due, read off the state of a run.

Above it: the driver calls it after every decision and after every restart. Below it: `state`, `timers`. It decides
nothing: an effect is due because a record says so.
"""

from __future__ import annotations

from penstock.base.ids import DEFAULT_TENANT
from penstock.definitions.jq.templates import answer_reference
from penstock.definitions.model import ActivityDetail, Workflow
from penstock.engine.effects import (
    CancelChild,
    DeliverSignal,
    Effect,
    PerformActivity,
    StartChild,
    StartSuccessor,
    WakeUp,
    WithdrawTask,
)
from penstock.engine.outcomes import Accepted
from penstock.engine.state import COMPENSATION_PREFIX, Activation, Child, Dialogue, RunState
from penstock.engine.transitions import Phase
from penstock.engine.walk.timers import soonest_timer_at, timers_of
from penstock.engine.walk.turn import detail_of, parallel_span

__all__ = ["effects_of", "in_tenant", "next_wake_up_at", "pending", "pending_activities", "start_of_child"]


def pending(workflow: Workflow, state: RunState, now: int) -> list[Effect]:
    """List everything that must be done now, oldest scope first, timers last.

    For a run that has ended, these are the effects it leaves behind. Nothing can be recorded after the end, so they are
    listed every time; the caller has to remember which of them are done.
    """
    effects: list[Effect] = []
    for activation in state.activations():
        effect = _effect(workflow, state, activation)
        if effect is not None:
            effects.append(effect)
    for child in state.children.values():
        if child.abandoned:
            effects.append(CancelChild(effect_id=f"{child.child_id}/cancel", child_id=child.child_id))
    if state.unanswered and state.terminal and state.mode != "host_mediated":
        effects.extend(_withdrawal(workflow, state, activation) for activation in state.unanswered)
    going_on = state.continuation
    if going_on is not None:
        effects.append(
            StartSuccessor(effect_id=f"{going_on.run_id}/start", successor_id=going_on.run_id, newest=going_on.newest)
        )
    wake_up_at = next_wake_up_at(state)
    if wake_up_at is not None and wake_up_at <= now:
        effects.extend(
            WakeUp(
                effect_id=f"{state.run_id}/{timer.node_id}/{timer.visit}/{timer.kind}/{timer.due_at}",
                kind=timer.kind,
                node_id=timer.node_id,
                visit=timer.visit,
                due_at=timer.due_at,
            )
            for timer in timers_of(state)
            if timer.due_at <= now
        )
    return effects


def effects_of(workflow: Workflow, decision: Accepted, now: int) -> tuple[Effect, ...]:
    """Return the effects that are due after a decision. They are computed only if the decision does not carry them."""
    if decision.effects is not None:
        return decision.effects
    return tuple(pending(workflow, decision.state, now))


def pending_activities(workflow: Workflow, state: RunState) -> list[PerformActivity]:
    """Return the activities that wait to be performed."""
    return [
        _perform(workflow, state, activation)
        for activation in state.activations()
        if activation.phase in (Phase.REQUESTED, Phase.OUTCOME_UNKNOWN)
    ]


def next_wake_up_at(state: RunState) -> int | None:
    """Return when the next timer of a run is due, or None if it has none or is paused."""
    if state.paused:
        return None
    return soonest_timer_at(state)


def _effect(workflow: Workflow, state: RunState, activation: Activation) -> Effect | None:
    match activation.phase:
        case Phase.REQUESTED:
            return _perform(workflow, state, activation)
        case Phase.EMITTING:
            named = activation.external or {}
            return DeliverSignal(
                effect_id=f"{state.run_id}/{activation.node_id}/{activation.visit}/emit",
                node_id=activation.node_id,
                visit=activation.visit,
                target_run_id=str(named.get("targetExecutionId")),
                signal_name=str(named.get("signalName")),
                payload=named.get("payload"),
            )
        case Phase.CHILD_RUNNING:
            child = state.children[str((activation.external or {}).get("childExecutionId"))]
            return start_of_child(state, child)
        case _:
            return None


def _perform(workflow: Workflow, state: RunState, activation: Activation) -> PerformActivity:
    node_id, visit, dialogue = activation.node_id, activation.visit, activation.dialogue
    undoing = node_id.startswith(COMPENSATION_PREFIX)
    node = workflow.nodes[node_id.removeprefix(COMPENSATION_PREFIX)]
    detail = detail_of(node, ActivityDetail)
    undo = detail.compensate if undoing else None
    scope = state.scopes[state.active[node_id, visit]]
    key = f"{state.run_id}/{node_id}/{visit}"
    return PerformActivity(
        effect_id=f"{key}/{activation.attempt}" + (f"/{dialogue.round}" if dialogue else ""),
        idempotency_key=activation.idempotency_key or in_tenant(state.tenant, key),
        node_id=node_id,
        visit=visit,
        attempt=activation.attempt,
        node_type=str(undo.type if undo else node.type),
        config=undo.config if undo else detail.config,
        arguments=activation.arguments,
        secrets=activation.secrets,
        deadline=activation.deadline,
        timeout_ms=undo.timeout_ms if undo else node.timeout_ms,
        at_most_once=detail.at_most_once and not undoing,
        parallel_span=parallel_span(workflow, state, scope) if scope.parent is not None else None,
        delegate=activation.external if undo is None else None,
        output_schema=node.output_schema_json if undo is None else None,
        round=dialogue.round if dialogue else 0,
        resume=dialogue.resume if dialogue else None,
        answer=dialogue.answer if dialogue else None,
        answer_secrets=_answer_secrets(dialogue),
        lease=activation.lease,
    )


def _withdrawal(workflow: Workflow, state: RunState, activation: Activation) -> WithdrawTask:
    node_id, dialogue = activation.node_id, activation.dialogue
    node = workflow.nodes[node_id.removeprefix(COMPENSATION_PREFIX)]
    key = f"{state.run_id}/{node_id}/{activation.visit}"
    effect_id = f"{key}/{activation.attempt}/withdraw"
    asked = PerformActivity(
        effect_id=effect_id,
        idempotency_key=activation.idempotency_key or in_tenant(state.tenant, key),
        node_id=node_id,
        visit=activation.visit,
        attempt=activation.attempt,
        node_type=str(node.type),
        config=detail_of(node, ActivityDetail).config,
        delegate=activation.external,
        round=dialogue.round if dialogue else 0,
        resume=dialogue.resume if dialogue else None,
    )
    return WithdrawTask(effect_id=effect_id, activity=asked)


def _answer_secrets(dialogue: Dialogue | None) -> dict[str, str] | None:
    if dialogue is None or dialogue.sealed is None:
        return None
    return {pointer: answer_reference(seal) for pointer, seal in dialogue.sealed.items()}


def in_tenant(tenant: str, key: str) -> str:
    """Return a key that is unique across tenants. The default tenant has no prefix: its keys are older than tenants."""
    return key if tenant == DEFAULT_TENANT else f"{tenant}/{key}"


def start_of_child(state: RunState, child: Child) -> StartChild:
    """Return the effect that starts a child of a run."""
    return StartChild(
        effect_id=f"{child.child_id}/start",
        child_id=child.child_id,
        workflow_ref=child.workflow_ref,
        input=child.input,
        version_pin=child.version_pin,
        depth=state.depth + 1,
    )
