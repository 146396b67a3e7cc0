"""Completing and failing nodes: error routes, fallbacks, schemas of state and result."""

import pytest

from penstock.base.json import JsonObject, JsonValue
from tests.unit.engine.runs import Run, begin, native, published, step

ERROR_OUT: JsonObject = {"id": "end", "type": "end", "output": "${ .error }"}


def scheduled(run: Run) -> list[str]:
    return [str(payload["nodeId"]) for payload in run.of("ScheduleNode")]


# --- routes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "path"),
    [("E_ONE", ["a", "one"]), ("E_TWO", ["a", "two"]), ("E_BOTH", ["a", "two"]), ("E_ELSE", ["a", "any"])],
)
def test_a_failure_goes_where_its_code_is_named_first(code: str, path: list[str]) -> None:
    routes: list[JsonValue] = [
        {"code": "E_ONE", "next": "one"},
        {"codes": ["E_TWO", "E_BOTH"], "next": "two"},
        {"codes": ["E_BOTH"], "next": "one"},
        {"next": "any"},
    ]
    run = begin(native(step("a", on_error=routes), step("one"), step("two"), step("any"))).failed("a", code)
    assert scheduled(run) == path
    assert run.of("FailNode")[0]["handledBy"] == "node"


def test_a_failure_whose_code_no_route_names_fails_the_run() -> None:
    run = begin(native(step("a", on_error={"code": "E_ONE", "next": "b"}), step("b"))).failed("a", "E_TWO")
    assert (run.status, run.code) == ("failed", "E_TWO")


def test_after_a_route_the_error_is_seen() -> None:
    run = begin(native(step("a", on_error={"next": "end"}), step("b"), ERROR_OUT)).failed("a", "E_ONE")
    assert run.state.result == {"code": "E_ONE", "message": "it failed", "node": "a"}


def test_a_route_is_taken_only_when_no_attempt_is_left() -> None:
    node = step("a", retry={"max_attempts": 2}, on_error={"next": "end"})
    run = begin(native(node)).failed("a")
    assert run.status == "waiting_activity"
    assert run.failed("a").status == "completed"


def test_a_route_may_leave_a_body() -> None:
    body = step("a", on_error={"next": "$exit"})
    each: JsonObject = {"id": "each", "type": "for_each", "items": "[1, 2]", "nodes": [body, step("b")]}
    run = begin(native(each, {"id": "end", "type": "end", "output": "${ .each }"})).failed("a").done("a").done("b", 5)
    assert run.state.result == [None, 5]


def test_a_failure_inside_a_body_can_be_handled_by_the_node_around_it() -> None:
    each: JsonObject = {
        "id": "each",
        "type": "for_each",
        "items": "[1]",
        "nodes": [step("a")],
        "on_error": {"code": "E_DEEP", "next": "end"},
    }
    run = begin(native(each, step("b"), ERROR_OUT)).failed("a", "E_DEEP")
    assert isinstance(run.state.result, dict)
    assert run.state.result["node"] == "each"


def test_the_route_of_the_workflow_is_for_failures_that_no_node_handles() -> None:
    workflow = native(
        step("a", on_error={"code": "E_MINE", "next": "b"}),
        step("b", next="end"),
        step("handle"),
        ERROR_OUT,
        on_error={"next": "handle"},
    )
    assert scheduled(begin(workflow).failed("a", "E_MINE")) == ["a", "b"]
    handled = begin(workflow).failed("a", "E_OTHER")
    assert scheduled(handled) == ["a", "handle"]
    assert handled.of("FailNode")[0]["handledBy"] == "workflow"


def test_the_route_of_the_workflow_is_taken_once() -> None:
    workflow = native(step("a", next="end"), step("handle", next="a"), on_error={"next": "handle"})
    run = begin(workflow).failed("a").done("handle").failed("a", "E_AGAIN")
    assert (run.status, run.code) == ("failed", "E_AGAIN")
    assert begin(workflow).failed("a").failed("handle").status == "failed"


