"""What a case expects, and the comparison with what came out."""

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.evaluation.expectations import Check, Expectation, Outcome, checks_of, read_expectation
from penstock.definitions.jq.expressions import InProcessEvaluator

ANSWER: JsonValue = {"text": "It was sent yesterday.", "count": 2}


def compared(expect: JsonValue, output: JsonValue = ANSWER, **outcome: object) -> list[Check]:
    wanted = read_expectation(expect)
    assert isinstance(wanted, Expectation), wanted
    status = str(outcome.get("status", "completed"))
    error = outcome.get("error")
    found = Outcome(status=status, output=output, error=error if isinstance(error, dict) else None)
    return checks_of(wanted, {"id": 2}, found, InProcessEvaluator())


def last(expect: JsonValue, output: JsonValue = ANSWER, **outcome: object) -> tuple[str, bool]:
    check = compared(expect, output, **outcome)[-1]
    return check.kind, check.passed


def test_without_an_expectation_a_case_has_to_complete() -> None:
    assert last(None) == ("status", True)
    assert last({}, status="failed", error={"code": "X", "message": "no"}) == ("status", False)


def test_a_case_may_expect_to_fail_with_a_code_or_to_wait() -> None:
    spent: JsonObject = {"code": "AGENT_TURNS_SPENT", "message": "too many"}
    assert last({"error": "AGENT_TURNS_SPENT"}, None, status="failed", error=spent) == ("status", True)
    assert last({"error": "OTHER"}, None, status="failed", error=spent) == ("status", False)
    assert last({"error": "OTHER"}) == ("status", False)
    assert last({"status": "waiting_approval"}, None, status="waiting_approval") == ("status", True)


def test_exact_compares_as_json_does() -> None:
    assert last({"exact": ANSWER}) == ("exact", True)
    assert last({"exact": {"text": "No."}}) == ("exact", False)
    assert last({"exact": None}, None) == ("exact", True)
    assert last({"exact": 1}, 1.0) == ("exact", True)
    assert last({"exact": 1}, True) == ("exact", False)
    assert last({"exact": [{"a": False}]}, [{"a": 0}]) == ("exact", False)


def test_a_schema_says_what_does_not_fit() -> None:
    schema: JsonObject = {"type": "object", "required": ["text"], "properties": {"count": {"maximum": 1}}}
    [_, check] = compared({"schema": schema})
    assert not check.passed
    assert "/count" in check.message
    assert last({"schema": {"type": "object"}}) == ("schema", True)


def test_jq_sees_input_output_status_and_error_and_only_true_is_true() -> None:
    assert last({"jq": ".input.id == .output.count"}) == ("jq", True)
    assert last({"jq": [".status", '.status == "completed" and .error == null']}) == ("jq", True)
    assert last({"jq": ".output.count"}) == ("jq", False)
    [_, check] = compared({"jq": ".output.text | tonumber"})
    assert check.message.startswith(".output.text | tonumber fails: ")


def test_similarity_looks_at_the_text_of_an_output_or_where_it_is_told() -> None:
    assert last({"similarity": "it was sent yesterday"}) == ("similarity", True)
    assert last({"similarity": {"to": "It was lost.", "at_least": 0.9}}) == ("similarity", False)
    assert last({"similarity": {"to": "2", "at": ".output.count"}}) == ("similarity", True)
    assert last({"similarity": {"to": "2", "at": ".output.count | error"}}) == ("similarity", False)


def test_all_that_is_said_is_compared_unless_the_run_did_not_end_as_it_should() -> None:
    expect: JsonValue = {"exact": ANSWER, "schema": {}, "jq": ["true", "true"], "similarity": "sent"}
    assert [check.kind for check in compared(expect)] == ["status", "exact", "schema", "jq", "jq", "similarity"]
    assert [check.kind for check in compared(expect, status="cancelled")] == ["status"]


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ([], "must be an object"),
        ({"exect": 1}, "no member 'exect'"),
        ({"status": "done"}, "must be one of"),
        ({"status": "waiting-input"}, "did you mean `waiting_input`?"),
        ({"error": {"code": "X"}}, "must be the code"),
        ({"schema": {"type": "objekt"}}, "`expect.schema`"),
        ({"schema": []}, "must be an object"),
        ({"jq": []}, "at least one"),
        ({"jq": [".a", ".b ||"]}, "expect.jq[1]"),
        ({"jq": "input"}, "expect.jq"),
        ({"similarity": {"at_least": 0.5}}, "`expect.similarity.to` must be a text"),
        ({"similarity": {"to": "x", "at_least": 2}}, "between 0 and 1"),
        ({"similarity": {"to": "x", "at_least": True}}, "between 0 and 1"),
        ({"judge": {"rubric": " "}}, "`expect.judge.rubric` must be a text"),
        ({"judge": {"rubric": "x", "model": "y"}}, "no member 'model'"),
    ],
)
def test_a_mistake_in_an_expectation_is_said_in_one_sentence(expect: JsonValue, said: str) -> None:
    found = read_expectation(expect)
    assert isinstance(found, str)
    assert said in found
    assert "\n" not in found
