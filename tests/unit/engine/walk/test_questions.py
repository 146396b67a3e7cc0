"""Activities that ask a person: one question at a time, answered once, and the same attempt goes on."""

import pytest

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.engine import inputs, published_phase
from penstock.engine.effects import PerformActivity
from penstock.engine.folding.evolve import fold
from penstock.engine.fork import fork
from penstock.engine.pending import pending, pending_activities
from penstock.engine.replay import Replayed, replay
from penstock.engine.walk.questions import open_questions
from penstock.engine.walk.starting import successor_start
from tests.unit.engine.runs import Run, begin, compiled, native, step

TEXT: JsonObject = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
OUTPUT: JsonObject = {"id": "end", "type": "end", "output": "${ .a }"}


def asks(question: str = "Which branch?", **more: JsonValue) -> inputs.AskInActivity:
    given: dict[str, JsonValue] = {"answer_schema": TEXT, "resume": {"taskId": "t1"}, "visit": 1, "attempt": 1, **more}
    return inputs.AskInActivity(at=0, node_id="a", question=question, **given)  # type: ignore[arg-type]


def answer(text: str, **more: JsonValue) -> inputs.AnswerInterrupt:
    return inputs.AnswerInterrupt(at=0, answer={"text": text}, **more)  # type: ignore[arg-type]


def due(run: Run) -> PerformActivity:
    [effect] = pending(run.workflow, run.state, run.now)
    assert isinstance(effect, PerformActivity)
    return effect


def replayed(run: Run) -> None:
    outcome = replay(run.workflow, run.records)
    assert isinstance(outcome, Replayed), outcome
    assert (outcome.state, list(outcome.records)) == (run.state, run.records)


def test_an_activity_that_asks_makes_the_run_wait_for_a_person() -> None:
    run = begin(native(step("a"), OUTPUT)).take(asks(round=0))
    assert (run.status, published_phase(run.state)) == ("waiting_input", "interrupted")
    assert pending(run.workflow, run.state, run.now) == []
    assert pending_activities(run.workflow, run.state) == []
    [question] = open_questions(run.state)
    assert (question.interrupt_id, question.prompt, question.answer_schema) == ("a:1:1", "Which branch?", TEXT)
    [asked] = run.of("ActivityAsked")
    assert (asked["round"], asked["attempt"], asked["resume"]) == (1, 1, {"taskId": "t1"})
    replayed(run)


def test_the_answer_goes_to_the_same_attempt_with_what_its_performer_left() -> None:
    run = begin(native(step("a", with_={"n": 1}), OUTPUT)).take(asks()).take(answer("main", by="ada"))
    effect = due(run)
    assert (effect.effect_id, effect.attempt, effect.round) == ("run/a/1/1/1", 1, 1)
    assert (effect.resume, effect.answer) == ({"taskId": "t1"}, {"text": "main"})
    assert (effect.arguments, effect.idempotency_key) == ({"n": 1}, "run/a/1")
    assert len(run.of("ActivityRequested")) == 1
    assert run.of("ResumeInterrupt")[0]["answeredBy"] == "ada"
    run.take(inputs.CompleteActivity(at=0, node_id="a", visit=1, attempt=1, round=1, result={"ok": True}))
    assert run.state.result == {"ok": True}
    replayed(run)


def test_whoever_answers_first_is_taken() -> None:
    run = begin(native(step("a"))).take(asks()).take(answer("main"))
    assert run.refuse(answer("next")).code == "INVALID_RESUME_PAYLOAD"


def test_a_late_answer_is_not_taken_for_the_next_question() -> None:
    run = begin(native(step("a"))).take(asks()).take(answer("main", interrupt_id="a:1:1")).take(asks("And?", round=1))
    assert [item.interrupt_id for item in open_questions(run.state)] == ["a:1:2"]
    assert run.refuse(answer("next", interrupt_id="a:1:1")).code == "INVALID_RESUME_PAYLOAD"
    assert due(run.take(answer("sure", interrupt_id="a:1:2"))).answer == {"text": "sure"}


def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays() -> None:
    run = begin(native(step("a"))).take(asks())
    refused = run.refuse(inputs.AnswerInterrupt(at=0, answer={"text": 1}))
    assert (refused.code, run.status) == ("INVALID_RESUME_PAYLOAD", "waiting_input")
    assert "must be string" in refused.message


