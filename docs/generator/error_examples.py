"""Examples of refusals: what the code really said, recorded while tests ran.

`docs/generator/error_examples.json` has, for each code, a message and a hint. They are recorded by a plugin of pytest:

    python -m pytest -p docs.generator.error_examples --record-errors PATH…

Codes that no test of these refuses with have an example from the source itself: the text of a place that refuses, with
names in capitals where it has values (`written_examples`).

Recording adds what is missing, and replaces what the source no longer says; one process at a time may do it.
`tests/docs/test_error_examples.py` compares every example with the texts in the source, so none of them is written by
hand or out of date.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.base import limits
from penstock.base.errors import PenstockError, Reason
from penstock.client.errors import CLIENT_REASONS
from penstock.operations.catalogue.reasons import LOCAL_REASONS, REASONS

__all__ = [
    "ALL_REASONS",
    "Example",
    "every_example",
    "is_hint_of",
    "is_said_by_source",
    "read_examples",
    "written_examples",
]

ROOT: Final = Path(__file__).parents[2]
FILE: Final = Path(__file__).with_suffix(".json")
ALL_REASONS: Final[Mapping[str, Reason]] = {**REASONS, **LOCAL_REASONS, **CLIENT_REASONS}
_WORDS_MIN: Final = 3
# What would not be the same on another machine, or says nothing to a reader.
_UNFIT: Final = re.compile(r"/tmp|/root|/home|/work|pytest|0x[0-9a-f]{6}|\n|<.*>|\d{1,3}(?:\.\d{1,3}){3}:\d{4,}")
_RANDOM: Final = re.compile(r"[0-9a-f]{12,}|[0-9A-Z]{20,}")
_CHARACTERS_MAX: Final = 160
# What some functions return, where a message has a call of them.
_VALUES: Final = {"len": "COUNT", "join": "LIST", "format_instant": "TIME", "count_words": "COUNT"}


class Example(NamedTuple):
    """What an error said."""

    message: str
    hint: str


def read_examples() -> dict[str, Example]:
    """The recorded examples, by code."""
    return {code: Example(**texts) for code, texts in json.loads(FILE.read_text(encoding="utf-8")).items()}


def every_example() -> dict[str, Example]:
    """An example for each code: recorded, or else as the source has it."""
    return {**written_examples(), **read_examples()}


@cache
def written_examples() -> dict[str, Example]:
    """Examples from the places in the source that refuse, by code."""
    found: dict[str, Example] = {}
    for path in sorted((ROOT / "src" / "penstock").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = _assigned(tree.body)
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = list(ast.walk(function))
                for call in inner:
                    if isinstance(call, ast.Call):
                        before = [node for node in inner if getattr(node, "lineno", call.lineno) < call.lineno]
                        _add_written(call, {**constants, **_assigned(before)}, found)
    return found


def _add_written(call: ast.Call, texts: Mapping[str, ast.expr], found: dict[str, Example]) -> None:
    """Add the example of a call that makes an error, or reports a problem, if its texts are known."""
    named = {word.arg: word.value for word in call.keywords}
    given = [*call.args, *([named["code"], named["message"]] if {"code", "message"} <= named.keys() else [])]
    code = _written(given[0], texts) if given else None
    if code not in ALL_REASONS or len(given) < 2:  # noqa: PLR2004  # a code and a message
        return
    message = _written(given[1], texts)
    advice = given[2] if len(given) > 2 else named.get("hint")  # noqa: PLR2004  # a hint, too
    hint = None if advice is None else _written(advice, texts)
    if message and " " in message and str(code) not in found:
        found[str(code)] = Example(message, hint or ALL_REASONS[str(code)].hint)


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, ast.expr]:
    """What names are bound to: the last time counts."""
    found: dict[str, ast.expr] = {}
    for node in sorted(nodes, key=lambda node: getattr(node, "lineno", 0)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found[node.target.id] = node.value
    return found


def _written(node: ast.expr, texts: Mapping[str, ast.expr], depth: int = 3) -> str | None:
    """The text of an expression, with names in capitals for its values; None if it is not a text."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return _fill_in(parts)
        case ast.Name(id=name) if depth and name in texts:
            return _written(texts[name], texts, depth - 1)
        case ast.IfExp(body=body):
            return _written(body, texts, depth)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            begin, end = _written(left, texts, depth), _written(right, texts, depth)
            return None if begin is None or end is None else begin + end
        case _:
            return None


