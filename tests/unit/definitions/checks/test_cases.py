"""What the checks say about test cases: names that exist, undo steps, and answers given one after the other."""

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.shapes.document import RUN_STATUSES
from penstock.definitions.validate import validate_document


def findings_of(**case: JsonValue) -> list[tuple[str, str]]:
    answer: JsonObject = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}
    document: JsonObject = {
        "penstock": "v1",
        "name": "w",
        "nodes": [
            {"id": "book", "type": "step", "handler": "x:book", "compensate": {"handler": "x:cancel"}},
            {"id": "pay", "type": "step", "handler": "x:pay"},
            {"id": "ask", "type": "interrupt", "message": "?", "answer": answer, "timeout": "1h"},
            {"id": "done", "type": "end"},
        ],
        "tests": [{"name": "a case", "expect": {}, **case}],
    }
    return [(finding.code, finding.path) for finding in validate_document(document)]


def test_the_undoing_of_a_node_can_be_mocked_and_expected() -> None:
    assert findings_of(mock={"compensate:book": {}}, expect={"path": ["book", "compensate:book"]}) == []


@pytest.mark.parametrize("name", ["compensate:pay", "compensate:nothing", "compensate:", "undo:book"])
def test_a_node_without_a_compensation_has_no_undoing(name: str) -> None:
    assert findings_of(mock={name: {}}) == [("UNKNOWN_NODE_IN_TEST", f"/tests/0/mock/{name}")]


def test_a_node_that_times_out_has_to_exist() -> None:
    assert findings_of(time_outs=["ask"]) == []
    assert findings_of(time_outs=["ask", "aks"]) == [("UNKNOWN_NODE_IN_TEST", "/tests/0/time_outs/1")]


def test_every_answer_of_a_sequence_has_to_fit() -> None:
    assert findings_of(answers={"ask": {"sequence": [{"ok": False}, {"ok": True}]}}) == []
    misfit = findings_of(answers={"ask": {"sequence": [{"ok": True}, {"ok": "yes"}]}})
    assert misfit == [("TEST_ANSWER_INVALID", "/tests/0/answers/ask/sequence/1/ok")]


@pytest.mark.parametrize("status", RUN_STATUSES)
def test_every_status_of_a_run_can_be_expected(status: str) -> None:
    assert findings_of(expect={"status": status}) == []


def test_the_statuses_for_time_children_and_doubt_are_known() -> None:
    assert {"waiting_timer", "waiting_child", "compensating", "waiting_decision"} <= set(RUN_STATUSES)
