"""The first move of a scheduled node: one function per node type, found in a table.

Above it: `advance`. Below it: `completion`, `turn`. Nodes with bodies only open their frame here; `bodies` goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.ids import chain_of
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import parse_instant_ms
from penstock.definitions.jq.expressions import EvaluationFailed
from penstock.definitions.jq.templates import as_text
from penstock.definitions.model import (
    ActivityDetail,
    ContinueDetail,
    EmitDetail,
    EndDetail,
    FailDetail,
    ForEachDetail,
    InterruptDetail,
    LoopDetail,
    Node,
    ParallelDetail,
    SetStateDetail,
    StartDetail,
    SubworkflowDetail,
    SwitchDetail,
    WaitDetail,
    WaitKind,
)
from penstock.engine.records import commands, events
from penstock.engine.state import COMPENSATION_PREFIX, Activation, Failure, Key, RunState, Scope
from penstock.engine.walk.completion import complete, complete_towards, fail, result_violation
from penstock.engine.walk.starting import next_run_problem
from penstock.engine.walk.turn import Turn, activation_of, attempt_timeout_ms, detail_of, parallel_span, truthy

__all__ = ["begin", "branch_names", "request_activity", "start_child"]

_PROMPT_CHARACTERS_IN_COMMAND = 200  # as published: the event carries the whole prompt


def begin(turn: Turn, scope: Scope, node: Node) -> None:
    """Make the first move of a node that was scheduled."""
    activation = activation_of(scope)
    if activation.node_id.startswith(COMPENSATION_PREFIX):
        if activation.failure is not None:
            fail(turn, scope, node, activation.failure)
            return
        request_activity(turn, scope, node)
        return
    _BEGIN[type(node.detail)](turn, scope, node, node.detail)


def _where(scope: Scope) -> Key:
    return activation_of(scope).key


def _deadline(turn: Turn, node: Node) -> int | None:
    return None if node.timeout_ms is None else turn.at + node.timeout_ms


def _start(turn: Turn, scope: Scope, node: Node, detail: StartDetail) -> None:
    complete(turn, scope, node, {})


def _end(turn: Turn, scope: Scope, node: Node, detail: EndDetail) -> None:
    result: JsonValue = turn.state.values if not turn.state.native else None
    if detail.output is not None:
        rendered = turn.render(detail.output, scope)
        if isinstance(rendered, EvaluationFailed):
            fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "output_mapping_jq_failed", node.id))
            return
        result = rendered.value
    violation = result_violation(turn, detail, result)
    if violation is not None:
        fail(turn, scope, node, violation)
        return
    complete_towards(turn, scope, node, result, None)


def _fail_node(turn: Turn, scope: Scope, node: Node, detail: FailDetail) -> None:
    rendered = turn.render(detail.message, scope)
    message = rendered.message if isinstance(rendered, EvaluationFailed) else as_text(rendered.value)
    fail(turn, scope, node, Failure(detail.code, message, "failed_by_workflow", node.id))


def _continue_as_new(turn: Turn, scope: Scope, node: Node, detail: ContinueDetail) -> None:
    rendered = turn.render(detail.input, scope)
    if isinstance(rendered, EvaluationFailed):
        fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "continue_failed", node.id))
        return
    problem = next_run_problem(turn, detail, rendered.value)
    if problem is not None:
        fail(turn, scope, node, problem)
        return
    complete_towards(turn, scope, node, rendered.value, None)


def _activity(turn: Turn, scope: Scope, node: Node, detail: ActivityDetail) -> None:
    asked = _next_attempt(turn, scope, node, detail)
    if detail.arguments is not None:
        rendered = turn.render(detail.arguments, scope)
        if isinstance(rendered, EvaluationFailed):
            reason = "delegate_failed" if detail.agent_id is not None else "activity_failed"
            fail(turn, scope, node, Failure("ARGUMENTS_FAILED", f"{node.id}: {rendered.message}", reason, node.id))
            return
        asked = replace(
            asked,
            arguments=rendered.value if turn.state.native else UNSET,
            secrets=dict(rendered.secrets) if rendered.secrets else None,
            delegate_input=rendered.value if detail.agent_id is not None else UNSET,
        )
    if detail.idempotency_key is not None:
        key = turn.render(detail.idempotency_key, scope)
        if isinstance(key, EvaluationFailed):
            fail(
                turn, scope, node, Failure("ARGUMENTS_FAILED", f"{node.id}: {key.message}", "activity_failed", node.id)
            )
            return
        asked = replace(asked, idempotency_key=as_text(key.value))
    turn.record(asked)


def request_activity(turn: Turn, scope: Scope, node: Node) -> None:
    """Ask for the next attempt of an activity (or of the activity that undoes a node)."""
    turn.record(_next_attempt(turn, scope, node, detail_of(node, ActivityDetail)))


def _next_attempt(turn: Turn, scope: Scope, node: Node, detail: ActivityDetail) -> events.ActivityRequested:
    activation = activation_of(scope)
    undo = detail.compensate if activation.node_id.startswith(COMPENSATION_PREFIX) else None
    timeout_ms = attempt_timeout_ms(node, activation)
    asked = events.ActivityRequested(
        activation.node_id,
        activation.visit,
        node_type=str(undo.type if undo else node.type),
        attempt=activation.attempt + 1,
        timeout_ms=timeout_ms,
        deadline=None if timeout_ms is None else turn.at + timeout_ms,
        parallel_span=None if scope.parent is None else parallel_span(turn.workflow, turn.state, scope),
    )
    if detail.agent_id is not None and undo is None:
        return _delegated(turn, detail, activation, asked)
    return asked


def _delegated(
    turn: Turn, detail: ActivityDetail, activation: Activation, asked: events.ActivityRequested
) -> events.ActivityRequested:
    correlation = f"{turn.state.run_id}:delegate:{activation.node_id}"
    if activation.visit > 1:
        correlation = f"{correlation}:{activation.visit}"
    repeated = activation.external or {}
    return replace(
        asked,
        agent_id=detail.agent_id,
        protocol=detail.protocol,
        delegate_correlation_id=correlation,
        delegate_input=repeated.get("delegateInput", UNSET),
    )


def _switch(turn: Turn, scope: Scope, node: Node, detail: SwitchDetail) -> None:
    root = turn.root(scope)
    for case in detail.cases:
        outcome = turn.evaluator.evaluate(case.when, root)
        if isinstance(outcome, EvaluationFailed):
            fail(turn, scope, node, Failure("JQ_FAILED", outcome.message, "switch_routing_failed", node.id))
            return
        if truthy(outcome.value):
            complete_towards(turn, scope, node, {}, case.target)
            return
    if detail.has_default:
        complete_towards(turn, scope, node, {}, detail.default)
        return
    told = f"no case of switch {node.id} matches and it has no default"
    fail(turn, scope, node, Failure("SWITCH_NO_MATCH", told, "switch_routing_failed", node.id))


def _interrupt(turn: Turn, scope: Scope, node: Node, detail: InterruptDetail) -> None:
    rendered = turn.render(detail.prompt, scope)
    if isinstance(rendered, EvaluationFailed):
        fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "interrupt_failed", node.id))
        return
    prompt = as_text(rendered.value)
    turn.record(commands.RaiseInterrupt(*_where(scope), prompt=prompt[:_PROMPT_CHARACTERS_IN_COMMAND]))


def _wait(turn: Turn, scope: Scope, node: Node, detail: WaitDetail) -> None:
    match detail.kind:
        case WaitKind.SIGNAL:
            turn.record(commands.StartSignalWait(*_where(scope), signal_name=detail.signal))
        case WaitKind.DURATION:
            turn.record(commands.StartTimer(*_where(scope), kind="duration", wait_ms=detail.duration_ms or 0))
        case WaitKind.UNTIL:
            _wait_until(turn, scope, node, detail)


def _wait_until(turn: Turn, scope: Scope, node: Node, detail: WaitDetail) -> None:
    rendered = turn.render(detail.until, scope) if detail.until is not None else EvaluationFailed("`until` is missing")
    if isinstance(rendered, EvaluationFailed):
        fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "wait_failed", node.id))
        return
    text = as_text(rendered.value)
    if parse_instant_ms(text) is None:
        told = f"`until` is no ISO timestamp: {text[:80]!r}"
        fail(turn, scope, node, Failure("INVALID_TIMESTAMP", told, "wait_failed", node.id))
        return
    turn.record(commands.StartTimer(*_where(scope), kind="until", until=text))


def _set_state(turn: Turn, scope: Scope, node: Node, detail: SetStateDetail) -> None:
    output: JsonObject = {}
    for key, template in detail.assignments:
        rendered = turn.render(template, scope)
        if isinstance(rendered, EvaluationFailed):
            fail(turn, scope, node, Failure("JQ_FAILED", f"{key}: {rendered.message}", "set_state_failed", node.id))
            return
        output[key] = rendered.value
    complete(turn, scope, node, output)


def start_child(turn: Turn, scope: Scope, node: Node, detail: SubworkflowDetail) -> None:
    """Start a child run, or the next one after a failed attempt."""
    state, activation = turn.state, activation_of(scope)
    child = commands.StartSubworkflow(
        *activation.key, workflow_ref=detail.workflow_ref, child_execution_id=_child_id(state, activation)
    )
    if activation.attempt:
        # As with activities, another attempt gets what the first one got.
        turn.record(replace(child, input=activation.arguments))
        return
    if state.depth >= limits.SUBWORKFLOW_DEPTH_MAX:
        told = f"child runs nest deeper than {limits.SUBWORKFLOW_DEPTH_MAX}"
        fail(turn, scope, node, Failure("SUBWORKFLOW_DEPTH_EXCEEDED", told, "subworkflow_failed", node.id))
        return
    rendered = turn.render(detail.input, scope)
    if isinstance(rendered, EvaluationFailed):
        fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "subworkflow_failed", node.id))
        return
    turn.record(replace(child, input=rendered.value))


def _child_id(state: RunState, activation: Activation) -> str:
    """The id of the next child run: from parent, node, visit and attempt, so that starting it twice finds the first."""
    first, attempt = f"{state.run_id}:sub:{activation.node_id}", activation.attempt + 1
    if attempt > 1:
        return f"{first}:{activation.visit}.{attempt}"
    # A published node may have a name that would make its child look like the next run of another one.
    is_plain = activation.visit == 1 and chain_of(first) == first
    return first if is_plain else f"{first}:{activation.visit}"


def _parallel(turn: Turn, scope: Scope, node: Node, detail: ParallelDetail) -> None:
    needed = detail.needed if detail.join == "n_of_m" else None
    names = branch_names(turn, detail)
    turn.record(commands.StartParallel(*_where(scope), join=str(detail.join), branch_names=names, n=needed))


def branch_names(turn: Turn, detail: ParallelDetail) -> list[JsonValue]:
    """The names of a parallel node's branches, in listed order."""
    return [turn.workflow.bodies[body].name for body in detail.bodies]


