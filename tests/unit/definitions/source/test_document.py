"""Reading documents: one value from JSON and YAML, with the position of every part."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.definitions.source.document import SourceDocument, read_source
from penstock.definitions.source.findings import Finding, Position

texts = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=8)
json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.sampled_from(
        ["on", "yes", "null", "~", "0123", "1e5", "<<", "true", ".inf", "2001-01-01", "1_000", "a: b", "# x"]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)
objects = st.dictionaries(texts, json_values, max_size=4)


def read(text: str, file: str | None = None) -> SourceDocument:
    result = read_source(text, file=file)
    assert isinstance(result, SourceDocument), result
    return result


def refused(text: str, file: str | None = None) -> tuple[Finding, ...]:
    result = read_source(text, file=file)
    assert isinstance(result, tuple), result
    assert result
    return result


def codes(text: str) -> list[str]:
    return [finding.code for finding in refused(text)]


def resolve(value: JsonValue, pointer: str) -> JsonValue:
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]  # type: ignore[index]
    return value


def count(value: JsonValue) -> int:
    children: Any = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(count(child) for child in children)


@given(objects, st.sampled_from([None, 0, 2]), st.booleans())
def test_json_gives_what_the_standard_reader_gives(
    value: dict[str, JsonValue], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    document = read(text)
    assert document.value == json.loads(text)
    assert repr(document.value) == repr(json.loads(text))


@given(objects)
def test_every_part_has_a_position_and_every_position_a_part(value: dict[str, JsonValue]) -> None:
    document = read(json.dumps(value, indent=1))
    assert len(document.positions) == count(document.value)
    for pointer in document.positions:
        resolve(document.value, pointer)


@given(objects)
def test_positions_of_members_are_those_of_their_keys(value: dict[str, JsonValue]) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False)
    lines = text.split("\n")
    for pointer, position in read(text).positions.items():
        rest = lines[position.line - 1][position.column - 1 :]
        name = pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
        if pointer and isinstance(resolve(json.loads(text), pointer.rpartition("/")[0]), dict):
            assert rest.startswith(json.dumps(name, ensure_ascii=False))


@given(json_values)
def test_json_inside_yaml_gives_the_same_value(value: JsonValue) -> None:
    document = read(f"part: {json.dumps(value, ensure_ascii=False)}\n")
    assert document.value == {"part": value}
    assert len(document.positions) == count(document.value)


@given(st.text(max_size=60))
def test_no_text_makes_the_readers_fail(text: str) -> None:
    for file in (None, "w.json"):
        result = read_source(text, file=file)
        if isinstance(result, tuple):
            assert result
            assert all(finding.position is not None and finding.position.line >= 1 for finding in result)


@given(st.text('{}[]",:0123456789.eE+-\\/ntrufalse \n', max_size=40))
def test_json_that_the_standard_reader_refuses_is_refused(text: str) -> None:
    try:
        expected = json.loads(text, parse_constant=pytest.fail)
    except ValueError:
        refused(text, "w.json")
        return
    result = read_source(text, file="w.json")
    if isinstance(result, SourceDocument):
        assert result.value == expected
    else:
        assert {finding.code for finding in result} <= {"DUPLICATE_KEY", "NUMBER_NOT_FINITE"}


def test_json_is_known_by_its_first_character_or_its_file_name() -> None:
    assert read(' \n{"a": 1}').value == {"a": 1}
    assert read("[1, 2]", "w.json").value == [1, 2]
    assert read("[a, b]", "w.yaml").value == ["a", "b"]
    assert refused("[a, b]", "w.JSON")[0].code == "SYNTAX_ERROR"


def test_a_byte_order_mark_is_skipped() -> None:
    assert read("\ufeffa: 1").value == {"a": 1}
    assert read('\ufeff{"a": 1}').value == {"a": 1}


def test_yaml_scalars_follow_the_core_schema_of_yaml_1_2() -> None:
    text = """
on: yes
off: no
yes: on
empty:
tilde: ~
word: null
truth: [true, True, TRUE, false]
numbers: [1, -2, +3, 0x1F, 0o17, 0123, 1.5, .5, 1., 1e3, -0.0]
texts: [1_000, 1:30, 2001-01-01, 0b11, 1e, tRue, nUll, "1", '2', !!str 3, ! 4]
folded: >
  two
  lines
literal: |
  two
  lines
