"""How runs begin, and how they continue as new ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.expressions import InProcessEvaluator
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.decide import decide
from penstock.engine.effects import CancelChild, StartSuccessor
from penstock.engine.folding.evolve import fold
from penstock.engine.fork import fork
from penstock.engine.outcomes import Accepted, Refused
from penstock.engine.replay import Replayed, replay
from penstock.engine.state import BufferedSignal, RunState
from penstock.engine.walk.starting import secrets_of_input, successor_start
from tests.unit.engine.runs import T0, Run, begin, compiled, native, published, start, step

WAIT: JsonObject = {"id": "w", "type": "wait", "signal": "go"}


def again(**fields: JsonValue) -> JsonObject:
    return {"id": "again", "type": "continue_as_new", "input": {"n": "${ (.input.n // 0) + 1 }"}, **fields}


def only(*nodes: JsonObject, **top: JsonValue) -> Workflow:
    """A workflow of these nodes and no other."""
    return compiled({"penstock": "v1", "name": "sample", "nodes": list(nodes), **top})


def endless(*nodes: JsonObject, **top: JsonValue) -> Workflow:
    return only(*nodes, again(), **top)


def next_run(run: Run, workflow: Workflow | None = None) -> Run:
    """The run that continues one that has ended."""
    given = successor_start(run.workflow, run.state, at=run.now)
    chosen = workflow or run.workflow
    decision = decide(chosen, RunState(), given)
    assert isinstance(decision, Accepted), decision
    return Run(workflow=chosen, state=decision.state, records=list(decision.records), now=run.now)


def test_a_run_that_continues_ends_with_the_id_and_the_input_of_the_next() -> None:
    run = begin(endless(step("a")), {"n": 4}).done("a")
    assert run.told()[-3:] == ["NodeScheduled again", "c CompleteNode again", "ExecutionContinued again"]
    assert run.of("ExecutionContinued") == [
        {
            "nodeId": "again",
            "visit": 1,
            "successorExecutionId": "run~2",
            "input": {"n": 5},
            "version": "pinned",
            "executionId": "run",
        }
    ]
    assert (run.status, run.state.continued_as, run.state.result) == ("completed", "run~2", None)
    assert run.due == [StartSuccessor(effect_id="run~2/start", successor_id="run~2", newest=False)]


def test_the_next_run_takes_over_what_goes_on_and_nothing_else() -> None:
    first = begin(endless(step("a")), {"n": 4}, parent_run_id="p", depth=2, mode="host_mediated").done("a")
    second = next_run(first)
    assert second.state.run_id == "run~2"
    assert (second.state.input, second.state.parent_run_id, second.state.depth) == ({"n": 5}, "p", 2)
    assert (second.state.mode, second.state.continued_from, second.state.generation) == ("host_mediated", "run", 2)
    assert second.state.seq < first.state.seq
    assert next_run(second.done("a")).state.run_id == "run~3"


def test_expressions_see_which_run_of_its_chain_a_run_is() -> None:
    workflow = compiled(
        {
            "penstock": "v1",
            "name": "sample",
            "nodes": [
                step("a"),
                {
                    "id": "more",
                    "type": "switch",
                    "cases": [{"when": ".run.generation < 3", "next": "again"}],
                    "default": "end",
                },
                again(),
                {"id": "end", "type": "end", "output": "${ .run.id }"},
            ],
        }
    )
    run = begin(workflow).done("a")
    while run.state.continuation is not None:
        run = next_run(run).done("a")
    assert run.state.result == "run~3"


def test_signals_that_nobody_took_go_to_the_next_run_in_their_order() -> None:
    run = begin(endless(step("a"), WAIT))
    run.signal("go", 1, "s1").signal("other", 2).signal("go", 3, "s3").done("a")
    assert run.state.signals == (BufferedSignal("other", 2), BufferedSignal("go", 3, "s3"))
    second = next_run(run)
    assert second.state.signals == run.state.signals
    assert second.signal("go", 1, "s1").state.signals == run.state.signals  # known already
    second.done("a")
    assert second.of("SignalReceived")[0]["payload"] == 3


def test_ids_of_signals_are_carried_over_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SIGNAL_IDS_CARRIED_MAX", 2)
    run = begin(endless(WAIT))
    for name in ("s1", "s2", "s3"):
        run.signal("other", None, name)
    second = next_run(run.signal("go"))
    assert list(second.state.signal_ids) == ["s2", "s3"]


@given(st.lists(st.sampled_from(["go", "other", "go once"]), max_size=12))
def test_no_signal_is_lost_or_doubled_over_a_chain(names: list[str]) -> None:
    run, taken, sent = begin(endless(WAIT)), list[JsonValue](), list[int]()
    for number, name in enumerate(names):
        signal_id = "once" if name == "go once" else f"s{number}"
        if signal_id not in run.state.signal_ids:
            sent.append(number)
        run.signal(name.partition(" ")[0], number, signal_id)
        while run.state.continuation is not None:
            taken += [payload["payload"] for payload in run.of("SignalReceived")]
            run = next_run(run)
    assert taken == [number for number in sent if names[number] != "other"]
    assert [signal.payload for signal in run.state.signals] == [number for number in sent if names[number] == "other"]


def test_the_starters_time_is_for_the_chain_and_the_documents_for_each_run() -> None:
    run = begin(endless(WAIT, timeout="1m"), timeout_ms=100_000)
    assert (run.state.deadline, run.state.chain_deadline) == (T0 + 60_000, T0 + 100_000)
    second = next_run(run.after(50_000).signal("go"))
    assert (second.state.deadline, second.state.chain_deadline) == (T0 + 100_000, T0 + 100_000)
    third = next_run(second.after(50_001).signal("go"))
    assert third.fire("run").code == "RUN_TIMEOUT"


def test_a_run_without_a_given_time_has_the_documents_time_each() -> None:
    second = next_run(begin(endless(WAIT, timeout="1m")).after(50_000).signal("go"))
    assert (second.state.deadline, second.state.chain_deadline) == (T0 + 110_000, None)


def test_an_input_that_does_not_fit_is_a_failure_that_a_route_may_catch() -> None:
    schema: JsonObject = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}}
    run = begin(endless(step("a"), input=schema), {"n": 3}).done("a")
    assert (run.status, run.code) == ("failed", "CONTINUE_INPUT_INVALID")
    routed = native(step("a"), again(input={"n": "${ [1] }"}, on_error={"next": "end"}), input=schema)
    assert begin(routed).done("a").status == "completed"
    broken = only(step("a"), again(input={"n": "${ .a.b.c }"}))
    assert begin(broken).done("a", {"b": 1}).code == "JQ_FAILED"


def test_a_fallback_does_not_stand_in_for_an_input() -> None:
    node = again(input="${ .a.b.c }", on_error={"fallback": {}})
    run = begin(only(step("a"), node, on_error={"fallback": {}})).done("a", {"b": 1})
    assert (run.status, run.code) == ("failed", "JQ_FAILED")


def test_a_next_run_that_would_be_refused_fails_at_once() -> None:
    run = begin(only(step("a"), again(version="newest"))).done("a")
    assert run.due == [StartSuccessor(effect_id="run~2/start", successor_id="run~2", newest=True)]
    picky = native(step("b"), input={"type": "object", "required": ["name"]})
    second = next_run(run, picky)
    assert (second.status, second.code) == ("failed", "VALIDATION_ERROR")
    assert second.told() == ["ExecutionStarted", "ExecutionFailed"]
    assert second.state.input == {"n": 1}
    outcome = replay(picky, second.records)
    assert isinstance(outcome, Replayed)
    assert outcome.state == second.state


def test_what_was_done_is_not_undone_when_a_run_continues() -> None:
    run = begin(endless(step("a", compensate={"handler": "undo"}))).done("a")
    assert (run.status, run.of("StartCompensation")) == ("completed", [])
    assert next_run(run).state.compensations == ()


def test_a_child_that_nobody_needs_is_cancelled_after_the_run_has_continued() -> None:
    branches: JsonValue = [
        {"name": "x", "nodes": [{"id": "sub", "type": "subworkflow", "workflow": "other"}]},
        {"name": "y", "nodes": [step("a")]},
    ]
    run = begin(endless({"id": "first", "type": "race", "branches": branches})).done("a")
    assert [type(effect) for effect in run.due] == [CancelChild, StartSuccessor]


def test_runs_that_wait_for_nothing_may_continue_only_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONTINUATIONS_WITHOUT_WAIT_MAX", 3)
    gate: JsonObject = {"id": "g", "type": "switch", "cases": [{"when": ".input.n == -1", "next": "end"}]}
    run = begin(native({**gate, "default": "again"}, again()))
    runs = 1
    while run.state.continuation is not None:
        run, runs = next_run(run), runs + 1
    assert (runs, run.code) == (4, "CONTINUE_WITHOUT_WAIT")


def test_a_wait_in_between_makes_a_chain_that_may_be_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONTINUATIONS_WITHOUT_WAIT_MAX", 1)
    run = begin(endless(WAIT)).signal("go")
    for _ in range(5):
        run = next_run(run).signal("go")
    assert run.state.continued_as == "run~7"


@pytest.mark.parametrize(
    "given",
    [
        inputs.SendSignal(at=0, name="go"),
        inputs.CancelRun(at=0),
        inputs.AnswerInterrupt(at=0, answer={}),
        inputs.CompleteActivity(at=0, node_id="a"),
        inputs.PauseRun(at=0),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_run_that_was_continued_says_so_to_everybody(given: inputs.Input) -> None:
    refused = begin(endless(step("a"))).done("a").refuse(given)
    assert refused.details == {"continued_as": "run~2"}
    assert "continued as run~2" in refused.message


def test_only_a_run_that_continues_another_has_an_id_like_it() -> None:
    refused = start(native(step("a")), run_id="order~2")
    assert isinstance(refused, Refused)
    assert refused.code == "VALIDATION_ERROR"
    run = begin(native(step("a")))
    with pytest.raises(Rejected, match="ends in ~"):
        fork(run.records, at_seq=1, run_id="order~2")


def test_a_child_of_a_node_with_an_odd_name_is_no_later_run() -> None:
    odd: JsonObject = {"id": "a~2", "type": "subworkflow", "config": {"workflow_ref": "other", "input_mapping": {}}}
    run = begin(published(odd))
    assert list(run.state.children) == ["run:sub:a~2:1"]


# --- histories -----------------------------------------------------------------------------------


def chain() -> tuple[Run, Run]:
    first = begin(endless(step("a"), WAIT), {"n": 1}, timeout_ms=100_000)
    first.signal("other", "kept", "s1").signal("go", None, "s2").done("a")
    return first, next_run(first).done("a").signal("go", None, "s3")


def test_histories_of_a_chain_replay() -> None:
    for run in chain():
        outcome = replay(run.workflow, run.records)
        assert isinstance(outcome, Replayed)
        assert (outcome.state, list(outcome.records), outcome.missing) == (run.state, run.records, ())


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_history_that_continues_may_be_cut_anywhere(cut: int) -> None:
    run = chain()[1]
    kept = run.records[:cut]
    decision = decide(run.workflow, fold(kept), inputs.ContinueRun(at=T0))
    assert isinstance(decision, Accepted)
    again = [*kept, *decision.records]
    assert again == run.records[: len(again)]


def test_a_fork_of_a_later_run_begins_a_chain_of_its_own() -> None:
    run = chain()[1]
    records = fork(run.records, at_seq=run.state.seq, run_id="copy", at=T0 + 50_000)
    state = fold(records)
    assert (state.generation, state.continued_from, state.continued_as) == (1, None, "copy~2")
    assert state.chain_deadline == T0 + 150_000
    assert state.signals == (BufferedSignal("other", "kept", "s1"),)
    outcome = replay(run.workflow, records)
    assert isinstance(outcome, Replayed)
    assert (outcome.state.signals, outcome.state.continued_as) == (state.signals, "copy~2")


def test_a_successor_is_asked_for_only_where_there_is_one() -> None:
    run = begin(native(step("a")))
    with pytest.raises(TypeError, match="does not continue"):
        successor_start(run.workflow, run.state, at=T0)


def test_records_of_releases_that_knew_no_chains_fold_as_before() -> None:
    run = begin(native(step("a")), timeout_ms=5_000)
    first = run.records[0]
    old = replace(first, content={key: value for key, value in first.payload.items() if key != "chainDeadline"})
    state = fold([old, *run.records[1:]])
    assert (state.deadline, state.chain_deadline, state.generation) == (T0 + 5_000, None, 1)


# --- secret input ---------------------------------------------------------------------------------

SECRET_SCHEMA: JsonObject = {
    "type": "object",
    "required": ["password"],
    "properties": {"password": {"type": "string", "writeOnly": True, "minLength": 8}, "n": {"type": "integer"}},
}


def test_secret_input_is_recorded_as_a_mask_and_its_seal_is_given_to_the_activity_alone() -> None:
    workflow = native(step("use", with_={"a": "${ .input.password }"}), input=SECRET_SCHEMA)
    given = inputs.StartRun(at=T0, run_id="run", input={"password": "long enough"}, sealed={"/password": "SEAL"})
    assert secrets_of_input(workflow, given, InProcessEvaluator()) == {"/password": "long enough"}
    decision = decide(workflow, RunState(), given)
    assert isinstance(decision, Accepted)
    first, *_, requested = (record.payload for record in decision.records)
    assert (first["input"], first["secrets"]) == ({"password": "***"}, {"/password": "SEAL"})
    assert (requested["arguments"], requested["secrets"]) == ({"a": "***"}, {"/a": "${answer:SEAL}"})
    assert "long enough" not in str([record.payload for record in decision.records])
    assert isinstance(replay(workflow, list(decision.records)), Replayed)
    assert fold(decision.records).scopes[0].sealed == {"input": {"/password": "SEAL"}}


def test_secret_input_that_no_host_sealed_is_lost_and_not_shown() -> None:
    workflow = native(step("use", with_={"a": "${ .input.password }"}), input=SECRET_SCHEMA)
    run = begin(workflow, {"password": "long enough"})
    assert run.records[0].payload["secrets"] == {"/password": ""}
    assert "long enough" not in str([record.payload for record in run.records])


def test_unfit_secret_input_is_refused_without_being_told() -> None:
    workflow = native(step("use"), input=SECRET_SCHEMA)
    given = inputs.StartRun(at=T0, run_id="run", input={"password": "sh0rt"})
    refused = decide(workflow, RunState(), given)
    assert isinstance(refused, Refused)
    assert "sh0rt" not in refused.message
    assert secrets_of_input(workflow, given, InProcessEvaluator()) == {}


def test_a_run_that_goes_on_with_unfit_secrets_fails_at_once_masked_and_replays() -> None:
    before = only(step("make"), {"id": "again", "type": "continue_as_new", "input": {"password": "${ .make }", "n": 1}})
    run = begin(before, {}).done("make", "sh0rt")
    after = native(step("make"), input=SECRET_SCHEMA)
    continued = next_run(run, after)
    assert continued.told()[-1] == "ExecutionFailed"
    assert continued.records[0].payload["input"] == {"password": "***", "n": 1}
    assert "sh0rt" not in str([record.payload for record in continued.records])
    assert isinstance(replay(after, continued.records), Replayed)
