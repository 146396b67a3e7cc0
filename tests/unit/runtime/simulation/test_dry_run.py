"""Dry runs: the script answers, time passes only when somebody waits for it, and nothing is invented."""

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.model import Workflow
from penstock.runtime.simulation.dry_run import Script, Signal, SimulationReport, simulate

MINUTE_MS = 60_000


def workflow_of(*nodes: JsonObject, **top: JsonValue) -> Workflow:
    listed: list[JsonValue] = [*nodes]
    return build_workflow({"penstock": "v1", "name": "w", "nodes": listed, **top})


def step(node_id: str, **fields: JsonValue) -> JsonObject:
    return {"id": node_id, "type": "step", "handler": f"work:{node_id}", **fields}


def end(output: JsonValue = None) -> JsonObject:
    return {"id": "done", "type": "end", "output": output}


def run(workflow: Workflow, script: Script, given: JsonValue = None) -> SimulationReport:
    report = simulate(workflow, given, script)
    assert isinstance(report, SimulationReport), report
    return report


QUESTION: JsonObject = {"id": "ask", "type": "interrupt", "message": "again?", "timeout": "1h", "on_timeout": "done"}
ASK_UNTIL_ENOUGH: JsonObject = {
    "id": "rounds",
    "type": "loop",
    "until": ".ask.enough",
    "max_iterations": 5,
    "nodes": [{"id": "ask", "type": "interrupt", "message": "enough?"}],
}


def test_an_activity_without_a_mock_is_waited_for() -> None:
    report = run(workflow_of(step("work"), end()), Script())
    assert report.status == "waiting_activity"
    assert [item["node"] for item in report.waiting_for] == ["work"]


def test_a_mock_may_ask_a_person_before_it_gives_its_output() -> None:
    asks: JsonValue = {"asks": {"question": "Which branch?", "answer_schema": {"type": "string"}}}
    mocks: dict[str, JsonValue] = {"work": {"sequence": [asks, asks, {"n": 1}]}}
    report = run(workflow_of(step("work"), end("${ .work.n }")), Script(mocks=mocks))
    assert (report.status, report.waiting_for[0]["prompt"]) == ("waiting_input", "Which branch?")
    answers: dict[str, JsonValue] = {"work": {"sequence": ["main", "next"]}}
    report = run(workflow_of(step("work"), end("${ .work.n }")), Script(mocks=mocks, answers=answers))
    assert (report.status, report.result) == ("completed", 1)
    assert [line.text for line in report.trace if line.text.startswith("answered")] == [
        'answered by simulation: "main"',
        'answered by simulation: "next"',
    ]


def test_an_answer_may_be_a_sequence_with_one_per_time_the_question_is_asked() -> None:
    script = Script(answers={"ask": {"sequence": [{"enough": False}, {"enough": False}, {"enough": True}]}})
    report = run(workflow_of(ASK_UNTIL_ENOUGH, end("${ .rounds.iterations }")), script)
    assert (report.status, report.result) == ("completed", 3)


def test_the_last_answer_of_a_sequence_repeats() -> None:
    report = run(workflow_of(ASK_UNTIL_ENOUGH, end()), Script(answers={"ask": {"sequence": [{"enough": False}]}}))
    assert report.error is not None
    assert report.error["code"] == "LOOP_LIMIT_REACHED"
    assert report.path.count("ask") == 5


def test_a_question_times_out_only_when_the_script_says_so() -> None:
    workflow = workflow_of(QUESTION, end("${ .ask }"))
    assert run(workflow, Script()).status == "waiting_input"
    timed_out = run(workflow, Script(time_outs=frozenset({"ask"})))
    assert (timed_out.status, timed_out.result, timed_out.elapsed_ms) == ("completed", None, 60 * MINUTE_MS)


RACE: JsonObject = {
    "id": "race",
    "type": "race",
    "branches": [
        {"name": "signal", "nodes": [{"id": "signalled", "type": "wait", "signal": "go"}]},
        {"name": "clock", "nodes": [{"id": "slept", "type": "wait", "duration": "15m"}]},
    ],
}


def test_a_signal_is_sent_when_the_run_waits_for_it() -> None:
    report = run(workflow_of(RACE, end("${ .race.winner }")), Script(signals=[Signal(name="go")]))
    assert (report.result, report.elapsed_ms) == ("signal", 0)


