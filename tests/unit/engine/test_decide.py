"""Every input, and every way in which one can be refused; `Run.send` checks that a refusal changes nothing."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from penstock.base.json import JsonObject, JsonValue
from penstock.engine import inputs
from penstock.engine.decide import decide
from penstock.engine.folding.evolve import fold
from penstock.engine.outcomes import Accepted, Refused
from penstock.engine.state import RunState
from tests.unit.engine.runs import T0, Run, begin, native, published, start, step

ASK: JsonObject = {
    "id": "ask",
    "type": "interrupt",
    "message": "Go?",
    "answer": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}},
}
WAIT: JsonObject = {"id": "wait", "type": "wait", "signal": "go"}
SLEEP: JsonObject = {"id": "sleep", "type": "wait", "duration": "1s"}
CHILD: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "other"}
EMIT: JsonObject = {"id": "tell", "type": "emit", "run": "other-run", "signal": "go"}
DEEP: JsonValue = []
for _ in range(80):
    DEEP = [DEEP]

EVERY_INPUT: list[inputs.Input] = [
    inputs.CompleteActivity(at=0, node_id="a", result={}),
    inputs.FailActivity(at=0, node_id="a", error="no"),
    inputs.ReportOutcomeUnknown(at=0, node_id="a"),
    inputs.RetryActivity(at=0, node_id="a"),
    inputs.AnswerInterrupt(at=0, answer={}),
    inputs.SendSignal(at=0, name="go"),
    inputs.FireTimer(at=0, kind="wait", node_id="a", visit=1),
    inputs.FinishChild(at=0, child_id="run:sub:a", status="completed"),
    inputs.AcknowledgeEmit(at=0, node_id="a", visit=1),
    inputs.CancelRun(at=0),
    inputs.PauseRun(at=0),
    inputs.ResumeRun(at=0),
]


# --- starting -------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [*EVERY_INPUT, inputs.ContinueRun(at=0)], ids=lambda given: type(given).__name__)
def test_a_run_that_was_not_started_takes_nothing(given: inputs.Input) -> None:
    assert isinstance(decide(native(step("a")), RunState(), given), Refused)


def test_a_run_starts_once() -> None:
    run = begin(native(step("a")))
    assert run.refuse(inputs.StartRun(at=0, run_id="run", input={})).code == "DUPLICATE_EXECUTION_ID"


def test_an_input_that_does_not_fit_its_schema_is_refused_with_the_place() -> None:
    schema: JsonObject = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    workflow = native(step("a"), input=schema)
    assert isinstance(start(workflow, {"n": 1}), Accepted)
    wrongs: list[JsonValue] = [{}, {"n": "one"}, None, [], "text"]
    for wrong in wrongs:
        refused = start(workflow, wrong)
        assert isinstance(refused, Refused)
        assert refused.code == "VALIDATION_ERROR"
        assert refused.hint is not None


def test_defaults_of_the_input_schema_are_filled_in() -> None:
    schema: JsonObject = {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}}
    assert begin(native(step("a"), input=schema)).state.input == {"n": 7}


def test_the_input_schema_of_a_published_start_node_is_enforced() -> None:
    workflow = published(start_config={"input_schema": {"type": "object", "required": ["n"]}})
    assert isinstance(start(workflow, {"n": 1}), Accepted)
    assert isinstance(start(workflow, {"m": 1}), Refused)


def test_a_published_input_must_be_an_object_that_fits_the_state() -> None:
    workflow = published(
        {"id": "a", "type": "step", "config": {"handler": "h"}},
        state={"type": "object", "properties": {"n": {"type": "integer"}}},
    )
    assert isinstance(start(workflow, {"n": 1, "more": True}), Accepted)
    wrongs: list[JsonValue] = [{"n": "one"}, [1], "text"]
    for wrong in wrongs:
        refused = start(workflow, wrong)
        assert isinstance(refused, Refused)
        assert refused.code == "VALIDATION_ERROR"


def test_an_input_that_nests_too_deep_is_refused() -> None:
    refused = start(native(step("a")), DEEP)
    assert isinstance(refused, Refused)
    assert refused.code == "VALIDATION_ERROR"


def test_the_start_records_attempt_parent_depth_and_deadline() -> None:
    run = begin(native(step("a"), timeout="1m"), {}, run_attempt=2, parent_run_id="boss", depth=3, timeout_ms=90_000)
    assert (run.state.attempt, run.state.parent_run_id, run.state.depth) == (2, "boss", 3)
    assert run.state.deadline == T0 + 60_000  # the sooner of the two
    assert begin(native(step("a"), timeout="1m"), {}, timeout_ms=5).state.deadline == T0 + 5


# --- after the end --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (inputs.StartRun(at=0, run_id="run", input={}), "DUPLICATE_EXECUTION_ID"),
        (inputs.CompleteActivity(at=0, node_id="a"), "ACTIVITY_SUBMIT_NOT_AWAITING"),
        (inputs.FailActivity(at=0, node_id="a", error=""), "ACTIVITY_SUBMIT_NOT_AWAITING"),
        (inputs.AnswerInterrupt(at=0, answer={}), "INVALID_RESUME_PAYLOAD"),
        (inputs.SendSignal(at=0, name="go"), "SIGNAL_NOT_AWAITING"),
        (inputs.CancelRun(at=0), "CANCEL_NOT_ALLOWED"),
        (inputs.PauseRun(at=0), "RUN_ENDED"),
        (inputs.ResumeRun(at=0), "RUN_ENDED"),
        (inputs.FireTimer(at=0, kind="run"), "RUN_ENDED"),
        (inputs.FinishChild(at=0, child_id="x", status="completed"), "RUN_ENDED"),
        (inputs.AcknowledgeEmit(at=0, node_id="a", visit=1), "RUN_ENDED"),
        (inputs.RetryActivity(at=0, node_id="a"), "RUN_ENDED"),
        (inputs.ReportOutcomeUnknown(at=0, node_id="a"), "RUN_ENDED"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_a_run_that_ended_takes_nothing(given: inputs.Input, code: str, end: str) -> None:
    ends: dict[str, Callable[[Run], Run]] = {
        "completed": lambda run: run.done("a"),
        "failed": lambda run: run.failed("a"),
        "cancelled": lambda run: run.take(inputs.CancelRun(at=0)),
    }
    run = ends[end](begin(native(step("a"))))
    assert run.status == end
    assert run.refuse(given).code == code


def test_continuing_a_run_that_ended_or_waits_makes_no_records() -> None:
    run = begin(native(step("a")))
    for _ in range(2):
        decision = run.send(inputs.ContinueRun(at=0))
        assert isinstance(decision, Accepted)
        assert decision.records == ()
        if not run.state.terminal:
            run.done("a")


# --- questions ------------------------------------------------------------------------------------


def test_an_answer_that_does_not_fit_leaves_the_question_open() -> None:
    run = begin(native(ASK))
    wrongs: list[JsonValue] = [{}, {"ok": "yes"}, None, "text", DEEP]
    for wrong in wrongs:
        assert run.refuse(inputs.AnswerInterrupt(at=0, answer=wrong)).code == "INVALID_RESUME_PAYLOAD"
    assert run.status == "waiting_input"
    assert run.answer({"ok": True}).status == "completed"


def test_a_question_is_answered_once() -> None:
    run = begin(native(ASK, step("a"))).answer({"ok": True})
    assert run.refuse(inputs.AnswerInterrupt(at=0, answer={"ok": True})).code == "INVALID_RESUME_PAYLOAD"


def test_an_answer_without_a_node_must_have_only_one_question_to_go_to() -> None:
    branches: list[JsonValue] = [{"name": name, "nodes": [{**ASK, "id": name}]} for name in ("x", "y")]
    run = begin(native({"id": "both", "type": "parallel", "branches": branches}))
    refused = run.refuse(inputs.AnswerInterrupt(at=0, answer={"ok": True}))
    assert "x:1, y:1" in refused.message
    assert run.refuse(inputs.AnswerInterrupt(at=0, answer={"ok": True}, node_id="z")).code == "INVALID_RESUME_PAYLOAD"
    wrong_visit = inputs.AnswerInterrupt(at=0, answer={"ok": True}, node_id="y", visit=2)
    assert run.refuse(wrong_visit).code == "INVALID_RESUME_PAYLOAD"
    run.answer({"ok": True}, "y").answer({"ok": False})
    assert run.status == "completed"


def test_who_answered_is_recorded() -> None:
    run = begin(native(ASK)).take(inputs.AnswerInterrupt(at=0, answer={"ok": True}, by="ada"))
    assert run.of("ResumeInterrupt")[0]["answeredBy"] == "ada"


# --- children and emits ---------------------------------------------------------------------------


def test_the_end_of_an_unknown_child_is_refused() -> None:
    run = begin(native(CHILD))
    assert run.refuse(inputs.FinishChild(at=0, child_id="other", status="completed")).code == "CHILD_NOT_AWAITED"
    finished = inputs.FinishChild(at=0, child_id="run:sub:sub", status="completed", result=3)
    run.take(finished)
    assert run.status == "completed"


def test_a_child_reports_its_end_once() -> None:
    run = begin(native(CHILD, step("a")))
    finished = inputs.FinishChild(at=0, child_id="run:sub:sub", status="completed", result=3)
    run.take(finished)
    assert run.refuse(finished).code == "CHILD_NOT_AWAITED"


@pytest.mark.parametrize(("status", "code"), [("failed", "CHILD_FAILED"), ("cancelled", "CHILD_CANCELLED")])
def test_a_child_that_did_not_complete_fails_its_node(status: str, code: str) -> None:
    run = begin(native(CHILD)).take(inputs.FinishChild(at=0, child_id="run:sub:sub", status=status))
    assert (run.status, run.code) == ("failed", code)


def test_an_emit_is_acknowledged_once() -> None:
    run = begin(native(EMIT, step("a")))
    assert run.refuse(inputs.AcknowledgeEmit(at=0, node_id="tell", visit=2)).code == "EMIT_NOT_AWAITED"
    assert run.refuse(inputs.AcknowledgeEmit(at=0, node_id="a", visit=1)).code == "EMIT_NOT_AWAITED"
    run.take(inputs.AcknowledgeEmit(at=0, node_id="tell", visit=1))
    assert run.refuse(inputs.AcknowledgeEmit(at=0, node_id="tell", visit=1)).code == "EMIT_NOT_AWAITED"


def test_an_emit_that_cannot_be_delivered_fails_its_node() -> None:
    run = begin(native(EMIT))
    run.take(inputs.AcknowledgeEmit(at=0, node_id="tell", visit=1, delivered=False))
    assert (run.status, run.code) == ("failed", "SIGNAL_TARGET_NOT_FOUND")


# --- pause, resume, cancel ------------------------------------------------------------------------


def test_a_paused_run_keeps_what_comes_in_and_moves_on_when_it_is_resumed() -> None:
    run = begin(native(step("a"), step("b"))).take(inputs.PauseRun(at=0, reason="lunch"))
    assert run.status == "paused"
    run.done("a", 1)
    assert run.told()[-1] == "ActivityCompleted a"
    assert run.status == "paused"
    run.take(inputs.ResumeRun(at=0))
    assert run.status == "waiting_activity"
    assert run.state.activation("b") is not None


@pytest.mark.parametrize(
    ("node", "given", "status"),
    [
        (ASK, inputs.AnswerInterrupt(at=0, answer={"ok": True}), "completed"),
        (WAIT, inputs.SendSignal(at=0, name="go"), "completed"),
        (CHILD, inputs.FinishChild(at=0, child_id="run:sub:sub", status="completed"), "completed"),
        (EMIT, inputs.AcknowledgeEmit(at=0, node_id="tell", visit=1), "completed"),
        (step("a"), inputs.FailActivity(at=0, node_id="a", error="no"), "failed"),
    ],
    ids=["answer", "signal", "child", "emit", "failure"],
)
def test_whatever_comes_during_a_pause_counts_after_it(node: JsonObject, given: inputs.Input, status: str) -> None:
    run = begin(native(node)).take(inputs.PauseRun(at=0)).take(given)
    assert run.status == "paused"
    assert run.take(inputs.ResumeRun(at=0)).status == status


def test_one_signal_during_a_pause_goes_to_one_of_two_that_wait() -> None:
    branches: list[JsonValue] = [{"name": name, "nodes": [{**WAIT, "id": name}]} for name in ("x", "y")]
    run = begin(native({"id": "both", "type": "parallel", "branches": branches}))
    run.take(inputs.PauseRun(at=0)).signal("go", 1).take(inputs.ResumeRun(at=0))
    assert run.status == "waiting_signal"
    assert [payload["nodeId"] for payload in run.of("SignalReceived")] == ["x"]
    assert run.signal("go", 2).status == "completed"


def test_a_run_is_paused_once_and_resumed_once() -> None:
    run = begin(native(step("a")))
    assert run.refuse(inputs.ResumeRun(at=0)).code == "RESUME_NOT_ALLOWED"
    run.take(inputs.PauseRun(at=0))
    assert run.refuse(inputs.PauseRun(at=0)).code == "PAUSE_NOT_ALLOWED"


def test_a_paused_run_can_be_cancelled() -> None:
    run = begin(native(step("a"))).take(inputs.PauseRun(at=0)).take(inputs.CancelRun(at=0))
    assert run.status == "cancelled"


def test_a_run_that_is_ending_cannot_be_cancelled_again() -> None:
    run = begin(native(step("a", compensate={"handler": "undo"}), step("b"))).done("a").take(inputs.CancelRun(at=0))
    assert run.status == "cancelling"
    assert run.refuse(inputs.CancelRun(at=0)).code == "CANCEL_NOT_ALLOWED"


# --- a history that was cut -----------------------------------------------------------------------


def test_a_cut_decision_is_finished_before_the_next_input_is_taken() -> None:
    run = begin(native(step("a"), step("b"))).done("a", 1)
    taken = run.told().index("ActivityCompleted a")
    for cut in range(1, len(run.records)):
        state = fold(run.records[:cut])
        given = inputs.CompleteActivity(at=T0, node_id="a", visit=1, attempt=1, result=1)
        decision = decide(run.workflow, state, given)
        records = list(decision.records) if isinstance(decision, Accepted) else []
        if cut <= taken:
            assert [*run.records[:cut], *records] == run.records
        else:
            assert isinstance(decision, Refused)


def test_a_cancelled_run_that_was_cut_takes_no_result_before_it_ends() -> None:
    run = begin(native(step("a"))).take(inputs.CancelRun(at=0, reason="enough"))
    cut = Run(workflow=run.workflow, state=fold(run.records[:-1]), records=run.records[:-1])
    assert cut.records[-1].name == "CancelExecution"
    cut.send(inputs.CompleteActivity(at=0, node_id="a", result=1))
    assert cut.records == run.records


def test_an_input_carries_its_own_time() -> None:
    run = begin(native(step("a")))
    decision = decide(run.workflow, run.state, replace(EVERY_INPUT[0], at=T0 + 5))
    assert isinstance(decision, Accepted)
    assert {record.at for record in decision.records} == {T0 + 5}
    assert decision.state.updated_at == T0 + 5
