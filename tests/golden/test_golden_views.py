"""Every view of every golden history tells the same about its visits, and what the engine says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import cast

import msgspec

from penstock.cli.run.rendering import RenderContext, lines_of, text_of
from penstock.cli.run.view import Mark, RunView, mark_of
from penstock.engine.folding.evolve import apply as apply_to_state
from penstock.engine.records import Record, commands
from penstock.engine.state import RunState
from penstock.engine.visits import RunVisits, VisitStatus, WaitKind, apply, visits_of
from penstock.engine.walk.questions import open_questions
from penstock.openwop.events import LAST_EVENTS, event_of
from penstock.operations.runs.events import EventFold
from penstock.operations.runs.views import NodeView, node_views, record_view
from penstock.runtime.webhooks.events import ENDINGS, run_events
from tests.golden.history import Golden, golden_files, read
from tests.together import together

FILES = golden_files()

each = together(FILES)
golden = cache(read)


def standing(item: Golden) -> Iterator[tuple[RunView, RunState, Record]]:
    """A history wherever the run came to rest: what the command line has of it, and the state of the engine."""
    view, state = RunView(workflow=item.workflow()), RunState()
    for record in item.records():
        apply_to_state(state, record)
        view.take([record])
        if not state.unsettled:
            yield view, state, record


def of_node(view: RunView, node: NodeView) -> set[str]:
    """How the visits of a node that are under way stand, or how the last one ended."""
    visits = [visit for visit in view.visits.visits.values() if visit.node_id == node.node_id]
    under_way = {str(visit.status) for visit in visits if visit.is_open}
    return under_way or {str(visit.status) for visit in visits} or {"pending"}


@each
def test_nodes_of_rest_stand_as_their_visits_do(path: Path) -> None:
    for view, _, _ in standing(golden(path)):
        for node in node_views(view.workflow, view.visits):
            assert node.status in of_node(view, node)
            newest = view.visits.visit(node.node_id, None)
            assert node.visits == (0 if newest is None else newest.ordinal)
            assert (node.started_at is None) == (newest is None)


@each
def test_the_command_line_asks_what_the_engine_asks_and_draws_what_waits(path: Path) -> None:
    for view, state, record in standing(golden(path)):
        assert {item.interrupt_id for item in view.questions()} == {item.interrupt_id for item in open_questions(state)}
        sheet = RenderContext.for_workflow(view.workflow, now=record.at)
        drawn = {line.key: text_of(line, sheet).plain for line in lines_of(view, sheet)}
        for visit in view.walk():
            text = drawn.get(f"{view.run_id}/{visit.node_id}/{visit.ordinal}")
            if view.node_type(visit) == "start":
                continue
            assert text is not None
            waits_for_approval = visit.wait is not None and visit.wait.kind is WaitKind.APPROVAL
            assert ("waiting for an approval" in text) == waits_for_approval
            assert (mark_of(visit) is Mark.DROPPED) == (visit.status is VisitStatus.CANCELLED)


ENDED = {"completed": VisitStatus.COMPLETED, "failed": VisitStatus.FAILED}
WAITING: dict[str, set[WaitKind | None]] = {
    "waiting_input": {WaitKind.INPUT},
    "waiting_approval": {WaitKind.APPROVAL},
    "waiting_decision": {WaitKind.DECISION},
    "waiting_signal": {WaitKind.SIGNAL},
    "waiting_timer": {WaitKind.TIMER, None},  # a timer may be due when it starts
    "waiting_child": {WaitKind.CHILD},
    "outcome_unknown": {WaitKind.DECISION},
    "started": {WaitKind.ACTIVITY},
}


@each
def test_streams_tell_the_waits_and_the_end_of_each_visit(path: Path) -> None:
    visits, events = RunVisits(), EventFold(tenant="acme", execution_id="e")
    ended = dict[tuple[str, int], VisitStatus]()
    for record in golden(path).records():
        apply(visits, record, record.body)
        told = events.take(record)
        for name, data in told:
            if name != "node":
                continue
            visit = visits.visit(str(data["node_id"]), cast("int", data["visit"]))
            phase = str(data["phase"])
            if visit is None:
                assert (phase, data["node_id"]) == ("woken", ""), "only the time of the whole run is of no visit"
                continue
            if phase in WAITING:
                assert (visit.wait.kind if visit.wait is not None else None) in WAITING[phase]
            if phase in ENDED:
                ended[visit.key] = ENDED[phase]
        assert ("complete" in dict(told)) == (visits.end is not None)
    assert ended == {
        key: visit.status
        for key, visit in visits.visits.items()
        if visit.status in (VisitStatus.COMPLETED, VisitStatus.FAILED)
    }


@each
def test_webhooks_tell_the_waits_of_visits_and_the_end_of_the_run(path: Path) -> None:
    visits = RunVisits()
    for record in golden(path).records():
        apply(visits, record, record.body)
        for event in run_events([record]):
            if event.type == "run.waiting":
                visit = visits.visit(str(event.details["node_id"]), cast("int", event.details["visit"]))
                assert visit is not None
                assert visit.wait is not None
                assert visit.wait.kind in WAITING[event.status]
            assert (event.type in (*ENDINGS, "run.continued")) == (visits.end is not None)
            if visits.end is not None:
                assert event.status == str(visits.status)


@each
def test_the_openwop_wire_tells_the_beginning_and_the_end_of_each_visit(path: Path) -> None:
    item = golden(path)
    types = {node_id: str(node.type) for node_id, node in item.workflow().nodes.items()}
    found = [event_of("e", msgspec.to_builtins(record_view(record)), types) for record in item.records()]
    told = [event for event in found if event is not None]
    visits = visits_of(item.records())
    last = item.records()[-1]
    begun = Counter(node_id for node_id, _ in visits.visits)
    if last.body_as(commands.ScheduleNode) is not None:  # a crash kept it without the event that follows
        begun[str(last.payload["nodeId"])] -= 1
    assert Counter(event["nodeId"] for event in told if event["type"] == "node.started") == +begun
    for status, type_ in ((VisitStatus.COMPLETED, "node.completed"), (VisitStatus.FAILED, "node.failed")):
        ended = Counter(visit.node_id for visit in visits.visits.values() if visit.status is status)
        # What a limit fails had completed before.
        assert Counter(event["nodeId"] for event in told if event["type"] == type_) >= ended
    assert any(event["type"] in LAST_EVENTS for event in told) == (visits.end is not None)