def _fill_in(parts: Sequence[ast.expr]) -> str:
    """The text with a word for each value. A value right behind a word or a value may be empty, and is left out."""
    text = ""
    for number, part in enumerate(parts):
        if isinstance(part, ast.Constant):
            text += str(part.value)
        elif isinstance(part, ast.FormattedValue):
            follows_value = number > 0 and isinstance(parts[number - 1], ast.FormattedValue)
            text += "" if follows_value or text[-1:].isalnum() else _placeholder(part.value)
    return text


def _placeholder(value: ast.expr) -> str:
    """What stands for a value: a limit itself, or a word in capitals."""
    match value:
        case ast.Attribute(attr=name) | ast.Name(id=name) if isinstance(
            bound := getattr(limits, name, None), int | float
        ):
            return f"{bound}"
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str() as name), *_]):
            return name.upper()
        case ast.Call(func=ast.Name(id=function) | ast.Attribute(attr=function)) if function in _VALUES:
            return _VALUES[function]
        case ast.BoolOp(values=[first, *_]):
            return _placeholder(first)
        case _:
            words = re.findall(r"[A-Za-z]\w+", re.sub(r"\[.*?\]|\(.*?\)", "", ast.unparse(value)))
            return words[-1].strip("_").upper() if words else "VALUE"


def is_said_by_source(text: str) -> bool:
    """Whether a text is one that the source can make: a text in it, with values in its places."""
    return any(pattern.fullmatch(text) for pattern in _patterns())


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    found: set[str] = set()
    for path in sorted((ROOT / "src" / "penstock").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            pattern = _pattern_of(node)
            if pattern is not None:
                found.add(pattern)
    return tuple(re.compile(pattern, re.DOTALL) for pattern in sorted(found))


def _pattern_of(node: ast.AST) -> str | None:
    """A text as a pattern; None if it has too few words of its own to tell it from others."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        # A text may be continued by another one, such as a reason.
        words, pattern = node.value, re.escape(node.value) + r"(?:[:;,.] ?.*)?"
    elif isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
        words = " ".join(str(part) for part in parts if part is not None)
        pattern = "".join(".*" if part is None else re.escape(str(part)) for part in parts) + ".*"
    else:
        return None
    return pattern if len(re.findall(r"[A-Za-z]{2,}", words)) >= _WORDS_MIN else None


def pytest_addoption(parser: Any) -> None:
    """Add the option that records."""
    parser.addoption("--record-errors", action="store_true", help="record examples of errors")


def pytest_configure(config: Any) -> None:
    """Keep what errors say from now on, if that is wanted."""
    if config.getoption("--record-errors"):
        config.pluginmanager.register(_Recorder())


class _Recorder:
    def __init__(self) -> None:
        self.heard: dict[str, set[Example]] = {}
        made = PenstockError.__init__
        heard = self.heard

        def listening(error: PenstockError, *args: Any, **more: Any) -> None:
            made(error, *args, **more)
            known = ALL_REASONS.get(error.code)
            if known is not None and error.message:
                heard.setdefault(error.code, set()).add(Example(error.message, error.hint or known.hint))

        PenstockError.__init__ = listening  # type: ignore[assignment, method-assign]  # for the time of this process

    def pytest_sessionfinish(self) -> None:
        """Write what was heard."""
        kept = dict(_still_said(read_examples() if FILE.exists() else {}))
        for code, examples in self.heard.items():
            fit = sorted((example for example in examples if _is_fit(code, example)), key=_cost)
            if fit and code not in kept:
                kept[code] = fit[0]
        texts = {code: kept[code]._asdict() for code in ALL_REASONS if code in kept}
        FILE.write_text(json.dumps(texts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _cost(example: Example) -> tuple[bool, int, Example]:
    """Short ones come first, and before them those without ids that are drawn at random."""
    return _RANDOM.search(f"{example.message} {example.hint}") is not None, len(example.message), example


def _still_said(examples: Mapping[str, Example]) -> Iterator[tuple[str, Example]]:
    for code, example in examples.items():
        if code in ALL_REASONS and is_said_by_source(example.message) and is_hint_of(code, example.hint):
            yield code, example


def is_hint_of(code: str, hint: str) -> bool:
    """Whether a hint is the remedy of its code, or one that the source can make."""
    return hint == ALL_REASONS[code].hint or is_said_by_source(hint)


def _is_fit(code: str, example: Example) -> bool:
    said = is_said_by_source(example.message) and is_hint_of(code, example.hint)
    return said and not any(_UNFIT.search(text) or len(text) > _CHARACTERS_MAX for text in example)
