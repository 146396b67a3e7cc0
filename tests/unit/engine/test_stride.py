"""A stride makes the records that the walk would make, and leads to the same state."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build import build_workflow
from penstock.definitions.expressions import InProcessEvaluator
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.decide import decide
from penstock.engine.effects import PerformActivity
from penstock.engine.evolve import fold
from penstock.engine.outcomes import Accepted
from penstock.engine.pending import pending
from penstock.engine.records import Record, events
from penstock.engine.state import RunState
from penstock.engine.stride import stride
from penstock.engine.turn import Turn, node_of
from tests.simulation.workflows import native_document
from tests.unit.engine.runs import END, T0, Run, begin, native, step

STEPS_MAX = 40
RESULTS: st.SearchStrategy[JsonValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=5),
    st.fixed_dictionaries({"value": st.integers(0, 9)}),
    st.fixed_dictionaries({"ok": st.booleans(), "items": st.lists(st.integers(), max_size=3)}),
)


def completed(effect: PerformActivity, result: JsonValue) -> inputs.CompleteActivity:
    return inputs.CompleteActivity(
        at=T0 + 5, node_id=effect.node_id, visit=effect.visit, attempt=effect.attempt, result=result
    )


def walked(workflow: Workflow, history: list[Record], first: Record) -> tuple[list[Record], RunState]:
    """What the walk makes of a history that ends with a result."""
    decision = decide(workflow, fold([*history, first]), inputs.ContinueRun(at=first.at))
    assert isinstance(decision, Accepted)
    return [first, *decision.records], decision.state


def takes_a_stride(run: Run, effect: PerformActivity, result: JsonValue) -> bool:
    turn = Turn(workflow=run.workflow, state=run.state.copy(), at=T0 + 5, evaluator=InProcessEvaluator())
    activation = run.state.activation(effect.node_id, effect.visit)
    assert activation is not None
    body = events.ActivityCompleted(effect.node_id, effect.visit, attempt=effect.attempt, result=result)
    taken = stride(turn, node_of(run.workflow, activation), activation, body)
    assert taken or (turn.state == run.state and not turn.records)
    return taken


def first_activity(run: Run) -> PerformActivity:
    return next(effect for effect in run.due if isinstance(effect, PerformActivity))


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), results=st.lists(RESULTS, min_size=1, max_size=8))
def test_any_result_has_the_records_and_the_state_that_the_walk_makes(seed: int, results: list[JsonValue]) -> None:
    workflow = build_workflow(native_document(random.Random(seed), "any", ()))
    started = decide(workflow, RunState(), inputs.StartRun(at=T0, run_id="run", input={"n": 1}))
    if not isinstance(started, Accepted):
        return
    state, history = started.state, list(started.records)
    for number in range(STEPS_MAX):
        due = [item for item in pending(workflow, state, T0 + 5) if isinstance(item, PerformActivity)]
        if not due:
            return
        decision = decide(workflow, state, completed(due[number % len(due)], results[number % len(results)]))
        assert isinstance(decision, Accepted)
        if decision.records[0].name == "ActivityCompleted":
            assert (list(decision.records), decision.state) == walked(workflow, history, decision.records[0])
        history.extend(decision.records)
        assert fold(history) == decision.state
        state = decision.state


FOLLOWING: dict[str, JsonObject] = {
    "a step": step("b"),
    "with constants": step("b", with_={"n": 1, "list": [1, "two"]}),
    "with values": step("b", with_={"n": "${ .a.n }", "who": "Dear ${ .input.name }"}),
    "with an error": step("b", with_={"n": '${ error("no") }'}),
    "with a secret": step("b", with_={"token": "${secret:TOKEN}"}),
    "with a timeout": step("b", timeout="5s", effects="at_most_once"),
    "with a key": step("b", idempotency_key="${ .input.name }"),
    "a tool": {"id": "b", "type": "tool_call", "server": "shop", "tool": "count", "arguments": {"n": "${ .a.n }"}},
    "a state": {"id": "b", "type": "set_state", "set": {"n": "${ .a.n }"}},
    "a wait": {"id": "b", "type": "wait", "duration": "5m"},
    "a switch": {"id": "b", "type": "switch", "cases": [{"when": ".a.n == 1", "next": "end"}], "default": "end"},
    "the end": END,
}


@pytest.mark.parametrize("following", FOLLOWING.values(), ids=FOLLOWING)
def test_a_plain_result_is_a_stride_whatever_the_next_node_is(following: JsonObject) -> None:
    secrets: JsonObject = {"secrets": ["TOKEN"]} if "TOKEN" in str(following) else {}
    workflow = native(step("a"), following, **secrets)
    run = begin(workflow, {"name": "Ada"})
    effect = first_activity(run)
    assert takes_a_stride(run, effect, {"n": 1})
    decision = decide(workflow, run.state, completed(effect, {"n": 1}))
    assert isinstance(decision, Accepted)
    assert (list(decision.records), decision.state) == walked(workflow, run.records, decision.records[0])


def undone(handler: str) -> JsonValue:
    return {"type": "step", "handler": handler}


@pytest.mark.parametrize(
    "workflow",
    [
        native(step("a", next={"when": ".a.n > 1", "then": "end", "else": "b"}), step("b")),
        native(step("a", compensate=undone("undo.it")), step("b")),
        native(step("a"), step("b"), checkpointing={"strategy": "after_each_node"}),
        native({"id": "l", "type": "loop", "while": "true", "max_iterations": 2, "nodes": [step("a"), step("b")]}),
        native({"id": "f", "type": "for_each", "items": "[1, 2]", "nodes": [step("a")]}),
    ],
    ids=["a condition", "an undo", "a checkpoint", "a loop", "the end of a body"],
)
def test_whatever_has_more_to_it_is_left_to_the_walk(workflow: Workflow) -> None:
    run = begin(workflow)
    assert not takes_a_stride(run, first_activity(run), {"n": 1})


def test_a_paused_run_and_one_whose_history_is_full_take_no_stride() -> None:
    run = begin(native(step("a"), step("b")))
    effect = first_activity(run)
    run.state.paused = True
    assert not takes_a_stride(run, effect, 1)
    run.state.paused = False
    run.state.history_bytes = limits.HISTORY_BYTES_MAX - 100
    assert not takes_a_stride(run, effect, 1)
    run.state.history_bytes = 0
    run.state.seq = limits.HISTORY_ROWS_MAX - 4
    assert not takes_a_stride(run, effect, 1)
    run.state.seq -= 1
    assert takes_a_stride(run, effect, 1)
