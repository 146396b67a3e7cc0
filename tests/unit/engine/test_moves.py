"""A plain move is what `decide` makes of the same input: the same records and bytes, the same state and effects."""

import math
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.jq.expressions import InProcessEvaluator
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.decide import decide
from penstock.engine.effects import PerformActivity
from penstock.engine.folding.evolve import fold
from penstock.engine.moves.plan import Plan
from penstock.engine.moves.taking import take
from penstock.engine.outcomes import Accepted
from penstock.engine.pages import Move, expand, shape_of
from penstock.engine.pending import pending
from penstock.engine.state import RunState
from tests.simulation.workflows import native_document
from tests.unit.engine.runs import END, T0, Run, begin, native, step

STEPS_MAX = 40
EVALUATOR = InProcessEvaluator()
RESULTS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.text(st.characters(codec=None), max_size=3),  # with halves of surrogate pairs
    st.fixed_dictionaries({"value": st.integers(0, 9)}),
    st.fixed_dictionaries({"ok": st.booleans(), "items": st.lists(st.integers(), max_size=3)}),
    st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    st.just({1: "no text"}),
    st.just(("no", "list")),
)
INPUTS: st.SearchStrategy[Any] = st.one_of(
    st.just({"n": 1}), st.none(), st.dictionaries(st.text(max_size=3), RESULTS, max_size=3), RESULTS
)


def both_ways(plan: Plan, state: RunState, given_: inputs.Input) -> tuple[Accepted | None, bool]:
    """What `decide` makes of an input, and whether it is a plain move; if so, both are compared to the letter."""
    before = state.copy()
    taken = take(plan, state, given_, EVALUATOR)
    decision = decide(plan.workflow, state, given_)
    assert state == before
    if taken is None:
        return (decision if isinstance(decision, Accepted) else None), False
    assert isinstance(decision, Accepted)
    move = taken.page
    assert isinstance(move, Move)
    assert msgspec.json.encode(taken.records) == msgspec.json.encode(decision.records)
    assert taken.records == decision.records
    assert taken.state == decision.state
    assert taken.effects == tuple(pending(plan.workflow, decision.state, given_.at))
    assert (move.first_seq, move.last_seq) == (state.seq + 1, decision.state.seq)
    # As a store reads it.
    values = msgspec.json.decode(b"[" + move.encoded + b"]")
    read = expand(shape_of(move.shape.content), state.run_id or move.run_id, move.first_seq, move.at, values)
    assert msgspec.json.encode(read) == msgspec.json.encode(decision.records)
    assert fold(read, state) == decision.state
    return decision, True


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    run_input=INPUTS,
    results=st.lists(RESULTS, min_size=1, max_size=8),
    circumstances=st.fixed_dictionaries(
        {},
        optional={
            "tenant": st.just("another"),
            "started_by": st.just("somebody"),
            "starter": st.just({"kind": "key", "on_behalf_of": ["ada"]}),
            "untrusted": st.booleans(),
            "timeout_ms": st.integers(0, 9),
            "parent_run_id": st.just("parent"),
            "mode": st.sampled_from(("in_process", "host_mediated")),
            "run_id": st.text(min_size=1, max_size=5),
        },
    ),
)
def test_any_input_has_the_records_and_the_state_that_decide_makes(
    seed: int, run_input: JsonValue, results: list[JsonValue], circumstances: dict[str, Any]
) -> None:
    workflow = build_workflow(native_document(random.Random(seed), "any", ()))
    plan = Plan(workflow)
    start = inputs.StartRun(**{"at": T0, "run_id": "run", "input": run_input, **circumstances})
    decision, _ = both_ways(plan, RunState(), start)
    # What starts have in common is remembered.
    both_ways(plan, RunState(), replace(start, at=T0 + 1, run_id="another", input={"n": "other"}))
    for number in range(STEPS_MAX):
        if decision is None:
            return
        state = decision.state
        due = [item for item in pending(workflow, state, T0 + 5) if isinstance(item, PerformActivity)]
        if not due:
            return
        effect = due[number % len(due)]
        result = results[number % len(results)]
        decision, _ = both_ways(plan, state, completed(effect, result, at=T0 + 5 + number))
        # Else the run would wait for ever.
        decision = decision or both_ways(plan, state, completed(effect, None, at=T0 + 5))[0]


