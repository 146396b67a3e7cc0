"""Histories in human-readable form: one line per event, with its node and its outcome.

Above it: the simulator, the command line. Below it: records, and the visits that they lead to. Lines are values; the
surface decides how to print them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import format_duration
from penstock.definitions.model import ActivityDetail, Workflow
from penstock.engine.approvers import Approvers, approvers_of
from penstock.engine.records import Body, Record, commands, events, given
from penstock.engine.state import COMPENSATION_PREFIX
from penstock.engine.visits import RunVisits, apply

__all__ = ["TraceLine", "shorten", "trace_lines"]

_TEXT_CHARACTERS_MAX = 160


class TraceLine(msgspec.Struct, frozen=True):
    """One line: `mark` is done, wait, retry, fail, go or info."""

    at: int
    run_id: str
    depth: int
    mark: str
    node_id: str
    text: str

    def to_json(self) -> JsonObject:
        """Return the line as JSON."""
        return {
            "at": self.at,
            "run": self.run_id,
            "depth": self.depth,
            "mark": self.mark,
            "node": self.node_id,
            "text": self.text,
        }


def shorten(value: JsonValue, characters_max: int = _TEXT_CHARACTERS_MAX) -> str:
    """Return a value as one short line of JSON."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"


def trace_lines(
    log: Iterable[tuple[str, Record]], workflows: Mapping[str, Workflow], runs: dict[str, RunVisits] | None = None
) -> Iterator[TraceLine]:
    """Yield the lines for a log of records from one or more runs, in order; those inside an item begin with its number.

    To read a log in parts, pass the same `runs` each time: it holds the visits of the runs that have not ended.
    """
    runs = {} if runs is None else runs
    for run_id, record in log:
        body, visits = record.body, runs.setdefault(run_id, RunVisits())
        apply(visits, record, body)
        if visits.end is not None:
            del runs[run_id]
        line_of = _LINES.get(type(body))
        shown = line_of(body, workflows[run_id]) if line_of is not None else None
        if shown is None:
            continue
        mark, text = shown
        node_id = str(getattr(body, "node_id", None) or "")
        visit = visits.visit(node_id, getattr(body, "visit", None))
        index = None if visit is None else visits.item_index(visit)
        numbered = text if index is None else f"#{index + 1} {text}"
        yield TraceLine(record.at, run_id, run_id.count(":sub:"), mark, node_id, numbered)


_Shown = tuple[str, str] | None


def _started(body: events.ExecutionStarted, workflow: Workflow) -> _Shown:
    return "go", f"{workflow.name} {workflow.version} started with {shorten(given(body.input))}"


def _requested(body: events.ActivityRequested, workflow: Workflow) -> _Shown:
    node_id = body.node_id
    detail = workflow.nodes[node_id.removeprefix(COMPENSATION_PREFIX)].detail
    if isinstance(detail, ActivityDetail) and detail.compensate and node_id.startswith(COMPENSATION_PREFIX):
        config = detail.compensate.config
    else:
        config = getattr(detail, "config", {})
    arguments = given(body.arguments)
    filled = arguments if isinstance(arguments, dict) and body.node_type == "http" else {}
    # The URL is rendered for the request; the document has only its template.
    config = {**config, **{name: filled[name] for name in ("url",) if isinstance(filled.get(name), str)}}
    named = [str(config[name]) for name in ("server", "tool", "handler", "url", "model", "agent_id") if name in config]
    attempt = body.attempt or 1
    text = f"{body.node_type} {'.'.join(named)}".strip()
    rest = {name: value for name, value in filled.items() if name not in ("url", "method")} if filled else arguments
    if body.arguments is not UNSET and (rest or not filled):
        text += f" {shorten(rest)}"
    return "go", text if attempt == 1 else f"{text} (attempt {attempt})"


def _completed(body: commands.CompleteNode, workflow: Workflow) -> _Shown:
    node_id = body.node_id
    node = workflow.nodes.get(node_id.removeprefix(COMPENSATION_PREFIX))
    if node is None or node.type == "start":
        return None
    if node.type == "switch":
        return "done", f"switch → {body.next or 'end of body'}"
    if node_id.startswith(COMPENSATION_PREFIX):
        return "done", "undone"
    suffix = " (fallback)" if body.fallback is not None else " (timed out)" if body.timed_out else ""
    return "done", f"{node.type} gave {shorten(body.output)}{suffix}"


def _error(code: str | None, message: JsonValue) -> str:
    """Format an error by its code and message; a message that only repeats the code is omitted."""
    code, text = code or "FAILED", str(message or "")
    return code if text in ("", code) else f"{code} {text}"


def _attempt_failed(body: events.ActivityFailed, workflow: Workflow) -> _Shown:
    if not body.will_retry:
        return None
    return "retry", f"attempt {body.attempt} failed: {_error(body.code, body.error)}; trying again"


def _failed(body: commands.FailNode, workflow: Workflow) -> _Shown:
    where = "" if body.next is UNSET else f" → {body.next or 'end of body'}"
    return "fail", f"failed: {_error(body.code, body.message)}{where}"


