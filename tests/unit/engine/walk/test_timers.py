"""Timers: deadlines that survive, that fire once, and never too early."""

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.engine import inputs
from penstock.engine.effects import WakeUp
from penstock.engine.folding.evolve import fold
from penstock.engine.pending import next_wake_up_at
from penstock.engine.walk.timers import Timer, timers_of
from tests.unit.engine.runs import T0, Run, begin, native, published, step

CHILD: JsonObject = {"id": "x", "type": "subworkflow", "workflow": "other"}
BRANCHES: list[JsonValue] = [{"name": "b", "nodes": [step("a")]}]
WITH_TIMEOUT: dict[str, JsonObject] = {
    "step": step("x", timeout="2s"),
    "interrupt": {"id": "x", "type": "interrupt", "message": "?", "timeout": "2s"},
    "signal": {"id": "x", "type": "wait", "signal": "go", "timeout": "2s"},
    "child": {**CHILD, "timeout": "2s"},
    "parallel": {"id": "x", "type": "parallel", "branches": BRANCHES, "timeout": "2s"},
    "race": {"id": "x", "type": "race", "branches": BRANCHES, "timeout": "2s"},
    "for_each": {"id": "x", "type": "for_each", "items": "[1]", "nodes": [step("a")], "timeout": "2s"},
    "loop": {"id": "x", "type": "loop", "until": "true", "max_iterations": 3, "nodes": [step("a")], "timeout": "2s"},
}


def sleeping(duration: str = "1s") -> Run:
    return begin(native({"id": "w", "type": "wait", "duration": duration}))


def test_a_wait_has_its_deadline_in_the_history() -> None:
    run = sleeping()
    assert run.of("TimerStarted")[0]["deadline"] == T0 + 1_000
    assert run.status == "waiting_timer"
    assert timers_of(run.state) == [Timer(T0 + 1_000, "wait", "w", 1)]
    assert next_wake_up_at(run.state) == T0 + 1_000


def test_a_timer_that_is_not_due_is_refused_and_the_wait_goes_on() -> None:
    run = sleeping().after(999)
    assert run.refuse(inputs.FireTimer(at=0, kind="wait", node_id="w", visit=1)).code == "TIMER_NOT_DUE"
    assert run.due == []
    assert run.after(1).fire("wait", "w").status == "completed"


def test_a_timer_fires_once() -> None:
    run = begin(native({"id": "w", "type": "wait", "duration": "1s"}, step("a"))).after(1_000).fire("wait", "w")
    assert run.refuse(inputs.FireTimer(at=0, kind="wait", node_id="w", visit=1)).code == "TIMER_NOT_FOUND"


def test_a_wait_that_was_interrupted_by_a_restart_still_lasts_as_long() -> None:
    run = sleeping("1h")
    recovered = fold(run.records)
    assert next_wake_up_at(recovered) == T0 + 3_600_000


def test_a_timer_that_fires_late_still_counts() -> None:
    assert sleeping().after(86_400_000).fire("wait", "w").status == "completed"


@pytest.mark.parametrize(
    ("until", "waits"),
    [("2025-10-09T08:53:20.001Z", True), ("2025-10-09T08:53:20Z", False), ("${ .run.started_at }", False)],
)
def test_a_wait_until_a_moment_lasts_until_then(until: str, waits: bool) -> None:
    run = begin(native({"id": "w", "type": "wait", "until": until}))
    assert run.state.terminal != waits
    assert run.of("StartTimer")[0]["kind"] == "until"


@pytest.mark.parametrize("name", list(WITH_TIMEOUT))
def test_a_node_that_takes_too_long_fails_with_a_timeout(name: str) -> None:
    run = begin(native(WITH_TIMEOUT[name]))
    timers = [timer for timer in timers_of(run.state) if timer.kind == "timeout"]
    assert timers == [Timer(T0 + 2_000, "timeout", "x", 1)]
    early = inputs.FireTimer(at=0, kind="timeout", node_id="x", visit=1)
    assert run.after(1_999).refuse(early).code == "TIMER_NOT_DUE"
    run.after(1).fire("timeout", "x")
    assert run.status == "failed"
    assert run.code == ("INTERRUPT_TIMEOUT" if name == "interrupt" else "TIMEOUT")


@pytest.mark.parametrize("name", list(WITH_TIMEOUT))
def test_a_timeout_can_be_routed(name: str) -> None:
    run = (
        begin(native({**WITH_TIMEOUT[name], "on_error": {"next": "end"}}, step("z"))).after(2_000).fire("timeout", "x")
    )
    assert run.status == "completed"


