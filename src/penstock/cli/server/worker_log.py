"""What a worker logs: which records are worth a line, and how a line looks.

    2026-11-15T10:00:00.000Z info run_completed run_id=r_01… workflow=refund_order records=23

Above it: `worker`. Below it: records. Inputs, results and answers are never logged: they belong to the runs.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.engine.records import TYPES, Body, commands, events
from penstock.engine.state import RunState

__all__ = ["LineFormatter", "LogEvent", "level_of", "record_event"]

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:")


class LogEvent(NamedTuple):
    """One line."""

    level: int
    name: str
    fields: JsonObject


def level_of(name: str) -> int:
    """How much the line for a record of this name matters; nothing at all if it gets none."""
    kind = TYPES.get(name)
    known = None if kind is None else _EVENTS.get(kind)
    return logging.NOTSET if known is None else known[0]


def record_event(state: RunState, name: str, seq: int, payload: Callable[[], JsonObject]) -> LogEvent | None:
    """The line for a record, if it is worth one; `payload` is asked only if something of it is in the line."""
    kind = TYPES.get(name)
    known = None if kind is None else _EVENTS.get(kind)
    if known is None:
        return None
    level, event, more = known
    fields: JsonObject = {"run_id": state.run_id, "workflow": state.workflow_name}
    if more is not None:
        fields.update(more(payload()))
    if seq > 1 and name.startswith("Execution"):
        fields["records"] = seq
    return LogEvent(level, event, fields)


def _node(*names: str) -> Callable[[JsonObject], JsonObject]:
    """The node and some members of a payload, under the names that logs use."""

    def pick(payload: JsonObject) -> JsonObject:
        node: JsonObject = {"node": payload["nodeId"]} if "nodeId" in payload else {}
        return {**node, **{name: payload[name] for name in names if name in payload}}

    return pick


_EVENTS: dict[type[Body], tuple[int, str, Callable[[JsonObject], JsonObject] | None]] = {
    events.ExecutionStarted: (logging.INFO, "run_started", None),
    events.ExecutionCompleted: (logging.INFO, "run_completed", None),
    events.ExecutionContinued: (logging.INFO, "run_continued", _node("successorExecutionId")),
    events.HistoryLimitReached: (logging.ERROR, "history_full", _node("records", "bytes")),
    events.ExecutionFailed: (logging.ERROR, "run_failed", _node("code", "error")),
    events.ExecutionCancelled: (logging.WARNING, "run_cancelled", _node("reason")),
    events.ExecutionPaused: (logging.INFO, "run_paused", _node("reason")),
    events.ExecutionResumed: (logging.INFO, "run_resumed", _node()),
    commands.StartCompensation: (logging.WARNING, "run_undoing", _node("outcome")),
    events.InterruptRaised: (logging.INFO, "question_asked", _node("visit")),
    events.ActivityAsked: (logging.INFO, "question_asked", _node("visit", "round")),
    commands.ResumeInterrupt: (logging.DEBUG, "question_answered", _node("visit", "answeredBy")),
    events.ActivityRequested: (logging.DEBUG, "activity_requested", _node("visit", "attempt")),
    events.ActivityLeased: (logging.DEBUG, "activity_leased", _node("visit", "attempt", "holder")),
    events.ActivityCompleted: (logging.DEBUG, "activity_completed", _node("visit", "attempt")),
    events.ActivityFailed: (
        logging.WARNING,
        "activity_failed",
        _node("visit", "attempt", "code", "error", "willRetry"),
    ),
    events.ActivityOutcomeUnknown: (logging.WARNING, "activity_in_doubt", _node("visit", "attempt")),
    events.SignalWaitStarted: (logging.DEBUG, "signal_awaited", _node("signalName")),
    events.TimerStarted: (logging.DEBUG, "timer_started", _node("visit")),
}


class LineFormatter(logging.Formatter):
    """Lines of text or JSON; a message that is no event of ours is the event `log`."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = f"{_second(int(record.created))}.{int(record.msecs):03}Z"
        level = record.levelname.lower()
        fields = getattr(record, "fields", None)
        event = record.getMessage() if isinstance(fields, dict) else "log"
        known: JsonObject = dict(fields) if isinstance(fields, dict) else _foreign(record)
        if record.exc_info:
            known["traceback"] = self.formatException(record.exc_info)
        if self._as_json:
            return _as_json({"time": moment, "level": level, "event": event, **known})
        told = " ".join(f"{name}={_value(value)}" for name, value in known.items())
        return f"{moment} {level} {event} {told}".rstrip()


def _as_json(line: JsonObject) -> str:
    try:
        return msgspec.json.encode(line).decode()
    except (UnicodeEncodeError, OverflowError):  # one half of a surrogate pair, or a number of more than 64 bits
        return json.dumps(line)


@lru_cache(maxsize=2)
def _second(second: int) -> str:
    """What the lines of a second have in common."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def _foreign(record: logging.LogRecord) -> JsonObject:
    """A message of a library or of a step."""
    fields: JsonObject = {"logger": record.name, "message": record.getMessage()}
    for name in ("run_id", "workflow", "node_id", "attempt"):
        value = getattr(record, name, None)
        if isinstance(value, str | int):
            fields[name] = value
    return fields


def _value(value: JsonValue) -> str:
    """A value on a line of text: bare if it is one plain word, JSON otherwise."""
    if isinstance(value, str) and value and _PLAIN.issuperset(value):
        return value
    return json.dumps(value, ensure_ascii=True)
