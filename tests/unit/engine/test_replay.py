"""Replay: our own histories fit exactly, foreign ones by their commands, and a divergence is named."""

from msgspec.structs import replace

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.outcomes import Refused
from penstock.engine.records import Record
from penstock.engine.replay import Diverged, Replayed, replay
from tests.unit.engine.runs import T0, Run, begin, native, published, step, switch_loop

TOOL: JsonObject = {"id": "a1", "type": "tool_call", "config": {"server": "shop", "tool": "look"}}
QUESTION: JsonObject = {
    "id": "ask",
    "type": "interrupt",
    "config": {"prompt": "Go?", "resume_schema": {"type": "object"}},
}


def busy() -> Run:
    """A run in which nearly everything happens."""
    branches: list[JsonValue] = [
        {"name": "x", "nodes": [{"id": "ask", "type": "interrupt", "message": "?"}]},
        {"name": "y", "nodes": [{"id": "sig", "type": "wait", "signal": "go"}]},
        {"name": "z", "nodes": [step("a", retry={"max_attempts": 3, "initial_interval": "1s", "jitter": True})]},
    ]
    run = begin(
        native(
            {"id": "p", "type": "parallel", "branches": branches},
            {"id": "sub", "type": "subworkflow", "workflow": "other"},
            {"id": "tell", "type": "emit", "run": "other", "signal": "go"},
            {"id": "w", "type": "wait", "duration": "1s"},
            {"id": "w0", "type": "wait", "duration": "0ms"},
            {"id": "each", "type": "for_each", "items": "[1, 2]", "concurrency": 2, "nodes": [step("b")]},
            step("c", effects="at_most_once", compensate={"handler": "undo"}),
            step("d", timeout="1s", on_error={"code": "TIMEOUT", "next": "e"}),
            step("e"),
        )
    )
    run.failed("a").signal("go", 1, "id-1").signal("more", 2).answer({"ok": True})
    run.after(1_000).fire("retry", "a").take(inputs.PauseRun(at=0, reason="lunch")).done("a", 3)
    run.take(inputs.ResumeRun(at=0))
    run.take(inputs.FinishChild(at=0, child_id="run:sub:sub", status="completed", result=1))
    run.take(inputs.AcknowledgeEmit(at=0, node_id="tell", visit=1)).after(1_000).fire("wait", "w")
    run.done("b", 1, visit=2).done("b", 2, visit=1)
    run.take(inputs.ReportOutcomeUnknown(at=0, node_id="c")).take(inputs.RetryActivity(at=0, node_id="c", by="ada"))
    run.done("c").after(1_000).fire("timeout", "d").take(inputs.CancelRun(at=0, reason="enough"))
    return run.done("compensate:c")


def replayed(workflow: Workflow, records: list[Record]) -> Replayed:
    outcome = replay(workflow, records)
    assert isinstance(outcome, Replayed), outcome
    return outcome


def foreign(
    records: list[Record], *, keep: tuple[str, ...] = ("executionId", "nodeId", "result", "output")
) -> list[Record]:
    """A history as another engine writes it: no visits, no targets, few keys."""
    return [
        replace(record, content={key: value for key, value in record.payload.items() if key in keep})
        for record in records
    ]


START = inputs.StartRun(at=T0, run_id="run", input={})


def test_a_history_in_which_nearly_everything_happens_replays_exactly() -> None:
    run = busy()
    assert run.status == "cancelled"
    outcome = replayed(run.workflow, run.records)
    assert outcome.missing == ()
    assert outcome.state == run.state


def test_a_history_cut_after_any_row_replays_to_where_it_was_and_says_what_is_missing() -> None:
    run = busy()
    for cut in range(1, len(run.records) + 1):
        outcome = replayed(run.workflow, run.records[:cut])
        known = run.records[:cut]
        completed = [*known, *outcome.missing]
        assert completed == run.records[: len(completed)]
        assert len(completed) == outcome.state.seq


def test_a_history_whose_definition_has_changed_diverges_at_the_first_other_command() -> None:
    run = begin(published(TOOL), {}).done("a1", {})
    changed = published({**TOOL, "id": "a2"})
    outcome = replay(changed, run.records)
    assert outcome == Diverged(
        index=3, expected={"name": "ScheduleNode", "nodeId": "a1"}, actual={"name": "ScheduleNode", "nodeId": "a2"}
    )
    assert isinstance(outcome, Diverged)
    assert "command index 3" in outcome.message
    assert outcome.body().code == "NONDETERMINISM_DETECTED"
    assert outcome.body().context == {"expected": outcome.expected, "actual": outcome.actual}


