"""Values on the command line."""

from pathlib import Path

import pytest

from penstock.base.json import JsonObject
from penstock.cli.terminal.values import (
    UsageError,
    loose_value,
    parse_fields,
    parse_labels,
    parse_pairs,
    parse_since,
    parse_value,
    read_fields,
)


@pytest.mark.parametrize("text", ["{", "NaN", "Infinity", "1e999", "hello", "", "[" * 100_000])
def test_what_is_not_json_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(UsageError, match=r"--input: .* is not JSON; quote it for the shell, or use @FILE"):
        parse_value(text, "--input")


def test_a_file_may_be_yaml_or_json(tmp_path: Path) -> None:
    path = tmp_path / "value.yaml"
    path.write_text("a: [1, 2]\n")
    assert parse_value(f"@{path}", "--input") == {"a": [1, 2]}
    assert parse_pairs([f"@{path}", "b=3"], "--mock") == {"a": [1, 2], "b": 3}
    with pytest.raises(UsageError, match="No such file"):
        parse_value("@nowhere.yaml", "--input")
    path.write_text("a: [")
    with pytest.raises(UsageError, match="--input: "):
        parse_value(f"@{path}", "--input")
    with pytest.raises(UsageError, match="NAME=JSON"):
        parse_pairs(["nonsense"], "--mock")


def test_a_field_of_an_answer_is_json_if_it_reads_as_json() -> None:
    assert [loose_value(text) for text in ("true", "1.5", "[1]", "fine", "it's", "NaN")] == [
        True,
        1.5,
        [1],
        "fine",
        "it's",
        "NaN",
    ]


def test_labels_are_plain_text() -> None:
    assert parse_labels(["team=red", "note=a=b"]) == {"team": "red", "note": "a=b"}
    for wrong in ("red", "=red"):
        with pytest.raises(UsageError, match="KEY=VALUE"):
            parse_labels([wrong])


def test_since_is_a_moment_or_how_long_ago() -> None:
    assert parse_since("1970-01-01T00:00:01Z", 99) == 1000
    assert parse_since("2s", 10_000) == 8_000
    with pytest.raises(UsageError, match="--since takes"):
        parse_since("yesterday", 0)


def test_a_field_that_a_schema_wants_as_text_stays_text() -> None:
    fields = parse_fields(["order=7", "amount=7", "other=7", "note=a=b"], "--input")
    schema: JsonObject = {"properties": {"order": {"type": "string"}, "amount": {"type": "number"}}}
    assert read_fields(fields, schema) == {"order": "7", "amount": 7, "other": 7, "note": "a=b"}
    with pytest.raises(UsageError, match="arguments are KEY=VALUE, not '=7'; --input takes JSON"):
        parse_fields(["=7"], "--input")