def test_a_signal_with_a_time_arrives_then_and_not_before() -> None:
    early, late = (Signal(name="go", after_ms=minutes * MINUTE_MS) for minutes in (10, 20))
    workflow = workflow_of(RACE, end("${ .race.winner }"))
    report = run(workflow, Script(signals=[early]))
    assert (report.result, report.elapsed_ms) == ("signal", 10 * MINUTE_MS)
    assert run(workflow, Script(signals=[late])).result == "clock"


def test_a_signal_after_a_node_is_kept_until_somebody_waits_for_it() -> None:
    workflow = workflow_of(
        step("first"),
        {"id": "sleep", "type": "wait", "duration": "1d"},
        {"id": "wait", "type": "wait", "signal": "go"},
        end("${ .wait }"),
    )
    report = run(workflow, Script(mocks={"first": {}}, signals=[Signal(name="go", payload=7, after_node="first")]))
    assert (report.status, report.result) == ("completed", 7)
    assert "SignalBuffered" in [record.name for record in report.records]


def test_a_signal_after_a_node_that_never_ran_is_not_sent() -> None:
    workflow = workflow_of({"id": "wait", "type": "wait", "signal": "go"}, step("later"), end())
    report = run(workflow, Script(signals=[Signal(name="go", after_node="later")]))
    assert report.status == "waiting_signal"


def saga(**fields: JsonValue) -> Workflow:
    undo: JsonObject = {"handler": "work:undo"}
    return workflow_of(step("book", compensate=undo, **fields), step("pay"), end())


def test_what_was_done_is_undone_when_the_run_fails_later() -> None:
    script = Script(mocks={"book": {}, "pay": {"error": {"code": "NO"}}, "compensate:book": {}})
    report = run(saga(), script)
    assert (report.status, report.path) == ("failed", ("book", "pay", "compensate:book"))


def test_a_node_that_fell_back_did_nothing_and_is_not_undone() -> None:
    script = Script(mocks={"book": {"error": {"code": "FULL"}}, "pay": {"error": {"code": "NO"}}})
    report = run(saga(on_error={"code": "FULL", "fallback": {"seat": None}}), script)
    assert (report.status, report.path) == ("failed", ("book", "pay"))


def test_the_trace_of_an_undo_step_names_what_is_called_for_it() -> None:
    script = Script(mocks={"book": {}, "pay": {"error": {"code": "NO"}}, "compensate:book": {}})
    told = [(line.node_id, line.text) for line in run(saga(), script).trace]
    assert ("compensate:book", "step work:undo") in told


def test_an_error_is_told_with_its_message_unless_that_only_repeats_the_code() -> None:
    def last_line(error: JsonObject) -> str:
        return run(workflow_of(step("work"), end()), Script(mocks={"work": {"error": error}})).trace[-1].text

    assert last_line({"code": "NO"}) == "failed: NO"
    assert last_line({"code": "NO", "message": "not today"}) == "failed: NO not today"


AGAIN: JsonObject = {"id": "again", "type": "continue_as_new", "input": {"n": "${ (.input.n // 1) + 1 }"}}


def test_a_run_that_continues_ends_with_what_the_next_one_is_given() -> None:
    report = run(workflow_of(step("work"), AGAIN), Script(mocks={"work": 1}), {"n": 4})
    assert (report.status, report.result, report.path) == ("completed", None, ("work", "again"))
    assert report.to_json()["continues_with"] == {"n": 5}
    assert [line.text for line in report.trace][-1] == 'continued as simulated~2 with {"n": 5}'


def test_a_child_that_continues_is_followed_to_its_end() -> None:
    child = workflow_of(
        step("work"),
        {"id": "g", "type": "switch", "cases": [{"when": ".run.generation >= 3", "next": "done"}], "default": "again"},
        AGAIN,
        end("${ .input.n }"),
        name="child",
    )
    parent = workflow_of({"id": "sub", "type": "subworkflow", "workflow": "child"}, end("${ .sub }"))
    assert run(parent, Script(mocks={"work": 1}, workflows={"child": child})).result == 3


def test_a_child_that_continues_for_ever_does_not_keep_the_simulation_going() -> None:
    child = workflow_of(step("work"), AGAIN, name="child")
    parent = workflow_of({"id": "sub", "type": "subworkflow", "workflow": "child"}, end("${ .sub }"))
    assert run(parent, Script(mocks={"work": 1}, workflows={"child": child})).status == "waiting_child"