"""
    assert read(text).value == {
        "on": "yes",
        "off": "no",
        "yes": "on",
        "empty": None,
        "tilde": None,
        "word": None,
        "truth": [True, True, True, False],
        "numbers": [1, -2, 3, 31, 15, 123, 1.5, 0.5, 1.0, 1000.0, -0.0],
        "texts": ["1_000", "1:30", "2001-01-01", "0b11", "1e", "tRue", "nUll", "1", "2", "3", "4"],
        "folded": "two lines\n",
        "literal": "two\nlines\n",
    }


def test_yaml_integers_stay_integers_and_floats_floats() -> None:
    value = read("a: [1, 1.0, 123456789012345678901234567890]").value
    assert repr(value) == "{'a': [1, 1.0, 123456789012345678901234567890]}"


def test_yaml_positions_are_those_of_keys_and_items() -> None:
    document = read("name: x\nnodes:\n  - id: a\n    type: step\n  - {id: b, é: [1, 2]}\n")
    assert document.positions == {
        "": Position(1, 1),
        "/name": Position(1, 1),
        "/nodes": Position(2, 1),
        "/nodes/0": Position(3, 5),
        "/nodes/0/id": Position(3, 5),
        "/nodes/0/type": Position(4, 5),
        "/nodes/1": Position(5, 5),
        "/nodes/1/id": Position(5, 6),
        "/nodes/1/é": Position(5, 13),
        "/nodes/1/é/0": Position(5, 17),
        "/nodes/1/é/1": Position(5, 20),
    }


def test_aliases_repeat_a_value_and_keep_their_own_place() -> None:
    document = read("a: &x {k: [1]}\nb: *x\nc:\n  - *x\nd: &t text\ne: *t\n*t : 1\n")
    assert document.value == {"a": {"k": [1]}, "b": {"k": [1]}, "c": [{"k": [1]}], "d": "text", "e": "text", "text": 1}
    assert document.positions["/b"] == Position(2, 1)
    assert document.positions["/c/0"] == Position(4, 5)
    assert document.positions["/c/0/k"] == document.positions["/a/k"]


def test_repeated_values_are_separate_objects() -> None:
    value: Any = read("a: &x {k: [1]}\nb: *x\n").value
    value["a"]["k"].append(2)
    assert value["b"] == {"k": [1]}


def test_a_document_that_grows_exponentially_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert codes("\n".join(lines)) == ["DOCUMENT_TOO_LARGE"]


def test_an_alias_cannot_repeat_the_value_it_stands_in() -> None:
    (finding,) = refused("a: &x [*x]")
    assert finding.code == "ALIAS_UNKNOWN"
    assert "inside the value" in finding.message
    assert codes("a: *nowhere") == ["ALIAS_UNKNOWN"]


@pytest.mark.parametrize("opening", ['{"a":', "["])
def test_deep_nesting_is_refused_in_json(opening: str) -> None:
    assert codes('{"a":' + opening * 100_000)[-1] == "DOCUMENT_TOO_DEEP"


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused_in_yaml(opening: str) -> None:
    assert codes("a:\n  " + opening * 10_000)[-1] == "DOCUMENT_TOO_DEEP"


@pytest.mark.parametrize("depth", [limits.DOCUMENT_DEPTH_MAX, limits.DOCUMENT_DEPTH_MAX + 1])
def test_the_depth_limit_is_the_same_for_json_and_yaml(depth: int) -> None:
    inner = "[" * (depth - 1) + "]" * (depth - 1)
    for text in (f'{{"a": {inner}}}', f"a: {inner}"):
        assert isinstance(read_source(text), SourceDocument) == (depth <= limits.DOCUMENT_DEPTH_MAX)


def test_aliases_count_for_the_depth() -> None:
    half = "[" * 40 + "]" * 40
    assert codes(f"a: &x {half}\nb: {'[' * 40}*x{']' * 40}") == ["DOCUMENT_TOO_DEEP"]


def test_documents_are_bounded_in_bytes() -> None:
    for prefix in ("a: ", '{"a": '):
        (finding,) = refused(prefix + '"' + "é" * (limits.DOCUMENT_BYTES_MAX // 2) + '"')
        assert finding.code == "DOCUMENT_TOO_LARGE"


def test_documents_are_bounded_in_values() -> None:
    many = ",".join("1" * (limits.DOCUMENT_VALUES_MAX + 1))
    assert codes(f'{{"a": [{many}]}}') == ["DOCUMENT_TOO_LARGE"]
    assert codes(f"a: [{many}]") == ["DOCUMENT_TOO_LARGE"]


@pytest.mark.parametrize("text", ['{"a": 1,\n "b": 2,\n "a": 3}', "a: 1\nb: 2\n\na: 3\n"])
def test_a_key_that_appears_twice_is_found_with_both_places(text: str) -> None:
    (finding,) = refused(text)
    assert finding.code == "DUPLICATE_KEY"
    assert finding.path == "/a"
    assert finding.position is not None
    assert finding.position.line == text.rstrip().count("\n") + 1
    assert "line 1" in finding.message


def test_all_mistakes_are_found_at_once() -> None:
    text = "a: .inf\n<<: {x: 1}\n1: one\nb: !money 5\nb: 2\n? [x]\n: 3\n"
    assert codes(text) == [
        "NUMBER_NOT_FINITE",
        "MERGE_KEY",
        "KEY_NOT_TEXT",
        "TAG_NOT_ALLOWED",
        "DUPLICATE_KEY",
        "KEY_NOT_TEXT",
    ]
    assert codes('{"a": NaN, "a": -Infinity, "b": 1e999, "c": ' + "9" * 500 + ', "d": [1,]}') == [
        "NUMBER_NOT_FINITE",
        "NUMBER_NOT_FINITE",
        "DUPLICATE_KEY",
        "NUMBER_NOT_FINITE",
        "NUMBER_NOT_FINITE",
        "SYNTAX_ERROR",
    ]


@pytest.mark.parametrize("key", ["1", "1.5", "true", "null", "~", "[a]", "{a: 1}", ""])
def test_keys_must_be_text(key: str) -> None:
    assert "KEY_NOT_TEXT" in codes(f"x: 1\n? {key}\n: 2\n")


def test_a_quoted_merge_key_is_a_name() -> None:
    assert read('"<<": 1\nb: <<\n').value == {"<<": 1, "b": "<<"}


@pytest.mark.parametrize("number", [".inf", "-.Inf", ".nan", "1e999", "-1e999", "9" * 400, "0x" + "f" * 300])
def test_numbers_without_a_finite_value_are_refused(number: str) -> None:
    assert codes(f"a: {number}") == ["NUMBER_NOT_FINITE"]


def test_one_document_per_file() -> None:
    (finding,) = refused("a: 1\n---\nb: 2\n")
    assert finding.code == "MULTIPLE_DOCUMENTS"
    assert finding.position == Position(2, 1)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_an_empty_document_is_refused(text: str) -> None:
    (finding,) = refused(text)
    assert finding.code == "SYNTAX_ERROR"
    assert finding.message == "the document is empty"


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ('{"a": 1,\n "b": [1, 2,]}', 2, 13, "remove the comma"),
        ("{'a': 1}", 1, 2, "double quotes"),
        ('{"a" 1}', 1, 6, "double quotes"),
        ('{"a": 1 // x\n}', 1, 9, "no comments"),
        ('{"a": "x\ny"}', 1, 9, "missing"),
        ('{"a": "\\q"}', 1, 8, "backslash"),
        ('{"a": "\t"}', 1, 8, "escape"),
        ('{"a": {"b": 1}', 1, 15, "missing `}`"),
        ('{"a": 1} {', 1, 10, "double quotes"),
        ('{"a":', 1, 6, "complete"),
        ('{"a": tru}', 1, 7, "double quotes"),
        ('{"a": 01}', 1, 8, "double quotes"),
        ("a:\n\tb: 1\n", 2, 1, "spaces, not tabs"),
        ("a: b: c\n", 1, 5, "quotes"),
        ("a: [1, 2\nb: 3\n", 2, 2, "quotes"),
        ("a: 'x\n", 2, 1, "not closed"),
        ("- a\nb: 1\n", 2, 1, "same column"),
        ("a: 1\n  b: 2\n", 2, 4, "quotes"),
        ('a: "\\q"\n', 1, 5, "single quotes"),
        ("a: x\nb: \x01\n", 2, 4, "remove it"),
    ],
)
def test_syntax_errors_have_a_place_and_a_hint(text: str, line: int, column: int, words: str) -> None:
    finding = refused(text, "w.yaml")[-1]
    assert finding.code == "SYNTAX_ERROR"
    assert finding.location == f"w.yaml:{line}:{column}"
    assert finding.hint is not None
    assert words in finding.hint


def test_half_a_surrogate_pair_is_refused() -> None:
    assert codes('{"a": "\\ud800"}') == ["TEXT_NOT_UNICODE"]
    assert codes("a: \ud800") == ["TEXT_NOT_UNICODE"]
    assert read('{"a": "\\ud83d\\ude00"}').value == {"a": "😀"}


@given(st.lists(st.sampled_from(["\n", "\r\n", "\r", " "]), max_size=6))
def test_line_numbers_count_every_kind_of_line_end(ends: list[str]) -> None:
    text = "".join(ends) + '{"a": 1}'
    lines = 1 + sum(end != " " for end in ends) - sum(pair == ("\r", "\n") for pair in pairwise(ends))
    assert read(text).positions["/a"].line == lines
