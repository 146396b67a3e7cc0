"""Findings and suggestions."""

import pytest

from penstock.definitions.source.findings import Finding, Position, Severity, nearest, suggestion, summarize


def test_a_finding_leaves_out_what_is_not_known() -> None:
    assert Finding(code="X", message="m").to_json() == {"code": "X", "message": "m", "path": "", "severity": "error"}


def test_a_full_finding_has_file_line_and_column() -> None:
    finding = Finding(
        code="X",
        message="m",
        path="/a/0",
        hint="h",
        severity=Severity.WARNING,
        position=Position(3, 7),
        file="w.yaml",
        keyword="enum",
    )
    assert finding.location == "w.yaml:3:7"
    assert finding.to_json() == {
        "code": "X",
        "message": "m",
        "path": "/a/0",
        "hint": "h",
        "severity": "warning",
        "file": "w.yaml",
        "line": 3,
        "column": 7,
        "keyword": "enum",
    }


@pytest.mark.parametrize(
    ("file", "position", "location"),
    [
        (None, None, ""),
        ("w.yaml", None, "w.yaml"),
        (None, Position(1, 2), "1:2"),
    ],
)
def test_a_location_has_the_parts_that_are_known(file: str | None, position: Position | None, location: str) -> None:
    assert Finding(code="X", message="m", file=file, position=position).location == location


@pytest.mark.parametrize(
    ("word", "candidates", "expected"),
    [
        ("pya", ["ask", "pay", "done"], "pay"),
        ("Tool_Call", ["step", "tool_call"], "tool_call"),
        ("xyz", ["ask", "pay"], None),
        ("pay", [], None),
    ],
)
def test_the_nearest_candidate_is_offered(word: str, candidates: list[str], expected: str | None) -> None:
    assert nearest(word, candidates) == expected


def test_a_suggestion_is_a_question() -> None:
    assert suggestion("pya", ["pay"]) == "did you mean `pay`?"
    assert suggestion("xyz", ["pay"]) is None


def test_a_summary_counts_the_mistakes_and_places_the_first_one() -> None:
    first = Finding(code="X", message="no such node", path="/nodes/0", position=Position(3, 7))
    other = Finding(code="Y", message="m", path="/nodes/1")
    assert summarize("the workflow", [first]) == "the workflow has a mistake at 3:7: no such node"
    assert summarize("the workflow", [other, first]) == "the workflow has 2 mistakes; first, at /nodes/1: m"