def _interrupted(body: events.InterruptRaised, workflow: Workflow) -> _Shown:
    whom = "a person" if body.approvers is None else "an approval"
    return "wait", f"waiting for {whom}: {body.prompt or body.prompt_ref}"


def _escalated(body: events.InterruptEscalated, workflow: Workflow) -> _Shown:
    asked = approvers_of(body.approvers) or Approvers()
    return "wait", f"not decided in time; asking {' or '.join((*asked.groups, *asked.users))}"


def _note(note: str | None) -> str:
    """Format a note. A note proves nothing, so it is kept apart from the name of who acted."""
    return f" (note: {note})" if note else ""


def _answered(body: commands.ResumeInterrupt, workflow: Workflow) -> _Shown:
    by = "" if body.answered_by is None else f" by {body.answered_by}"
    return "go", f"answered{by}{_note(body.note)}: {shorten(given(body.answer))}"


def _timer(body: commands.StartTimer, workflow: Workflow) -> _Shown:
    if body.wait_ms is not None:
        return "wait", f"waiting for {format_duration(body.wait_ms)}"
    return "wait", f"waiting until {body.until}"


def _delivered(body: commands.DeliverSignal, workflow: Workflow) -> _Shown:
    if body.sent_by is None:
        return None
    return "info", f"signal {body.signal_name} sent by {body.sent_by}{_note(body.note)}"


def _buffered(body: events.SignalBuffered, workflow: Workflow) -> _Shown:
    by = "" if body.sent_by is None else f" by {body.sent_by}"
    return "info", f"signal {body.signal_name} sent{by}{_note(body.note)}, kept until somebody waits for it"


def _listed(names: JsonValue) -> str:
    return ", ".join(str(name) for name in names) if isinstance(names, list) else ""


def _for_each(body: events.ForEachStarted, workflow: Workflow) -> _Shown:
    count = len(body.items) if isinstance(body.items, list) else 0
    return "go", f"{count} items, {body.concurrency} at a time"


def _scope_name(body: events.ScopeOpened | events.ScopeFailed) -> str:
    """Return the name of a branch, or the number of an item, counted from 1."""
    return body.branch_name or f"#{body.index + 1 if body.index is not None else None}"


def _child(body: events.SubworkflowStarted, workflow: Workflow) -> _Shown:
    return "go", f"child run of {body.workflow_ref} with {shorten(body.input)}"


def _emitted(body: commands.EmitSignal, workflow: Workflow) -> _Shown:
    return "go", f"signal {body.signal_name} to run {body.target_execution_id}"


_Line = Callable[[Any, Workflow], _Shown]
B = TypeVar("B", bound=Body)


def _on(kind: type[B], line_of: Callable[[B, Workflow], _Shown]) -> tuple[type[Body], _Line]:
    return kind, line_of


def _plain(kind: type[B], mark: str, text_of: Callable[[B], str]) -> tuple[type[Body], _Line]:
    """Return a table row for a line that needs only its record."""
    return kind, lambda body, workflow: (mark, text_of(body))


_LINES: dict[type[object], _Line] = dict(
    (
        _on(events.ExecutionStarted, _started),
        _on(events.ActivityRequested, _requested),
        _plain(events.ActivityLeased, "info", lambda body: f"leased by {body.holder}"),
        _on(events.ActivityFailed, _attempt_failed),
        _on(commands.CompleteNode, _completed),
        _on(commands.FailNode, _failed),
        _on(events.InterruptRaised, _interrupted),
        _on(events.InterruptEscalated, _escalated),
        _plain(events.ActivityAsked, "wait", lambda body: f"waiting for a person: {body.prompt}"),
        _on(commands.ResumeInterrupt, _answered),
        _on(commands.StartTimer, _timer),
        _plain(events.SignalWaitStarted, "wait", lambda body: f"waiting for the signal {body.signal_name}"),
        _on(commands.DeliverSignal, _delivered),
        _plain(events.SignalReceived, "go", lambda body: f"signal {body.signal_name} {shorten(body.payload)}"),
        _on(events.SignalBuffered, _buffered),
        _plain(events.ParallelForked, "go", lambda body: f"branches {_listed(body.branch_names)} (join {body.join})"),
        _on(events.ForEachStarted, _for_each),
        _plain(events.ScopeOpened, "info", lambda body: f"{_scope_name(body)} begins"),
        _plain(events.ScopeFailed, "fail", lambda body: f"{_scope_name(body)} failed: {_error(body.code, body.error)}"),
        _plain(events.ParallelBranchCancelled, "info", lambda body: f"{body.branch_name} cancelled"),
        _on(events.SubworkflowStarted, _child),
        _on(commands.EmitSignal, _emitted),
        _plain(commands.StartCompensation, "info", lambda body: f"undoing {_listed(body.node_ids)}"),
        _plain(events.ExecutionCompleted, "done", lambda body: f"completed with {shorten(body.result)}"),
        _plain(
            events.ExecutionContinued,
            "done",
            lambda body: f"continued as {body.successor_execution_id} with {shorten(body.input)}",
        ),
        _plain(events.ExecutionFailed, "fail", lambda body: f"failed: {_error(body.code, body.error)}"),
        _plain(events.ExecutionCancelled, "fail", lambda body: f"cancelled: {shorten(body.reason)}"),
    )
)
