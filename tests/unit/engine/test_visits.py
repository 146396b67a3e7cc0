"""Visits of a run: what is known of each, inside of what it lies, and that each of many items costs the same."""

from __future__ import annotations

import time
from typing import get_args

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import Workflow
from penstock.engine.records import TYPES, Body, Record, commands, events, made
from penstock.engine.records.union import AnyBody
from penstock.engine.transitions import RunStatus
from penstock.engine.visits import (
    Change,
    RunVisits,
    Visit,
    VisitError,
    VisitStatus,
    WaitKind,
    apply,
    change_of,
    visits_of,
)
from penstock.engine.visits.changes import CHANGES
from penstock.runtime.simulation.cases import script_of_case
from penstock.runtime.simulation.dry_run import SimulationReport, simulate
from tests.unit.engine.runs import native, step

AT = 1_000


def history(*bodies: Body) -> list[Record]:
    return [made(seq, body, AT + seq, "run") for seq, body in enumerate((events.ExecutionStarted(), *bodies), 1)]


def simulated(workflow: Workflow, case: JsonObject | None = None, given: JsonValue = None) -> RunVisits:
    report = simulate(workflow, given, script_of_case(case or {}))
    assert isinstance(report, SimulationReport), report
    return visits_of(report.records)


def begun(node_id: str, visit: int | None = 1, *, scope: int = 0) -> Body:
    return commands.ScheduleNode(node_id=node_id, visit=visit, scope=scope)


def only(visits: RunVisits, node_id: str) -> Visit:
    [found] = [visit for visit in visits.visits.values() if visit.node_id == node_id]
    return found


def test_the_closed_type_of_records_has_all_of_them() -> None:
    assert set(get_args(AnyBody)) == set(TYPES.values())


def test_every_record_tells_a_change_of_its_own_or_knowingly_none() -> None:
    assert set(CHANGES) == set(TYPES.values())
    told = [change for change in CHANGES.values() if change is not None]
    assert sorted(told) == sorted(Change)
    assert change_of("ActivityFailed") is Change.ATTEMPT_FAILED
    assert change_of("FromTheFuture") is None


@pytest.mark.parametrize("kind", TYPES.values(), ids=lambda kind: kind.__name__)
def test_every_record_can_stand_in_a_history_of_its_own(kind: type[Body]) -> None:
    """A reader checks nothing: a record about a visit that is not known is let pass."""
    body = kind(node_id="gone", visit=3) if "visit" in kind.__struct_fields__ else kind()  # type: ignore[call-arg]
    visits = RunVisits()
    apply(visits, made(1, body, AT, "run"), body)
    assert (visits.seq, visits.updated_at) == (1, AT)
    assert set(visits.visits) <= {("gone", 1)}


def test_a_record_of_a_name_that_is_not_known_is_let_pass() -> None:
    visits = visits_of([*history(begun("a")), Record(3, "event", "FromTheFuture", {"nodeId": "a", "visit": 1}, 5_000)])
    assert (visits.seq, visits.updated_at) == (3, 5_000)
    assert list(visits.open) == [("a", 1)]


def test_a_visit_knows_when_it_began_and_ended_and_which_record_has_its_result() -> None:
    report = simulate(native(step("a")), None, script_of_case({"mock": {"a": {"ok": 1}}}))
    assert isinstance(report, SimulationReport)
    visits = visits_of(report.records)
    visit = only(visits, "a")
    assert (visit.ordinal, visit.status, visit.attempts) == (1, VisitStatus.COMPLETED, 1)
    assert visit.ended_seq is not None
    ended = report.records[visit.ended_seq - 1]
    assert (ended.at, ended.payload["output"]) == (visit.ended_at, {"ok": 1})
    begun_with = report.records[visit.begun_seq - 1]
    assert (begun_with.name, begun_with.at) == ("ScheduleNode", visit.begun_at)
    assert (visits.status, visits.open) == (RunStatus.COMPLETED, {})


def test_rows_without_the_number_of_a_visit_are_about_the_newest() -> None:
    """As another engine writes them."""
    done = commands.CompleteNode(node_id="a", output=1)
    visits = visits_of(history(begun("a", None), done, begun("a", None)))
    assert [(visit.key, visit.status) for visit in visits.visits.values()] == [
        (("a", 1), VisitStatus.COMPLETED),
        (("a", 2), VisitStatus.RUNNING),
    ]


def test_attempts_that_failed_are_told_in_order_with_what_they_said() -> None:
    workflow = native(step("a", retry={"max_attempts": 3}))
    mock: JsonObject = {"sequence": [{"error": {"code": "BUSY"}}, {"error": {"code": "SLOW"}}, {"ok": 1}]}
    visit = only(simulated(workflow, {"mock": {"a": mock}}), "a")
    assert visit.attempts == 3
    assert [failure.code for failure in visit.failures] == ["BUSY", "SLOW"]
    assert visit.status is VisitStatus.COMPLETED


@pytest.mark.parametrize(
    ("approvers", "kind"), [(None, WaitKind.INPUT), ({"scopes": ["shop:approve"]}, WaitKind.APPROVAL)]
)
def test_a_question_to_approvers_is_told_from_any_other(approvers: JsonValue, kind: WaitKind) -> None:
    asked = events.InterruptRaised(node_id="ask", visit=1, prompt="Pay?", interrupt_id="ask:1", approvers=approvers)
    visit = only(visits_of(history(begun("ask"), asked)), "ask")
    assert visit.status is VisitStatus.WAITING
    assert visit.wait is not None
    assert (visit.wait.kind, visit.wait.cause) == (kind, asked)


