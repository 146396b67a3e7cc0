"""Endings: undoing completed nodes when a run fails or is cancelled."""

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.effects import PerformActivity
from penstock.engine.replay import Replayed, replay
from tests.unit.engine.runs import Run, begin, native, step


def undone_by(node_id: str, **fields: JsonValue) -> JsonObject:
    undo: JsonObject = {"handler": f"undo.{node_id}", "with": {"got": f"${{ .{node_id} }}"}, **fields}
    return step(node_id, compensate=undo)


def saga() -> Workflow:
    return native(undone_by("a"), undone_by("b"), step("c"))


def failing() -> Run:
    return begin(saga()).done("a", "A").done("b", "B").failed("c", "E_LAST")


def undoings(run: Run) -> list[str]:
    return [
        str(payload["nodeId"]) for payload in run.of("ScheduleNode") if str(payload["nodeId"]).startswith("compensate:")
    ]


def test_completed_nodes_are_undone_in_reverse_order_when_the_run_fails() -> None:
    run = failing()
    assert run.status == "compensating"
    assert run.of("StartCompensation")[0]["nodeIds"] == ["b", "a"]
    [effect] = run.due
    assert isinstance(effect, PerformActivity)
    assert (effect.node_id, effect.arguments, effect.config["handler"]) == ("compensate:b", {"got": "B"}, "undo.b")
    run.done("compensate:b")
    [effect] = run.due
    assert isinstance(effect, PerformActivity)
    assert (effect.node_id, effect.arguments) == ("compensate:a", {"got": "A"})
    run.done("compensate:a")
    assert (run.status, run.code) == ("failed", "E_LAST")
    assert run.records[-1].name == "ExecutionFailed"


def test_a_node_that_nobody_knows_how_to_undo_is_a_failed_undoing_and_the_others_are_undone() -> None:
    lost = step("b", compensate={"handler": "undo.b", "with": "${ .b | error }"})
    run = begin(native(undone_by("a"), lost, step("c"))).done("a", "A").done("b", "B").failed("c", "E_LAST")
    assert undoings(run) == ["compensate:b", "compensate:a"]
    assert run.of("ActivityRequested", "compensate:b") == []
    assert run.done("compensate:a").status == "failed"
    failures = run.records[-1].payload["compensationFailures"]
    assert isinstance(failures, list)
    [failure] = failures
    assert isinstance(failure, dict)
    assert (failure["nodeId"], failure["code"]) == ("compensate:b", "JQ_FAILED")
    assert replay(run.workflow, run.records) == Replayed(run.state, (), tuple(run.records))


def test_a_run_goes_on_although_a_node_could_not_be_undone() -> None:
    lost = step("b", compensate={"handler": "undo.b", "with": "${ .b | error }"})
    run = begin(native(lost, step("c"))).done("b", "B").done("c")
    assert run.status == "completed"


def test_defaults_hold_for_activities_that_undo_others() -> None:
    defaults: JsonObject = {"retry": {"max_attempts": 2}, "timeout": "1m"}
    own: JsonObject = {"retry": {"max_attempts": 1}, "timeout": "2m"}
    workflow = native(undone_by("a"), undone_by("b", **own), step("c", retry={"max_attempts": 1}), defaults=defaults)
    run = begin(workflow).done("a").done("b").failed("c")
    [effect] = run.due
    assert isinstance(effect, PerformActivity)
    assert effect.timeout_ms == 120_000
    [effect] = run.failed("compensate:b").due
    assert isinstance(effect, PerformActivity)
    assert (effect.node_id, effect.timeout_ms, effect.deadline) == ("compensate:a", 60_000, run.now + 60_000)
    [effect] = run.failed("compensate:a").due
    assert isinstance(effect, PerformActivity)
    assert effect.attempt == 2


def test_completed_nodes_are_undone_when_the_run_is_cancelled() -> None:
    run = begin(saga()).done("a", "A").take(inputs.CancelRun(at=0, reason="enough"))
    assert run.status == "cancelling"
    run.done("compensate:a")
    assert (run.status, run.state.cancel_reason) == ("cancelled", "enough")


def test_a_run_that_completes_undoes_nothing() -> None:
    run = begin(saga()).done("a").done("b").done("c")
    assert run.status == "completed"
    assert undoings(run) == []


def test_a_node_that_did_not_complete_is_not_undone() -> None:
    run = begin(saga()).done("a").failed("b")
    assert run.of("StartCompensation")[0]["nodeIds"] == ["a"]


def test_nothing_to_undo_ends_the_run_at_once() -> None:
    run = begin(native(step("a"), step("b"))).done("a").failed("b")
    assert run.told()[-2:] == ["c FailNode b", "ExecutionFailed b"]


