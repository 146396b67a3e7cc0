"""wait: the run sleeps for a duration or until a time, or waits for a signal.

Signals arrive through `decide`, fired timers through `walk.timers`. Above it: `table`. Below it: `completion`.
"""

from __future__ import annotations

from penstock.definitions.durations import parse_instant_ms
from penstock.definitions.jq.expressions import EvaluationFailed
from penstock.definitions.jq.templates import as_text
from penstock.definitions.model import (
    Node,
    WaitDetail,
    WaitKind,
)
from penstock.engine.records import commands, events
from penstock.engine.state import Activation, Failure, Scope
from penstock.engine.transitions import Phase
from penstock.engine.walk.completion import (
    complete,
    complete_towards,
    fail,
    time_out,
)
from penstock.engine.walk.rules import NodeRules, deadline_of, name_of
from penstock.engine.walk.turn import Turn, activation_of, detail_of

__all__ = ["WAIT"]


def _begin(turn: Turn, scope: Scope, node: Node, detail: WaitDetail) -> None:
    match detail.kind:
        case WaitKind.SIGNAL:
            turn.record(commands.StartSignalWait(*activation_of(scope).key, signal_name=detail.signal))
        case WaitKind.DURATION:
            turn.record(
                commands.StartTimer(*activation_of(scope).key, kind="duration", wait_ms=detail.duration_ms or 0)
            )
        case WaitKind.UNTIL:
            _begin_until(turn, scope, node, detail)


def _begin_until(turn: Turn, scope: Scope, node: Node, detail: WaitDetail) -> None:
    rendered = turn.render(detail.until, scope) if detail.until is not None else EvaluationFailed("`until` is missing")
    if isinstance(rendered, EvaluationFailed):
        fail(turn, scope, node, Failure("JQ_FAILED", rendered.message, "wait_failed", node.id))
        return
    text = as_text(rendered.value)
    if parse_instant_ms(text) is None:
        message = f"`until` is no ISO timestamp: {text[:80]!r}"  # prose: recorded in histories, which do not change
        fail(turn, scope, node, Failure("INVALID_TIMESTAMP", message, "wait_failed", node.id))
        return
    turn.record(commands.StartTimer(*activation_of(scope).key, kind="until", until=text))


def _timer_starting(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = detail_of(node, WaitDetail)
    due_at = turn.at + (detail.duration_ms or 0)
    if detail.kind is WaitKind.UNTIL:
        due_at = parse_instant_ms(str(activation.arguments)) or turn.at
    turn.record(events.TimerStarted(*activation.key, kind=str(detail.kind), deadline=due_at))


def _due(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.record(events.TimerFired(*activation.key, kind=str(detail_of(node, WaitDetail).kind)))


def _woken(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    complete(turn, scope, node, {})


def _signal_wait_starting(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    name = detail_of(node, WaitDetail).signal
    turn.record(events.SignalWaitStarted(*activation.key, signal_name=name, deadline=deadline_of(turn, node)))


def _take_buffered(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    name = name_of(activation, "signalName")
    signal = next(buffered for buffered in turn.state.signals if buffered.name == name)
    turn.record(
        commands.DeliverSignal(
            *activation.key, signal_name=name, payload=signal.payload, buffered=True, signal_id=signal.signal_id
        )
    )


def _delivering(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    name = name_of(activation, "signalName")
    turn.record(events.SignalReceived(*activation.key, signal_name=name, payload=activation.result))


def _signalled(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    complete(turn, scope, node, activation.result)


def _timed_out(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    detail = detail_of(node, WaitDetail)
    if detail.has_timeout_route:
        complete_towards(turn, scope, node, None, detail.on_timeout, timed_out=True)
        return
    time_out(turn, scope, node)


WAIT = NodeRules(
    detail=WaitDetail,
    begin=_begin,
    moves={
        Phase.STARTING_TIMER: _timer_starting,
        Phase.DUE: _due,
        Phase.WOKEN: _woken,
        Phase.STARTING_SIGNAL_WAIT: _signal_wait_starting,
        Phase.AWAITING_SIGNAL: _take_buffered,
        Phase.DELIVERING: _delivering,
        Phase.SIGNALLED: _signalled,
        Phase.TIMED_OUT: _timed_out,
    },
    hands_out=True,
)
