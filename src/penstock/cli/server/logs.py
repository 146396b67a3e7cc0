"""The log of a server or worker: which records are worth a line, how a line looks, and when lines are written.

    2026-11-15T10:00:00.000Z info run_completed run_id=r_01… workflow=refund_order records=23

The log never contains inputs, results or answers: they belong to the runs.

The lines of one turn of the event loop are written in one piece: a server under load logs several lines in a turn, and
each write costs more than the line. A warning or worse is written at once, with everything before it. So is a line that
is logged outside the loop or in another thread.

What fails because a dependency cannot answer, such as a store on a full disk, fails with every request. It gets one
line a minute, without a traceback, which counts what was left out.

Above it: `serve`, `worker`, `dev`, `mcp`. Below it: records, and the standard library's logging.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sys
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple, TextIO

from penstock.app.settings.model import LoggingSettings
from penstock.base.encoding import encode_bytes
from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.records import TYPES, Body, commands, events
from penstock.engine.state import RunState
from penstock.operations.telemetry.log_events import log_event
from penstock.runtime.ports.host import Committed

__all__ = [
    "BatchingHandler",
    "LineFormatter",
    "LogEvent",
    "OutageFilter",
    "configure_logging",
    "level_of",
    "log_commit",
    "record_event",
]

_LOGGER = logging.getLogger("penstock.worker")
# Nearly all commits are of a few kinds, and have few records.
_KINDS_OF_COMMITS_KEPT, _RECORDS_OF_KIND_MAX = 256, 32
# How often the log says that a dependency still cannot answer.
_OUTAGE_SECONDS = 60.0

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:")


class LogEvent(NamedTuple):
    """One line."""

    level: int
    name: str
    fields: JsonObject


def level_of(name: str) -> int:
    """The log level of a record of this name; NOTSET if it gets no line."""
    kind = TYPES.get(name)
    known = None if kind is None else _EVENTS.get(kind)
    return logging.NOTSET if known is None else known[0]


def record_event(state: RunState, name: str, seq: int, payload: Callable[[], JsonObject]) -> LogEvent | None:
    """The line for a record, or None; `payload` is called only if the line needs something from it."""
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
    events.InterruptEscalated: (logging.WARNING, "question_escalated", _node("visit")),
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
    """Formats lines as text or JSON; a message of a library or a step becomes the event `log`."""

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
        text = " ".join(f"{name}={_value(value)}" for name, value in known.items())
        return f"{moment} {level} {event} {text}".rstrip()


def _as_json(line: JsonObject) -> str:
    try:
        return encode_bytes(line).decode()
    except (UnicodeEncodeError, OverflowError):  # one half of a surrogate pair, or a number of more than 64 bits
        return json.dumps(line)


@lru_cache(maxsize=2)
def _second(second: int) -> str:
    """The timestamp of a second."""
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


class OutageFilter(logging.Filter):
    """Lets one record a minute pass for each code of `Unavailable`, and shortens it to one line."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, tuple[float, int]] = {}
        """By code: when the last record passed, and how many were left out since then."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, Unavailable):
            return True
        passed_at, left_out = self._passed.get(error.code, (-math.inf, 0))
        if record.created - passed_at < _OUTAGE_SECONDS:
            self._passed[error.code] = (passed_at, left_out + 1)
            return False
        self._passed[error.code] = (record.created, 0)
        more = f" ({left_out} more like this were not logged)" if left_out else ""
        record.msg, record.args = f"{record.getMessage()}: {error}{more}", None
        record.exc_info = None
        return True


# --- where lines go -------------------------------------------------------------------------------


class BatchingHandler(logging.Handler):
    """Writes lines to a stream, in the order in which they arrive."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: list[str] = []
        self._turn: asyncio.AbstractEventLoop | None = None  # the loop that will write them at the end of its turn

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line."""
        try:
            self._lines.append(self.format(record))
            if record.levelno >= logging.WARNING or not self._can_wait():
                self.flush()
        except Exception:  # as every handler of the standard library: a log must not end a program
            self.handleError(record)

    def _can_wait(self) -> bool:
        """Whether the line is written at the end of this turn of a loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if self._turn is not loop:
            self._turn = loop
            loop.call_soon(self._end_turn)
        return True

    def _end_turn(self) -> None:
        try:
            self.flush()
        except Exception:  # see `emit`
            self.handleError(logging.makeLogRecord({}))

    def flush(self) -> None:
        """Write the gathered lines."""
        self.acquire()
        try:
            lines, self._lines, self._turn = self._lines, [], None
            if lines:
                lines.append("")
                self._stream.write("\n".join(lines))
                self._stream.flush()
        finally:
            self.release()


def configure_logging(chosen: LoggingSettings) -> None:
    """Log to standard error as the settings say."""
    handler = BatchingHandler(sys.stderr)
    handler.setFormatter(LineFormatter(as_json=chosen.format == "json"))
    handler.addFilter(OutageFilter())
    logger = logging.getLogger("penstock")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(chosen.level.upper())


def log_commit(commit: Committed) -> None:
    """Log what was stored, if it is worth a line."""
    names = commit.names
    lines = _lines_of_kind(names) if len(names) <= _RECORDS_OF_KIND_MAX else _lines_of(names)
    for number, level in lines:
        if _LOGGER.isEnabledFor(level):
            text = partial(_payload, commit, number)
            event = record_event(commit.live.state, names[number], commit.seq(number), text)
            if event is not None:
                log_event(_LOGGER, event.level, event.name, event.fields)


def _payload(commit: Committed, number: int) -> JsonObject:
    return commit.record(number).payload


def _lines_of(names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Which of some records have a line, and at which level."""
    levels = [(number, level_of(name)) for number, name in enumerate(names)]
    return tuple([(number, level) for number, level in levels if level != logging.NOTSET])


_lines_of_kind = lru_cache(maxsize=_KINDS_OF_COMMITS_KEPT)(_lines_of)
