"""Nodes with bodies: joins, races, items, iterations, their order and their failures."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue
from penstock.engine import inputs
from tests.unit.engine.runs import Run, begin, native, published, step


def parallel(count: int = 3, **fields: JsonValue) -> JsonObject:
    branches: list[JsonValue] = [{"name": f"b{index}", "nodes": [step(f"a{index}")]} for index in range(count)]
    return {"id": "p", "type": "parallel", "branches": branches, **fields}


def with_output(node: JsonObject) -> Run:
    return begin(native(node, {"id": "end", "type": "end", "output": f"${{ .{node['id']} }}"}))


def waiting(run: Run) -> list[str]:
    return sorted(f"{item.node_id}:{item.visit}" for item in run.state.activations() if item.phase == "requested")


# --- joins ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("join", "needed"), [({"join": "all"}, 3), ({"join": "any"}, 1), ({"join": "n_of_m", "n": 2}, 2), ({}, 3)]
)
@pytest.mark.parametrize("outcomes", list(product([True, False], repeat=3)))
@pytest.mark.parametrize("concurrency", [1, 2, 3])
def test_a_join_completes_when_enough_branches_do_and_fails_as_soon_as_they_cannot(
    join: JsonObject, needed: int, outcomes: tuple[bool, ...], concurrency: int
) -> None:
    run = with_output({**parallel(3), "concurrency": concurrency, **join})
    completed, failed = 0, 0
    for index, succeeds in enumerate(outcomes):
        if run.state.terminal:
            break
        if succeeds:
            run.done(f"a{index}", index)
            completed += 1
        else:
            run.failed(f"a{index}", f"E_{index}")
            failed += 1
        decided = completed >= needed or 3 - failed < needed
        assert run.state.terminal == decided
    if completed >= needed:
        wanted = {f"b{index}": index for index, succeeds in enumerate(outcomes) if succeeds}
        assert run.status == "completed"
        assert run.state.result == dict(list(wanted.items())[:needed])
    else:
        assert run.status == "failed"
        assert run.code == f"E_{outcomes.index(False)}"
        assert run.of("FailNode", "p")[0]["reason"] == "parallel_join_failed"
    # One terminal record, and it is the last.
    assert [record.name for record in run.records if record.name.startswith("Execution")][1:] == [run.records[-1].name]


@pytest.mark.parametrize("concurrency", [1, 2, 3, 4, 9])
def test_never_more_branches_run_than_the_concurrency_allows(concurrency: int) -> None:
    run = with_output(parallel(5, concurrency=concurrency))
    seen: list[str] = []
    while not run.state.terminal:
        now = waiting(run)
        assert len(now) == min(concurrency, 5 - len(seen))
        seen.append(now[0])
        run.done(now[0].partition(":")[0], 1)
    assert seen == [f"a{index}:1" for index in range(5)]


def test_branches_that_no_longer_count_are_cancelled_in_listed_order() -> None:
    run = with_output(parallel(4, join="any", concurrency=2)).done("a1")
    assert [payload["branchName"] for payload in run.of("CancelParallelBranch")] == ["b0", "b2", "b3"]
    assert [payload["branchName"] for payload in run.of("ParallelBranchCancelled")] == ["b0", "b2", "b3"]
    assert run.of("ScheduleNode", "a3") == []
    assert run.status == "completed"


def test_a_result_for_a_cancelled_branch_comes_too_late() -> None:
    run = begin(native(parallel(2, join="any"), step("after"))).done("a0")
    late = inputs.CompleteActivity(at=0, node_id="a1", visit=1, attempt=1)
    assert run.refuse(late).code == "ACTIVITY_SUBMIT_NOT_AWAITING"


def test_a_child_run_in_a_cancelled_branch_is_to_be_cancelled() -> None:
    child: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "other"}
    branches: list[JsonValue] = [{"name": "x", "nodes": [step("a")]}, {"name": "y", "nodes": [child]}]
    run = begin(native({"id": "r", "type": "race", "branches": branches}, step("after"))).done("a")
    assert [effect.effect_id for effect in run.due] == ["run/after/1/1", "run:sub:sub/cancel"]
    run.take(inputs.FinishChild(at=0, child_id="run:sub:sub", status="cancelled"))
    assert [effect.effect_id for effect in run.due] == ["run/after/1/1"]


def test_outputs_inside_branches_are_seen_after_the_join() -> None:
    run = (
        begin(native(parallel(2), {"id": "end", "type": "end", "output": "${ [.a0, .a1] }"}))
        .done("a1", 1)
        .done("a0", 0)
    )
    assert run.state.result == [0, 1]


def test_branches_do_not_see_each_other() -> None:
    branches: list[JsonValue] = [
        {"name": "x", "nodes": [step("a")]},
        {"name": "y", "nodes": [{"id": "w", "type": "wait", "signal": "go"}, step("b", with_={"a": "${ .a }"})]},
    ]
    run = begin(native({"id": "p", "type": "parallel", "branches": branches})).done("a", 5).signal("go")
    assert run.of("ActivityRequested", "b")[0]["arguments"] == {"a": None}


def test_branches_share_the_state() -> None:
    branches: list[JsonValue] = [
        {"name": name, "nodes": [{"id": f"w{name}", "type": "wait", "signal": name}, _count(f"c{name}")]}
        for name in ("x", "y")
    ]
    run = begin(
        native(
            {"id": "p", "type": "parallel", "branches": branches},
            {"id": "end", "type": "end", "output": "${ .state.n }"},
        )
    )
    assert run.signal("y").signal("x").state.result == 2


def _count(node_id: str) -> JsonObject:
    return {"id": node_id, "type": "set_state", "set": {"n": "${ (.state.n // 0) + 1 }"}}


def test_the_first_branch_that_completes_wins_a_race_and_a_failed_one_does_not_end_it() -> None:
    race = {**parallel(), "id": "r", "type": "race"}
    run = with_output(race).failed("a0").done("a2", "fast")
    assert run.state.result == {"winner": "b2", "output": "fast"}
    assert with_output(race).failed("a0").failed("a1").failed("a2", "E_LAST").code == "E_BAD"


def test_everything_can_stand_inside_a_branch() -> None:
    inner: list[JsonValue] = [
        {"id": "sw", "type": "switch", "cases": [{"when": "true", "next": "ask"}], "default": "$exit"},
        {"id": "ask", "type": "interrupt", "message": "?"},
        {"id": "sub", "type": "subworkflow", "workflow": "other"},
        {"id": "agent", "type": "agent_delegate", "agent_id": "clerk", "input": {}},
        {"id": "sig", "type": "wait", "signal": "go"},
        {"id": "again", "type": "parallel", "branches": [{"name": "deep", "nodes": [step("deep")]}]},
    ]
    branches: list[JsonValue] = [{"name": "x", "nodes": inner}, {"name": "y", "nodes": [step("other")]}]
    run = begin(native({"id": "p", "type": "parallel", "branches": branches})).done("other", 1).answer({})
    run.take(inputs.FinishChild(at=0, child_id="run:sub:sub", status="completed"))
    run.done("agent", {}).signal("go").done("deep", "d")
    assert run.status == "completed"


def test_published_branches_may_hold_a_switch_and_join_at_their_target() -> None:
    tool: JsonObject = {"server": "s", "tool": "t"}
    run = begin(
        published(
            {
                "id": "p",
                "type": "parallel",
                "config": {"join": "all", "branches": [{"name": "x", "entry": "sw"}, {"name": "y", "entry": "b"}]},
            },
            {"id": "sw", "type": "switch", "config": {"cases": [{"when": ".n > 1", "target": "a"}], "default": "e"}},
            {"id": "a", "type": "tool_call", "config": tool},
            {"id": "b", "type": "tool_call", "config": tool},
            edges=[("__start__", "s"), ("s", "p"), ("p", "e"), ("a", "e"), ("b", "e")],
        ),
        {"n": 1},
    )
    assert waiting(run) == ["b:1"]
    assert run.done("b", {"m": 2}).state.result == {"n": 1, "m": 2}


# --- items ----------------------------------------------------------------------------------------


def for_each(**fields: JsonValue) -> JsonObject:
    return {"id": "each", "type": "for_each", "items": "[10, 20, 30]", "nodes": [step("a")], **fields}


@pytest.mark.parametrize(
    ("policy", "result"),
    [
        ("skip", ["r10", "r30"]),
        ("collect", ["r10", {"error": {"code": "E_BAD", "message": "it failed"}}, "r30"]),
    ],
)
def test_a_failed_item_is_left_out_or_stands_in_the_results(policy: str, result: JsonValue) -> None:
    run = with_output(for_each(on_item_error=policy)).done("a", "r10").failed("a").done("a", "r30")
    assert run.state.result == result


def test_a_failed_item_fails_the_node_at_once_and_the_others_are_dropped() -> None:
    run = with_output(for_each(concurrency=3)).failed("a", "E_ITEM", visit=2)
    assert (run.status, run.code) == ("failed", "E_ITEM")
    assert run.of("FailNode", "each")[0]["reason"] == "for_each_failed"


@pytest.mark.parametrize("policy", ["fail", "skip", "collect"])
def test_an_empty_list_completes_at_once(policy: str) -> None:
    assert with_output(for_each(items="[]", on_item_error=policy)).state.result == []


@given(st.permutations(range(5)), st.integers(1, 5))
def test_results_are_in_the_order_of_the_items_whatever_order_they_come_in(order: list[int], concurrency: int) -> None:
    run = with_output(for_each(items="[range(5)]", concurrency=concurrency))
    while not run.state.terminal:
        under_way = [item for item in run.state.activations() if item.node_id == "a" and item.phase == "requested"]
        assert len(under_way) <= concurrency
        chosen = min(under_way, key=lambda item: order[item.visit - 1])
        run.done("a", chosen.visit - 1, visit=chosen.visit)
    assert run.state.result == [0, 1, 2, 3, 4]


def test_an_item_sees_itself_by_name_its_index_and_its_own_outputs() -> None:
    nodes: list[JsonValue] = [
        step("a", with_={"item": "${ .order }", "index": "${ .index }"}),
        {"id": "b", "type": "set_state", "set": {"last": "${ .a }"}},
    ]
    result: JsonValue = {"order": "${ .order }", "got": "${ .a }"}
    run = with_output(for_each(nodes=nodes, result=result, concurrency=3, **{"as": "order"}))
    assert [payload["arguments"] for payload in run.of("ActivityRequested")] == [
        {"item": value, "index": index} for index, value in enumerate((10, 20, 30))
    ]
    for visit in (3, 1, 2):
        run.done("a", f"v{visit}", visit=visit)
    assert run.state.result == [
        {"order": 10, "got": "v1"},
        {"order": 20, "got": "v2"},
        {"order": 30, "got": "v3"},
    ]


def test_a_result_that_cannot_be_evaluated_fails_its_item() -> None:
    run = with_output(for_each(result="${ .a.n.m }", on_item_error="collect"))
    run.done("a", {"n": 1}).done("a", {"n": {"m": 2}}).done("a", {"n": None})
    assert isinstance(run.state.result, list)
    assert [isinstance(item, dict) for item in run.state.result] == [True, False, False]
    assert run.state.result[1:] == [2, None]


def test_items_may_be_any_template() -> None:
    assert with_output(for_each(items=[{"a": 1}, "two"], nodes=[_count("c")], result="${ .item }")).state.result == [
        {"a": 1},
        "two",
    ]


def test_an_item_may_leave_its_body_early() -> None:
    nodes: list[JsonValue] = [
        {"id": "sw", "type": "switch", "cases": [{"when": ".item > 15", "next": "a"}], "default": "$exit"},
        step("a"),
    ]
    run = with_output(for_each(nodes=nodes)).done("a", "r20").done("a", "r30")
    assert run.state.result == [{}, "r20", "r30"]


# --- iterations -----------------------------------------------------------------------------------


def loop(**fields: JsonValue) -> JsonObject:
    return {"id": "l", "type": "loop", "max_iterations": 3, "nodes": [_count("c")], **fields}


@pytest.mark.parametrize(
    ("fields", "iterations"),
    [
        ({"while": "(.state.n // 0) < 2"}, 2),
        ({"while": "false"}, 0),
        ({"until": "true"}, 1),
        ({"until": ".state.n >= 2"}, 2),
        ({"while": "true", "on_exhausted": "continue"}, 3),
        ({"until": "false", "on_exhausted": "continue"}, 3),
    ],
)
def test_a_loop_goes_on_while_and_stops_when(fields: JsonObject, iterations: int) -> None:
    result = with_output(loop(**fields)).state.result
    assert isinstance(result, dict)
    assert result["iterations"] == iterations


@pytest.mark.parametrize("fields", [{"while": "true"}, {"until": "false"}])
def test_a_loop_that_would_go_on_fails_at_its_limit(fields: JsonObject) -> None:
    run = with_output(loop(**fields))
    assert (run.status, run.code) == ("failed", "LOOP_LIMIT_REACHED")


def test_an_iteration_sees_its_index_and_what_the_one_before_gave() -> None:
    nodes: list[JsonValue] = [step("a", with_={"index": "${ .loop.index }", "before": "${ .a }"})]
    run = with_output(loop(nodes=nodes, until=".a == 3")).done("a", 1).done("a", 2).done("a", 3)
    assert [payload["arguments"] for payload in run.of("ActivityRequested")] == [
        {"index": 0, "before": None},
        {"index": 1, "before": 1},
        {"index": 2, "before": 2},
    ]
    assert run.state.result == {"iterations": 3, "last": 3}


def test_a_failed_iteration_fails_the_loop() -> None:
    run = with_output(loop(nodes=[step("a")], until="false")).done("a").failed("a", "E_ROUND")
    assert (run.status, run.code) == ("failed", "E_ROUND")


def test_bodies_nest() -> None:
    inner: JsonObject = {
        "id": "inner",
        "type": "for_each",
        "items": "[1, 2]",
        "as": "small",
        "nodes": [{"id": "x", "type": "set_state", "set": {"n": "${ (.state.n // 0) + .big * .small }"}}],
    }
    outer: JsonObject = {"id": "outer", "type": "for_each", "items": "[10, 100]", "as": "big", "nodes": [inner]}
    run = begin(native(loop(nodes=[outer], until="true"), {"id": "end", "type": "end", "output": "${ .state.n }"}))
    assert run.state.result == 330
