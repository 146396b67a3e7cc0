"""Results of activities: whose they are, whether they fit, and what a failure leads to."""

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.engine import inputs
from penstock.engine.effects import PerformActivity
from penstock.engine.transitions import Phase
from tests.unit.engine.runs import Run, begin, native, published, step

NUMBER: JsonObject = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def attempt_of(run: Run, node_id: str) -> int:
    activation = run.state.activation(node_id)
    assert activation is not None
    return activation.attempt


def test_a_result_for_another_node_is_refused_and_names_what_waits() -> None:
    run = begin(native(step("a"), step("b")))
    refused = run.refuse(inputs.CompleteActivity(at=0, node_id="b"))
    assert refused.code == "ACTIVITY_SUBMIT_NODE_MISMATCH"
    assert "waiting: a" in refused.message


def test_a_result_that_comes_twice_is_refused() -> None:
    run = begin(native(step("a"), step("b"))).done("a", 1, visit=1)
    late = inputs.CompleteActivity(at=0, node_id="a", visit=1, attempt=1, result=2)
    assert run.refuse(late).code == "ACTIVITY_SUBMIT_NOT_AWAITING"


def test_a_result_of_an_attempt_that_is_over_is_refused() -> None:
    run = begin(native(step("a", retry={"max_attempts": 3}))).failed("a")
    late = inputs.CompleteActivity(at=0, node_id="a", visit=1, attempt=1, result=2)
    assert run.refuse(late).code == "ACTIVITY_SUBMIT_NOT_AWAITING"
    assert run.take(inputs.CompleteActivity(at=0, node_id="a", visit=1, attempt=2, result=2)).status == "completed"


def test_a_result_when_nothing_waits_is_refused() -> None:
    run = begin(native({"id": "w", "type": "wait", "signal": "go"}))
    assert run.refuse(inputs.CompleteActivity(at=0, node_id="w")).code == "ACTIVITY_SUBMIT_NOT_AWAITING"


def test_each_visit_keeps_its_own_result() -> None:
    body = step("a", with_={"n": "${ .item }"})
    each: JsonObject = {"id": "each", "type": "for_each", "items": "[1, 2, 3]", "concurrency": 3, "nodes": [body]}
    run = begin(native(each, {"id": "end", "type": "end", "output": "${ .each }"}))
    run.done("a", "third", visit=3).done("a", "first", visit=1).done("a", "second", visit=2)
    assert run.state.result == ["first", "second", "third"]


def test_a_result_without_a_visit_goes_to_the_oldest_that_waits() -> None:
    each: JsonObject = {"id": "each", "type": "for_each", "items": "[1, 2]", "concurrency": 2, "nodes": [step("a")]}
    run = begin(native(each, {"id": "end", "type": "end", "output": "${ .each }"})).done("a", "x").done("a", "y")
    assert run.state.result == ["x", "y"]


def test_a_result_that_nests_too_deep_is_refused() -> None:
    deep: JsonValue = []
    for _ in range(80):
        deep = [deep]
    refused = begin(native(step("a"))).refuse(inputs.CompleteActivity(at=0, node_id="a", result=deep))
    assert refused.code == "SUBMIT_VALIDATION_ERROR"


def test_a_result_that_does_not_fit_its_schema_is_a_failed_attempt() -> None:
    run = begin(native(step("a", output_schema=NUMBER, retry={"max_attempts": 2}))).done("a", {"n": "one"})
    assert attempt_of(run, "a") == 2
    run.done("a", {"n": "two"})
    assert (run.status, run.code) == ("failed", "OUTPUT_SCHEMA_VIOLATION")


def test_what_comes_beside_a_result_is_kept_in_the_history() -> None:
    run = begin(native(step("a")))
    run.take(inputs.CompleteActivity(at=0, node_id="a", result=1, extra={"externalTaskId": "t-1"}))
    assert run.of("ActivityCompleted")[0]["externalTaskId"] == "t-1"


@pytest.mark.parametrize("result", [1, "text", None, [1]])
def test_a_published_result_that_is_no_object_writes_nothing(result: JsonValue) -> None:
    run = begin(published({"id": "a", "type": "step", "config": {"handler": "h"}}), {"n": 1}).done("a", result)
    assert run.state.result == {"n": 1}


def test_a_failure_that_its_reporter_calls_final_is_not_retried() -> None:
    run = begin(native(step("a", retry={"max_attempts": 5})))
    run.take(inputs.FailActivity(at=0, node_id="a", error="no", code="E", retryable=False))
    assert run.status == "failed"


def test_a_failure_without_a_code_has_a_code_in_the_end() -> None:
    assert begin(native(step("a"))).failed("a", None).code == "FAILED"


