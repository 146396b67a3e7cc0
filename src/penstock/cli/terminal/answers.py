"""Answers of operations for people: lists as tables, everything else as YAML, events as lines.

Texts from a server are cleaned of control characters.

Above it: the commands about operations and runs. Below it: rich, YAML.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml
from rich.table import Table
from rich.text import Text

from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.terminal.console import console_for
from penstock.client.events import StreamEvent

__all__ = ["print_answer", "print_event"]

_HASH: Final = re.compile(r"[0-9a-f]{40,64}")
_HASH_SHOWN: Final = 12
_CELL_CHARACTERS_MAX: Final = 60
_LINE_CHARACTERS_MAX: Final = 200
# Addresses that repeat the id.
_LEFT_OUT: Final = frozenset({"url", "stream_url", "input_schema", "output_schema", "claims"})
# Wide enough that nothing is cut where the output is not a terminal.
_WIDTH_ELSEWHERE: Final = 400
_STATUS_STYLES: Final = {
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
    "revoked": "red",
    "pinned": "green",
    "changed": "red",
}


def print_answer(value: JsonValue) -> None:
    """Print an answer for people."""
    items = value.get("items") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(items, list):
        print(_yaml(value), end="")
        return
    rows = [item for item in items if isinstance(item, dict)]
    rest: JsonObject = {name: other for name, other in value.items() if name not in ("items", "next_cursor")}
    if rest:
        print(_yaml(rest), end="")
    if not rows:
        console_for(sys.stdout).print(Text("nothing to list", style="dim"))
        return
    _print_table(rows)
    cursor = value.get("next_cursor")
    if isinstance(cursor, str):
        console_for(sys.stdout).print(Text(f"more: --cursor {clean(cursor)}", style="dim"))


def _yaml(value: JsonValue) -> str:
    # YAML escapes control characters, so none reaches the terminal.
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=_LINE_CHARACTERS_MAX)
    return text.removesuffix("...\n")


def _print_table(rows: Sequence[Mapping[str, JsonValue]]) -> None:
    names = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if name not in _LEFT_OUT and any(row.get(name) not in (None, [], {}) for row in rows)
    ]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in names))
    console = console_for(sys.stdout)
    if not console.is_terminal:
        console.width = _WIDTH_ELSEWHERE
    for line in console.render_lines(table, pad=False):
        text = Text.assemble(*((segment.text, segment.style or "") for segment in line))
        text.rstrip()
        console.print(text)


def _cell(value: JsonValue) -> Text:
    if value is None:
        return Text("")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    text = clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if _HASH.fullmatch(text):
        text = text[:_HASH_SHOWN]
    return Text(_cut(text, _CELL_CHARACTERS_MAX), style=_STATUS_STYLES.get(text, ""))


def _cut(text: str, maximum: int) -> str:
    return text if len(text) <= maximum else text[: maximum - 1] + "…"


def print_event(event: StreamEvent) -> None:
    """Print an event of a stream for people, on one line."""
    at = clean(str(event.data.get("at", "")))
    summary = clean(" ".join(_words(event)))
    style = _STATUS_STYLES.get(str(event.data.get("status", "")), "red" if event.event == "error" else "")
    line = Text.assemble(
        (f"{at}  ", "dim"), (f"{event.event:<9}", "bold"), (_cut(summary, _LINE_CHARACTERS_MAX), style)
    )
    console_for(sys.stdout).print(line)


def _words(event: StreamEvent) -> Iterable[str]:
    data = event.data
    match event.event:
        case "status" | "complete":
            yield from _present(data, "status", "reason", "continued_as")
        case "node":
            yield from _present(
                data, "node_id", "phase", "signal", "child_execution_id", "error_code", "error", "prompt"
            )
            if isinstance(data.get("attempt"), int) and data["attempt"] > 1:
                yield f"(attempt {data['attempt']})"
        case "error":
            yield from _present(data, "code", "node_id", "message")
        case "output":
            yield json.dumps(data.get("output"), ensure_ascii=False)
        case _:
            rest = {name: value for name, value in data.items() if name not in ("execution_id", "at", "sequence")}
            yield json.dumps(rest, ensure_ascii=False)


def _present(data: Mapping[str, Any], *names: str) -> Iterable[str]:
    for name in names:
        value = data.get(name)
        if value is not None:
            yield value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
