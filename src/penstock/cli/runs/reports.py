"""Runs for people: the table of a list, and everything about one run. `--json` has all of it, too.

Above it: `inspection`. Below it: the answers of operations.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.run.rendering import duration_text
from penstock.cli.terminal.answers import print_columns
from penstock.cli.terminal.console import Console, console_for
from penstock.cli.terminal.exits import command_text
from penstock.cli.terminal.styled_text import Text
from penstock.definitions.durations import parse_instant_ms
from penstock.runtime.simulation.tracing import shorten

__all__ = ["RunContext", "decision_text", "print_row_table", "print_run", "status_style"]

_HEADINGS = ("RUN", "WORKFLOW", "STATUS", "STARTED", "RECORDS", "LABELS")
_LABELS_CHARACTERS_MAX = 40
_LABEL_CELLS = 12
_VALUE_CHARACTERS_MAX = 400
# The timers that a node waits for; the others are time limits.
_TIMERS: Final = {"wait": "time to pass", "retry": "the next try"}


def status_style(status: str) -> str:
    """The colour of a status."""
    if status == "completed":
        return "green"
    if status in ("failed", "cancelled"):
        return "red"
    return "yellow" if status.startswith("waiting") or status == "paused" else "cyan"


def print_row_table(rows: Sequence[JsonObject], now: int) -> None:
    """A line per run."""
    console = console_for(sys.stdout)
    if not rows:
        console.print("no runs")
        return
    columns = zip(_HEADINGS, zip(*(_cells(row, now) for row in rows), strict=True), strict=True)
    print_columns({heading: cells for heading, cells in columns if any(cell.cells for cell in cells)})


def _cells(row: JsonObject, now: int) -> tuple[Text, ...]:
    labels = row["labels"] if isinstance(row["labels"], dict) else {}
    created = parse_instant_ms(str(row["created_at"]))
    status = str(row["status"])
    return (
        Text(clean(str(row["execution_id"]))),
        Text(clean(f"{row['workflow_id']} {row['workflow_version']}")),
        Text(clean(status), status_style(status)),
        Text("" if created is None else f"{duration_text(now - created)} ago"),
        Text(str(row["sequence"])),
        Text(clean(", ".join(f"{name}={value}" for name, value in labels.items())[:_LABELS_CHARACTERS_MAX])),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What is shown together with a run."""

    now: int
    where: Sequence[str]
    """The options that name where the run is."""
    children: Sequence[JsonObject] = ()
    """The rows of its child runs."""
    latest: str | None = None
    """The newest run that continues it."""
    decisions: Sequence[JsonObject] = ()
    """What people decided, as execution.timeline has it."""


def print_run(view: Mapping[str, Any], context: RunContext) -> None:
    """Everything about one run, from the answer of `execution.status`."""
    console, now = console_for(sys.stdout), context.now
    status, run_id = str(view["status"]), str(view["execution_id"])
    name = clean(f"{view['workflow_id']} {view['workflow_version']}")
    console.print(Text.assemble(("● ", status_style(status)), (name, "bold"), f"  run {clean(run_id)}"))
    continued = clean(_continued(view["continued_as"], context.latest))
    _field(console, "status", Text.assemble((clean(status), status_style(status)), continued))
    _field(console, "started", _moment(view["created_at"], now))
    _field(console, "last change", _moment(view["updated_at"], now) + f", {view['sequence']} records")
    if view["should_continue"]:
        _field(console, "", Text("its history is long: it should continue as a new run", style="yellow"))
    if view["labels"]:
        _field(console, "labels", ", ".join(f"{key}={value}" for key, value in view["labels"].items()))
    if view["parent_id"]:
        _field(console, "child of", str(view["parent_id"]))
    _field(console, "input", shorten(view["input"], _VALUE_CHARACTERS_MAX))
    if view["state"]:
        _field(console, "state", shorten(view["state"], _VALUE_CHARACTERS_MAX))
    _print_outcome(console, view, context)
    if view.get("usage"):
        _field(console, "models", _usage_text(view["usage"]))
    for lines in _waits(view, context):
        for number, line in enumerate(lines):
            _field(console, "" if number else "waiting", line)
    for activity in view["waiting_for"]["activities"]:
        _print_activity(console, activity)
    for child in context.children:
        ended = str(child["status"])
        named = f"{clean(str(child['execution_id']))}  {clean(str(child['workflow_id']))}  "
        _field(console, "child run", Text.assemble(named, (clean(ended), status_style(ended))))


def decision_text(decision: Mapping[str, Any]) -> str:
    """What somebody decided, when, and about what."""
    asked = f' "{decision["prompt"]}"' if decision["prompt"] else f" {decision['node_id']}"
    if decision["by"] is None:
        return f"nobody answered{asked} in time, {decision['at']}"
    verb = decision["decision"] or "answered"
    vote = "" if decision["final"] else ", one of several who have to agree"
    note = f": {decision['note']}" if decision["note"] else ""
    return f"{decision['name'] or decision['by']} {verb}{asked}{vote}, {decision['at']}{note}"


