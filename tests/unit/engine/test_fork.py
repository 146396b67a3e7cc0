"""Forking: a new run from the beginning of another, from any row."""

import pytest

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.engine import inputs
from penstock.engine.effects import DeliverSignal, PerformActivity, StartChild
from penstock.engine.folding.evolve import fold
from penstock.engine.fork import fork
from penstock.engine.replay import Replayed, replay
from tests.unit.engine.runs import Run, begin, native, published, step


def forked(run: Run, at_seq: int) -> Run:
    records = list(fork(run.records, at_seq=at_seq, run_id="twin"))
    twin = Run(workflow=run.workflow, state=fold(records), records=records, now=run.now)
    return twin.take(inputs.ContinueRun(at=0))


def test_a_fork_from_any_row_goes_on_to_the_same_end() -> None:
    run = begin(native(step("a"), step("b"), {"id": "end", "type": "end", "output": "${ [.a, .b] }"}))
    run.done("a", 1).done("b", 2)
    for at_seq in range(1, len(run.records) + 1):
        twin = forked(run, at_seq)
        while not twin.state.terminal:
            [effect] = twin.due
            assert isinstance(effect, PerformActivity)
            assert effect.effect_id.startswith("twin/")
            twin.done(effect.node_id, {"a": 1, "b": 2}[effect.node_id])
        assert twin.state.result == [1, 2]
        assert twin.state.run_id == "twin"


def test_a_fork_may_go_another_way() -> None:
    run = begin(native(step("a"), step("b", on_error={"fallback": "none"}))).done("a").done("b", 2)
    twin = forked(run, run.told().index("ActivityRequested b") + 1).failed("b")
    assert twin.status == "completed"
    assert run.records[-1].payload["executionId"] == "run"


def test_a_fork_says_where_it_comes_from() -> None:
    run = begin(native(step("a"))).done("a")
    first = fork(run.records, at_seq=4, run_id="twin")[0]
    assert first.payload["forkedFrom"] == {"executionId": "run", "seq": 4}
    assert first.payload["executionId"] == "twin"


def test_the_original_is_not_touched() -> None:
    run = begin(native(step("a"))).done("a")
    before = list(run.records)
    fork(run.records, at_seq=3, run_id="twin")
    assert run.records == before
    assert "forkedFrom" not in run.records[0].payload


def test_child_runs_delegations_and_signals_get_ids_of_the_new_run() -> None:
    branches: list[JsonValue] = [
        {"name": "x", "nodes": [{"id": "sub", "type": "subworkflow", "workflow": "other"}]},
        {"name": "y", "nodes": [{"id": "ask", "type": "agent_delegate", "agent_id": "clerk", "input": {}}]},
        {"name": "z", "nodes": [{"id": "me", "type": "emit", "run": "${ .run.id }", "signal": "go"}]},
        {"name": "o", "nodes": [{"id": "other", "type": "emit", "run": "runner", "signal": "go"}]},
    ]
    run = begin(native({"id": "p", "type": "parallel", "branches": branches}))
    effects = forked(run, len(run.records)).due
    children = [effect.child_id for effect in effects if isinstance(effect, StartChild)]
    delegations = [effect.delegate for effect in effects if isinstance(effect, PerformActivity)]
    targets = [effect.target_run_id for effect in effects if isinstance(effect, DeliverSignal)]
    assert children == ["twin:sub:sub"]
    assert [(delegation or {})["delegateCorrelationId"] for delegation in delegations] == ["twin:delegate:ask"]
    assert targets == ["twin", "runner"]


def test_the_end_of_a_child_of_the_fork_is_taken_by_the_fork() -> None:
    run = begin(native({"id": "sub", "type": "subworkflow", "workflow": "other"}))
    twin = forked(run, len(run.records))
    theirs = inputs.FinishChild(at=0, child_id="run:sub:sub", status="completed")
    assert twin.refuse(theirs).code == "CHILD_NOT_AWAITED"
    assert twin.take(inputs.FinishChild(at=0, child_id="twin:sub:sub", status="completed")).status == "completed"


def test_the_parent_of_a_forked_child_stays_its_parent() -> None:
    run = begin(native(step("a")), {}, parent_run_id="run:boss", depth=1)
    assert forked(run, 2).state.parent_run_id == "run:boss"


def test_a_fork_replays() -> None:
    run = begin(published({"id": "a", "type": "step", "config": {"handler": "h"}}), {"n": 1}).done("a", {"m": 2})
    twin = forked(run, 8).done("a", {"m": 3})
    outcome = replay(twin.workflow, twin.records)
    assert isinstance(outcome, Replayed)
    assert outcome.state.result == {"n": 1, "m": 3}


@pytest.mark.parametrize("at_seq", [0, -1, 5])
def test_a_row_that_does_not_exist_is_refused(at_seq: int) -> None:
    run = begin(native(step("a")))
    assert len(run.records) == 4
    with pytest.raises(Rejected) as caught:
        fork(run.records, at_seq=at_seq, run_id="twin")
    assert caught.value.code == "FORK_POINT_INVALID"
    with pytest.raises(Rejected):
        fork([], at_seq=1, run_id="twin")


def test_a_question_that_is_open_at_the_cut_is_open_in_the_fork() -> None:
    ask: JsonObject = {"id": "ask", "type": "interrupt", "message": "?"}
    run = begin(native(ask, {"id": "end", "type": "end", "output": "${ .ask }"}))
    twin = forked(run, len(run.records))
    run.answer({"by": "one"})
    twin.answer({"by": "two"})
    assert (run.state.result, twin.state.result) == ({"by": "one"}, {"by": "two"})


def test_a_fork_has_all_of_its_time_and_what_is_under_way_what_it_had_left() -> None:
    run = begin(native(step("a"), step("b", timeout="10s"), timeout="1m"))
    began = run.state.started_at
    assert run.state.deadline == began + 60_000
    run.now += 5_000
    run.done("a")
    asked = run.now
    at = began + 86_400_000
    twin = fold(fork(run.records, at_seq=len(run.records), run_id="twin", at=at))
    assert twin.deadline == at + 60_000
    [activation] = twin.activations()
    assert activation.deadline == at + 10_000
    assert run.state.activations()[0].deadline == asked + 10_000


def test_a_fork_of_a_fork_has_as_much_time_as_the_first_run() -> None:
    run = begin(native(step("a"), step("b"), timeout="1m")).done("a")
    began = run.state.started_at
    records = run.records
    for number in range(1, 4):
        at = began + number * 1_000_000
        records = list(fork(records, at_seq=len(records), run_id=f"twin-{number}", at=at))
        assert fold(records).deadline == at + 60_000


def test_a_wait_in_a_fork_is_over_when_it_was_to_be_over() -> None:
    run = begin(native({"id": "nap", "type": "wait", "duration": "1h"}))
    [before] = run.state.activations()
    twin = fold(fork(run.records, at_seq=len(run.records), run_id="twin", at=run.now + 5_000))
    [after] = twin.activations()
    assert after.due_at == before.due_at
