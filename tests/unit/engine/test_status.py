"""The status of a run, in our words and in the published ones."""

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.engine import inputs
from penstock.engine.state import RunState
from penstock.engine.status import current_activation, published_phase, run_status
from tests.unit.engine.runs import Run, begin, native, step

ASK: JsonObject = {"id": "ask", "type": "interrupt", "message": "?"}
SIGNAL: JsonObject = {"id": "sig", "type": "wait", "signal": "go"}
SLEEP: JsonObject = {"id": "sleep", "type": "wait", "duration": "1s"}
CHILD: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "other"}
EMIT: JsonObject = {"id": "tell", "type": "emit", "run": "other", "signal": "go"}
DOUBT = step("doubt", effects="at_most_once")


def in_doubt(run: Run) -> Run:
    return run.take(inputs.ReportOutcomeUnknown(at=0, node_id="doubt"))


def started(*nodes: JsonObject) -> Run:
    return begin(native(*nodes))


SITUATIONS: dict[str, tuple[Run, str, str]] = {
    "activity": (started(step("a")), "waiting_activity", "awaiting_activity"),
    "question": (started(ASK), "waiting_input", "interrupted"),
    "signal": (started(SIGNAL), "waiting_signal", "awaiting_signal"),
    "timer": (started(SLEEP), "waiting_timer", "running"),
    "child": (started(CHILD), "waiting_child", "running"),
    "emit": (started(EMIT), "running", "running"),
    "doubt": (in_doubt(started(DOUBT)), "waiting_decision", "awaiting_activity"),
    "backoff": (
        started(step("a", retry={"max_attempts": 2, "initial_interval": "1s"})).failed("a"),
        "waiting_timer",
        "running",
    ),
    "paused": (started(step("a")).take(inputs.PauseRun(at=0)), "paused", "awaiting_activity"),
    "completed": (started(step("a")).done("a"), "completed", "completed"),
    "failed": (started(step("a")).failed("a"), "failed", "failed"),
    "cancelled": (started(step("a")).take(inputs.CancelRun(at=0)), "cancelled", "cancelled"),
    "compensating": (
        started(step("a", compensate={"handler": "undo"}), step("b")).done("a").failed("b"),
        "compensating",
        "awaiting_activity",
    ),
    "cancelling": (
        started(step("a", compensate={"handler": "undo"}), step("b")).done("a").take(inputs.CancelRun(at=0)),
        "cancelling",
        "awaiting_activity",
    ),
}


@pytest.mark.parametrize("name", list(SITUATIONS))
def test_a_run_says_what_it_is_doing(name: str) -> None:
    run, ours, published = SITUATIONS[name]
    assert run_status(run.state) == ours
    assert published_phase(run.state) == published


def test_a_run_that_was_not_started_is_pending() -> None:
    assert run_status(RunState()) == "pending"
    assert published_phase(RunState()) == "running"
    assert current_activation(RunState()) is None


def test_of_several_waits_the_one_that_a_person_can_help_with_comes_first() -> None:
    order = [ASK, DOUBT, step("a"), SIGNAL, CHILD, SLEEP]
    words = [
        "waiting_input",
        "waiting_decision",
        "waiting_activity",
        "waiting_signal",
        "waiting_child",
        "waiting_timer",
    ]
    for first in range(len(order)):
        nodes = list(reversed(order[first:]))
        branches: list[JsonValue] = [{"name": str(node["id"]), "nodes": [node]} for node in nodes]
        run = started({"id": "p", "type": "parallel", "branches": branches})
        if DOUBT in nodes:
            in_doubt(run)
        assert run.status == words[first]
        activation = current_activation(run.state)
        assert activation is not None
        assert activation.node_id == order[first]["id"]


def test_after_an_answer_the_status_is_that_of_the_next_wait() -> None:
    run = started(ASK, step("a"))
    assert published_phase(run.state) == "interrupted"
    assert published_phase(run.answer({}).state) == "awaiting_activity"