def _continued(successor: JsonValue, latest: str | None) -> str:
    """Which run continues one that has ended, and which one is the newest."""
    if not successor:
        return ""
    return f", continued as {successor}" + (f", by now {latest}" if latest not in (None, successor) else "")


def _print_outcome(console: Console, view: Mapping[str, Any], context: RunContext) -> None:
    """Print what was decided, and how the run ended, if it has."""
    for item in context.decisions:
        _field(console, "decided", decision_text(item))
    error = view["error"]
    if error is not None:
        where = f" (at {error['node_id']})" if error.get("node_id") else ""
        _field(console, "error", Text(clean(f"{error['code']}: {error['message']}{where}"), style="red"))
    elif view["status"] == "completed" and not view["continued_as"]:
        _field(console, "result", shorten(view["output"], _VALUE_CHARACTERS_MAX))


def _usage_text(usage: Mapping[str, Any]) -> str:
    """What models used: requests, tokens, and what they cost, if that is known."""
    requests, cost = usage["requests"], usage.get("cost")
    counted = f"{requests} request{'' if requests == 1 else 's'}"
    tokens = f"{usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out"
    price = f"{cost['amount']} {cost['currency']}" if cost else "cost unknown"
    own = usage.get("own")
    below = "" if own is None else f"; {own['requests']} of these by itself, the others by runs below it"
    return f"{counted}, {tokens}, {price}{below}"


def _waits(view: Mapping[str, Any], context: RunContext) -> Iterator[Sequence[str | Text]]:
    """What a run waits for besides its own work, each with the command that helps."""
    if view["ended_at"] is not None:
        return
    waits, began = view["waiting_for"], {node["node_id"]: node["started_at"] for node in view["nodes"]}

    def wait_text(node_id: str, what: str, until: JsonValue = None) -> Text:
        since = f" since {_moment(began[node_id], context.now)}" if began.get(node_id) else ""
        end = f", until {_moment(until, context.now)}" if until else ""
        return Text(clean(f"{node_id} waits for {what}{since}{end}"), style="yellow")

    def command(*words: str) -> str:
        return command_text("runs", words[0], str(view["execution_id"]), *words[1:], *context.where)

    for item in waits["questions"]:
        node = item["node_id"]
        whom = "an approval of" if item.get("approvers") else "a person to answer"
        lines = [wait_text(node, f'{whom} "{item["prompt"]}"', item["expires_at"])]
        lines.append(Text(f"answer: {command('answer', '--node', node)}"))
        lines.append(Text(clean(f"schema: {json.dumps(item['answer_schema'], ensure_ascii=False)}")))
        yield [*lines, *_approval_lines(item, context)]
    for node in (item["node_id"] for item in waits["activities"] if item["outcome_unknown"]):
        yield [
            wait_text(node, "a decision: its outcome is unknown"),
            f"retry it: {command('retry', '--node', node)}",
            f"or report its outcome: {command('submit', node, 'JSON')}",
        ]
    for item in waits["signals"]:
        what = f"the signal {item['name']}"
        yield [wait_text(item["node_id"], what, item["expires_at"]), f"send: {command('signal', item['name'])}"]
    timers = (item for item in waits["timers"] if item["kind"] in _TIMERS and item["node_id"])
    yield from ([wait_text(item["node_id"], _TIMERS[item["kind"]], item["due_at"])] for item in timers)
    for item in waits["children"]:
        yield [wait_text(item["node_id"], f"its child run {item['execution_id']}")]


def _approval_lines(question: Mapping[str, Any], context: RunContext) -> Iterator[str]:
    """Who may decide, and when others are asked, or were."""
    if question.get("approvers"):
        yield f"approvers: {shorten(question['approvers'])}"
    if question.get("escalated_at"):
        yield f"escalated: {_moment(question['escalated_at'], context.now)}, because nobody had decided"
    elif question.get("escalates_at"):
        yield f"escalates: {_moment(question['escalates_at'], context.now)}, unless somebody decides before"


def _print_activity(console: Console, activity: Mapping[str, Any]) -> None:
    doubt = ", outcome unknown" if activity["outcome_unknown"] else ""
    wait_text = f"{activity['node_id']} ({activity['type']}), attempt {activity['attempt']}{doubt}"
    _field(console, "activity", wait_text)
    _field(console, "", f"arguments: {shorten(activity['arguments'], _VALUE_CHARACTERS_MAX)}")
    _field(console, "", f"idempotency key: {activity['idempotency_key']}")
    if activity["deadline"]:
        _field(console, "", f"deadline: {activity['deadline']}")
    if activity["leased_to"]:
        _field(console, "", f"leased by {activity['leased_to']} until {activity['leased_until']}")


def _field(console: Console, name: str, value: str | Text) -> None:
    shown = value if isinstance(value, Text) else Text(clean(value))
    console.print(Text.assemble("  ", (name.ljust(_LABEL_CELLS), "dim"), shown))


def _moment(value: JsonValue, now: int) -> str:
    """An instant with how far away it is."""
    at = parse_instant_ms(value) if isinstance(value, str) else None
    if at is None:
        return str(value)
    return f"{value} ({duration_text(now - at)} ago)" if at <= now else f"{value} (in {duration_text(at - now)})"
