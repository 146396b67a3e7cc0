"""Log lines that are events: a name and some fields, without the place in the source that logged them.

A server writes several of them for each request. The standard library looks up the function and file of every line, and
formats arguments that these lines do not have; creating an event record costs a third of that. If the process has set
another class for log records (tracing libraries do, to add ids), it gets records of that class.

Above it: the access log, the log of commits. Below it: the standard library's logging.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

from penstock.base.json import JsonObject

__all__ = ["EventRecord", "log_event"]

_PLACE: dict[str, Any] = {
    "args": (),
    "pathname": __file__,
    "filename": Path(__file__).name,
    "module": Path(__file__).stem,
    "lineno": 0,
    "funcName": "log_event",
    "exc_info": None,
    "exc_text": None,
    "stack_info": None,
    "processName": "MainProcess",
}
_BEGAN = time.time()  # noqa: TID251  # as the standard library: no decision rests on when a line was logged


class EventRecord(logging.LogRecord):
    """A record with every attribute that a standard `LogRecord` has."""

    def __init__(self, name: str, level: int, event: str, fields: JsonObject) -> None:
        # Does not call the constructor of the base class: its look-ups are the cost that this class avoids.
        created = time.time()  # noqa: TID251  # see above
        attributes = self.__dict__
        attributes.update(_PLACE)
        attributes["name"] = name
        attributes["msg"] = event
        attributes["levelno"] = level
        attributes["levelname"] = logging.getLevelName(level)
        attributes["created"] = created
        attributes["msecs"] = float(int(created % 1 * 1000))
        attributes["relativeCreated"] = (created - _BEGAN) * 1000
        attributes["thread"] = threading.get_ident()
        attributes["threadName"] = threading.current_thread().name
        attributes["process"] = os.getpid()
        attributes["fields"] = fields

    def getMessage(self) -> str:  # noqa: N802  # as the base class has it
        """Return the name of the event."""
        return str(self.msg)


def log_event(logger: logging.Logger, level: int, event: str, fields: JsonObject) -> None:
    """Log an event, if its level is enabled."""
    if not logger.isEnabledFor(level):
        return
    if logging.getLogRecordFactory() is not logging.LogRecord:
        logger.log(level, event, extra={"fields": fields})
        return
    logger.handle(EventRecord(logger.name, level, event, fields))
