"""Data sets: one case on each line, as JSON. Empty lines, and lines that begin with `#` or `//`, are left out.

    {"id": "late", "input": {"prompt": "Where is A-1?"}, "expect": {"jq": ".output.text | test(\"A-1\")"}}

`id` is the number of the line (`line-7`) if it is left out. `mock`, `model` and `answers` script a case as they do in
the `tests` of a document: what activities return, what the model says turn by turn, what people answer.

Every line that cannot be used is reported, with its number and what is wrong; the others are still read.

Above it: `command`. Below it: `expectations`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.evaluation.expectations import Expectation, read_expectation
from penstock.cli.terminal.values import UsageError, parse_json

__all__ = ["BadLine", "Case", "DataSet", "parse_dataset", "read_dataset"]

_MEMBERS = ("id", "input", "expect", "mock", "model", "answers")
_ID_CHARACTERS_MAX = 200
_PLAIN_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_HASH_CHARACTERS = 32
_COMMENTS = ("#", "//")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case. `expect` is the expectation as it is written, `wanted` what it means."""

    case_id: str
    line: int
    input: JsonValue
    expect: JsonValue
    wanted: Expectation
    mock: JsonObject = field(default_factory=dict)
    model: JsonValue = None
    answers: JsonObject = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        """The id of its run, the same each time."""
        if _PLAIN_ID.fullmatch(self.case_id):
            return f"c-{self.case_id}"
        digest = hashlib.sha256(self.case_id.encode("utf-8", "surrogatepass")).hexdigest()
        return f"h-{digest[:_HASH_CHARACTERS]}"


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be used."""

    line: int
    message: str

    def to_json(self) -> JsonObject:
        """The line for programs."""
        return {"line": self.line, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """The cases of a file, and the lines that cannot be used."""

    name: str
    digest: str
    cases: tuple[Case, ...]
    bad_lines: tuple[BadLine, ...]


def read_dataset(path: Path) -> DataSet:
    """Read a file. Raises `UsageError` if it cannot be read at all."""
    try:
        with path.open("rb") as file:
            data = file.read(limits.EVALUATION_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or type(error).__name__}") from None
    if len(data) > limits.EVALUATION_FILE_BYTES_MAX:
        raise UsageError(f"{path}: it is larger than {limits.EVALUATION_FILE_BYTES_MAX} bytes; split it")
    return parse_dataset(data, name=path.name)


def parse_dataset(data: bytes, *, name: str) -> DataSet:
    """Return the cases in the text of a file."""
    cases: list[Case] = []
    bad: list[BadLine] = []
    seen: dict[str, int] = {}
    for number, line in _lines(data.removeprefix(_BYTE_ORDER_MARK)):
        found = _case(number, line)
        if isinstance(found, Case) and found.case_id in seen:
            found = f"the id {found.case_id!r} is that of line {seen[found.case_id]} already"
        elif isinstance(found, Case) and len(cases) >= limits.EVALUATION_CASES_MAX:
            found = f"there are {limits.EVALUATION_CASES_MAX} cases before it, which is the most there can be"
        if isinstance(found, str):
            bad.append(BadLine(number, found))
            continue
        seen[found.case_id] = number
        cases.append(found)
    digest = hashlib.sha256(data).hexdigest()
    return DataSet(name=name, digest=digest, cases=tuple(cases), bad_lines=tuple(bad))


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        text = line.strip()
        if text and not text.startswith(tuple(mark.encode() for mark in _COMMENTS)):
            yield number, text


def _case(number: int, line: bytes) -> Case | str:
    """Return the case of a line, or what is wrong with it."""
    if len(line) > limits.EVALUATION_LINE_BYTES_MAX:
        return f"the line is longer than {limits.EVALUATION_LINE_BYTES_MAX} bytes"
    try:
        value = parse_json(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return f"it is not UTF-8, at byte {error.start + 1} of the line"
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return f"it is not JSON: {error}"
    if not isinstance(value, dict):
        return "it is not a JSON object"
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "it has text that is not Unicode (half of a surrogate pair)"
    return _mistake(value) or _read(number, value)


def _mistake(value: JsonObject) -> str | None:
    unknown = [name for name in value if name not in _MEMBERS]
    if unknown:
        return f"a case has no member {unknown[0]!r}; there are {', '.join(_MEMBERS)}"
    if "input" not in value:
        return "`input` is missing"
    named = value.get("id")
    if "id" in value and not (isinstance(named, str) and 0 < len(named) <= _ID_CHARACTERS_MAX):
        return f"`id` must be a text of 1 to {_ID_CHARACTERS_MAX} characters"
    for member in ("mock", "answers"):
        if not isinstance(value.get(member, {}), dict):
            return f"`{member}` must be an object, with the ids of nodes as names"
    if "model" in value and not isinstance(value["model"], list):
        return "`model` must be a list: what the model says, turn by turn"
    return None


def _read(number: int, value: JsonObject) -> Case | str:
    wanted = read_expectation(value.get("expect"))
    if isinstance(wanted, str):
        return wanted
    mock, answers = value.get("mock"), value.get("answers")
    return Case(
        case_id=str(value.get("id", f"line-{number}")),
        line=number,
        input=value["input"],
        expect=value.get("expect"),
        wanted=wanted,
        mock=mock if isinstance(mock, dict) else {},
        model=value.get("model"),
        answers=answers if isinstance(answers, dict) else {},
    )