def test_a_retry_waits_for_its_back_off_and_keeps_its_arguments() -> None:
    node = step("a", with_={"n": "${ .input.n }"}, retry={"max_attempts": 2, "initial_interval": "1s"})
    run = begin(native(node), {"n": 4}).failed("a")
    assert run.status == "waiting_timer"
    assert run.refuse(inputs.CompleteActivity(at=0, node_id="a")).code == "ACTIVITY_SUBMIT_NOT_AWAITING"
    run.after(1_000).fire("retry", "a")
    [effect] = run.due
    assert isinstance(effect, PerformActivity)
    assert (effect.attempt, effect.arguments) == (2, {"n": 4})


def test_an_activity_of_unknown_outcome_waits_for_a_decision() -> None:
    run = begin(native(step("a", effects="at_most_once")))
    run.take(inputs.ReportOutcomeUnknown(at=0, node_id="a", visit=1, attempt=1))
    assert run.status == "waiting_decision"
    assert run.due == []
    before = len(run.records)
    run.take(inputs.ReportOutcomeUnknown(at=0, node_id="a"))
    assert len(run.records) == before  # known already
    run.take(inputs.RetryActivity(at=0, node_id="a", by="ada"))
    assert attempt_of(run, "a") == 2
    assert run.of("ActivityRetried")[0]["decidedBy"] == "ada"


@pytest.mark.parametrize("given", ["done", "failed"])
def test_an_unknown_outcome_that_becomes_known_counts(given: str) -> None:
    run = begin(native(step("a"))).take(inputs.ReportOutcomeUnknown(at=0, node_id="a"))
    assert (run.done("a", 1) if given == "done" else run.failed("a")).state.terminal


def test_only_an_unknown_outcome_can_be_tried_again_by_hand() -> None:
    run = begin(native(step("a")))
    assert run.refuse(inputs.RetryActivity(at=0, node_id="a")).code == "ACTIVITY_RETRY_NOT_ALLOWED"


def test_the_deadline_of_an_attempt_in_doubt_does_not_outlive_it() -> None:
    run = begin(native(step("a", effects="at_most_once", timeout="1s")))
    run.take(inputs.ReportOutcomeUnknown(at=0, node_id="a")).take(inputs.PauseRun(at=0))
    run.take(inputs.RetryActivity(at=0, node_id="a")).after(5_000)
    late = inputs.FireTimer(at=0, kind="timeout", node_id="a", visit=1)
    assert run.refuse(late).code == "TIMER_NOT_FOUND"
    run.take(inputs.ResumeRun(at=0))
    activation = run.state.activation("a")
    assert activation is not None
    assert (activation.phase, activation.deadline) == (Phase.REQUESTED, run.now + 1_000)


def test_secrets_stand_in_the_history_as_references_only() -> None:
    node = step("a", with_={"token": "Bearer ${secret:KEY}", "n": 1})
    run = begin(native(node, secrets=["KEY"]))
    [effect] = run.due
    assert isinstance(effect, PerformActivity)
    assert effect.arguments == {"token": "***", "n": 1}
    assert effect.secrets == {"/token": "Bearer ${secret:KEY}"}


def test_a_secret_in_an_input_is_plain_text() -> None:
    node = step("a", with_={"text": "${ .input.text }"})
    [effect] = begin(native(node), {"text": "${secret:KEY}"}).due
    assert isinstance(effect, PerformActivity)
    assert (effect.arguments, effect.secrets) == ({"text": "${secret:KEY}"}, None)


def test_an_idempotency_key_is_made_from_run_node_and_visit_or_taken_from_the_document() -> None:
    [effect] = begin(native(step("a"))).due
    assert isinstance(effect, PerformActivity)
    assert effect.idempotency_key == "run/a/1"
    run = begin(native(step("a", idempotency_key="order-${ .input.n }", retry={"max_attempts": 2})), {"n": 4})
    run.failed("a")
    [effect] = run.due
    assert isinstance(effect, PerformActivity)
    assert (effect.idempotency_key, effect.attempt) == ("order-4", 2)


def test_a_delegation_is_retried_with_its_input() -> None:
    node: JsonObject = {
        "id": "ask",
        "type": "agent_delegate",
        "agent_id": "clerk",
        "input": {"n": "${ .input.n }"},
        "retry": {"max_attempts": 2},
    }
    run = begin(native(node), {"n": 4}).failed("ask")
    [effect] = run.due
    assert isinstance(effect, PerformActivity)
    assert effect.delegate is not None
    assert effect.delegate["delegateInput"] == {"n": 4}
    run.failed("ask")
    assert run.of("FailNode")[0]["reason"] == "delegate_failed"
