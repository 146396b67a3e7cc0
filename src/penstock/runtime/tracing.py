"""Histories as a person reads them: one line per thing that happened, with its node and what came of it.

Above it: the simulator, the command line, later the console. Below it: records. Lines are values; how they are
printed is for the surface to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import format_duration
from penstock.definitions.model import ActivityDetail, Workflow
from penstock.engine.records import Record
from penstock.engine.state import COMPENSATION_PREFIX

__all__ = ["Items", "TraceLine", "shorten", "trace_lines"]

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
        """The line as JSON."""
        return {
            "at": self.at,
            "run": self.run_id,
            "depth": self.depth,
            "mark": self.mark,
            "node": self.node_id,
            "text": self.text,
        }


def shorten(value: JsonValue, characters_max: int = _TEXT_CHARACTERS_MAX) -> str:
    """A value as one short line of JSON."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"


def trace_lines(
    log: Iterable[tuple[str, Record]], workflows: Mapping[str, Workflow], items: Items | None = None
) -> Iterator[TraceLine]:
    """The lines of a log of records from one or more runs, in order; those inside of an item begin with its number.

    Whoever reads a log in parts hands the same `items` to each of them.
    """
    items = items or Items()
    for run_id, record in log:
        number = items.number_at(run_id, record)
        teller = _TELLERS.get(record.name)
        told = teller(record.payload, workflows[run_id]) if teller is not None else None
        if told is None:
            continue
        mark, text = told
        node_id = str(record.payload.get("nodeId", ""))
        numbered = f"#{number} {text}" if number is not None else text
        yield TraceLine(record.at, run_id, run_id.count(":sub:"), mark, node_id, numbered)