def test_a_question_that_comes_twice_is_asked_once() -> None:
    run = begin(native(step("a"))).take(asks(round=0))
    assert run.refuse(asks(round=0)).code == "ACTIVITY_SUBMIT_NOT_AWAITING"
    run.take(answer("main"))
    assert run.refuse(asks(round=0)).code == "ACTIVITY_SUBMIT_NOT_AWAITING"
    late = inputs.CompleteActivity(at=0, node_id="a", visit=1, attempt=1, round=0, result=1)
    assert run.refuse(late).code == "ACTIVITY_SUBMIT_NOT_AWAITING"


DEEP: JsonValue = []
for _ in range(limits.JSON_DEPTH_MAX + 1):
    DEEP = [DEEP]


@pytest.mark.parametrize("wrong", [{"answer_schema": {"type": "nonsense"}}, {"resume": DEEP}])
def test_a_question_that_cannot_be_asked_is_refused(wrong: dict[str, JsonValue]) -> None:
    assert begin(native(step("a"))).refuse(asks("?", **wrong)).code == "SUBMIT_VALIDATION_ERROR"


def test_the_question_is_open_until_the_deadline_of_the_attempt() -> None:
    run = begin(native(step("a", timeout="1m", retry={"max_attempts": 2}), OUTPUT)).after(20_000).take(asks())
    [question] = open_questions(run.state)
    assert question.deadline == run.now + 40_000
    run.after(40_000).take(inputs.FireTimer(at=0, kind="timeout", node_id="a", visit=1))
    [failed] = run.of("ActivityFailed")
    assert (failed["code"], failed["willRetry"]) == ("TIMEOUT", True)
    assert "nobody answered" in str(failed["error"])
    assert run.refuse(answer("main")).code == "INVALID_RESUME_PAYLOAD"
    effect = due(run)
    assert (effect.attempt, effect.resume, effect.answer, effect.round) == (2, None, None, 1)
    run.take(asks("Again?", attempt=2, round=1))
    assert [item.interrupt_id for item in open_questions(run.state)] == ["a:1:2"]
    replayed(run)


def test_after_an_answer_the_attempt_has_its_whole_time_again() -> None:
    run = begin(native(step("a", timeout="1m"))).after(50_000).take(asks()).after(5_000).take(answer("main"))
    assert due(run).deadline == run.now + 60_000
    replayed(run)


def test_an_attempt_that_may_happen_only_once_is_not_repeated_when_nobody_answers() -> None:
    run = begin(native(step("a", timeout="1m", effects="at_most_once", retry={"max_attempts": 3}))).take(asks())
    run.after(60_000).take(inputs.FireTimer(at=0, kind="timeout", node_id="a", visit=1))
    assert run.status == "failed"


def test_an_activity_that_asks_without_end_fails() -> None:
    run = begin(native(step("a", retry={"max_attempts": 3})))
    for number in range(limits.ACTIVITY_QUESTIONS_MAX):
        run.take(asks(round=number)).take(answer("main"))
    run.take(asks(round=limits.ACTIVITY_QUESTIONS_MAX))
    assert run.state.failure is not None
    assert run.state.failure.code == "ACTIVITY_QUESTIONS_EXCEEDED"
    replayed(run)


def test_cancelling_a_run_that_asks_ends_it() -> None:
    run = begin(native(step("a"))).take(asks()).take(inputs.CancelRun(at=0, reason="enough"))
    assert run.status == "cancelled"
    assert run.refuse(answer("main")).code == "INVALID_RESUME_PAYLOAD"
    replayed(run)


def test_the_answer_to_a_paused_run_is_kept_until_it_goes_on() -> None:
    run = begin(native(step("a"))).take(asks()).take(inputs.PauseRun(at=0)).take(answer("main"))
    assert pending(run.workflow, run.state, run.now) == []
    assert due(run.take(inputs.ResumeRun(at=0))).answer == {"text": "main"}
    replayed(run)


def test_an_activity_in_doubt_that_asks_is_no_longer_in_doubt() -> None:
    run = begin(native(step("a", effects="at_most_once"))).take(inputs.ReportOutcomeUnknown(at=0, node_id="a"))
    assert run.take(asks()).status == "waiting_input"
    assert run.refuse(inputs.ReportOutcomeUnknown(at=0, node_id="a")).code == "ACTIVITY_SUBMIT_NOT_AWAITING"
    replayed(run)