def completed(effect: PerformActivity, result: JsonValue, **fields: Any) -> inputs.CompleteActivity:
    given_ = inputs.CompleteActivity(
        at=T0 + 5, node_id=effect.node_id, visit=effect.visit, attempt=effect.attempt, result=result
    )
    return replace(given_, **fields)


def first_activity(run: Run) -> PerformActivity:
    return next(effect for effect in run.due if isinstance(effect, PerformActivity))


PLAIN: dict[str, JsonObject] = {
    "a step": step("b"),
    "with constants": step("b", with_={"n": 1, "list": [1, "two"]}),
    "with a marker": step("b", with_="\0made"),
    "with values": step("b", with_={"n": "${ .a.n }", "who": "Dear ${ .input.name }"}),
    "with a timeout": step("b", timeout="5s", effects="at_most_once"),
    "a tool": {"id": "b", "type": "tool_call", "server": "shop", "tool": "count", "arguments": {"n": "${ .a.n }"}},
    "the end": END,
    "the end with values": {**END, "output": "${ .a.n }"},
    "the end with constants": {**END, "output": {"n": [1, None]}},
}
NOT_PLAIN: dict[str, JsonObject] = {
    "with an error": step("b", with_={"n": '${ error("no") }'}),
    "with a secret": step("b", with_={"token": "${secret:TOKEN}"}),
    "with a key": step("b", idempotency_key="${ .input.name }"),
    "a state": {"id": "b", "type": "set_state", "set": {"n": "${ .a.n }"}},
    "a wait": {"id": "b", "type": "wait", "duration": "5m"},
    "a switch": {"id": "b", "type": "switch", "cases": [{"when": ".a.n == 1", "next": "end"}], "default": "end"},
}


def leading_to(following: JsonObject) -> Workflow:
    secrets: JsonObject = {"secrets": ["TOKEN"]} if "TOKEN" in str(following) else {}
    return native(step("a"), following, **secrets)


def is_plain(workflow: Workflow, result: JsonValue = None, **fields: Any) -> bool:
    """Whether the first result of a run is a plain move."""
    run = begin(workflow, {"name": "Ada"})
    given_ = completed(first_activity(run), {"n": 1} if result is None else result, **fields)
    return both_ways(Plan(workflow), run.state, given_)[1]


@pytest.mark.parametrize("following", PLAIN.values(), ids=PLAIN)
def test_a_result_that_leads_to_an_activity_or_to_the_end_is_a_plain_move(following: JsonObject) -> None:
    assert is_plain(leading_to(following))


