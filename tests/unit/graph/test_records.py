"""Records of NDJSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonObject
from penstock.graph.records import EdgeRecord, NodeRecord, RecordProblem, parse_record, parse_records, write_record
from tests.unit.graph.samples import work

USER: JsonObject = {"handle": "ada", "visits": 5, "tags": ["x"], "active": True, "level": "junior"}


def problems(line: str) -> list[str]:
    found = parse_record(line, work(), number=7)
    assert isinstance(found, tuple)
    assert all(each.line == 7 for each in found)
    return [str(each) for each in found]


def test_a_node_has_all_properties_of_its_type() -> None:
    found = parse_record(json.dumps({"type": "User", "data": {**USER, "seen": "1970-01-01T00:00:01Z"}}), work())
    assert isinstance(found, NodeRecord)
    assert found.type.name == "User"
    assert found.properties["seen"] == 1000
    assert found.properties["age"] is None
    assert set(found.properties) == set(found.type.by_name)


def test_an_edge_has_two_ends_and_may_have_no_data() -> None:
    found = parse_record('{"edge": "Owns", "from": "ada", "to": "t1"}', work())
    assert isinstance(found, EdgeRecord)
    assert (found.source, found.target, found.id) == ("ada", "t1", None)
    assert parse_record('{"edge": "Owns", "id": "e1", "from": "ada", "to": "t1"}', work()) != found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "{",
            ["line 7: is not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"],
        ),
        ("[]", ["line 7: must be an object"]),
        ('{"type": "Note", "type": "Note"}', ["line 7: is not valid JSON: a key occurs twice"]),
        ('{"type": "Note", "data": {"text": NaN}}', ["line 7: is not valid JSON: NaN is not a JSON number"]),
        ("{}", ['line 7: needs either "type" (a node) or "edge"']),
        ('{"type": "Usr"}', ["line 7: has an unknown node type, `Usr`; did you mean `User`?"]),
        (
            '{"edge": "Ows", "from": "a"}',
            [
                "line 7: has an unknown edge type, `Ows`; did you mean `Owns`?",
                'line 7: needs "to", the identifier of a node',
            ],
        ),
        ('{"edge": "Owns", "from": "a", "to": 1}', ['line 7: needs "to", the identifier of a node']),
        ('{"edge": "Owns", "from": "a", "to": "\\ud800"}', ['line 7: needs "to", the identifier of a node']),
        ('{"type": "Note", "data": []}', ['line 7: "data" must be an object']),
        (
            '{"type": "Note", "dta": {}}',
            ["line 7: has the unknown key `dta`; did you mean `data`?", "line 7: property `text` is missing"],
        ),
        (
            '{"type": "Team", "id": "x", "data": {"name": "x"}}',
            ['line 7: has an "id", but nodes of type `Team` are identified by their key'],
        ),
        ('{"type": "Note", "id": "", "data": {"text": "x"}}', ['line 7: "id" is not an identifier']),
        (
            '{"type": "Doc", "data": {"slug": 1, "title": null, "body": "b", "tags": ["a", 1], "titel": "x"}}',
            [
                "line 7: property `titel` is unknown in `Doc`; did you mean `title`?",
                "line 7: property `slug` needs a text, not a number",
                "line 7: property `title` must not be null",
                "line 7: property `tags` needs a text, not a number at index 1",
            ],
        ),
    ],
)
def test_everything_that_is_wrong_with_a_line_is_said(line: str, expected: list[str]) -> None:
    assert problems(line) == expected


def test_empty_lines_are_counted_and_skipped() -> None:
    lines = ['{"type": "Note", "data": {"text": "x"}}', "", "  \n", "{"]
    first, second = parse_records(lines, work())
    assert isinstance(first, NodeRecord)
    assert isinstance(second, tuple)
    assert isinstance(second[0], RecordProblem)
    assert second[0].line == 4


@given(
    st.fixed_dictionaries(
        {
            "handle": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
            "visits": st.integers(-(2**63), 2**63 - 1),
            "tags": st.lists(st.sampled_from(["a", "b c"]), max_size=3),
            "active": st.booleans(),
            "level": st.sampled_from(["junior", "senior"]),
        },
        optional={
            "age": st.none() | st.integers(0, 100),
            "rating": st.floats(width=32, allow_nan=False, allow_infinity=False),
            "photo": st.just("base64:aGk="),
            "born": st.dates().map(str),
            "seen": st.datetimes().map(lambda moment: moment.isoformat()),
        },
    )
)
def test_what_is_written_is_read_again(data: JsonObject) -> None:
    record = parse_record(json.dumps({"type": "User", "data": data}), work())
    assert isinstance(record, NodeRecord)
    line = write_record(record)
    assert "\n" not in line
    assert parse_record(line, work()) == record


def test_edges_are_written_with_their_identifiers() -> None:
    line = '{"edge":"Knows","id":"e1","from":"a","to":"b","data":{"since":"2026-01-31","kind":"work"}}'
    record = parse_record(line, work())
    assert isinstance(record, EdgeRecord)
    assert write_record(record) == line
    bare = '{"edge":"Owns","from":"a","to":"b"}'
    owns = parse_record(bare, work())
    assert isinstance(owns, EdgeRecord)
    assert write_record(owns) == bare


@given(st.text(max_size=60))
def test_no_line_breaks_the_reader(line: str) -> None:
    parse_record(line, work())
