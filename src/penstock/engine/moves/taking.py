"""Make a plain move: check the state once, encode each value once, and build the new state with its effects.

`take` returns exactly what `decide` would, or None: then the input is not plain and the caller must ask `decide`. It
never takes long, because large values are not plain. The `Plan` says what is plain in a workflow; this module checks
the state and the input.

Above it: `runtime.host.deciding`. Below it: `plan`, `turn`.
"""

from __future__ import annotations

from operator import mul

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.encoding import SafeEncoder
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonValue, exceeds_values, is_flat, json_problem
from penstock.definitions.jq.expressions import EvaluationFailed, Evaluator
from penstock.definitions.model import EndDetail, Node
from penstock.engine.effects import PerformActivity
from penstock.engine.inputs import CompleteActivity, Input, StartRun
from penstock.engine.moves.plan import Plan, Size, StartTemplate, Step
from penstock.engine.outcomes import Accepted, Refused
from penstock.engine.pages import Move
from penstock.engine.pending import in_tenant
from penstock.engine.state import Activation, RunState, Scope
from penstock.engine.transitions import Phase, RunStatus
from penstock.engine.walk.nodes.flow import result_violation
from penstock.engine.walk.starting import prepared_input, start_run, unfit_id
from penstock.engine.walk.turn import Turn

__all__ = ["take"]

_encode = SafeEncoder().encode
_ONCE = (1, 1, 1)  # visit, attempt and next visit of nearly all moves
_ENCODED_ONCE = (b"1", b"1", b"1")


def take(plan: Plan, state: RunState, given: Input, evaluator: Evaluator) -> Accepted | None:
    """Return the decision about an input if it is a plain move, otherwise None."""
    try:
        if type(given) is CompleteActivity:
            return _complete(plan, state, given, evaluator)
        if type(given) is StartRun and not state.seq:
            return _begin(plan, given, evaluator)
    except UnicodeEncodeError:
        pass  # a lone surrogate, which no move can store
    return None


def _complete(plan: Plan, before: RunState, given: CompleteActivity, evaluator: Evaluator) -> Accepted | None:
    step, scope = plan.step(given.node_id), before.scopes.get(0)
    if step is None or scope is None or not _is_plain(before, scope, given, step):
        return None
    result, at = given.result, given.at
    if not is_flat(result) and not _is_small_json(result):
        return None
    if step.result_schema is not None and evaluator.violations(step.result_schema, result):
        return None
    outputs = {**scope.outputs, given.node_id: result}
    visits, target_id = before.visits, step.target.id
    visit = visits[target_id] + 1 if target_id in visits else 1
    own, made = (given.visit, given.attempt, visit), step.constant
    values: tuple[JsonValue, ...] = (*own, result)
    head = _ENCODED_ONCE if own == _ONCE else tuple(map(_encode, own))
    encoded = [*head, _encode(result)]
    state = replace(before)
    if step.works_out:
        scope = replace(scope, next=target_id, last_output=result, outputs=outputs)
        state.scopes = {0: scope}
        rendered = _rendered(step, Turn(plan.workflow, state, at, evaluator), scope)
        if rendered is None:
            return None
        made = rendered[0]
        if step.made is not None:
            values = (*values, made)
            encoded.append(_encode(made))
    state.history_bytes += _size(step.size, before.run_id, at, encoded)
    if state.history_bytes >= limits.HISTORY_BYTES_ADVISED:
        return None
    state.seq += step.records
    state.updated_at = at
    state.commands += step.commands
    state.steps += step.steps
    state.nodes_since_checkpoint += step.completed
    state.last_node_id = target_id
    state.visits = {**visits, target_id: visit}
    move = Move(step.shape, before.run_id, before.seq + 1, at, values, b",".join(encoded))
    if step.effect is None:
        _end(state, made)
        return Accepted(move, state, ())
    entered = _activation(step.target, visit, at, made)
    state.scopes = {0: replace(scope, next=target_id, last_output=result, outputs=outputs, activation=entered)}
    return Accepted(move, state, _enter(step, step.effect, state, entered))


def _is_plain(state: RunState, scope: Scope, given: CompleteActivity, step: Step) -> bool:
    """Whether state and result allow a plain move."""
    activation = scope.activation
    if activation is None or activation.phase is not Phase.REQUESTED or activation.node_id != given.node_id:
        return False
    if activation.visit != given.visit or activation.attempt != given.attempt or activation.dialogue is not None:
        return False
    if given.extra or given.holder is not None or given.round or scope.parent is not None or scope.sealed:
        return False
    if len(state.scopes) != 1 or state.children or state.ready or state.paused or state.compensating:
        return False
    if state.ending is not None or state.owed is not None or state.unanswered or not state.native:
        return False
    if state.deadline is not None and state.deadline <= given.at:
        return False  # its timer is due
    return state.steps < limits.STEPS_PER_RUN_MAX and state.seq + step.records < limits.HISTORY_ROWS_ADVISED


def _is_small_json(value: JsonValue) -> bool:
    return not exceeds_values(value, limits.VALUES_AT_ONCE) and json_problem(value, limits.JSON_DEPTH_MAX) is None


