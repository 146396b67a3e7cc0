"""How a run begins: with an input from outside, or as the continuation of another run.

A run that continues another one takes over its id with the next number, its parent and depth, its buffered signals and
the remaining time of the whole chain; its history begins empty. It cannot be refused, because there is no caller to
receive the refusal. If a fresh start would be refused, the run starts and fails immediately.

Above it: `decide`, `nodes.continue_as_new`; the hosts, which get the next run's input from `successor_start`. Below it:
`turn`, `rules`.
"""

from __future__ import annotations

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.ids import DEFAULT_TENANT, chain_of, generation_of
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.expressions import Evaluator
from penstock.definitions.jq.templates import SECRET_MASK
from penstock.definitions.model import Workflow
from penstock.definitions.secret_answers import has_marks, secrets_in, with_values, without_values_of
from penstock.engine.inputs import Predecessor, StartRun
from penstock.engine.outcomes import Refused
from penstock.engine.records import events
from penstock.engine.reducers import merge_state
from penstock.engine.state import RunState
from penstock.engine.values import refuse_unfit
from penstock.engine.walk.completion import describe_violations
from penstock.engine.walk.rules import RULES
from penstock.engine.walk.turn import Turn

__all__ = [
    "has_secret_input",
    "prepared_input",
    "runs_without_wait",
    "secrets_of_input",
    "start_run",
    "successor_start",
    "unfit_id",
]


def start_run(turn: Turn, given: StartRun) -> Refused | None:
    """Record the beginning of a run, or return why it cannot begin."""
    state, workflow, before = turn.state, turn.workflow, given.predecessor
    if state.seq:
        return Refused("DUPLICATE_EXECUTION_ID", f"run {state.run_id} exists already")
    prepared = _checked_input(turn, given)
    refused = prepared if isinstance(prepared, Refused) else None
    if before is None:
        refused = unfit_id(given.run_id) or refused
        if refused is not None:
            return refused
    value, secrets = _recorded_input(workflow, given, given.input if isinstance(prepared, Refused) else prepared)
    initial: JsonValue = workflow.initial_state
    if not workflow.native:
        initial = merge_state({}, value, {}) if isinstance(value, dict) else {}
    state.run_id = given.run_id
    deadline, chain_deadline = _deadlines(workflow, given)
    started = events.ExecutionStarted(
        workflow_name=workflow.name,
        workflow_version=workflow.version,
        input_keys=list(value) if isinstance(value, dict) else [],
        definition_hash=workflow.hash,
        format=str(workflow.format),
        input=value,
        state=initial,
        entry=workflow.bodies[""].entry,
        activity_execution_mode=given.mode,
        tenant=given.tenant if given.tenant != DEFAULT_TENANT else None,
        client_kinds=list(given.client_kinds) or None,
        started_by=given.started_by,
        starter=given.starter,
        untrusted=given.untrusted,
        run_attempt=given.run_attempt if given.run_attempt != 1 else None,
        parent_execution_id=given.parent_run_id,
        depth=given.depth if given.parent_run_id is not None else None,
        deadline=deadline,
        chain_deadline=chain_deadline,
        secrets=secrets,
    )
    turn.record(started if before is None else _taken_over(started, given.run_id, before))
    if refused is not None:
        turn.record(events.ExecutionFailed(error=refused.message, code=refused.code))
    return None


def _checked_input(turn: Turn, given: StartRun) -> JsonValue | Refused:
    """Return the input with its defaults, or why it is invalid. What is masked was checked before it was masked."""
    recorded = given.recorded
    if recorded is None or not given.sealed:
        return prepared_input(turn.workflow, given.input, turn.evaluator)
    if recorded.refusal is not None:
        return Refused(recorded.code or "VALIDATION_ERROR", recorded.refusal)
    return given.input


def _recorded_input(
    workflow: Workflow, given: StartRun, value: JsonValue
) -> tuple[JsonValue, dict[str, JsonValue] | None]:
    """Return what is recorded of an input: the input with its secrets masked, and the sealed secrets."""
    if given.recorded is not None:
        # Histories older than secret input stay as they are.
        return value, dict(given.sealed) if given.sealed else None
    secrets = _secret_parts(workflow, value)
    if not secrets:
        return value, None
    sealed = given.sealed or {}
    masked = with_values(value, dict.fromkeys(secrets, SECRET_MASK))
    # A secret without a seal is lost. Its path is recorded anyway, and the node that needs it fails.
    return masked, {pointer: sealed.get(pointer, "") for pointer in secrets}


def has_secret_input(workflow: Workflow) -> bool:
    """Whether the input of a workflow may contain secrets. Costs one look at the schema."""
    return workflow.native and workflow.input_schema is not None and has_marks(workflow.input_schema)


def _secret_parts(workflow: Workflow, value: JsonValue) -> dict[str, JsonValue]:
    """Return the secrets of an input by path; all of it if they cannot be found."""
    if workflow.input_schema is None or not has_secret_input(workflow):
        return {}
    try:
        return secrets_in(workflow.input_schema, value)
    except Rejected:
        return {"": value}


