"""The walk: what each kind of node does and where it leads."""

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import format_instant
from penstock.engine import inputs
from penstock.engine.effects import DeliverSignal, PerformActivity, StartChild
from tests.unit.engine.runs import T0, Run, begin, native, published, step


def scheduled(run: Run) -> list[str]:
    return [str(payload["nodeId"]) for payload in run.of("ScheduleNode")]


def ended_with(output: JsonValue, *nodes: JsonObject, given: JsonValue = None, **top: JsonValue) -> JsonValue:
    run = begin(native(*nodes, {"id": "end", "type": "end", "output": output}, **top), given)
    assert run.status == "completed", run.state.failure
    return run.state.result


def test_nodes_run_in_listed_order() -> None:
    run = begin(native(step("a"), step("b"), step("c"))).done("a").done("b").done("c")
    assert scheduled(run) == ["a", "b", "c", "end"]


def test_next_names_another_successor() -> None:
    run = begin(native(step("a", next="c"), step("b", next="end"), step("c", next="b"))).done("a").done("c").done("b")
    assert scheduled(run) == ["a", "c", "b", "end"]


@pytest.mark.parametrize(("n", "path"), [(1, ["a", "b", "end"]), (9, ["a", "end"])])
def test_next_may_depend_on_the_output_of_the_node_itself(n: int, path: list[str]) -> None:
    run = begin(native(step("a", next={"when": ".a.n > 5", "then": "end"}), step("b"))).done("a", {"n": n})
    if n < 5:
        run.done("b")
    assert scheduled(run) == path


def test_next_that_cannot_be_evaluated_fails_the_node() -> None:
    run = begin(native(step("a", next={"when": ".a.n.m", "then": "end"}), step("b"))).done("a", {"n": 1})
    assert (run.status, run.code) == ("failed", "JQ_FAILED")


@pytest.mark.parametrize(("value", "taken"), [(0, "x"), ("", "x"), ([], "x"), (False, "end"), (None, "end")])
def test_a_case_is_true_unless_it_is_false_or_null(value: JsonValue, taken: str) -> None:
    switch: JsonObject = {
        "id": "s",
        "type": "switch",
        "cases": [{"when": ".input.v", "next": "x"}],
        "default": "end",
    }
    run = begin(native(switch, step("x")), {"v": value})
    assert scheduled(run)[1] == taken


def test_the_first_true_case_wins() -> None:
    cases: list[JsonValue] = [{"when": ".input.n > 1", "next": "x"}, {"when": "true", "next": "y"}]
    run = begin(native({"id": "s", "type": "switch", "cases": cases}, step("x"), step("y")), {"n": 2})
    assert scheduled(run) == ["s", "x"]


def test_a_switch_without_a_match_or_a_default_fails() -> None:
    cases: list[JsonValue] = [{"when": "false", "next": "end"}]
    run = begin(native({"id": "s", "type": "switch", "cases": cases}))
    assert (run.code, run.of("FailNode")[0]["reason"]) == ("SWITCH_NO_MATCH", "switch_routing_failed")


BAD = "${ .input.n.m }"  # a number has no members
CANNOT_BEGIN: dict[str, tuple[JsonObject, str, str]] = {
    "switch": (
        {"type": "switch", "cases": [{"when": ".input.n.m", "next": "end"}]},
        "JQ_FAILED",
        "switch_routing_failed",
    ),
    "set_state": ({"type": "set_state", "set": {"k": BAD}}, "JQ_FAILED", "set_state_failed"),
    "end": ({"type": "end", "output": BAD}, "JQ_FAILED", "output_mapping_jq_failed"),
    "arguments": (step("x", with_={"k": BAD}), "ARGUMENTS_FAILED", "activity_failed"),
    "idempotency_key": (step("x", idempotency_key=BAD), "ARGUMENTS_FAILED", "activity_failed"),
    "delegate": (
        {"type": "agent_delegate", "agent_id": "a", "input": {"k": BAD}},
        "ARGUMENTS_FAILED",
        "delegate_failed",
    ),
    "interrupt": ({"type": "interrupt", "message": BAD}, "JQ_FAILED", "interrupt_failed"),
    "until": ({"type": "wait", "until": BAD}, "JQ_FAILED", "wait_failed"),
    "until_no_time": ({"type": "wait", "until": "${ .input.t }"}, "INVALID_TIMESTAMP", "wait_failed"),
    "items": ({"type": "for_each", "items": ".input.n.m", "nodes": [step("y")]}, "JQ_FAILED", "for_each_failed"),
    "no_list": ({"type": "for_each", "items": ".input.t", "nodes": [step("y")]}, "ITEMS_NOT_A_LIST", "for_each_failed"),
    "child": ({"type": "subworkflow", "workflow": "w", "input": {"k": BAD}}, "JQ_FAILED", "subworkflow_failed"),
    "emit_run": ({"type": "emit", "run": BAD, "signal": "go"}, "JQ_FAILED", "emit_failed"),
    "emit_payload": ({"type": "emit", "run": "r", "signal": "go", "payload": BAD}, "JQ_FAILED", "emit_failed"),
    "emit_target": ({"type": "emit", "run": "${ .input.u }", "signal": "go"}, "EMIT_TARGET_INVALID", "emit_failed"),
    "loop": (
        {"type": "loop", "while": ".input.n.m", "max_iterations": 2, "nodes": [step("y")]},
        "JQ_FAILED",
        "loop_failed",
    ),
    "fail": (
        {"type": "fail", "code": "ON_PURPOSE", "message": "n is ${ .input.n }"},
        "ON_PURPOSE",
        "failed_by_workflow",
    ),
}