def test_a_visit_knows_its_item_and_the_visit_around_it_through_branches_too() -> None:
    branches: list[JsonValue] = [{"name": "x", "nodes": [step("deep")]}, {"name": "y", "nodes": [step("other")]}]
    inner: JsonObject = {"id": "both", "type": "parallel", "join": "all", "branches": branches}
    workflow = native({"id": "each", "type": "for_each", "items": "[7, 8]", "concurrency": 1, "nodes": [inner]})
    visits = simulated(workflow, {"mock": {"deep": 1, "other": 2}})
    deep = [visit for visit in visits.visits.values() if visit.node_id == "deep"]
    assert [visits.item_index(visit) for visit in deep] == [0, 1]
    both = visits.parent(deep[1])
    assert both is not None
    assert both.key == ("both", 2)
    assert [scope.branch for scope in visits.scopes_of(both)] == ["x", "y"]
    each = visits.parent(both)
    assert each is not None
    assert each.node_id == "each"
    assert visits.item_index(each) is None
    assert visits.parent(each) is None


def test_what_is_under_way_in_a_branch_that_is_not_needed_is_cancelled_with_all_inside_of_it() -> None:
    race = [
        begun("race"),
        events.ParallelForked(node_id="race", visit=1),
        events.ScopeOpened(node_id="race", visit=1, index=0, scope=1, branch_name="x"),
        begun("each", scope=1),
        events.ForEachStarted(node_id="each", visit=1),
        events.ScopeOpened(node_id="each", visit=1, index=0, scope=2),
        begun("work", scope=2),
        commands.CancelParallelBranch(node_id="race", visit=1, branch_name="x", index=0),
    ]
    visits = visits_of(history(*race))
    assert {key: visit.status for key, visit in visits.visits.items()} == {
        ("race", 1): VisitStatus.RUNNING,
        ("each", 1): VisitStatus.CANCELLED,
        ("work", 1): VisitStatus.CANCELLED,
    }
    assert [scope.status for scope in visits.scopes.values() if scope.owner] == [VisitStatus.CANCELLED] * 2
    assert [visit.node_id for visit in visits.open_leaves()] == ["race"]


def test_a_failed_item_has_its_error_and_the_others_go_on() -> None:
    workflow = native(
        {"id": "each", "type": "for_each", "items": "[1, 2]", "on_item_error": "collect", "nodes": [step("work")]}
    )
    mock: JsonObject = {"sequence": [{"error": {"code": "BAD", "message": "no"}}, {"ok": 1}]}
    visits = simulated(workflow, {"mock": {"work": mock}})
    scopes = visits.scopes_of(only(visits, "each"))
    assert [scope.status for scope in scopes] == [VisitStatus.FAILED, VisitStatus.COMPLETED]
    assert scopes[0].error == VisitError("BAD", "no")


def test_what_is_undone_lies_in_a_root_of_its_own() -> None:
    workflow = native(step("pay", compensate={"handler": "refund"}), step("ship"))
    mock: JsonObject = {"pay": {"ok": 1}, "ship": {"error": {"code": "LOST"}}, "compensate:pay": {"ok": 1}}
    visits = simulated(workflow, {"mock": mock})
    assert [[key[0] for key in scope.visits] for scope in visits.roots()] == [["pay", "ship"], ["compensate:pay"]]
    assert visits.compensating
    assert visits.status is RunStatus.FAILED


def test_the_end_of_a_child_run_that_nobody_waits_for_any_more_changes_nothing() -> None:
    bodies = [
        begun("sub"),
        commands.StartSubworkflow(node_id="sub", visit=1, workflow_ref="w", child_execution_id="c2"),
        events.SubworkflowStarted(node_id="sub", visit=1, workflow_ref="w", child_execution_id="c2"),
        events.SubworkflowCompleted(node_id="sub", visit=1, child_execution_id="c1", failed=True, code="OLD"),
    ]
    visit = only(visits_of(history(*bodies)), "sub")
    assert (visit.status, visit.child_run_id, visit.failures) == (VisitStatus.WAITING, "c2", ())


def of_items(count: int) -> list[Record]:
    """A list of items, all of them under way at once, then all of them done."""
    bodies: list[Body] = [begun("each"), events.ForEachStarted(node_id="each", visit=1)]
    for number in range(1, count + 1):
        bodies.append(events.ScopeOpened(node_id="each", visit=1, index=number - 1, scope=number))
        bodies.append(begun("work", number, scope=number))
        bodies.append(events.ActivityRequested(node_id="work", visit=number, attempt=1))
    for number in range(1, count + 1):
        bodies.append(events.ActivityCompleted(node_id="work", visit=number, attempt=1))
        bodies.append(commands.CompleteNode(node_id="work", visit=number))
        bodies.append(events.ScopeCompleted(node_id="each", visit=1, index=number - 1))
    bodies.append(commands.CompleteNode(node_id="each", visit=1))
    return history(*bodies)


def cost_per_item(count: int) -> float:
    records = of_items(count)

    def once() -> float:
        began = time.process_time()
        assert len(visits_of(records).visits) == count + 1
        return (time.process_time() - began) / count

    return min(once() for _ in range(3))


def test_an_item_costs_the_same_among_ten_thousand() -> None:
    assert cost_per_item(10_000) < 4 * cost_per_item(500), "copying per item would make it twenty times as much"