def _for_each(turn: Turn, scope: Scope, node: Node, detail: ForEachDetail) -> None:
    rendered = turn.render(detail.items, scope)
    if isinstance(rendered, EvaluationFailed):
        fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "for_each_failed", node.id))
        return
    items = rendered.value
    if not isinstance(items, list):
        told = f"`items` of {node.id} must give a list, not {type(items).__name__}"
        fail(turn, scope, node, Failure("ITEMS_NOT_A_LIST", told, "for_each_failed", node.id))
        return
    if len(items) > limits.FOR_EACH_ITEMS_MAX:
        told = f"`items` of {node.id} has {len(items)} items; at most {limits.FOR_EACH_ITEMS_MAX} are allowed"
        fail(turn, scope, node, Failure("ITEMS_LIMIT_EXCEEDED", told, "for_each_failed", node.id))
        return
    turn.record(
        events.ForEachStarted(
            *_where(scope),
            items=items,
            concurrency=detail.concurrency,
            on_item_error=str(detail.on_item_error),
            deadline=_deadline(turn, node),
        )
    )


def _loop(turn: Turn, scope: Scope, node: Node, detail: LoopDetail) -> None:
    deadline = _deadline(turn, node)
    turn.record(events.LoopStarted(*_where(scope), max_iterations=detail.iterations_max, deadline=deadline))