@pytest.mark.parametrize("name", list(CANNOT_BEGIN))
def test_a_node_that_cannot_begin_fails_with_a_code_and_a_reason(name: str) -> None:
    node, code, reason = CANNOT_BEGIN[name]
    gate: JsonObject = {"id": "gate", "type": "switch", "cases": [{"when": "true", "next": "x"}], "default": "end"}
    listed: list[JsonObject] = [gate, {**node, "id": "x"}, {"id": "end", "type": "end"}]
    run = begin(native(*listed), {"n": 1, "t": "soon", "u": 7})
    assert (run.status, run.code) == ("failed", code)
    assert run.of("FailNode")[0]["reason"] == reason


def test_set_state_writes_through_reducers_and_sees_the_state_before_it() -> None:
    state: JsonObject = {
        "type": "object",
        "properties": {"log": {"type": "array", "reducer": "append"}, "n": {"type": "integer"}},
    }
    nodes: list[JsonObject] = [
        {"id": "x", "type": "set_state", "set": {"n": 1, "log": "first"}},
        {"id": "y", "type": "set_state", "set": {"n": "${ .state.n + 1 }", "log": "n was ${ .state.n }"}},
    ]
    assert ended_with("${ .state }", *nodes, state=state) == {"n": 2, "log": ["first", "n was 1"]}


def test_expressions_see_input_run_state_and_the_outputs_before_them() -> None:
    output: JsonValue = {"i": "${ .input.n }", "r": "${ .run }", "s": "${ .state.k }", "a": "${ .a.k }"}
    seen = ended_with(output, {"id": "a", "type": "set_state", "set": {"k": 5}}, given={"n": 1})
    assert seen == {
        "i": 1,
        "r": {
            "id": "run",
            "started_at": format_instant(T0),
            "attempt": 1,
            "generation": 1,
            "continue_suggested": False,
        },
        "s": 5,
        "a": 5,
    }


def test_a_published_document_sees_only_its_state() -> None:
    run = begin(published(end_config={"output_mapping": "keys"}), {"b": 1, "a": 2})
    assert run.state.result == ["a", "b"]


def test_a_published_set_state_evaluates_every_expression_before_it_writes() -> None:
    node: JsonObject = {
        "id": "x",
        "type": "set_state",
        "config": {"assignments": {"a": {"jq": ".b"}, "b": {"jq": ".a"}, "c": {"literal": "${ .a }"}}},
    }
    assert begin(published(node), {"a": 1, "b": 2}).state.result == {"a": 2, "b": 1, "c": "${ .a }"}


def test_the_command_of_a_question_has_the_first_200_characters_and_the_event_all() -> None:
    run = begin(native({"id": "ask", "type": "interrupt", "message": "${ .input.text }"}), {"text": "x" * 500})
    assert run.of("RaiseInterrupt")[0]["prompt"] == "x" * 200
    assert run.of("InterruptRaised")[0]["prompt"] == "x" * 500


def test_a_question_says_who_may_answer_it_and_how() -> None:
    node: JsonObject = {
        "id": "ask",
        "type": "interrupt",
        "prompt_ref": "prompts/go",
        "answer": {"type": "object", "required": ["ok"]},
        "approvers": {"group": "leads"},
        "timeout": "1h",
    }
    [raised] = begin(native(node)).of("InterruptRaised")
    assert raised["promptRef"] == "prompts/go"
    assert raised["answerSchema"] == {"type": "object", "required": ["ok"]}
    assert raised["approvers"] == {"group": "leads"}
    assert raised["interruptId"] == "ask:1"
    assert raised["deadline"] == T0 + 3_600_000


def test_an_answer_is_the_output_of_its_question() -> None:
    run = begin(
        native({"id": "ask", "type": "interrupt", "message": "?"}, {"id": "end", "type": "end", "output": "${ .ask }"})
    )
    assert run.answer({"ok": True}).state.result == {"ok": True}


