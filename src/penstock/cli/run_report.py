"""Runs for people who look at them: the table of a list, and everything about one run.

Above it: `runs_look`. Below it: the JSON objects of `run_json`; what is printed here can be had as JSON too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.report import console_for
from penstock.cli.run_lines import length_text
from penstock.cli.sessions import command_text
from penstock.definitions.drawing_text import clean
from penstock.definitions.durations import parse_instant_ms
from penstock.runtime.ports import RunRow
from penstock.runtime.tracing import shorten

__all__ = ["print_row_table", "print_run", "status_style"]

_HEADINGS = ("RUN", "WORKFLOW", "STATUS", "STARTED", "RECORDS", "LABELS")
_STATUS_COLUMN = 2
_LABELS_CHARACTERS_MAX = 40
_LABEL_CELLS = 12
_VALUE_CHARACTERS_MAX = 400


def status_style(status: str) -> str:
    """The colour of a status."""
    if status == "completed":
        return "green"
    if status in ("failed", "cancelled"):
        return "red"
    return "yellow" if status.startswith("waiting") or status == "paused" else "cyan"


def print_row_table(rows: Sequence[RunRow], now: int) -> None:
    """A line per run."""
    console = console_for(sys.stdout)
    if not rows:
        console.print("no runs")
        return
    cells = [_HEADINGS, *(_cells(row, now) for row in rows)]
    widths = [max(cell_len(line[column]) for line in cells) for column in range(len(_HEADINGS))]
    for number, line in enumerate(cells):
        status = "dim" if not number else status_style(line[_STATUS_COLUMN])
        text = Text(no_wrap=True, overflow="ellipsis", style="" if number else "dim")
        for column, cell in enumerate(line):
            style = status if column == _STATUS_COLUMN else ""
            text.append(set_cell_size(cell, widths[column]), style).append("  ")
        text.rstrip()
        # On a terminal a long line is cut at the edge; what reads a pipe gets all of it.
        if console.is_terminal:
            console.print(text, soft_wrap=False, no_wrap=True, overflow="ellipsis")
        else:
            console.print(text)


def _cells(row: RunRow, now: int) -> tuple[str, ...]:
    labels = ", ".join(f"{name}={value}" for name, value in row.labels.items())
    return (
        clean(row.run_id),
        clean(f"{row.workflow_name} {row.workflow_version}"),
        row.status,
        f"{length_text(now - row.created_at)} ago",
        str(row.seq),
        clean(labels[:_LABELS_CHARACTERS_MAX]),
    )


def print_run(told: JsonObject, now: int, database: Path) -> None:
    """Everything about one run."""
    console = console_for(sys.stdout)
    status = str(told["status"])
    name = clean(f"{told['workflow']} {told['version']}")
    console.print(Text.assemble(("● ", status_style(status)), (name, "bold"), f"  run {clean(str(told['run_id']))}"))
    _field(console, "status", Text.assemble((status, status_style(status)), clean(_continued(told))))
    _field(console, "started", _moment(told["started_at"], now))
    _field(console, "last change", _moment(told["updated_at"], now) + f", {told['records']} records")
    if told["should_continue"]:
        _field(console, "", Text("its history is long: it should continue as a new run", style="yellow"))
    labels = told["labels"]
    if isinstance(labels, dict) and labels:
        _field(console, "labels", ", ".join(f"{key}={value}" for key, value in labels.items()))
    if told["parent"]:
        _field(console, "child of", str(told["parent"]))
    _field(console, "input", shorten(told["input"], _VALUE_CHARACTERS_MAX))
    if told["state"]:
        _field(console, "state", shorten(told["state"], _VALUE_CHARACTERS_MAX))
    _print_outcome(console, told)
    for wait in _objects(told["waiting_for"]):
        _print_wait(console, wait, now, str(told["run_id"]), database)
    for activity in _objects(told["activities"]):
        _print_activity(console, activity)
    for child in _objects(told["children"]):
        status = str(child["status"])
        named = f"{clean(str(child['run_id']))}  {clean(str(child['workflow']))}  "
        line = Text.assemble(named, (status, status_style(status)))
        _field(console, "child run", line)


def _continued(told: JsonObject) -> str:
    """Which run goes on in place of one that has ended, and which one is the last by now."""
    successor, last = told["continued_as"], told["last_of_chain"]
    if not successor:
        return ""
    return f", continued as {successor}" + (f", by now {last}" if last not in (None, successor) else "")


def _print_outcome(console: Console, told: JsonObject) -> None:
    error = told["error"]
    if isinstance(error, dict):
        where = f" (at {error['node']})" if error.get("node") else ""
        _field(console, "error", Text(clean(f"{error['code']}: {error['message']}{where}"), style="red"))
    elif told["status"] == "completed" and not told["continued_as"]:
        _field(console, "result", shorten(told["result"], _VALUE_CHARACTERS_MAX))


def _print_wait(console: Console, wait: JsonObject, now: int, run_id: str, database: Path) -> None:
    words = {
        "person": f'a person to answer "{wait.get("prompt")}"',
        "decision": "a decision: its outcome is unknown",
        "signal": f"the signal {wait.get('signal')}",
        "timer": "time to pass",
        "retry": f"the next try ({wait.get('error')})",
        "child": f"its child run {wait.get('run_id')}",
    }
    until = f", until {_moment(wait['until'], now)}" if wait.get("until") else ""
    told = f"{wait['node']} waits for {words[str(wait['for'])]} since {_moment(wait['since'], now)}{until}"
    _field(console, "waiting", Text(clean(told), style="yellow"))
    names = ("--db", str(database))
    node = ("--node", str(wait["node"]))
    match wait["for"]:
        case "person":
            _field(console, "", f"answer: {command_text('runs', 'answer', run_id, *node, *names)}")
            _field(console, "", f"schema: {json.dumps(wait.get('schema'), ensure_ascii=False)}")
            if wait.get("approvers"):
                _field(console, "", f"approvers: {shorten(wait['approvers'])}")
        case "decision":
            _field(console, "", f"retry it: {command_text('runs', 'retry', run_id, *node, *names)}")
            submit = command_text("runs", "submit", run_id, str(wait["node"]), "JSON", *names)
            _field(console, "", f"or report its outcome: {submit}")
        case "signal":
            _field(console, "", f"send: {command_text('runs', 'signal', run_id, str(wait.get('signal')), *names)}")
        case _:
            pass


def _print_activity(console: Console, activity: JsonObject) -> None:
    doubt = ", outcome unknown" if activity["outcome_unknown"] else ""
    told = f"{activity['node']} ({activity['type']}), attempt {activity['attempt']}{doubt}"
    _field(console, "activity", told)
    _field(console, "", f"arguments: {shorten(activity['arguments'], _VALUE_CHARACTERS_MAX)}")
    _field(console, "", f"idempotency key: {activity['idempotency_key']}")
    if activity["deadline"]:
        _field(console, "", f"deadline: {activity['deadline']}")
    if isinstance(lease := activity["lease"], dict):
        _field(console, "", f"leased by {lease['holder']} until {lease['until']}")


def _field(console: Console, name: str, value: str | Text) -> None:
    shown = value if isinstance(value, Text) else Text(clean(value))
    console.print(Text.assemble("  ", (name.ljust(_LABEL_CELLS), "dim"), shown))


def _objects(value: JsonValue) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _moment(value: JsonValue, now: int) -> str:
    """An instant with how far away it is."""
    at = parse_instant_ms(value) if isinstance(value, str) else None
    if at is None:
        return str(value)
    return f"{value} ({length_text(now - at)} ago)" if at <= now else f"{value} (in {length_text(at - now)})"
