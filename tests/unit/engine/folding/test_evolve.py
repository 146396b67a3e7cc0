"""Folding records: what is kept, and what no history may contain."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from penstock.base.errors import CorruptHistory
from penstock.base.json import JsonObject
from penstock.engine import inputs
from penstock.engine.folding.evolve import evolve, fold
from penstock.engine.records import Kind, Record
from penstock.engine.state import RunState
from penstock.engine.transitions import Phase
from tests.unit.engine.runs import Run, begin, native, step


def running() -> Run:
    return begin(native(step("a"), step("b")), {"n": 1})


def test_folding_piece_by_piece_is_folding_everything() -> None:
    run = running().done("a", 1).done("b", 2)
    state = RunState()
    for record in run.records:
        state = evolve(state, record)
    assert state == fold(run.records) == run.state
    assert fold(run.records[5:], fold(run.records[:5])) == run.state


def test_a_state_is_not_changed_by_what_comes_after_it() -> None:
    run = running().done("a", {"deep": [1]}).done("b", 2)
    states = [fold(run.records[:count]) for count in range(len(run.records) + 1)]
    copies = [state.copy() for state in states]
    for state, record in zip(states, run.records, strict=False):
        evolve(state, record)
    assert states == copies


def test_an_empty_history_is_a_run_that_was_not_started() -> None:
    assert fold([]) == RunState()
    assert not fold([]).unsettled


def broken(run: Run, kind: Kind, name: str, payload: JsonObject) -> str:
    record = Record(run.state.seq + 1, kind, name, {"executionId": "run", **payload}, run.now)
    with pytest.raises(CorruptHistory) as caught:
        evolve(run.state, record)
    return caught.value.code


def test_a_missing_row_is_found() -> None:
    run = running()
    with pytest.raises(CorruptHistory, match="HISTORY_GAP"):
        fold([run.records[0], run.records[2]])
    with pytest.raises(CorruptHistory, match="HISTORY_GAP"):
        fold([*run.records, run.records[-1]])


def test_nothing_follows_the_end_of_a_run() -> None:
    run = running().take(inputs.CancelRun(at=0))
    assert broken(run, "event", "ExecutionCompleted", {}) == "HISTORY_AFTER_END"


def test_an_unknown_record_is_refused_by_name() -> None:
    assert broken(running(), "event", "NodeDreamt", {}) == "RECORD_UNKNOWN"


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("ActivityCompleted", {"nodeId": "b", "visit": 1}),  # never scheduled
        ("ActivityCompleted", {"nodeId": "a", "visit": 2}),  # another visit
        ("NodeScheduled", {"nodeId": "a", "visit": 1}),  # known already
        ("TimerFired", {"nodeId": "a", "visit": 1, "kind": "wait"}),  # waits for nothing like that
        ("InterruptResumed", {"nodeId": "a", "visit": 1}),
        ("ScopeOpened", {"nodeId": "a", "visit": 1, "index": 0}),  # a node without bodies
        ("ScopeCompleted", {"nodeId": "a", "visit": 1, "index": 0}),
        ("CancelParallelBranch", {"nodeId": "a", "visit": 1, "index": 0}),
        ("ExecutionStarted", {"input": {}}),  # a second time
        ("ScheduleNode", {"nodeId": "b", "scope": 9}),  # a scope that is not open
        ("ParallelBranchCancelled", {"nodeId": "a", "visit": 1}),  # no command before it
        ("ExecutionPaused", {}),
        ("DeliverSignal", {"nodeId": "a", "visit": 1, "signalName": "go", "buffered": True}),  # an empty buffer
    ],
)
def test_a_record_that_cannot_stand_where_it_stands_is_refused(name: str, payload: JsonObject) -> None:
    assert broken(running(), "event", name, payload) == "HISTORY_IMPOSSIBLE"


def test_a_run_cannot_be_cancelled_twice_in_one_history() -> None:
    compensated = begin(native(step("a", compensate={"handler": "undo"}), step("b"))).done("a")
    compensated.take(inputs.CancelRun(at=0))
    assert compensated.status == "cancelling"
    assert broken(compensated, "command", "CancelExecution", {}) == "HISTORY_IMPOSSIBLE"


def test_a_scope_outside_its_frame_cannot_be_closed() -> None:
    run = begin(native({"id": "each", "type": "for_each", "items": "[1]", "nodes": [step("a")]}))
    assert broken(run, "event", "ScopeCompleted", {"nodeId": "each", "visit": 1, "index": 5}) == "HISTORY_IMPOSSIBLE"


@pytest.mark.parametrize(
    ("make", "last"),
    [
        (lambda run: run.take(inputs.PauseRun(at=0, reason="lunch")), "ExecutionPaused"),
        (lambda run: run.take(inputs.PauseRun(at=0)).take(inputs.ResumeRun(at=0)), "ExecutionResumed"),
    ],
)
def test_an_event_that_tells_of_a_command_is_written_even_after_a_cut(make: Callable[[Run], Run], last: str) -> None:
    run = make(running())
    assert run.records[-1].name == last
    cut = fold(run.records[:-1])
    assert cut.unsettled
    assert cut.paused == run.state.paused
    continued = Run(workflow=run.workflow, state=cut, records=run.records[:-1])
    continued.take(inputs.ContinueRun(at=0))
    assert continued.records == run.records


def test_visits_attempts_and_steps_are_counted() -> None:
    run = begin(native({"id": "each", "type": "for_each", "items": "[1, 2, 3]", "nodes": [step("a")]}))
    run.done("a").done("a").done("a")
    assert run.state.visits == {"each": 1, "a": 3, "end": 1}
    assert run.state.steps == 5
    assert run.state.commands == sum(record.kind == "command" for record in run.records)
    assert run.state.seq == len(run.records)


def test_a_history_with_its_payloads_in_other_containers_folds_to_the_same_state() -> None:
    run = running().done("a", [1, {"b": None}])
    again = [replace(record, content=dict(record.payload)) for record in run.records]
    assert fold(again) == run.state


def test_the_phase_of_a_visit_says_what_was_recorded_last() -> None:
    run = running()
    activation = run.state.activation("a")
    assert activation is not None
    assert (activation.phase, activation.attempt, activation.visit) == (Phase.REQUESTED, 1, 1)