def test_a_child_gets_its_input_and_gives_its_result() -> None:
    node: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "other", "input": {"n": "${ .input.n }"}}
    run = begin(native(node, {"id": "end", "type": "end", "output": "${ .sub }"}), {"n": 4})
    [effect] = run.due
    assert effect == StartChild(
        effect_id="run:sub:sub/start",
        child_id="run:sub:sub",
        workflow_ref="other",
        input={"n": 4},
        version_pin=None,
        depth=1,
    )
    finished = inputs.FinishChild(at=0, child_id="run:sub:sub", status="completed", result=[1], final_state={"x": 1})
    assert run.take(finished).state.result == [1]


def test_a_failed_child_is_followed_by_another_with_the_same_input() -> None:
    child: JsonObject = {
        "id": "sub",
        "type": "subworkflow",
        "workflow": "other",
        "input": {"n": "${ 1 + (.state.n // 1) }"},
        "retry": {"max_attempts": 2, "initial_interval": "1s"},
    }
    branches: list[JsonValue] = [
        {"name": "x", "nodes": [child]},
        {
            "name": "y",
            "nodes": [
                {"id": "w", "type": "wait", "signal": "go"},
                {"id": "set", "type": "set_state", "set": {"n": {}}},
            ],
        },
    ]
    run = begin(native({"id": "p", "type": "parallel", "branches": branches}))
    run.take(inputs.FinishChild(at=0, child_id="run:sub:sub", status="failed", code="E_CHILD"))
    run.signal("go").after(1_000).fire("retry", "sub")
    assert [payload["childExecutionId"] for payload in run.of("SubworkflowStarted")] == [
        "run:sub:sub",
        "run:sub:sub:1.2",
    ]
    assert [payload["input"] for payload in run.of("SubworkflowStarted")] == [{"n": 2}, {"n": 2}]
    run.take(inputs.FinishChild(at=0, child_id="run:sub:sub:1.2", status="failed", code="E_CHILD"))
    assert run.code == "E_CHILD"


def test_a_child_of_a_later_visit_has_an_id_of_its_own() -> None:
    body: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "other"}
    run = begin(native({"id": "each", "type": "for_each", "items": "[1, 2]", "concurrency": 2, "nodes": [body]}))
    assert sorted(run.state.children) == ["run:sub:sub", "run:sub:sub:2"]


def test_an_emit_goes_to_the_run_that_its_template_names() -> None:
    node: JsonObject = {"id": "tell", "type": "emit", "run": "${ .input.to }", "signal": "go", "payload": {"n": 1}}
    run = begin(native(node, {"id": "end", "type": "end", "output": "${ .tell }"}), {"to": "other-run"})
    [effect] = run.due
    assert effect == DeliverSignal(
        effect_id="run/tell/1/emit",
        node_id="tell",
        visit=1,
        target_run_id="other-run",
        signal_name="go",
        payload={"n": 1},
    )
    run.take(inputs.AcknowledgeEmit(at=0, node_id="tell", visit=1))
    assert run.state.result == {"run": "other-run", "signal": "go"}


@pytest.mark.parametrize(
    ("node", "arguments"),
    [
        ({"type": "llm_call", "model": "m", "prompt": "Say ${ .input.n }"}, {"prompt": "Say 4"}),
        (
            {"type": "http", "url": "https://api.example.com/${ .input.n }", "body": {"n": "${ .input.n }"}},
            {"url": "https://api.example.com/4", "body": {"n": 4}},
        ),
        ({"type": "tool_call", "server": "s", "tool": "t", "arguments": {"n": {"jq": ".input.n"}}}, {"n": 4}),
        ({"type": "step", "handler": "h", "with": {"n": {"literal": "${ .x }"}}}, {"n": "${ .x }"}),
        ({"type": "agent_delegate", "agent_id": "a", "input": {"n": "${ .input.n }"}}, {"n": 4}),
        ({"type": "step", "handler": "h"}, None),
    ],
    ids=["llm_call", "http", "jq", "literal", "agent_delegate", "nothing"],
)  # fmt: skip
def test_an_activity_gets_its_arguments_rendered(node: JsonObject, arguments: JsonValue) -> None:
    [effect] = begin(native({"id": "a", **node}), {"n": 4}).due
    assert isinstance(effect, PerformActivity)
    assert effect.arguments == arguments
    assert effect.node_type == node["type"]


def test_published_tool_arguments_are_handed_over_as_written() -> None:
    node: JsonObject = {
        "id": "a",
        "type": "tool_call",
        "config": {"server": "s", "tool": "t", "arguments": {"n": "${ .n }"}},
    }
    [effect] = begin(published(node), {"n": 4}).due
    assert isinstance(effect, PerformActivity)
    assert effect.config["arguments"] == {"n": "${ .n }"}


def test_a_native_run_without_an_output_has_no_result_and_a_published_one_its_state() -> None:
    assert begin(native({"id": "x", "type": "set_state", "set": {"k": 1}})).state.result is None
    assert begin(published(), {"k": 1}).state.result == {"k": 1}