def test_a_recorded_command_that_the_workflow_does_not_want_diverges_from_nothing() -> None:
    run = begin(published(TOOL), {})
    extra = Record(len(run.records) + 1, "command", "CompleteNode", {"executionId": "run", "nodeId": "a1"}, T0)
    outcome = replay(run.workflow, [*run.records, extra])
    assert isinstance(outcome, Diverged)
    assert (outcome.index, outcome.actual) == (4, None)
    assert "wants nothing" in outcome.message


def test_a_history_without_a_start_is_refused_unless_the_start_is_given() -> None:
    run = begin(published(TOOL), {})
    assert isinstance(replay(run.workflow, run.records[1:]), Refused)
    outcome = replay(run.workflow, run.records[1:], start=START)
    assert isinstance(outcome, Replayed)
    assert outcome.state.activation("a1") is not None


def test_a_start_whose_input_does_not_fit_is_refused() -> None:
    workflow = native(step("a"), input={"type": "object", "required": ["n"]})
    outcome = replay(workflow, [], start=START)
    assert isinstance(outcome, Refused)
    assert outcome.code == "VALIDATION_ERROR"


def test_a_foreign_history_without_visits_attempts_and_targets_replays() -> None:
    run = begin(switch_loop(3), {}).done("a", {"log": [1]}).done("a", {"log": [2]}).done("a", {"log": [3]})
    outcome = replay(run.workflow, foreign(run.records), start=START)
    assert isinstance(outcome, Replayed)
    assert outcome.state.result == {"log": [1, 2, 3]}


def test_a_foreign_history_of_commands_and_results_alone_replays() -> None:
    run = begin(published(TOOL), {}).done("a1", {"found": True})
    kept = [record for record in foreign(run.records) if record.kind == "command" or record.name == "ActivityCompleted"]
    outcome = replay(run.workflow, kept, start=START)
    assert isinstance(outcome, Replayed)
    assert outcome.state.result == {"found": True}
    assert outcome.missing[-1].name == "ExecutionCompleted"


def test_the_answer_of_a_foreign_question_is_taken_from_its_completion() -> None:
    run = begin(published(QUESTION), {}).answer({"ok": True})
    outcome = replay(run.workflow, foreign(run.records), start=START)
    assert isinstance(outcome, Replayed)
    assert outcome.state.result == {"ok": True}


def test_foreign_attempts_without_timers_replay() -> None:
    run = begin(published({**TOOL, "retry": {"max_attempts": 3, "initial_interval": "1s"}}), {})
    run.failed("a1").after(1_000).fire("retry", "a1").done("a1", {"found": True})
    keys = ("executionId", "nodeId", "result", "output", "willRetry", "error")
    kept = [record for record in foreign(run.records, keep=keys) if record.name != "TimerFired"]
    outcome = replay(run.workflow, kept, start=START)
    assert isinstance(outcome, Replayed)
    assert outcome.state.result == {"found": True}


def test_a_foreign_pending_activity_is_awaited_and_nothing_is_missing() -> None:
    run = begin(published(TOOL), {})
    outcome = replay(run.workflow, foreign(run.records), start=START)
    assert isinstance(outcome, Replayed)
    assert outcome.missing == ()
    assert outcome.state.activation("a1") is not None


def test_a_foreign_cancellation_is_an_end() -> None:
    run = begin(published(TOOL), {})
    ended = Record(len(run.records) + 1, "event", "ExecutionCancelled", {"executionId": "run", "reason": "enough"}, T0)
    outcome = replay(run.workflow, [*run.records, ended])
    assert isinstance(outcome, Replayed)
    assert (str(outcome.state.status), outcome.state.cancel_reason) == ("cancelled", "enough")


def test_a_history_that_ends_in_a_failure_the_walk_does_not_find_ends_there() -> None:
    run = begin(published(TOOL), {})
    payload: JsonObject = {"executionId": "run", "error": "stopped by hand", "code": "STOPPED"}
    ended = Record(len(run.records) + 1, "event", "ExecutionFailed", payload, T0)
    outcome = replay(run.workflow, [*run.records, ended])
    assert isinstance(outcome, Replayed)
    assert outcome.state.failure is not None
    assert outcome.state.failure.code == "STOPPED"


def test_a_fired_timer_of_a_foreign_history_needs_no_right_time() -> None:
    node: JsonObject = {"id": "w", "type": "wait", "config": {"kind": "duration", "duration_ms": 60_000}}
    run = begin(published(node), {}).after(60_000).fire("wait", "w")
    keys = ("executionId", "nodeId", "output", "kind")
    at_once = [replace(record, at=T0) for record in foreign(run.records, keep=keys)]
    outcome = replay(run.workflow, at_once, start=START)
    assert isinstance(outcome, Replayed)
    assert str(outcome.state.status) == "completed"
