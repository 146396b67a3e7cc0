"""Where a failed run is taken up again."""

import pytest

from penstock.base.errors import Conflict
from penstock.base.json import JsonObject
from penstock.engine.folding.evolve import fold
from penstock.engine.fork import fork
from penstock.engine.pending import pending_activities
from penstock.operations.executions.retry_point import retry_point
from tests.unit.cli.views import records_of, workflow_of

PLAIN = """\
penstock: v1
name: plain
nodes:
  - {id: a, type: step, handler: "x:a"}
  - {id: b, type: step, handler: "x:b", retry: {max_attempts: 2}}
  - {id: done, type: end}
"""
NESTED = """\
penstock: v1
name: nested
nodes:
  - id: all
    type: for_each
    items: "[1, 2]"
    concurrency: 2
    nodes:
      - id: both
        type: parallel
        branches:
          - {name: one, nodes: [{id: left, type: step, handler: "x:left"}]}
          - {name: two, nodes: [{id: right, type: step, handler: "x:right"TIMEOUT}]}
  - {id: done, type: end}
"""
FAILURE: JsonObject = {"error": {"code": "BROKEN"}}


def test_a_node_begins_anew_with_all_its_attempts() -> None:
    workflow = workflow_of(PLAIN)
    records = records_of(workflow, {"mock": {"a": 1, "b": FAILURE}})
    point = retry_point(records)
    assert (point.node_id, point.code) == ("b", "BROKEN")
    assert records[point.seq - 1].name == "NodeScheduled"
    assert records[point.seq].name == "ActivityRequested"
    assert records[point.seq].payload["attempt"] == 1
    state = fold(fork(records, at_seq=point.seq, run_id="again"))
    assert state.unsettled
    assert not state.terminal


def test_inside_of_bodies_only_the_attempt_that_failed_is_tried_again() -> None:
    workflow = workflow_of(NESTED.replace("TIMEOUT", ""))
    records = records_of(workflow, {"mock": {"left": 1, "right": {"sequence": [1, FAILURE]}}})
    point = retry_point(records)
    assert (point.node_id, point.code) == ("right", "BROKEN")
    assert records[point.seq].name == "ActivityFailed"
    state = fold(fork(records, at_seq=point.seq, run_id="again"))
    assert [item.node_id for item in pending_activities(workflow, state)] == ["right"]


def test_an_attempt_with_a_deadline_is_asked_for_anew() -> None:
    workflow = workflow_of(NESTED.replace("TIMEOUT", ", timeout: 1s"))
    records = records_of(workflow, {"mock": {"left": 1, "right": {"sequence": [1, FAILURE]}}})
    point = retry_point(records)
    assert records[point.seq - 1].name == "NodeScheduled"
    assert records[point.seq - 1].payload["nodeId"] == "right"


def test_a_failure_without_an_activity_is_decided_again() -> None:
    text = PLAIN.replace('handler: "x:b"', 'handler: "x:b", with: {broken: "${ .a | error }"}')
    records = records_of(workflow_of(text), {"mock": {"a": 1}})
    point = retry_point(records)
    assert (point.node_id, records[point.seq - 1].name) == ("b", "NodeScheduled")


def test_what_was_undone_is_not_built_upon() -> None:
    text = PLAIN.replace('handler: "x:a"', 'handler: "x:a", compensate: {handler: "x:undo"}')
    records = records_of(workflow_of(text), {"mock": {"a": 1, "b": FAILURE, "compensate:a": 1}})
    with pytest.raises(Conflict, match="undid"):
        retry_point(records)


def test_a_run_that_did_not_fail_is_not_retried() -> None:
    records = records_of(workflow_of(PLAIN), {"mock": {"a": 1, "b": 2}})
    for history in (records, records[:5], []):
        with pytest.raises(Conflict, match="only a failed run"):
            retry_point(history)