def _begin(plan: Plan, given: StartRun, evaluator: Evaluator) -> Accepted | None:
    step, at = plan.begin, given.at
    if step is None or step.effect is None or (not is_flat(given.input) and not _is_small_json(given.input)):
        return None
    template = _start_template(plan, step, given, evaluator)
    value = prepared_input(plan.workflow, given.input, evaluator)
    if template is None or isinstance(value, Refused) or unfit_id(given.run_id) is not None:
        return None
    state = replace(template.state, run_id=given.run_id, input=value, started_at=at, updated_at=at)
    made = _rendered(step, Turn(plan.workflow, state, at, evaluator), state.scopes[0])
    if made is None or (state.deadline is not None and state.deadline <= at):
        return None
    values: tuple[JsonValue, ...] = (value, state.mode, template.circumstances)
    encoded = [_encode(value), template.mode, template.encoded]
    if step.made is not None:
        values = (*values, *made)
        encoded.append(_encode(made[0]))
    names = len(_encode(list(value))) if isinstance(value, dict) else len("[]")
    members = len(template.encoded) - len("{}") + bool(template.circumstances)
    state.history_bytes = _size(step.size, given.run_id, at, encoded) + names + members
    if state.history_bytes >= limits.HISTORY_BYTES_ADVISED:
        return None
    state.last_node_id = step.target.id
    state.visits = {**state.visits, step.target.id: 1}
    move = Move(step.shape, given.run_id, 1, at, values, b",".join(encoded))
    entered = _activation(step.target, 1, at, made[0])
    state.scopes = {0: replace(state.scopes[0], activation=entered)}
    return Accepted(move, state, _enter(step, step.effect, state, entered))


def _start_template(plan: Plan, step: Step, given: StartRun, evaluator: Evaluator) -> StartTemplate | None:
    """Return what all starts with these circumstances have in common, or None for one that is refused."""
    # Deadlines and a predecessor belong to this run alone, so such a template is not shared.
    is_shared = given.timeout_ms is None and given.predecessor is None and plan.workflow.timeout_ms is None
    circumstances = _encode(replace(given, at=0, run_id="", input=None))
    if is_shared and (known := plan.start_templates.get(circumstances)) is not None:
        return known
    turn = Turn(plan.workflow, RunState(), given.at, evaluator)
    if start_run(turn, given) is not None or len(turn.records) != 1:
        return None
    state = turn.state
    message = {name: value for name, value in turn.records[0].payload.items() if name not in step.usual_keys}
    state.seq, state.commands, state.steps = step.records, step.commands, step.steps
    state.ready.clear()
    template = StartTemplate(state, message, _encode(state.mode), _encode(message))
    if is_shared:
        if len(plan.start_templates) >= limits.OPENINGS_KEPT_MAX:
            plan.start_templates.clear()
        plan.start_templates[circumstances] = template
    return template


def _rendered(step: Step, turn: Turn, scope: Scope) -> tuple[JsonValue] | None:
    """Return the arguments of the target, or the result of the run at its end; None if they cannot be computed."""
    value = step.constant
    if step.made is not None:
        rendered = turn.render(step.made, scope)
        if isinstance(rendered, EvaluationFailed) or rendered.secrets:
            return None
        value = rendered.value
    detail = step.target.detail
    if isinstance(detail, EndDetail) and result_violation(turn, detail, value) is not None:
        return None
    return (value,)


def _end(state: RunState, result: JsonValue) -> None:
    """End the run."""
    state.status = RunStatus.COMPLETED
    state.result = result
    state.scopes, state.active = {}, {}


def _activation(target: Node, visit: int, at: int, arguments: JsonValue) -> Activation:
    deadline = None if target.timeout_ms is None else at + target.timeout_ms
    return Activation(target.id, visit, Phase.REQUESTED, at, 1, arguments, deadline=deadline)


def _enter(step: Step, effect: PerformActivity, state: RunState, entered: Activation) -> tuple[PerformActivity, ...]:
    """Return the effect due at the step's target, which the root of the state has entered."""
    visit = entered.visit
    state.active = {(entered.node_id, visit): 0}
    state.untrusted = state.untrusted or step.outside
    key = f"{state.run_id}/{entered.node_id}/{visit}"
    return (
        replace(
            effect,
            effect_id=f"{key}/1",
            idempotency_key=key if state.tenant == DEFAULT_TENANT else in_tenant(state.tenant, key),
            visit=visit,
            arguments=entered.arguments,
            deadline=entered.deadline,
        ),
    )


def _size(size: Size, run_id: str, at: int, encoded: list[bytes]) -> int:
    """Return the size of a move's payloads in bytes of JSON, as `evolve` counts them."""
    total = size.always + size.run_ids * len(_encode(run_id))
    counted: int = sum(map(mul, size.values, map(len, encoded)))  # a value that is not computed has no bytes
    total += counted
    if size.instants:
        total += sum(len(str(at + after)) for after in size.instants)
    return total