def _emit(turn: Turn, scope: Scope, node: Node, detail: EmitDetail) -> None:
    target, payload = turn.render(detail.run, scope), turn.render(detail.payload, scope)
    for rendered in (target, payload):
        if isinstance(rendered, EvaluationFailed):
            fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "emit_failed", node.id))
            return
    if isinstance(target, EvaluationFailed) or isinstance(payload, EvaluationFailed):
        return
    if not isinstance(target.value, str) or not target.value:
        fail(turn, scope, node, Failure("EMIT_TARGET_INVALID", "`run` must give a run id", "emit_failed", node.id))
        return
    turn.record(
        commands.EmitSignal(
            *_where(scope), target_execution_id=target.value, signal_name=detail.signal, payload=payload.value
        )
    )


_BEGIN: dict[type, Callable[..., None]] = {
    StartDetail: _start,
    EndDetail: _end,
    FailDetail: _fail_node,
    ContinueDetail: _continue_as_new,
    ActivityDetail: _activity,
    SwitchDetail: _switch,
    InterruptDetail: _interrupt,
    WaitDetail: _wait,
    SetStateDetail: _set_state,
    SubworkflowDetail: start_child,
    ParallelDetail: _parallel,
    ForEachDetail: _for_each,
    LoopDetail: _loop,
    EmitDetail: _emit,
}