@pytest.mark.parametrize("following", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_a_result_that_leads_elsewhere_is_left_to_decide(following: JsonObject) -> None:
    assert not is_plain(leading_to(following))


@pytest.mark.parametrize(
    ("first", "plain"),
    [
        (step("a"), True),
        (step("a", with_={"n": [1]}), True),
        (step("a", with_={"n": "${ .input.name }"}, timeout="5s"), True),
        ({"id": "a", "type": "tool_call", "server": "shop", "tool": "count", "arguments": {"n": 1}}, True),
        (NOT_PLAIN["with a key"], False),
        ({"id": "a", "type": "wait", "duration": "5m"}, False),
        (END, False),
    ],
    ids=["a step", "with constants", "with values", "a tool", "with a key", "a wait", "the end"],
)
def test_a_run_that_begins_at_an_activity_begins_with_a_plain_move(first: JsonObject, plain: bool) -> None:
    plan = Plan(native(first, timeout="1h"))
    start = inputs.StartRun(at=T0, run_id='run "1"', input={"name": "Ada"}, tenant="another", started_by="ada")
    assert both_ways(plan, RunState(), start)[1] == plain
    assert both_ways(plan, RunState(), replace(start, input=None, timeout_ms=7, mode="host_mediated"))[1] == plain
    assert not both_ways(plan, RunState(), replace(start, timeout_ms=0))[1]


def test_an_activity_that_follows_itself_is_a_plain_move() -> None:
    workflow = build_workflow({"penstock": "v1", "name": "again", "nodes": [step("a", next="a"), END]})
    plan, state = Plan(workflow), begin(workflow).state
    for number in range(1, 4):
        effect = PerformActivity(
            effect_id="", idempotency_key="", node_id="a", visit=number, attempt=1, node_type="step", config={}
        )
        decision, was_plain = both_ways(plan, state, completed(effect, number))
        assert was_plain
        assert decision is not None
        state = decision.state


def undone(handler: str) -> JsonValue:
    return {"type": "step", "handler": handler}


OBJECT: JsonObject = {"type": "object"}


@pytest.mark.parametrize(
    ("workflow", "plain"),
    [
        (native(step("a", next={"when": ".a.n > 1", "then": "end", "else": "b"}), step("b")), False),
        (native(step("a", compensate=undone("undo.it")), step("b")), False),
        (native(step("a"), step("b", compensate=undone("undo.it"))), True),
        (native(step("a"), step("b"), checkpointing={"strategy": "after_each_node"}), False),
        (native({"id": "l", "type": "loop", "while": "true", "max_iterations": 2, "nodes": [step("a")]}), False),
        (native({"id": "f", "type": "for_each", "items": "[1, 2]", "nodes": [step("a")]}), False),
        (native(step("a", output_schema=OBJECT), step("b", output_schema=OBJECT)), True),
        (native(step("a", output_schema={"type": "string"}), step("b")), False),
        (native(step("a"), {**END, "output": "${ .a }"}, output=OBJECT), True),
        (native(step("a"), {**END, "output": "${ .a }"}, output={"type": "string"}), False),
    ],
    ids=[
        *("a condition", "an undo", "an undo afterwards", "a checkpoint", "a loop", "items"),
        *("a schema", "a result that does not fit", "a schema of the end", "an end that does not fit"),
    ],
)
def test_whatever_has_more_to_it_is_left_to_decide(workflow: Workflow, plain: bool) -> None:
    assert is_plain(workflow) == plain


@pytest.mark.parametrize(
    "fields",
    [
        *({"extra": {"usage": 1}}, {"extra": {"untrusted": True}}, {"holder": "w"}, {"round": 1}),
        *({"visit": 2}, {"attempt": 2}, {"visit": None}, {"attempt": None}, {"node_id": "b"}),
        *({"result": math.nan}, {"result": "\ud800"}, {"result": {1: 2}}, {"result": object()}),
    ],
    ids=lambda fields: str(fields).split(" at 0x")[0],
)
def test_a_result_that_is_unusual_is_left_to_decide(fields: dict[str, Any]) -> None:
    assert not is_plain(native(step("a"), step("b")), **fields)


def test_a_run_that_is_paused_or_timed_out_or_long_makes_no_plain_move() -> None:
    workflow = native(step("a"), step("b"))
    plan, run = Plan(workflow), begin(workflow)
    given_ = completed(first_activity(run), 1)
    for changes in (
        {"paused": True},
        {"deadline": given_.at},
        {"steps": limits.STEPS_PER_RUN_MAX},
        {"history_bytes": limits.HISTORY_BYTES_ADVISED - 100},
        {"history_bytes": limits.HISTORY_BYTES_MAX - 100},
        {"seq": limits.HISTORY_ROWS_ADVISED - 5},
        {"seq": limits.HISTORY_ROWS_MAX - 4},
    ):
        assert not both_ways(plan, replace(run.state, **changes), given_)[1], changes
    for changes in ({"deadline": given_.at + 1}, {"seq": limits.HISTORY_ROWS_ADVISED - 6}):
        assert both_ways(plan, replace(run.state, **changes), given_)[1], changes


def test_a_plan_is_compiled_once_for_each_move() -> None:
    plan = Plan(native(step("a"), step("b")))
    assert plan.step("a") is plan.step("a")
    assert plan.begin is plan.begin
    assert plan.step("unknown") is None