@pytest.mark.parametrize("name", ["interrupt", "signal"])
def test_a_wait_with_a_timeout_path_goes_there_without_an_error(name: str) -> None:
    workflow = native(
        {**WITH_TIMEOUT[name], "on_timeout": "late"},
        step("b"),
        {"id": "late", "type": "end", "output": {"x": "${ .x }", "error": "${ .error }"}},
    )
    run = begin(workflow).after(2_000).fire("timeout", "x")
    assert run.state.result == {"x": None, "error": None}
    assert run.of("CompleteNode", "x")[0]["timedOut"] is True
    assert run.of("FailNode") == []


@pytest.mark.parametrize("name", ["interrupt", "signal"])
def test_what_comes_in_time_takes_the_deadline_away(name: str) -> None:
    run = begin(native(WITH_TIMEOUT[name], step("b")))
    assert (run.answer({}) if name == "interrupt" else run.signal("go")).state.activation("b") is not None
    assert timers_of(run.state) == []


def test_a_timeout_drops_the_bodies_and_cancels_the_child_inside() -> None:
    branches: list[JsonValue] = [{"name": "b", "nodes": [{**CHILD, "id": "c"}]}]
    node: JsonObject = {"id": "x", "type": "parallel", "branches": branches, "timeout": "2s"}
    run = begin(native({**node, "on_error": {"next": "b"}}, step("b"))).after(2_000).fire("timeout", "x")
    assert sorted(effect.effect_id for effect in run.due) == ["run/b/1/1", "run:sub:c/cancel"]


def test_the_deadline_of_an_attempt_is_its_own() -> None:
    run = begin(native(step("x", timeout="2s", retry={"max_attempts": 2, "initial_interval": "5s"})))
    run.after(2_000).fire("timeout", "x")
    assert run.of("ActivityFailed")[0]["code"] == "TIMEOUT"
    assert timers_of(run.state) == [Timer(T0 + 7_000, "retry", "x", 1)]
    run.after(5_000).fire("retry", "x")
    assert timers_of(run.state) == [Timer(T0 + 9_000, "timeout", "x", 1)]


@pytest.mark.parametrize("in_doubt", [True, False])
def test_an_at_most_once_attempt_that_takes_too_long_is_not_tried_again(in_doubt: bool) -> None:
    run = begin(native(step("x", timeout="2s", effects="at_most_once", retry={"max_attempts": 3})))
    if in_doubt:
        run.take(inputs.ReportOutcomeUnknown(at=0, node_id="x"))
    run.after(2_000).fire("timeout", "x")
    assert (run.status, run.code) == ("failed", "TIMEOUT")
    assert len(run.of("ActivityRequested")) == 1


def test_an_at_most_once_attempt_that_is_known_to_have_failed_is_tried_again() -> None:
    run = begin(native(step("x", effects="at_most_once", retry={"max_attempts": 3}))).failed("x")
    assert run.status == "waiting_activity"


def test_a_run_that_takes_too_long_fails_and_undoes_what_it_did() -> None:
    workflow = native(step("a", compensate={"handler": "undo"}), step("b"), timeout="1m")
    run = begin(workflow).done("a").after(59_999)
    assert run.refuse(inputs.FireTimer(at=0, kind="run")).code == "TIMER_NOT_DUE"
    run.after(1).fire("run")
    assert run.status == "compensating"
    run.done("compensate:a")
    assert (run.status, run.code) == ("failed", "RUN_TIMEOUT")


def test_a_paused_run_is_not_woken() -> None:
    run = sleeping().take(inputs.PauseRun(at=0)).after(5_000)
    assert run.due == []
    assert next_wake_up_at(run.state) is None
    run.take(inputs.ResumeRun(at=0))
    assert [effect.kind for effect in run.due if isinstance(effect, WakeUp)] == ["wait"]


def test_timers_are_listed_soonest_first() -> None:
    branches: list[JsonValue] = [
        {"name": name, "nodes": [{"id": name, "type": "wait", "duration": duration}]}
        for name, duration in (("x", "3s"), ("y", "1s"), ("z", "2s"))
    ]
    run = begin(native({"id": "p", "type": "parallel", "branches": branches}, timeout="1h"))
    assert [timer.node_id for timer in timers_of(run.state)] == ["y", "z", "x", ""]


def test_a_published_interrupt_timeout_is_enforced() -> None:
    node: JsonObject = {
        "id": "ask",
        "type": "interrupt",
        "config": {"prompt": "?", "resume_schema": {"type": "object"}, "timeout": "2s"},
    }
    assert begin(published(node), {}).after(2_000).fire("timeout", "ask").code == "INTERRUPT_TIMEOUT"


def test_a_clock_that_goes_back_fires_nothing_early() -> None:
    run = sleeping()
    run.now -= 5_000
    assert run.due == []
    assert run.refuse(inputs.FireTimer(at=0, kind="wait", node_id="w", visit=1)).code == "TIMER_NOT_DUE"
    run.now = T0 + 1_000
    assert run.fire("wait", "w").status == "completed"