def test_the_route_of_the_workflow_can_name_codes() -> None:
    workflow = native(step("a", next="end"), step("handle"), on_error=[{"codes": ["TIMEOUT"], "next": "handle"}])
    assert begin(workflow).failed("a", "E_OTHER").status == "failed"
    assert scheduled(begin(workflow).failed("a", "TIMEOUT")) == ["a", "handle"]


# --- fallbacks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fallback", "result"),
    [({"ok": False}, {"ok": False}), ("${ .error.code }", "E_BAD"), (None, None), (0, 0)],
)
def test_a_fallback_stands_in_for_the_output(fallback: JsonValue, result: JsonValue) -> None:
    node = step("a", on_error={"fallback": fallback})
    run = begin(native(node, {"id": "end", "type": "end", "output": "${ .a }"})).failed("a")
    assert (run.status, run.state.result) == ("completed", result)
    [completed] = run.of("CompleteNode", "a")
    assert completed["fallback"] == {"code": "E_BAD", "message": "it failed", "node": "a"}


def test_a_fallback_that_cannot_be_evaluated_fails_the_node() -> None:
    run = begin(native(step("a", on_error={"fallback": "${ .error.code.x }"}))).failed("a")
    assert (run.status, run.code) == ("failed", "JQ_FAILED")


def test_a_failed_fallback_still_reaches_the_route_of_the_workflow() -> None:
    workflow = native(
        step("a", on_error={"fallback": "${ .error.code.x }"}, next="end"),
        step("handle"),
        on_error={"next": "handle"},
    )
    assert scheduled(begin(workflow).failed("a")) == ["a", "handle"]


@pytest.mark.parametrize("fallback", [{"n": "text"}, {"n": "${ .error.code }"}, "${ .error.code.x }"])
def test_a_fallback_of_the_workflow_that_fails_falls_back_no_more(fallback: JsonValue) -> None:
    state: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}}
    node: JsonObject = {"id": "x", "type": "set_state", "set": {"n": "${ .input.n }"}}
    run = begin(native(node, state=state, on_error={"fallback": fallback}), {"n": "text"})
    assert run.status == "failed"


@pytest.mark.parametrize(
    "node",
    [
        {"id": "x", "type": "switch", "cases": [{"when": "false", "next": "end"}]},
        {"id": "x", "type": "fail", "code": "ON_PURPOSE"},
    ],
    ids=["switch", "fail"],
)
def test_a_node_that_nothing_follows_cannot_fall_back_at_the_root(node: JsonObject) -> None:
    gate: JsonObject = {"id": "gate", "type": "switch", "cases": [{"when": "true", "next": "x"}], "default": "end"}
    run = begin(native(gate, node, on_error={"fallback": 1}))
    assert run.status == "failed"
    assert begin(native(gate, {**node, "on_error": {"fallback": 1}})).status == "failed"


def test_inside_a_body_a_failure_on_purpose_can_fall_back() -> None:
    body: JsonObject = {"id": "x", "type": "fail", "code": "ON_PURPOSE", "on_error": {"fallback": "instead"}}
    gate: JsonObject = {"id": "gate", "type": "switch", "cases": [{"when": "true", "next": "x"}], "default": "$exit"}
    each: JsonObject = {"id": "each", "type": "for_each", "items": "[1]", "nodes": [gate, body]}
    run = begin(native(each, {"id": "end", "type": "end", "output": "${ .each }"}))
    assert run.state.result == ["instead"]


def test_a_fallback_takes_the_conditional_successor() -> None:
    node = step("a", on_error={"fallback": {"n": 9}}, next={"when": ".a.n > 5", "then": "end"})
    assert begin(native(node, step("b"))).failed("a").status == "completed"


