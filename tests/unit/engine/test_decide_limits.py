"""Limits of a run: what ends it, with which code."""

import msgspec
import pytest

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.engine import inputs
from tests.unit.engine.runs import begin, native, published, step


def test_an_endless_loop_ends_at_the_step_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STEPS_PER_RUN_MAX", 50)
    count: JsonObject = {"id": "c", "type": "set_state", "config": {"assignments": {"n": {"jq": ".n + 1"}}}}
    gate: JsonObject = {"cases": [{"when": ".n > 0", "target": "c"}], "default": "e"}
    run = begin(
        published(
            count,
            {"id": "again", "type": "switch", "config": gate},
            edges=[("__start__", "s"), ("s", "c"), ("c", "again")],
        ),
        {"n": 1},
    )
    assert (run.status, run.code) == ("failed", "RUN_LIMIT_EXCEEDED")
    assert run.state.steps == 50
    assert "endless loop" in str(run.of("ExecutionFailed")[0]["error"])


def test_a_run_that_reached_a_limit_undoes_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STEPS_PER_RUN_MAX", 2)
    run = begin(native(step("a", compensate={"handler": "undo"}), step("b"), step("c"))).done("a").done("b")
    assert run.status == "compensating"
    assert run.done("compensate:a").code == "RUN_LIMIT_EXCEEDED"


def test_no_route_catches_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STEPS_PER_RUN_MAX", 3)
    workflow = native(step("a", on_error={"next": "end"}), step("b"), step("c"), step("d"), on_error={"next": "d"})
    run = begin(workflow).done("a").done("b").done("c")
    assert run.code == "RUN_LIMIT_EXCEEDED"


def test_the_limit_holds_inside_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STEPS_PER_RUN_MAX", 10)
    body: JsonObject = {"id": "c", "type": "set_state", "set": {"n": 1}}
    run = begin(native({"id": "l", "type": "loop", "while": "true", "max_iterations": 99, "nodes": [body]}))
    assert run.code == "RUN_LIMIT_EXCEEDED"


def test_a_history_does_not_grow_beyond_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HISTORY_ROWS_MAX", 40)
    body: JsonObject = {"id": "c", "type": "set_state", "set": {"n": 1}}
    run = begin(native({"id": "l", "type": "loop", "while": "true", "max_iterations": 99, "nodes": [body]}))
    assert (run.status, run.code) == ("failed", "HISTORY_LIMIT")
    assert len(run.records) == 42
    assert "continue_as_new" in str(run.of("ExecutionFailed")[0]["error"])


def test_a_history_has_only_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HISTORY_BYTES_MAX", 2_000)
    run = begin(native(step("a"), step("b"))).done("a", "x" * 2_000)
    assert (run.status, run.code) == ("failed", "HISTORY_LIMIT")
    assert run.of("ActivityCompleted")[0]["result"] == "x" * 2_000  # what was acknowledged is kept
    assert run.state.history_bytes == sum(len(msgspec.json.encode(record.payload)) for record in run.records)


def test_a_full_history_ends_a_run_that_makes_no_move_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin(native({"id": "ask", "type": "interrupt", "message": "?"}))
    monkeypatch.setattr(limits, "HISTORY_ROWS_MAX", 19)
    while not run.state.terminal:
        run.take(inputs.PauseRun(at=0) if not run.state.paused else inputs.ResumeRun(at=0))
    assert run.code == "HISTORY_LIMIT"
    assert run.told()[-3:] == ["ExecutionPaused", "HistoryLimitReached", "ExecutionFailed ask"]


def test_a_run_with_a_full_history_undoes_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin(native(step("a", compensate={"handler": "undo"}), step("b"), on_error={"next": "b"})).done("a")
    monkeypatch.setattr(limits, "HISTORY_ROWS_MAX", run.state.seq + 1)
    assert run.signal("nobody waits for it").status == "compensating"
    assert run.done("compensate:a").code == "HISTORY_LIMIT"


def test_a_run_with_a_long_history_is_told_to_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    output: JsonObject = {"id": "end", "type": "end", "output": "${ .run.continue_suggested }"}
    run = begin(native(step("a"), output))
    assert not run.state.should_continue
    assert run.done("a").state.result is False
    monkeypatch.setattr(limits, "HISTORY_ROWS_ADVISED", 5)
    assert begin(native(step("a"), output)).done("a").state.result is True
    monkeypatch.setattr(limits, "HISTORY_ROWS_ADVISED", 500)
    monkeypatch.setattr(limits, "HISTORY_BYTES_ADVISED", 500)
    assert begin(native(step("a"), output)).done("a", "x" * 500).state.result is True


def test_a_history_that_is_full_when_it_is_loaded_ends_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin(native(step("a")))
    monkeypatch.setattr(limits, "HISTORY_ROWS_MAX", run.state.seq)
    assert run.take(inputs.ContinueRun(at=0)).code == "HISTORY_LIMIT"


def test_a_state_that_grows_too_large_fails_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STATE_BYTES_MAX", 100)
    node: JsonObject = {"id": "x", "type": "set_state", "set": {"text": "${ .input.text }"}}
    assert begin(native(node), {"text": "short"}).status == "completed"
    run = begin(native(node), {"text": "x" * 200})
    assert (run.status, run.code) == ("failed", "STATE_LIMIT_EXCEEDED")


def test_child_runs_nest_only_so_deep() -> None:
    workflow = native({"id": "sub", "type": "subworkflow", "workflow": "other"})
    deepest = limits.SUBWORKFLOW_DEPTH_MAX
    assert begin(workflow, {}, parent_run_id="p", depth=deepest - 1).status == "waiting_child"
    run = begin(workflow, {}, parent_run_id="p", depth=deepest)
    assert (run.status, run.code) == ("failed", "SUBWORKFLOW_DEPTH_EXCEEDED")


def test_a_list_has_only_so_many_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FOR_EACH_ITEMS_MAX", 3)
    each: JsonObject = {"id": "each", "type": "for_each", "items": ".input", "nodes": [step("a")]}
    assert begin(native(each), [1, 2, 3]).status == "waiting_activity"
    assert begin(native(each), [1, 2, 3, 4]).code == "ITEMS_LIMIT_EXCEEDED"


def test_answers_nest_only_so_deep() -> None:
    answer: JsonValue = {}
    for _ in range(limits.JSON_DEPTH_MAX + 1):
        answer = {"deeper": answer}
    run = begin(native({"id": "ask", "type": "interrupt", "message": "?"}))
    assert run.refuse(inputs.AnswerInterrupt(at=0, answer=answer)).code == "INVALID_RESUME_PAYLOAD"
    assert run.status == "waiting_input"