def secrets_of_input(workflow: Workflow, given: StartRun, evaluator: Evaluator) -> dict[str, JsonValue]:
    """Return the secrets of an input by path, for the host to seal before the engine records the input without them.

    Empty if the start will be refused anyway.
    """
    prepared = prepared_input(workflow, given.input, evaluator)
    return {} if isinstance(prepared, Refused) else _secret_parts(workflow, prepared)


def unfit_id(run_id: str) -> Refused | None:
    """Refuse an id that looks like that of a run that continues another."""
    if chain_of(run_id) == run_id:
        return None
    message = f"the run id {run_id} ends in ~ and a number, as only runs do that continue others"
    return Refused("VALIDATION_ERROR", message, "choose another id")


def prepared_input(workflow: Workflow, given: JsonValue, evaluator: Evaluator) -> JsonValue | Refused:
    """Return the input with its defaults filled in, or why it is invalid."""
    unfit = refuse_unfit(given, "the input", code="VALIDATION_ERROR")
    if unfit is not None:
        return unfit
    value: JsonValue = {} if given is None else given
    if workflow.input_schema_json is not None:
        try:
            value = evaluator.with_defaults(workflow.input_schema_json, value)
        except Rejected as refused:
            return Refused("VALIDATION_ERROR", f"the input does not fit {workflow.name}: {refused}", refused.hint)
    if workflow.input_schema is not None and (found := evaluator.violations(workflow.input_schema, value)):
        message = describe_violations(without_values_of(found, _secret_parts(workflow, value)))
        hint = "look at the workflow's input schema and correct the input"
        return Refused("VALIDATION_ERROR", f"the input does not fit {workflow.name}: {message}", hint)
    if workflow.input_schema is not None and has_secret_input(workflow):
        try:
            secrets_in(workflow.input_schema, value)
        except Rejected as refused:
            return Refused("VALIDATION_ERROR", refused.message, refused.hint)
    if not workflow.native:
        if not isinstance(value, dict):
            return Refused("VALIDATION_ERROR", "the input must be an object: it becomes the state")
        if workflow.state_schema is not None and (found := evaluator.violations(workflow.state_schema, value)):
            message = describe_violations(found)
            return Refused("VALIDATION_ERROR", f"the input does not fit the state schema: {message}")
    return value


def _deadlines(workflow: Workflow, given: StartRun) -> tuple[int | None, int | None]:
    """Return the deadlines of the run and of its whole chain.

    The document's timeout applies to each run; the caller's timeout applies to the chain that the start leads to.
    """
    chain = given.predecessor.deadline if given.predecessor is not None else None
    if given.timeout_ms is not None and given.predecessor is None:
        chain = given.at + given.timeout_ms
    own = None if workflow.timeout_ms is None else given.at + workflow.timeout_ms
    found = [instant for instant in (own, chain) if instant is not None]
    return min(found, default=None), chain


def _taken_over(started: events.ExecutionStarted, run_id: str, before: Predecessor) -> events.ExecutionStarted:
    return replace(
        started,
        continued_from=before.run_id or None,
        generation=generation_of(run_id) if before.run_id else None,
        runs_without_wait=before.runs_without_wait or None,
        carried_signals=list(before.signals) or None,
        carried_signal_ids=list(before.signal_ids) or None,
    )


# --- the next run --------------------------------------------------------------------------------


def runs_without_wait(workflow: Workflow, state: RunState) -> int:
    """Return how many consecutive runs of the chain, including this one, did not wait for anything."""
    nodes = (workflow.nodes.get(name) for name in state.visits)
    waited = any(node is not None and RULES[node.type].hands_out for node in nodes)
    return 0 if waited else state.runs_without_wait + 1


def successor_start(workflow: Workflow, state: RunState, *, at: int) -> StartRun:
    """Return the input that starts the continuation of an ended run; `workflow` is the ended run's."""
    going_on = state.continuation
    if going_on is None:
        raise TypeError(f"run {state.run_id} does not continue")
    signals: list[JsonObject] = []
    for signal in state.signals:
        named: JsonObject = {"signalName": signal.name, "payload": signal.payload}
        signals.append(named if signal.signal_id is None else {**named, "signalId": signal.signal_id})
    return StartRun(
        at=at,
        run_id=going_on.run_id,
        input=going_on.input,
        mode=state.mode,
        tenant=state.tenant,
        client_kinds=state.client_kinds,
        started_by=state.started_by,
        starter=state.starter,
        untrusted=state.untrusted,
        parent_run_id=state.parent_run_id,
        depth=state.depth,
        predecessor=Predecessor(
            run_id=state.run_id,
            deadline=state.chain_deadline,
            runs_without_wait=runs_without_wait(workflow, state),
            signals=tuple(signals),
            signal_ids=tuple(state.signal_ids)[-limits.SIGNAL_IDS_CARRIED_MAX :],
        ),
    )
