"""Answers of operations for people: lists and rows as tables, everything else as YAML, events as lines.

Texts from a server are cleaned of control characters.

Above it: the commands about operations and runs. Below it: `tables`, YAML.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml

from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.terminal.cells import cell_count
from penstock.cli.terminal.console import console_for, count_words
from penstock.cli.terminal.styled_text import Text
from penstock.cli.terminal.tables import GAP_CELLS, Column, table_lines
from penstock.client.events import StreamEvent

__all__ = ["print_answer", "print_columns", "print_event"]

_HASH: Final = re.compile(r"[0-9a-f]{40,64}")
_HASH_SHOWN: Final = 12
_CELL_CHARACTERS_MAX: Final = 60
_LINE_CHARACTERS_MAX: Final = 200
# Addresses that repeat the id.
_LEFT_OUT: Final = frozenset({"url", "stream_url", "input_schema", "output_schema", "claims"})
# What links an audit record to its neighbours. `penstock audit verify` reads it; people do not.
_LINKS: Final = frozenset({"salt", "previous_hash", "hash"})
# Sentences, which say most at their beginning. They become narrower, down to this width, before a column is left out.
_SENTENCES: Final = frozenset({"what", "title", "description", "message", "reason", "text"})
_SENTENCE_CELLS_MIN: Final = 20
_OF_LISTS: Final = ("items", "next_cursor", "proposals")
# Wide enough that nothing is cut where the output is not a terminal.
_WIDTH_ELSEWHERE: Final = 400
_STATUS_STYLES: Final = {
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
    "revoked": "red",
    "pinned": "green",
    "changed": "red",
    "refused": "yellow",
}


def print_answer(value: JsonValue) -> None:
    """Print an answer for people."""
    if isinstance(value, dict) and isinstance(value.get("rows"), list) and "graph_commit_id" in value:
        _print_rows(value)
        return
    items = value.get("items") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(items, list):
        print(_yaml(value), end="")
        return
    rows = [item for item in items if isinstance(item, dict)]
    rest: JsonObject = {name: other for name, other in value.items() if name not in _OF_LISTS}
    if rest:
        print(_yaml(rest), end="")
    if rows:
        _print_table([_row_for_people(row) for row in rows])
    else:
        console_for(sys.stdout).print(Text("nothing to list", style="dim"))
    cursor = value.get("next_cursor")
    if isinstance(cursor, str):
        console_for(sys.stdout).print(Text(f"more: --cursor {clean(cursor)}", style="dim"))
    _print_proposals(value.get("proposals"))


def _print_proposals(proposals: JsonValue) -> None:
    """Print the held calls that would store more of what a list is of."""
    rows = [item for item in proposals if isinstance(item, dict)] if isinstance(proposals, list) else []
    if rows:
        told = "proposed, not stored yet; look at one with `penstock approval review DRAFT_ID`:"
        console_for(sys.stdout).print(Text(told, style="yellow"))
        _print_table([{name: value for name, value in row.items() if name != "look"} for row in rows])


def _row_for_people(row: JsonObject) -> JsonObject:
    """Return an item of a list as a row: of what waits and what was decided, what somebody needs to see first."""
    question, decision = row.get("question"), row.get("decision")
    if isinstance(question, dict) and "decidable" in row:
        # A held call is told by its title: its prompt repeats all arguments. A list of drafts has nothing else.
        prompt = None if row.get("draft") or "digest" in row else question.get("prompt")
        return {
            "for": "you" if row["decidable"] else "others",
            "kind": row.get("kind", "call"),
            "id": row["id"],
            "what": row["title"] if prompt is None else f"{row['title']}: {prompt}",
            "asked by": row.get("asked_by_name") or row.get("asked_by") or row.get("requester_name"),
            "expires": row.get("expires_at"),
        }
    if isinstance(decision, dict) and "kind" in row:
        prompt = decision.get("prompt") if row["kind"] == "question" else None
        return {
            "decision": decision["decision"],
            "by": decision.get("name") or decision.get("by"),
            "at": decision["at"],
            "kind": row["kind"],
            "what": row["title"] if prompt is None else f"{row['title']}: {prompt}",
            "status": row["status"],
            "id": row["id"],
        }
    return row


def _print_rows(answer: JsonObject) -> None:
    """Print the answer of a graph query: its rows, and which version of the graph they are of."""
    found = answer["rows"]
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    if rows:
        _print_table(rows)
    of = answer.get("target")
    target = " ".join(f"{kind} {name}" for kind, name in of.items() if name) if isinstance(of, dict) else ""
    more = ", and more follow: --offset" if answer.get("more") else ""
    text = clean(f"{count_words(len(rows), 'row')}{more} · {target} at {answer['graph_commit_id']}")
    console_for(sys.stdout).print(Text(text, style="dim"))


def _yaml(value: JsonValue) -> str:
    # YAML escapes control characters, so none reaches the terminal.
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=_LINE_CHARACTERS_MAX)
    return text.removesuffix("...\n")


def _print_table(rows: Sequence[Mapping[str, JsonValue]]) -> None:
    print_columns({name: [_cell(row.get(name)) for row in rows] for name in _column_names(rows)})


def print_columns(columns: Mapping[str, Sequence[Text]]) -> None:
    """Print a table of the columns that fit, and name those that do not."""
    console = console_for(sys.stdout)
    width = console.width if console.is_terminal else _WIDTH_ELSEWHERE
    shown = _fitting(columns, width)
    cells = list(zip(*(columns[name] for name in shown), strict=True))
    drawn = [Column(name, least=_least_width(name, columns[name])) for name in shown]
    for line in table_lines(drawn, cells, width):
        console.print(line.rstrip())
    if hidden := [name for name in columns if name not in shown]:
        note = f"too wide for this terminal: {', '.join(hidden).lower()}; --json shows everything"
        console.print_wrapped(Text(note, style="dim"), indent=0)


def _column_names(rows: Sequence[Mapping[str, JsonValue]]) -> list[str]:
    """The members that some row has a value for, in the order of the rows."""
    names = dict.fromkeys(name for row in rows for name in row)
    left_out = _LEFT_OUT | _LINKS if "previous_hash" in names else _LEFT_OUT
    return [name for name in names if name not in left_out and any(row.get(name) not in (None, [], {}) for row in rows)]


def _fitting(columns: Mapping[str, Sequence[Text]], width: int) -> list[str]:
    """The columns that fit, from the left, and the first in any case: half an id helps nobody, half a sentence does."""
    shown: list[str] = []
    for name, cells in columns.items():
        width -= _least_width(name, cells)
        if width < 0 and shown:
            break
        shown.append(name)
        width -= GAP_CELLS
    return shown


def _least_width(name: str, cells: Sequence[Text]) -> int:
    whole = max(cell_count(name), *(cell.cells for cell in cells))
    return min(whole, _SENTENCE_CELLS_MIN) if name in _SENTENCES else whole


def _cell(value: JsonValue) -> Text:
    if value is None:
        return Text("")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, dict) and "principal" in value and "status" in value:
        return _author_cell(value)
    text = clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if _HASH.fullmatch(text):
        text = text[:_HASH_SHOWN]
    return Text(_cut(text, _CELL_CHARACTERS_MAX), style=_STATUS_STYLES.get(text, ""))


def _author_cell(author: JsonObject) -> Text:
    """Who wrote something, and whether it takes effect."""
    by, status = f"{author['principal']}", author["status"]
    draft = f", draft {author['draft_id']}" if author.get("draft_id") else ""
    if status == "proposed":
        return Text(clean(f"proposed by {by}{draft}"), style="yellow")
    return Text(clean(f"accepted, by {by}{draft}" if status == "accepted" else by))


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
