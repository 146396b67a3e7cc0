"""The comparison of a dry run with what a case expects."""

import pytest

from penstock.base.json import JsonObject
from penstock.definitions.validate import load_workflow
from penstock.runtime.simulation.cases import Difference, run_case

FLOW = """\
penstock: v1
name: flow
input: {type: object, required: [n], properties: {n: {type: integer}}}
state: {type: object, properties: {seen: {type: integer}}}
nodes:
  - {id: note, type: set_state, set: {seen: "${ .input.n }"}}
  - {id: work, type: step, handler: "x:y"}
  - {id: done, type: end, output: {got: "${ .work }"}}
"""


def differences(expect: JsonObject, **case: object) -> list[tuple[str, str | None]]:
    loaded = load_workflow(FLOW)
    assert loaded.workflow is not None, loaded.findings
    whole: JsonObject = {"name": "it", "input": {"n": 1}, "mock": {"work": True}, "expect": expect, **case}  # type: ignore[dict-item]
    report = run_case(loaded.workflow, whole)
    assert report.passed == (not report.differences)
    return [(item.place, item.note) for item in report.differences]


def test_a_case_that_holds_has_no_differences() -> None:
    expect: JsonObject = {
        "status": "completed",
        "output": {"got": True},
        "path": ["note", "work", "done"],
        "state": {"seen": 1},
    }
    assert differences(expect) == []


@pytest.mark.parametrize(
    ("expect", "found"),
    [
        ({"output": {"got": 1}}, [("output.got", None)]),
        ({"output": {"got": True, "more": 1}}, [("output.more", "missing")]),
        ({"output": {}}, [("output.got", "not expected")]),
        ({"output": None}, [("output", None)]),
        ({"path": ["note"]}, [("path", None)]),
        ({"state": {"seen": 2}}, [("state.seen", None)]),
        ({"state": {"other": 2}}, [("state.other", "missing")]),
        ({"staus": "completed"}, [("staus", "this expectation is not understood")]),
        ({"error": {"code": "X"}}, [("error", None)]),
        ({"status": "failed", "output": {"got": False}}, [("status", None), ("output.got", None)]),
    ],
)
def test_every_difference_is_named_at_its_place(expect: JsonObject, found: list[tuple[str, str | None]]) -> None:
    assert differences(expect) == found


def test_true_is_not_one_but_one_is_one() -> None:
    assert differences({"output": {"got": 1}}, mock={"work": True}) != []
    assert differences({"output": {"got": 1}}, mock={"work": 1.0}) == []
    assert differences({"output": {"got": [1, {"a": True}]}}, mock={"work": [1, {"a": 1}]}) != []


def test_a_status_that_differs_says_why() -> None:
    ((place, note),) = differences({"status": "completed"}, mock={})
    assert (place, note) == ("status", "waits at work for activity")
    ((_, note),) = differences({"status": "completed"}, mock={"work": {"error": {"code": "BAD", "message": "no"}}})
    assert note == "BAD: no"


def test_a_refused_input_counts_as_a_failed_run() -> None:
    expect: JsonObject = {"status": "failed", "error": {"code": "VALIDATION_ERROR"}, "path": []}
    assert differences(expect, input={}) == []


def test_errors_are_compared_by_code_and_message() -> None:
    mock: JsonObject = {"work": {"error": {"code": "BAD", "message": "no"}}}
    assert differences({"error": {"code": "BAD", "message": "no"}}, mock=mock) == []
    assert differences({"error": {"code": "GOOD"}}, mock=mock) == [("error.code", None)]
    assert differences({"error": {"kind": 1}}, mock=mock) == [("error.kind", "this expectation is not understood")]


def test_a_difference_is_json() -> None:
    assert Difference(place="a", expected=1, actual=2).to_json() == {"place": "a", "expected": 1, "actual": 2}


def test_a_case_may_say_what_the_next_run_is_given() -> None:
    loaded = load_workflow("""\
penstock: v1
name: flow
nodes:
  - {id: work, type: step, handler: "x:y"}
  - id: more
    type: switch
    cases: [{when: .work.last, next: done}]
    default: again
  - {id: again, type: continue_as_new, input: {n: "${ .work.n }"}}
  - {id: done, type: end}
""")
    assert loaded.workflow is not None, loaded.findings

    def told(mock: JsonObject) -> list[tuple[str, str | None]]:
        expect: JsonObject = {"status": "completed", "continues_with": {"n": 2}}
        assert loaded.workflow is not None
        report = run_case(loaded.workflow, {"name": "it", "mock": {"work": mock}, "expect": expect})
        return [(item.place, item.note) for item in report.differences]

    assert told({"n": 2}) == []
    assert told({"n": 3}) == [("continues_with.n", None)]
    assert told({"last": True}) == [("continues_with", "it did not continue as a new run")]
