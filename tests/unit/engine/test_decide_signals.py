"""Signals: kept until somebody waits, taken in order, each id once."""

from itertools import permutations

import pytest

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.engine import inputs
from tests.unit.engine.runs import begin, native, published, step


def wait(node_id: str, name: str = "go") -> JsonObject:
    return {"id": node_id, "type": "wait", "signal": name}


def outputs(*node_ids: str) -> JsonObject:
    return {"id": "end", "type": "end", "output": {node_id: f"${{ .{node_id} }}" for node_id in node_ids}}


def test_a_signal_goes_to_whoever_waits_for_its_name() -> None:
    run = begin(native(wait("w"), outputs("w"))).signal("other", 1).signal("go", 2)
    assert run.state.result == {"w": 2}


def test_a_signal_that_comes_early_waits() -> None:
    run = begin(native(step("a"), wait("w"), outputs("w"))).signal("go", {"n": 1})
    assert run.told()[-1] == "SignalBuffered"
    assert run.done("a").state.result == {"w": {"n": 1}}
    assert run.of("DeliverSignal")[0]["buffered"] is True


def test_signals_of_one_name_are_taken_in_the_order_they_came() -> None:
    run = begin(native(step("a"), wait("x"), wait("y"), wait("z"), outputs("x", "y", "z")))
    for payload in (1, 2, 3):
        run.signal("go", payload)
    assert run.done("a").state.result == {"x": 1, "y": 2, "z": 3}


@pytest.mark.parametrize("order", list(permutations(["go", "paid", "news"])))
def test_signals_of_several_names_may_come_in_any_order(order: tuple[str, ...]) -> None:
    run = begin(native(wait("x", "go"), wait("y", "paid"), wait("z", "news"), outputs("x", "y", "z")))
    for name in order:
        run.signal(name, name)
    assert run.state.result == {"x": "go", "y": "paid", "z": "news"}


def test_one_signal_wakes_one_of_several_that_wait() -> None:
    branches: list[JsonValue] = [{"name": name, "nodes": [wait(name)]} for name in ("x", "y")]
    run = begin(native({"id": "p", "type": "parallel", "branches": branches}, outputs("x", "y"))).signal("go", 1)
    assert run.status == "waiting_signal"
    assert run.signal("go", 2).state.result == {"x": 1, "y": 2}


@pytest.mark.parametrize("early", [True, False])
def test_the_same_signal_id_counts_once(early: bool) -> None:
    nodes = [step("a"), wait("x"), wait("y")] if early else [wait("x"), wait("y")]
    run = begin(native(*nodes)).signal("go", 1, "id-1")
    before = len(run.records)
    run.signal("go", 1, "id-1")
    assert len(run.records) == before
    if early:
        run.done("a")
    assert run.status == "waiting_signal"
    assert run.signal("go", 2, "id-2").status == "completed"


def test_signals_without_an_id_are_all_different() -> None:
    run = begin(native(wait("x"), wait("y"))).signal("go", 1).signal("go", 1)
    assert run.status == "completed"


def test_a_signal_for_nobody_is_kept_and_does_no_harm() -> None:
    run = begin(native(step("a"))).signal("nobody", 1)
    assert run.done("a").status == "completed"


def test_a_run_keeps_only_so_many_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SIGNALS_BUFFERED_MAX", 2)
    run = begin(native(step("a"), wait("w"))).signal("go").signal("go")
    assert run.refuse(inputs.SendSignal(at=0, name="go")).code == "SIGNAL_LIMIT_EXCEEDED"
    assert run.done("a").status == "completed"


def test_a_published_signal_payload_goes_through_the_reducers() -> None:
    state: JsonObject = {"type": "object", "properties": {"log": {"type": "array", "reducer": "append"}}}
    node: JsonObject = {"id": "w", "type": "wait", "config": {"kind": "signal", "signal": "go"}}
    run = begin(published(node, state=state), {"log": [1]}).signal("go", {"log": [2]})
    assert run.state.result == {"log": [1, 2]}


def test_a_signal_in_a_branch_lets_the_other_branches_and_the_join_happen() -> None:
    branches: list[JsonValue] = [{"name": "x", "nodes": [wait("w")]}, {"name": "y", "nodes": [step("a")]}]
    run = begin(native({"id": "p", "type": "parallel", "branches": branches}, outputs("p"))).signal("go", 1)
    assert run.status == "waiting_activity"
    assert run.done("a", 2).state.result == {"p": {"x": 1, "y": 2}}