def test_somebody_may_report_the_result_while_the_activity_asks() -> None:
    run = begin(native(step("a"), OUTPUT)).take(asks())
    assert run.done("a", "by hand").state.result == "by hand"
    replayed(run)


def test_several_visits_ask_at_once_and_are_answered_by_their_ids() -> None:
    each: JsonObject = {"id": "each", "type": "for_each", "items": "[1, 2]", "concurrency": 2, "nodes": [step("a")]}
    run = begin(native(each)).take(asks()).take(asks(visit=2))
    assert run.refuse(answer("main")).message.endswith("(a:1:1, a:2:1)")
    run.take(answer("two", interrupt_id="a:2:1"))
    [effect] = pending_activities(run.workflow, run.state)
    assert (effect.visit, effect.answer) == (2, {"text": "two"})
    replayed(run)


def test_a_fork_asks_too_but_does_not_go_on_with_the_work_of_the_original() -> None:
    run = begin(native(step("a"))).take(asks())
    records = fork(run.records, at_seq=run.state.seq, run_id="twin")
    twin = Run(workflow=run.workflow, state=fold(records), records=list(records))
    assert twin.status == "waiting_input"
    effect = due(twin.take(answer("main")))
    assert (effect.effect_id, effect.resume, effect.answer) == ("twin/a/1/1/1", None, {"text": "main"})


def test_what_a_failed_attempt_has_cost_is_kept_beside_its_error() -> None:
    usage: JsonObject = {"input_tokens": 7}
    run = begin(native(step("a", retry={"max_attempts": 2})))
    extra: JsonObject = {"usage": usage, "externalTaskId": "t1", "willRetry": False, "nodeId": "b"}
    run.take(inputs.FailActivity(at=0, node_id="a", error="no", code="NO", extra=extra))
    [failed] = run.of("ActivityFailed")
    assert (failed["usage"], failed["externalTaskId"]) == (usage, "t1")
    assert (failed["nodeId"], failed["willRetry"]) == ("a", True)
    replayed(run)


def test_what_a_result_that_does_not_fit_has_cost_is_kept_too() -> None:
    run = begin(native(step("a", output_schema={"type": "object"})))
    run.take(inputs.CompleteActivity(at=0, node_id="a", result="text", extra={"usage": {"input_tokens": 7}}))
    [failed] = run.of("ActivityFailed")
    assert (failed["code"], failed["usage"]) == ("OUTPUT_SCHEMA_VIOLATION", {"input_tokens": 7})
    replayed(run)


SAMPLE: JsonObject = {"kind": "sampling", "request": {"messages": []}}


def test_a_question_to_the_client_is_known_as_one_and_counted() -> None:
    run = begin(native(step("a"), OUTPUT), client_kinds=("roots", "sampling"))  # type: ignore[arg-type]
    assert run.of("ExecutionStarted")[0]["clientKinds"] == ["roots", "sampling"]
    run.take(asks(ask=SAMPLE))
    [question] = open_questions(run.state)
    assert (question.ask, run.state.client_kinds, run.state.client_questions) == (SAMPLE, ("roots", "sampling"), 1)
    run.take(answer("Paris"))
    assert due(run).answer == {"text": "Paris"}
    replayed(run)


def test_a_run_asks_its_client_only_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLIENT_QUESTIONS_MAX", 1)
    run = begin(native(step("a"), OUTPUT)).take(asks(ask=SAMPLE)).take(answer("Paris"))
    run.take(asks(ask=SAMPLE))
    [failed] = run.of("ActivityFailed")
    assert (failed["code"], run.status) == ("CLIENT_QUESTIONS_EXCEEDED", "failed")


def test_the_run_that_continues_another_has_the_same_client() -> None:
    again: JsonObject = {"id": "again", "type": "continue_as_new", "input": {}}
    workflow = compiled({"penstock": "v1", "name": "sample", "nodes": [step("a"), again]})
    run = begin(workflow, client_kinds=("sampling",))  # type: ignore[arg-type]
    run.take(inputs.CompleteActivity(at=0, node_id="a", visit=1, attempt=1, result={}))
    assert successor_start(run.workflow, run.state, at=run.now).client_kinds == ("sampling",)