def test_an_undoing_that_fails_is_recorded_and_the_rest_is_undone() -> None:
    run = failing().failed("compensate:b", "E_UNDO").done("compensate:a")
    assert (run.status, run.code) == ("failed", "E_LAST")
    [ended] = run.of("ExecutionFailed")
    assert ended["compensationFailures"] == [{"nodeId": "compensate:b", "code": "E_UNDO", "error": "it failed"}]


def test_an_undoing_is_tried_again_by_its_own_policy() -> None:
    node = undone_by("a", retry={"max_attempts": 2, "initial_interval": "1s"}, timeout="5s")
    run = begin(native(node, step("c"))).done("a", "A").failed("c").failed("compensate:a")
    run.after(1_000).fire("retry", "compensate:a")
    [effect] = run.due
    assert isinstance(effect, PerformActivity)
    assert (effect.attempt, effect.arguments, effect.timeout_ms) == (2, {"got": "A"}, 5_000)
    run.after(5_000).fire("timeout", "compensate:a")
    assert run.status == "failed"
    assert run.of("ActivityFailed", "compensate:a")[-1]["code"] == "TIMEOUT"


def test_every_visit_is_undone_with_what_it_was_given() -> None:
    each: JsonObject = {"id": "each", "type": "for_each", "items": "[1, 2, 3]", "nodes": [undone_by("a")]}
    run = begin(native(each, step("c"))).done("a", "x").done("a", "y").done("a", "z").failed("c")
    seen = []
    while not run.state.terminal:
        [effect] = run.due
        assert isinstance(effect, PerformActivity)
        seen.append(effect.arguments)
        run.done("compensate:a")
    assert seen == [{"got": "z"}, {"got": "y"}, {"got": "x"}]


def test_what_was_under_way_is_dropped_before_anything_is_undone() -> None:
    child: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "other"}
    branches: list[JsonValue] = [
        {"name": "x", "nodes": [undone_by("a"), step("b")]},
        {"name": "y", "nodes": [child]},
        {"name": "z", "nodes": [step("c")]},
    ]
    run = begin(native({"id": "p", "type": "parallel", "branches": branches})).done("a").take(inputs.CancelRun(at=0))
    assert sorted(effect.effect_id for effect in run.due) == ["run/compensate:a/1/1", "run:sub:sub/cancel"]
    late = inputs.CompleteActivity(at=0, node_id="c", visit=1, attempt=1)
    assert run.refuse(late).code == "ACTIVITY_SUBMIT_NOT_AWAITING"


def test_completion_order_counts_not_the_order_in_the_document() -> None:
    branches: list[JsonValue] = [
        {"name": "x", "nodes": [undone_by("a")]},
        {"name": "y", "nodes": [undone_by("b")]},
    ]
    run = begin(native({"id": "p", "type": "parallel", "branches": branches}, step("c")))
    run.done("b").done("a").failed("c")
    assert run.of("StartCompensation")[0]["nodeIds"] == ["a", "b"]


def test_a_secret_of_an_undoing_stays_a_reference() -> None:
    node = step("a", compensate={"handler": "undo", "with": {"key": "${secret:KEY}"}})
    run = begin(native(node, step("c"), secrets=["KEY"])).done("a").failed("c")
    [effect] = run.due
    assert isinstance(effect, PerformActivity)
    assert (effect.arguments, effect.secrets) == ({"key": "***"}, {"/key": "${secret:KEY}"})


def test_undoing_writes_no_state_and_no_output() -> None:
    run = failing()
    before = run.state.values
    run.done("compensate:b", {"x": 1}).done("compensate:a", {"x": 1})
    assert run.state.values == before


def test_error_routes_do_not_apply_while_undoing() -> None:
    workflow = native(undone_by("a"), step("c"), step("handle"), on_error={"code": "E_UNDO", "next": "handle"})
    run = begin(workflow).done("a").failed("c", "E_OTHER").failed("compensate:a", "E_UNDO")
    assert run.status == "failed"
    assert run.of("ScheduleNode", "handle") == []


def test_a_failure_that_is_routed_undoes_nothing() -> None:
    run = begin(native(undone_by("a"), step("c", on_error={"next": "end"}), step("d"))).done("a").failed("c")
    assert run.status == "completed"
    assert undoings(run) == []


@pytest.mark.parametrize("kind", ["pause", "run_timeout"])
def test_a_run_that_is_undoing_can_be_paused_and_has_no_deadline_any_more(kind: str) -> None:
    run = begin(native(undone_by("a"), step("c"), timeout="1s")).done("a").failed("c")
    if kind == "pause":
        run.take(inputs.PauseRun(at=0)).done("compensate:a")
        assert run.status == "paused"
        assert run.take(inputs.ResumeRun(at=0)).status == "failed"
    else:
        run.after(9_000)
        assert run.refuse(inputs.FireTimer(at=0, kind="run")).code == "TIMER_NOT_FOUND"
