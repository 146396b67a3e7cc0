"""The walk: make every move that needs no input, lowest scope first, until the run waits or ends.

`settle` is the whole control flow of a decision after its input was recorded. The order (lowest scope serial first)
depends on the state alone. So a run that was cut anywhere makes the same moves in the same order when it continues.

Above it: `decide`. Below it: `nodes` (what each node type does), `completion`, `endings`.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.base.errors import CorruptHistory
from penstock.definitions.jq.expressions import WouldWait
from penstock.definitions.model import Node, NodeType
from penstock.engine.records import commands, events
from penstock.engine.state import COMPENSATION_PREFIX, Activation, Failure, Scope
from penstock.engine.transitions import TERMINAL_STATUSES, Phase
from penstock.engine.walk.completion import after_completion, fail, time_out
from penstock.engine.walk.endings import compensate_next, end_run
from penstock.engine.walk.nodes.activity import request_activity
from penstock.engine.walk.nodes.bodies import close_scope, fail_scope
from penstock.engine.walk.nodes.table import rules_of
from penstock.engine.walk.rules import RULES, Move
from penstock.engine.walk.turn import Turn, node_of

__all__ = ["settle"]


def settle(turn: Turn) -> None:
    """Advance until the run waits, pauses or ends.

    Raises `WouldWait` if that takes more records than the turn may create.
    """
    state = turn.state
    while state.status not in TERMINAL_STATUSES:
        before = state.seq
        if turn.records_max is not None and len(turn.records) > turn.records_max:
            raise WouldWait
        if state.owed is not None:
            turn.record(state.owed)
        elif state.ending is None and state.history_full:
            _stop_at_full_history(turn)
        elif state.paused:
            return
        elif state.ending is not None and not state.compensating:
            end_run(turn)
        elif state.ready:
            _advance(turn, state.scopes[min(state.ready)])
        else:
            return
        if state.seq == before:
            raise CorruptHistory("ENGINE_STUCK", f"run {state.run_id} is stuck: its next move makes no record")


def _advance(turn: Turn, scope: Scope) -> None:
    activation = scope.activation
    if turn.state.compensating and (activation is None or activation.phase in _OVER):
        compensate_next(turn, scope)
        return
    if activation is None:
        _continue_scope(turn, scope)
        return
    node = node_of(turn.workflow, activation)
    _MOVES[node.type][activation.phase](turn, scope, node, activation)


def _continue_scope(turn: Turn, scope: Scope) -> None:
    """Schedule the next node of a scope, or close the scope at the end of its body."""
    target = scope.next
    body = turn.workflow.bodies[scope.body]
    if target is None or (scope.parent is not None and target == body.exit_target):
        close_scope(turn, scope)
        return
    state = turn.state
    if state.steps >= limits.STEPS_PER_RUN_MAX:
        _stop_at_limit(turn, scope)
        return
    turn.record(commands.ScheduleNode(target, state.visits.get(target, 0) + 1, scope.serial))
    turn.record(events.NodeScheduled(target, state.visits[target]))


def _stop_at_limit(turn: Turn, scope: Scope) -> None:
    activation = scope.activation
    if activation is None:
        parent = turn.state.scopes[scope.parent or 0]
        scope, activation = parent, parent.activation
    if activation is None:
        raise CorruptHistory("ENGINE_STUCK", "a limit was reached before the first node")
    message = (
        f"the run made {turn.state.steps} node visits, and {limits.STEPS_PER_RUN_MAX} are allowed (is there an endless "
        "loop? a run that lives long should go on with `continue_as_new`)"
    )
    failure = Failure("RUN_LIMIT_EXCEEDED", message, "limit_exceeded", activation.node_id)
    fail(turn, scope, node_of(turn.workflow, activation), failure, fatal=True)


def _stop_at_full_history(turn: Turn) -> None:
    """Fail a run whose history is full. Records already written stay, and completed nodes are compensated."""
    state = turn.state
    message = (
        f"the history has {state.seq} records and {state.history_bytes} bytes; "
        f"{limits.HISTORY_ROWS_MAX} records and {limits.HISTORY_BYTES_MAX} bytes are allowed. "
        "Let the workflow go on with `continue_as_new` when `.run.continue_suggested` is true"
    )
    turn.record(
        events.HistoryLimitReached(records=state.seq, bytes=state.history_bytes, code="HISTORY_LIMIT", error=message)
    )


def _announce(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    turn.record(events.NodeScheduled(*activation.key))


def _failing(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    fail(turn, scope, node, activation.failure or Failure("FAILED", "failed", "activity_failed", node.id))


def _failed(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    fail_scope(turn, scope, activation.failure or Failure("FAILED", "failed", "failed", node.id))


def _begin(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    if not activation.node_id.startswith(COMPENSATION_PREFIX):
        RULES[node.type].begin(turn, scope, node, node.detail)
    elif activation.failure is not None:
        fail(turn, scope, node, activation.failure)
    else:
        request_activity(turn, scope, node)


def _timed_out(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    time_out(turn, scope, node)


def _over(turn: Turn, scope: Scope, node: Node, activation: Activation) -> None:
    if not after_completion(turn, scope, node):
        _continue_scope(turn, scope)


_OVER = frozenset({Phase.COMPLETED, Phase.UPDATED, Phase.CHECKPOINTED, Phase.ROUTED, Phase.FAILED})
# The moves of every node type, unless the rules of the type override them.
_SHARED_MOVES: dict[Phase, Move] = {
    Phase.SCHEDULING: _announce,
    Phase.SCHEDULED: _begin,
    Phase.FAILING: _failing,
    Phase.TIMED_OUT: _timed_out,
    Phase.COMPLETED: _over,
    Phase.UPDATED: _over,
    Phase.CHECKPOINTED: _over,
    Phase.ROUTED: _over,
    Phase.FAILED: _failed,
}
_MOVES: dict[NodeType, dict[Phase, Move]] = {
    node_type: {**_SHARED_MOVES, **rules_of(node_type).moves} for node_type in NodeType
}
