"""`decide`: turn an input into records to store, or into a refusal.

One function per input, found in a table. It checks the input, records it, and lets `walk.advance.settle` make the moves
that follow. The state passed in is never changed, so a refusal leaves the run exactly as it was.

Above it: the driver, the control plane, the simulator, replay. Below it: `walk`. No clock: inputs carry their time. No
I/O: `pending` reads the effects off the new state.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from penstock.base import limits
from penstock.definitions.jq.expressions import Evaluator, InProcessEvaluator
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.outcomes import Accepted, Decision, Refused
from penstock.engine.records import commands, events
from penstock.engine.retries import GiveUp, RetryAt, next_attempt
from penstock.engine.state import Child, RunState
from penstock.engine.transitions import Phase
from penstock.engine.values import refuse_unfit
from penstock.engine.walk.activities import (
    ask_in_activity,
    complete_activity,
    fail_activity,
    report_outcome_unknown,
    retry_activity,
)
from penstock.engine.walk.advance import settle
from penstock.engine.walk.leases import lease_activity
from penstock.engine.walk.questions import answer_interrupt
from penstock.engine.walk.starting import start_run
from penstock.engine.walk.timers import fire_timer
from penstock.engine.walk.turn import Turn

__all__ = ["decide"]

_IN_PROCESS = InProcessEvaluator()


def decide(
    workflow: Workflow,
    state: RunState,
    given: inputs.Input,
    *,
    evaluator: Evaluator = _IN_PROCESS,
    records_max: int | None = None,
) -> Decision:
    """Return the records that an input leads to, or why it is refused.

    Raises `WouldWait` if there are more than `records_max` records.
    """
    if state.terminal and not isinstance(given, inputs.ContinueRun):
        return _refuse_after_end(state, given)
    turn = Turn(workflow=workflow, state=state.copy(), at=given.at, evaluator=evaluator, records_max=records_max)
    if state.unsettled and not isinstance(given, inputs.StartRun):
        settle(turn)  # the history was cut inside a decision: finish that decision first
        if turn.state.terminal and not isinstance(given, inputs.ContinueRun):
            return Accepted(tuple(turn.records), turn.state)
    refused = _TAKE[type(given)](turn, given)
    if refused is not None:
        return refused
    settle(turn)
    return Accepted(tuple(turn.records), turn.state)


def _refuse_after_end(state: RunState, given: inputs.Input) -> Refused:
    codes = {
        inputs.StartRun: "DUPLICATE_EXECUTION_ID",
        inputs.CompleteActivity: "ACTIVITY_SUBMIT_NOT_AWAITING",
        inputs.FailActivity: "ACTIVITY_SUBMIT_NOT_AWAITING",
        inputs.AskInActivity: "ACTIVITY_SUBMIT_NOT_AWAITING",
        inputs.LeaseActivity: "ACTIVITY_SUBMIT_NOT_AWAITING",
        inputs.AnswerInterrupt: "INVALID_RESUME_PAYLOAD",
        inputs.SendSignal: "SIGNAL_NOT_AWAITING",
        inputs.CancelRun: "CANCEL_NOT_ALLOWED",
    }
    code = codes.get(type(given), "RUN_ENDED")
    if state.continued_as is not None:
        message = f"run {state.run_id} has ended and continued as {state.continued_as}"
        hint = f"use {state.continued_as}, or the run that continues it"
        return Refused(code, message, hint, {"continued_as": state.continued_as})
    return Refused(code, f"run {state.run_id} is already {state.status}; it cannot change any more")


def _continue(turn: Turn, given: inputs.ContinueRun) -> Refused | None:
    if not turn.state.seq:
        return Refused("EXECUTION_NOT_FOUND", "there is no history to continue")
    return None


def _signal(turn: Turn, given: inputs.SendSignal) -> Refused | None:
    state = turn.state
    if not state.seq:
        return Refused("EXECUTION_NOT_FOUND", "the run was not started")
    if given.signal_id is not None and given.signal_id in state.signal_ids:
        return None
    unfit = refuse_unfit(given.payload, f"the payload of {given.name}", code="VALIDATION_ERROR")
    if unfit is not None:
        return unfit
    untrusted = given.untrusted and not state.untrusted
    waiting = [
        item
        for item in state.activations()
        if item.phase is Phase.AWAITING_SIGNAL and (item.external or {}).get("signalName") == given.name
    ]
    if waiting:
        turn.record(
            commands.DeliverSignal(
                *waiting[0].key,
                signal_name=given.name,
                payload=given.payload,
                signal_id=given.signal_id,
                sent_by=given.by,
                note=given.note,
                untrusted=untrusted,
            )
        )
        return None
    if len(state.signals) >= limits.SIGNALS_BUFFERED_MAX:
        message = f"{limits.SIGNALS_BUFFERED_MAX} signals are already waiting, and no node receives them"
        return Refused("SIGNAL_LIMIT_EXCEEDED", message, "let the workflow wait for this signal, or send fewer")
    turn.record(events.SignalBuffered(given.name, given.payload, given.signal_id, given.by, given.note, untrusted))
    return None


def _finish_child(turn: Turn, given: inputs.FinishChild) -> Refused | None:
    child = turn.state.children.get(given.child_id)
    if child is None:
        return Refused("CHILD_NOT_AWAITED", f"run {turn.state.run_id} does not wait for {given.child_id}")
    ended = events.SubworkflowCompleted(
        child.node_id,
        child.visit,
        workflow_ref=child.workflow_ref,
        parent_execution_id=turn.state.run_id,
        child_execution_id=child.child_id,
        child_final_state=given.final_state,
        child_result=given.result,
        untrusted=given.untrusted and not turn.state.untrusted,
    )
    if given.status == "completed":
        turn.record(replace(ended, merged_output=given.result if turn.state.native else given.final_state))
        return None
    code = given.code or ("CHILD_CANCELLED" if given.status == "cancelled" else "CHILD_FAILED")
    error = given.error or f"child run {child.child_id} {given.status}"
    failed = replace(ended, failed=True, code=code, error=error)
    turn.record(failed if child.abandoned else _retried(turn, child, failed))
    return None


def _retried(turn: Turn, child: Child, failed: events.SubworkflowCompleted) -> events.SubworkflowCompleted:
    """Decide whether a failed child run is retried."""
    activation = turn.state.activation(child.node_id, child.visit)
    if activation is None:
        return failed
    decision = next_attempt(
        turn.workflow.nodes[child.node_id].retry,
        attempt=activation.attempt,
        code=failed.code or "",
        began_at=activation.scheduled_at,
        now=turn.at,
        identity=child.child_id,
    )
    match decision:
        case RetryAt(at=at):
            return replace(failed, will_retry=True, retry_at=at if at > turn.at else None)
        case GiveUp():
            return failed


def _acknowledge(turn: Turn, given: inputs.AcknowledgeEmit) -> Refused | None:
    activation = turn.state.activation(given.node_id, given.visit)
    if activation is None or activation.phase is not Phase.EMITTING:
        return Refused("EMIT_NOT_AWAITED", f"{given.node_id} (visit {given.visit}) is not sending a signal")
    emitted = events.SignalEmitted(given.node_id, given.visit, delivered=given.delivered)
    if not given.delivered:
        message = given.error or "the signal could not be delivered"
        emitted = replace(emitted, code=given.code or "SIGNAL_TARGET_NOT_FOUND", error=message)
    turn.record(emitted)
    return None


def _cancel(turn: Turn, given: inputs.CancelRun) -> Refused | None:
    state = turn.state
    if not state.seq:
        return Refused("EXECUTION_NOT_FOUND", "the run was not started")
    if state.ending is not None:
        return Refused("CANCEL_NOT_ALLOWED", f"run {state.run_id} is already ending ({state.ending.outcome})")
    turn.record(commands.CancelExecution(state.last_node_id, given.reason))
    return None


def _pause(turn: Turn, given: inputs.PauseRun) -> Refused | None:
    state = turn.state
    if not state.seq:
        return Refused("EXECUTION_NOT_FOUND", "the run was not started")
    if state.paused:
        return Refused("PAUSE_NOT_ALLOWED", f"run {state.run_id} is already paused")
    turn.record(commands.PauseExecution(given.reason))
    return None


def _resume(turn: Turn, given: inputs.ResumeRun) -> Refused | None:
    if not turn.state.paused:
        return Refused("RESUME_NOT_ALLOWED", f"run {turn.state.run_id} is not paused")
    turn.record(commands.ResumeExecution())
    return None


_TAKE: dict[type, Callable[..., Refused | None]] = {
    inputs.StartRun: start_run,
    inputs.ContinueRun: _continue,
    inputs.CompleteActivity: complete_activity,
    inputs.FailActivity: fail_activity,
    inputs.ReportOutcomeUnknown: report_outcome_unknown,
    inputs.RetryActivity: retry_activity,
    inputs.AskInActivity: ask_in_activity,
    inputs.LeaseActivity: lease_activity,
    inputs.AnswerInterrupt: answer_interrupt,
    inputs.SendSignal: _signal,
    inputs.FireTimer: fire_timer,
    inputs.FinishChild: _finish_child,
    inputs.AcknowledgeEmit: _acknowledge,
    inputs.CancelRun: _cancel,
    inputs.PauseRun: _pause,
    inputs.ResumeRun: _resume,
}
