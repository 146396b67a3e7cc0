"""Data sets: every line is a case, or is reported with its number."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.cli.evaluation.dataset import parse_dataset, read_dataset
from penstock.cli.terminal.values import UsageError


def bad(text: str | bytes) -> dict[int, str]:
    found = parse_dataset(text.encode() if isinstance(text, str) else text, name="x")
    return {line.line: line.message for line in found.bad_lines}


def test_cases_have_ids_and_lines_and_comments_and_empty_lines_are_left_out() -> None:
    text = '# orders\n{"id": "a", "input": 1}\n\n// more\n  {"input": {"b": null}}\r\n'
    found = parse_dataset(b"\xef\xbb\xbf" + text.encode(), name="x")
    assert [(case.case_id, case.line, case.input) for case in found.cases] == [("a", 2, 1), ("line-5", 5, {"b": None})]
    assert found.bad_lines == ()


def test_a_bad_line_is_reported_with_its_number_and_loses_no_other() -> None:
    lines = [
        '{"input": 1}',
        "{",
        "[]",
        '{"output": 1}',
        '{"id": "a"}',
        '{"input": 1, "id": 7}',
        '{"input": NaN}',
        '{"input": 1, "expect": {"exakt": 1}}',
        '{"input": 1, "id": "a", "mock": []}',
        '{"input": 1, "model": "hello"}',
        '{"input": 1e999}',
        '{"input": 2}',
    ]
    found = parse_dataset("\n".join(lines).encode(), name="x")
    assert [case.line for case in found.cases] == [1, 12]
    messages = {line.line: line.message for line in found.bad_lines}
    assert sorted(messages) == list(range(2, 12))
    assert messages[2].startswith("it is not JSON: ")
    assert messages[3] == "it is not a JSON object"
    assert messages[4].startswith("a case has no member 'output'")
    assert messages[5] == "`input` is missing"
    assert "`expect` has no member 'exakt'" in messages[8]


def test_an_id_that_comes_twice_is_refused_with_both_lines() -> None:
    text = '{"id": "a", "input": 1}\n{"id": "b", "input": 1}\n{"id": "a", "input": 2}'
    assert bad(text) == {3: "the id 'a' is that of line 1 already"}


def test_what_is_too_long_too_deep_or_no_text_is_refused() -> None:
    assert bad(b'{"input": "\xff"}')[1] == "it is not UTF-8, at byte 12 of the line"
    assert bad('{"input": ' + "[" * 100_000 + "]" * 100_000 + "}")[1] == "it is nested too deeply"
    assert "longer than" in bad('{"input": "' + "x" * limits.EVALUATION_LINE_BYTES_MAX + '"}')[1]


def test_no_more_cases_are_taken_than_the_limit_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVALUATION_CASES_MAX", 2)
    assert list(bad('{"input": 1}\n' * 4)) == [3, 4]


@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=200))
def test_each_id_has_a_run_of_its_own_whose_id_every_server_takes(first: str, second: str) -> None:
    lines = [json.dumps({"id": name, "input": 1}) for name in (first, second)]
    found = parse_dataset("\n".join(lines).encode(), name="x")
    runs = [case.run_id for case in found.cases]
    assert all(run.replace("_", "-").replace(".", "-").replace("-", "a").isalnum() and run.isascii() for run in runs)
    assert all(len(run) <= 128 for run in runs)
    assert len(set(runs)) == (1 if first == second else 2)


@given(st.binary(max_size=300))
def test_whatever_is_in_a_file_each_line_is_a_case_or_bad_or_left_out(data: bytes) -> None:
    found = parse_dataset(data, name="x")
    numbers = [case.line for case in found.cases] + [line.line for line in found.bad_lines]
    assert len(numbers) == len(set(numbers))
    assert all(1 <= number <= data.count(b"\n") + 1 for number in numbers)


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_dataset(tmp_path / "cases.jsonl")
