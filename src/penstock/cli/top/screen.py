"""What `penstock runs top` looks like.

Texts come from runs and are not trusted: control characters never reach the terminal.

Above it: `command`. Below it: `terminal.tables`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from penstock.base.json import JsonObject
from penstock.base.text import clean
from penstock.cli.run.rendering import duration_text
from penstock.cli.runs.reports import status_style
from penstock.cli.terminal.cells import cell_count
from penstock.cli.terminal.exits import command_text
from penstock.cli.terminal.styled_text import Text
from penstock.cli.terminal.tables import GAP_CELLS, Column, table_lines
from penstock.cli.top.snapshot import NEEDS_PEOPLE, Snapshot
from penstock.definitions.durations import parse_instant_ms

__all__ = ["KEYS", "PLACES", "View", "rates", "rendered", "rows_of"]

PLACES: Final = {"h": "home", "r": "runs", "a": "approvals"}
"""Where `g` and a letter lead, as in the console."""
KEYS: Final = (
    ("?", "show the keys"),
    ("/", "search: words, then Return; Escape forgets them"),
    ("j k", "next and previous row, also with the arrows"),
    ("g h", "home: what needs somebody, what runs, what failed"),
    ("g r", "runs that have not ended"),
    ("g a", "approvals: calls that wait, and questions"),
    ("q", "leave"),
)
_FRAME_LINES: Final = 11
_FEW: Final = 6
# In a narrow window, ids and names give way: what is selected, and how it stands, are still seen.
_COLUMNS: Final = (
    Column("", least=1),
    Column("id", least=8, grows=True),
    Column("what", least=8, grows=True),
    Column("status", least=17),
    Column("since", least=6),
)
# Arguments of a call that waits which name what it is about, the likeliest first.
_SUBJECTS: Final = ("workflow_id", "agent_id", "graph_id", "tool_id", "name", "id")


@dataclass(slots=True)
class View:
    """What the user has chosen to see."""

    place: str = "home"
    selected: int = 0
    search: str = ""
    typing: bool = False
    help: bool = False
    where: tuple[str, ...] = ()
    """The options that name the target again."""
    problem: str | None = None
    lines: int = 24
    columns: int = 80
    waits_for_letter: bool = field(default=False)


def rates(before: Snapshot | None, now: Snapshot) -> dict[str, float] | None:
    """Return what was counted each second since the snapshot before; None if that is not known."""
    if before is None or before.counters is None or now.counters is None or now.at_ms <= before.at_ms:
        return None
    seconds = (now.at_ms - before.at_ms) / 1000
    # A counter that became smaller belongs to a server that was started again.
    return {name: max(value - before.counters.get(name, 0.0), 0.0) / seconds for name, value in now.counters.items()}


def rows_of(view: View, shown: Snapshot) -> list[tuple[str, JsonObject]]:
    """Return the rows of the place that is shown: the kind of each, and what it is about."""
    # What the caller may decide comes first.
    waiting = sorted(shown.waiting.items, key=lambda item: not item["decidable"])
    approvals = [(str(item["kind"]), item) for item in waiting]
    asked = {item["id"] for item in waiting}
    unlisted = [run for run in shown.runs.items if run["status"] in NEEDS_PEOPLE and run["execution_id"] not in asked]
    match view.place:
        case "runs":
            return [("run", item) for item in _own_runs(shown)]
        case "approvals":
            return [*approvals, *(("run", item) for item in unlisted)]
        case _:
            others = [("run", item) for item in shown.runs.items if item["status"] not in NEEDS_PEOPLE]
            failed = [("run", item) for item in shown.failed.items]
            runs = [("run", item) for item in unlisted]
            return [*approvals[:_FEW], *runs[:_FEW], *others[:_FEW], *failed[:_FEW]]


def _own_runs(shown: Snapshot) -> list[JsonObject]:
    """Return runs but those that only hold a call: it is shown itself."""
    held = {item["id"] for item in shown.waiting.items if item["kind"] == "call"}
    return [run for run in shown.runs.items if run["execution_id"] not in held]


def rendered(view: View, shown: Snapshot, per_second: dict[str, float] | None) -> list[Text]:
    """Return the lines of the screen."""
    if view.help:
        return _help(view.columns)
    rows = rows_of(view, shown)
    view.selected = min(max(view.selected, 0), max(len(rows) - 1, 0))
    room = max(view.lines - _FRAME_LINES, 3)
    first = max(0, view.selected - room + 1)
    return [
        _head(view),
        *_rates(view, shown, per_second),
        *_queues(view, shown).wrap(view.columns),
        Text(),
        *_table(view, shown, rows[first : first + room], first),
        Text(),
        *_advice(view, rows).wrap(view.columns),
        *_foot(view).wrap(view.columns),
    ]


def _head(view: View) -> Text:
    text = Text.assemble(("penstock runs top", "bold"), f"  {view.place}")
    if view.search:
        text.append(f"  /{clean(view.search)}", "cyan")
    if view.problem is not None:
        text.append("  lost, trying again", "bold red")
    return text


def _rates(view: View, shown: Snapshot, per_second: dict[str, float] | None) -> list[Text]:
    """Return what is counted each second, as much as fits into a line."""
    if view.problem is not None:
        said = f"{clean(view.problem)}; what is below is from before"
        return Text(said, style="red").wrap(view.columns)
    if per_second is None:
        known = "rates follow" if shown.counters is not None else "rates: only a server counts, with system:read"
        return Text(known, style="dim").wrap(view.columns)
    told = ""
    for name, value in per_second.items():
        item = f"{name.replace('_', ' ')} {value:.1f}/s"
        if told and cell_count(told) + cell_count(item) + GAP_CELLS > view.columns:
            break
        told += f"  {item}" if told else item
    return [Text(told)]


def _queues(view: View, shown: Snapshot) -> Text:
    if shown.runs.refused is not None:
        return Text(f"runs are not for you: {clean(shown.runs.refused)}", style="yellow")
    text = Text("" if shown.queues else "no live run fits" if view.search else "nothing runs")
    held = Counter(str(run["status"]) for run in shown.runs.items) - Counter(
        str(run["status"]) for run in _own_runs(shown)
    )
    for status, count in (Counter(shown.queues) - held).most_common():
        text.append(f"{count}{'+' if shown.runs.more else ''} ", "bold")
        text.append(f"{status.replace('_', ' ')}  ", status_style(status))
    waiting = shown.waiting
    if waiting.refused is None and waiting.items:
        own = sum(bool(item["decidable"]) for item in waiting.items)
        text.append(f"{own}{'+' if waiting.more else ''} ", "bold")
        text.append("for you to decide", "yellow")
    return text


def _table(view: View, shown: Snapshot, rows: list[tuple[str, JsonObject]], first: int) -> list[Text]:
    if not rows:
        return Text(_nothing(view, shown), style="dim").wrap(view.columns)
    lines = []
    for number, (kind, item) in enumerate(rows, first):
        status = clean(str(item["status"] if kind == "run" else _stands(item)))
        name = item["execution_id"] if kind == "run" else item["id"]
        what = item["workflow_id"] if kind == "run" else _asks(item)
        lines.append(
            (
                Text(">" if number == view.selected else " "),
                Text(clean(str(name))),
                Text(clean(str(what))),
                Text(status.replace("_", " "), style=status_style(status)),
                Text(_since(item.get("created_at"), shown.at_ms)),
            )
        )
    heading, *drawn = table_lines(_COLUMNS, lines, view.columns, heading_style="dim")
    chosen = view.selected - first
    drawn[chosen] = Text(style="reverse").append(drawn[chosen])
    return [heading, *drawn]


def _stands(waiting: JsonObject) -> str:
    return "waiting_for_you" if waiting["decidable"] else "waiting_for_others"


def _asks(waiting: JsonObject) -> str:
    """Return what is to be decided: what a call would do, or what a workflow asks."""
    draft = waiting.get("draft")
    if isinstance(draft, dict):
        return _action(draft)
    question = waiting.get("question")
    prompt = question.get("prompt") if isinstance(question, dict) else None
    return str(waiting["title"]) if prompt is None else f"{waiting['title']}: {prompt}"


def _action(draft: JsonObject) -> str:
    """Return what a call that waits would do, and about what."""
    arguments = draft.get("arguments")
    named = (arguments.get(name) for name in _SUBJECTS) if isinstance(arguments, dict) else ()
    about = next((value for value in named if isinstance(value, str)), None)
    return str(draft["operation"]) if about is None else f"{about}: {draft['operation']}"


def _nothing(view: View, shown: Snapshot) -> str:
    closed = [part.refused for part in (shown.runs, shown.waiting) if part.refused]
    if closed:
        return f"not for you: {clean(closed[0])}"
    return f"nothing fits {clean(view.search)!r}" if view.search else "nothing"


def _since(created: object, now_ms: int) -> str:
    began = parse_instant_ms(str(created))
    return "" if began is None else duration_text(max(now_ms - began, 0))


def _advice(view: View, rows: list[tuple[str, JsonObject]]) -> Text:
    """Return the command for the row that is selected."""
    if not rows:
        return Text("")
    kind, item = rows[view.selected]
    if kind == "call":
        command = command_text("approval", "get", str(item["id"]), *view.where)
    elif kind == "question":
        verb = "answer" if item["decidable"] else "show"
        command = command_text("runs", verb, str(item["id"]), *view.where)
    else:
        verb = "answer" if item["status"] in NEEDS_PEOPLE else "show"
        command = command_text("runs", verb, str(item["execution_id"]), *view.where)
    return Text.assemble(("next: ", "cyan"), clean(command))


def _foot(view: View) -> Text:
    if view.typing:
        return Text.assemble(("/", "bold"), clean(view.search), ("_", "blink"))
    return Text("? keys  / search  g h home  g r runs  g a approvals  q leave", style="dim")


def _help(columns: int) -> list[Text]:
    keys = [(Text(key, style="bold"), Text(words)) for key, words in KEYS]
    table = table_lines((Column(), Column()), keys, columns, heading_style=None)
    return [Text("Keys", style="bold"), Text(), *table, Text(), Text("any key goes back", style="dim")]
