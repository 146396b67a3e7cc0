"""Effects: read off the state, the same every time, and only what a record asked for."""

from penstock.base.json import JsonObject, JsonValue
from penstock.engine import inputs
from penstock.engine.effects import PerformActivity, WakeUp
from penstock.engine.folding.evolve import fold
from penstock.engine.pending import next_wake_up_at, pending, pending_activities
from tests.unit.engine.runs import T0, begin, native, published, step


def test_an_effect_is_listed_until_it_is_answered_and_always_the_same() -> None:
    run = begin(native(step("a")))
    assert run.due == run.due
    assert run.due == pending(run.workflow, fold(run.records), run.now)
    run.done("a")
    assert run.due == []


def test_an_activity_says_everything_that_an_executor_needs() -> None:
    node = step(
        "a",
        with_={"n": 1},
        timeout="2s",
        effects="at_most_once",
        output_schema={"type": "object"},
        retry={"max_attempts": 2},
    )
    [effect] = begin(native(node)).due
    assert effect == PerformActivity(
        effect_id="run/a/1/1",
        idempotency_key="run/a/1",
        node_id="a",
        visit=1,
        attempt=1,
        node_type="step",
        config={"handler": "do.it", "with": {"n": 1}, "output_schema": {"type": "object"}},
        arguments={"n": 1},
        deadline=T0 + 2_000,
        timeout_ms=2_000,
        at_most_once=True,
        output_schema={"type": "object"},
    )


def test_several_activities_are_due_at_once_oldest_scope_first() -> None:
    each: JsonObject = {"id": "each", "type": "for_each", "items": "[1, 2, 3]", "concurrency": 3, "nodes": [step("a")]}
    run = begin(native(each))
    assert [effect.effect_id for effect in run.due] == ["run/a/1/1", "run/a/2/1", "run/a/3/1"]
    assert [effect.visit for effect in pending_activities(run.workflow, run.state)] == [1, 2, 3]


def test_a_timer_is_due_from_its_moment_on() -> None:
    run = begin(native({"id": "w", "type": "wait", "duration": "1s"}))
    assert pending(run.workflow, run.state, T0 + 999) == []
    [effect] = pending(run.workflow, run.state, T0 + 1_000)
    assert effect == WakeUp(
        effect_id=f"run/w/1/wait/{T0 + 1_000}", kind="wait", node_id="w", visit=1, due_at=T0 + 1_000
    )


def test_the_timer_of_the_run_is_due_like_any_other() -> None:
    run = begin(native(step("a"), timeout="1s"))
    effects = pending(run.workflow, run.state, T0 + 1_000)
    assert [effect.effect_id for effect in effects] == ["run/a/1/1", f"run//0/run/{T0 + 1_000}"]
    assert next_wake_up_at(run.state) == T0 + 1_000


def test_questions_and_signal_waits_ask_nothing_of_the_host() -> None:
    assert begin(native({"id": "ask", "type": "interrupt", "message": "?"})).due == []
    assert begin(native({"id": "w", "type": "wait", "signal": "go"})).due == []


def test_a_paused_run_still_wants_what_it_asked_for() -> None:
    run = begin(native(step("a"))).take(inputs.PauseRun(at=0))
    assert [effect.effect_id for effect in run.due] == ["run/a/1/1"]


def test_a_run_that_ended_wants_nothing_but_its_children_cancelled() -> None:
    assert begin(native(step("a"))).take(inputs.CancelRun(at=0)).due == []
    run = begin(native({"id": "sub", "type": "subworkflow", "workflow": "other"})).take(inputs.CancelRun(at=0))
    assert [effect.effect_id for effect in run.due] == ["run:sub:sub/cancel"]
    assert next_wake_up_at(run.state) is None


def test_a_delegation_carries_its_correlation_id_and_a_later_visit_its_own() -> None:
    node: JsonObject = {"id": "ask", "type": "agent_delegate", "agent_id": "clerk", "input": {}}
    each: JsonObject = {"id": "each", "type": "for_each", "items": "[1, 2]", "concurrency": 2, "nodes": [node]}
    found: list[JsonValue] = [
        (effect.delegate or {}).get("delegateCorrelationId")
        for effect in begin(native(each)).due
        if isinstance(effect, PerformActivity)
    ]
    assert found == ["run:delegate:ask", "run:delegate:ask:2"]


def test_an_activity_in_a_branch_carries_its_span() -> None:
    run = begin(
        published(
            {"id": "p", "type": "parallel", "config": {"join": "all", "branches": [{"name": "x", "entry": "a"}]}},
            {"id": "a", "type": "step", "config": {"handler": "h"}},
            edges=[("__start__", "s"), ("s", "p"), ("p", "e"), ("a", "e")],
        ),
        {},
    )
    [effect] = run.due
    assert isinstance(effect, PerformActivity)
    assert effect.parallel_span == run.of("ActivityRequested")[0]["parallelSpan"]