class Items:
    """Which item of a list a record is about: its scope was opened with a number, and its node scheduled there."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, JsonValue], int] = {}
        self._visits: dict[tuple[str, JsonValue, JsonValue], int] = {}

    def number_at(self, run_id: str, record: Record) -> int | None:
        """The number, counted from 1; None outside of items."""
        payload = record.payload
        visit = run_id, payload.get("nodeId"), payload.get("visit")
        if record.name == "ScopeOpened" and "branchName" not in payload:
            index = payload.get("index")
            if isinstance(index, int):
                self._numbers[run_id, payload.get("scope")] = index + 1
        elif record.name == "ScheduleNode":
            number = self._numbers.get((run_id, payload.get("scope"))) if "scope" in payload else None
            if number is not None:
                self._visits[visit] = number
        return self._visits.get(visit)


_Told = tuple[str, str] | None


def _started(payload: JsonObject, workflow: Workflow) -> _Told:
    return "go", f"{workflow.name} {workflow.version} started with {shorten(payload.get('input'))}"


def _requested(payload: JsonObject, workflow: Workflow) -> _Told:
    node_id = str(payload["nodeId"])
    detail = workflow.nodes[node_id.removeprefix(COMPENSATION_PREFIX)].detail
    if isinstance(detail, ActivityDetail) and detail.compensate and node_id.startswith(COMPENSATION_PREFIX):
        config = detail.compensate.config
    else:
        config = getattr(detail, "config", {})
    arguments = payload.get("arguments")
    filled = arguments if isinstance(arguments, dict) and payload.get("nodeType") == "http" else {}
    # An address is filled in for the request; the document has only its template.
    config = {**config, **{name: filled[name] for name in ("url",) if isinstance(filled.get(name), str)}}
    named = [str(config[name]) for name in ("server", "tool", "handler", "url", "model", "agent_id") if name in config]
    attempt = payload.get("attempt", 1)
    text = f"{payload.get('nodeType')} {'.'.join(named)}".strip()
    rest = {name: value for name, value in filled.items() if name not in ("url", "method")} if filled else arguments
    if "arguments" in payload and (rest or not filled):
        text += f" {shorten(rest)}"
    return "go", text if attempt == 1 else f"{text} (attempt {attempt})"


def _completed(payload: JsonObject, workflow: Workflow) -> _Told:
    node_id = str(payload["nodeId"])
    node = workflow.nodes.get(node_id.removeprefix(COMPENSATION_PREFIX))
    if node is None or node.type == "start":
        return None
    target = payload.get("next")
    if node.type == "switch":
        return "done", f"switch → {target or 'end of body'}"
    if node_id.startswith(COMPENSATION_PREFIX):
        return "done", "undone"
    suffix = " (fallback)" if "fallback" in payload else " (timed out)" if payload.get("timedOut") else ""
    return "done", f"{node.type} gave {shorten(payload.get('output'))}{suffix}"


def _error(payload: JsonObject, key: str = "error") -> str:
    """An error by its code and its message; a message that only repeats the code is left out."""
    code, message = str(payload.get("code") or "FAILED"), str(payload.get(key) or "")
    return code if message in ("", code) else f"{code} {message}"


def _attempt_failed(payload: JsonObject, workflow: Workflow) -> _Told:
    if payload.get("willRetry") is not True:
        return None
    return "retry", f"attempt {payload.get('attempt')} failed: {_error(payload)}; trying again"


def _failed(payload: JsonObject, workflow: Workflow) -> _Told:
    where = f" → {payload['next'] or 'end of body'}" if "next" in payload else ""
    return "fail", f"failed: {_error(payload, 'message')}{where}"


def _run_failed(payload: JsonObject, workflow: Workflow) -> _Told:
    return "fail", f"failed: {_error(payload)}"


def _interrupted(payload: JsonObject, workflow: Workflow) -> _Told:
    return "wait", f"waiting for a person: {payload.get('prompt') or payload.get('promptRef')}"


def _answered(payload: JsonObject, workflow: Workflow) -> _Told:
    by = f" by {payload['answeredBy']}" if "answeredBy" in payload else ""
    return "go", f"answered{by}: {shorten(payload.get('answer'))}"


def _leased(payload: JsonObject, workflow: Workflow) -> _Told:
    return "info", f"leased by {payload.get('holder')}"


def _timer(payload: JsonObject, workflow: Workflow) -> _Told:
    if "wait_ms" in payload and isinstance(payload["wait_ms"], int):
        return "wait", f"waiting for {format_duration(payload['wait_ms'])}"
    return "wait", f"waiting until {payload.get('until')}"


def _signal_wait(payload: JsonObject, workflow: Workflow) -> _Told:
    return "wait", f"waiting for the signal {payload.get('signalName')}"


def _signalled(payload: JsonObject, workflow: Workflow) -> _Told:
    return "go", f"signal {payload.get('signalName')} {shorten(payload.get('payload'))}"


def _delivered(payload: JsonObject, workflow: Workflow) -> _Told:
    return ("info", f"signal {payload.get('signalName')} sent by {payload['sentBy']}") if "sentBy" in payload else None


def _buffered(payload: JsonObject, workflow: Workflow) -> _Told:
    by = f" by {payload['sentBy']}" if "sentBy" in payload else ""
    return "info", f"signal {payload.get('signalName')} sent{by}, kept until somebody waits for it"


def _forked(payload: JsonObject, workflow: Workflow) -> _Told:
    names = payload.get("branchNames")
    listed = ", ".join(str(name) for name in names) if isinstance(names, list) else ""
    return "go", f"branches {listed} (join {payload.get('join')})"


def _for_each(payload: JsonObject, workflow: Workflow) -> _Told:
    items = payload.get("items")
    return "go", f"{len(items) if isinstance(items, list) else 0} items, {payload.get('concurrency')} at a time"


def _scope(payload: JsonObject, workflow: Workflow) -> _Told:
    return "info", f"{_scope_name(payload)} begins"


def _scope_name(payload: JsonObject) -> str:
    """A branch by its name, an item by its number, counted from 1 as people do."""
    index = payload.get("index")
    return str(payload.get("branchName") or f"#{index + 1 if isinstance(index, int) else index}")


def _scope_failed(payload: JsonObject, workflow: Workflow) -> _Told:
    return "fail", f"{_scope_name(payload)} failed: {_error(payload)}"


def _branch_cancelled(payload: JsonObject, workflow: Workflow) -> _Told:
    return "info", f"{payload.get('branchName')} cancelled"


def _child(payload: JsonObject, workflow: Workflow) -> _Told:
    return "go", f"child run of {payload.get('workflowRef')} with {shorten(payload.get('input'))}"


def _emitted(payload: JsonObject, workflow: Workflow) -> _Told:
    return "go", f"signal {payload.get('signalName')} to run {payload.get('targetExecutionId')}"


def _compensating(payload: JsonObject, workflow: Workflow) -> _Told:
    names = payload.get("nodeIds")
    listed = ", ".join(str(name) for name in names) if isinstance(names, list) else ""
    return "info", f"undoing {listed}"


def _continued(payload: JsonObject, workflow: Workflow) -> _Told:
    return "done", f"continued as {payload.get('successorExecutionId')} with {shorten(payload.get('input'))}"


def _ended(mark: str, text: str, key: str) -> Callable[[JsonObject, Workflow], _Told]:
    return lambda payload, workflow: (mark, f"{text} {shorten(payload.get(key))}")


_TELLERS: dict[str, Callable[[JsonObject, Workflow], _Told]] = {
    "ExecutionStarted": _started,
    "ActivityRequested": _requested,
    "ActivityLeased": _leased,
    "ActivityFailed": _attempt_failed,
    "CompleteNode": _completed,
    "FailNode": _failed,
    "InterruptRaised": _interrupted,
    "ActivityAsked": _interrupted,
    "ResumeInterrupt": _answered,
    "StartTimer": _timer,
    "SignalWaitStarted": _signal_wait,
    "DeliverSignal": _delivered,
    "SignalReceived": _signalled,
    "SignalBuffered": _buffered,
    "ParallelForked": _forked,
    "ForEachStarted": _for_each,
    "ScopeOpened": _scope,
    "ScopeFailed": _scope_failed,
    "ParallelBranchCancelled": _branch_cancelled,
    "SubworkflowStarted": _child,
    "EmitSignal": _emitted,
    "StartCompensation": _compensating,
    "ExecutionCompleted": _ended("done", "completed with", "result"),
    "ExecutionContinued": _continued,
    "ExecutionFailed": _run_failed,
    "ExecutionCancelled": _ended("fail", "cancelled:", "reason"),
}
