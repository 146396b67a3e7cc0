"""Every view of every golden history tells the same about its visits, and what the engine says of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from penstock.cli.run_lines import Sheet, lines_of, text_of
from penstock.cli.run_view import Mark, RunView, mark_of
from penstock.engine.evolve import apply as apply_to_state
from penstock.engine.questions import open_questions
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.engine.visits import VisitStatus, WaitKind
from penstock.operations.execution_nodes import NodeView, node_views
from tests.golden.history import Golden, golden_files, read

FILES = golden_files()

each = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
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
        sheet = Sheet.for_workflow(view.workflow, now=record.at)
        drawn = {line.key: text_of(line, sheet).plain for line in lines_of(view, sheet)}
        for visit in view.walk():
            text = drawn.get(f"{view.run_id}/{visit.node_id}/{visit.ordinal}")
            if view.node_type(visit) == "start":
                continue
            assert text is not None
            waits_for_approval = visit.wait is not None and visit.wait.kind is WaitKind.APPROVAL
            assert ("waiting for an approval" in text) == waits_for_approval
            assert (mark_of(visit) is Mark.DROPPED) == (visit.status is VisitStatus.CANCELLED)