def test_a_node_completed_by_a_fallback_is_not_undone() -> None:
    node = step("a", on_error={"fallback": 1}, compensate={"handler": "undo"})
    run = begin(native(node, step("b"))).failed("a").failed("b")
    assert run.status == "failed"
    assert run.of("StartCompensation") == []


# --- schemas --------------------------------------------------------------------------------------


def test_a_state_that_no_longer_fits_its_schema_fails_the_node() -> None:
    state: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}}
    run = begin(native({"id": "x", "type": "set_state", "set": {"n": "${ .input.n }"}}, state=state), {"n": "one"})
    assert (run.status, run.code) == ("failed", "STATE_SCHEMA_VIOLATION")
    assert run.state.values == {}
    assert run.of("FailNode")[0]["reason"] == "orchestration_error"


def test_a_published_result_that_breaks_the_state_fails_the_run() -> None:
    state: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}}
    run = begin(published({"id": "a", "type": "step", "config": {"handler": "h"}}, state=state), {"n": 1})
    run.done("a", {"n": "two"})
    assert (run.status, run.code, run.state.values) == ("failed", "STATE_SCHEMA_VIOLATION", {"n": 1})


@pytest.mark.parametrize("place", ["workflow", "node"])
def test_a_result_that_does_not_fit_the_output_schema_fails_the_run(place: str) -> None:
    schema: JsonObject = {"type": "object", "required": ["n"]}
    end: JsonObject = {"id": "end", "type": "end", "output": "${ .input }"}
    top: JsonObject = {"output": schema} if place == "workflow" else {}
    workflow = native(end if place == "workflow" else {**end, "output_schema": schema}, **top)
    assert begin(workflow, {"n": 1}).status == "completed"
    run = begin(workflow, {"m": 1})
    assert (run.status, run.code) == ("failed", "OUTPUT_SCHEMA_VIOLATION")


def test_the_output_schema_of_a_published_end_is_enforced() -> None:
    workflow = published(end_config={"output_mapping": ".n", "output_schema": {"type": "integer"}})
    assert begin(workflow, {"n": 1}).state.result == 1
    assert begin(workflow, {"n": "one"}).code == "OUTPUT_SCHEMA_VIOLATION"


def test_a_fallback_cannot_smuggle_a_result_past_the_output_schema() -> None:
    schema: JsonObject = {"type": "object", "required": ["n"]}
    end: JsonObject = {"id": "end", "type": "end", "output": "${ .input }"}
    wrong = native({**end, "on_error": {"fallback": {"m": 1}}}, output=schema)
    right = native({**end, "on_error": {"fallback": {"n": 0}}}, output=schema)
    assert begin(wrong, {}).code == "OUTPUT_SCHEMA_VIOLATION"
    assert begin(right, {}).state.result == {"n": 0}


def test_an_end_whose_output_fails_can_be_routed() -> None:
    end: JsonObject = {"id": "end", "type": "end", "output": "${ .input.n.m }", "on_error": {"next": "other"}}
    run = begin(native(end, {"id": "other", "type": "end", "output": "${ .error.code }"}), {"n": 1})
    assert run.state.result == "JQ_FAILED"


# --- published failures ---------------------------------------------------------------------------


def test_a_failed_branch_that_must_complete_fails_the_published_run_with_one_command() -> None:
    tool: JsonObject = {"server": "s", "tool": "t"}
    run = begin(
        published(
            {
                "id": "p",
                "type": "parallel",
                "config": {"join": "all", "branches": [{"name": "x", "entry": "a"}, {"name": "y", "entry": "b"}]},
            },
            {"id": "a", "type": "tool_call", "config": tool},
            {"id": "b", "type": "tool_call", "config": tool},
            edges=[("__start__", "s"), ("s", "p"), ("p", "e"), ("a", "e"), ("b", "e")],
        ),
        {},
    ).failed("a", "E_BRANCH")
    assert [payload["nodeId"] for payload in run.of("FailNode")] == ["a"]
    assert (run.status, run.code) == ("failed", "E_BRANCH")
