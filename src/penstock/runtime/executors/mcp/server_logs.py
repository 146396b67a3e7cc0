"""Log messages that MCP servers send (`notifications/message`) while one of their tools is called for a run.

The words are somebody else's: they are handed on as data, with the name of the server, and decide nothing. Which call a
message belongs to is found by the session (`questions.ElicitationRouter.speaker`); a message that could belong to
several calls is handed to none.

Above it: `executor`. Below it: the types of the SDK. It keeps nothing: `ProgressBroadcast.server_log` does, and
masks secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from mcp_types import LOG_LEVEL_META_KEY, LoggingMessageNotificationParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from penstock.base.json import JsonObject
from penstock.runtime.activities.performing import ActivityCall
from penstock.runtime.activities.progress import ServerMessage
from penstock.runtime.executors.mcp.lending import LentToCall

__all__ = ["LogListener", "SpokenLog", "log_wish", "pass_on"]

# The levels of the protocol that the standard library does not have count as the next one that it has.
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}
_LEAST_LEVEL: Final = "info"


LogListener: TypeAlias = Callable[[ActivityCall, ServerMessage], None]
SpokenLog: TypeAlias = Callable[[LoggingMessageNotificationParams], None]


def log_wish(protocol_version: str | None) -> JsonObject:
    """Metadata of a call that asks for log messages. Servers of the newest era send none unless they are asked to."""
    return {LOG_LEVEL_META_KEY: _LEAST_LEVEL} if protocol_version in MODERN_PROTOCOL_VERSIONS else {}


def pass_on(
    listener: LogListener | None, lent: LentToCall, secrets: Callable[[ActivityCall], tuple[str, ...]]
) -> SpokenLog | None:
    """A function that hands the messages of one call to the listener, as those of the current attempt."""
    if listener is None:
        return None

    def spoken(said: LoggingMessageNotificationParams) -> None:
        call = lent.call  # another attempt, if the run went on after a question
        if call is not None:
            message = ServerMessage(
                server=lent.server,
                level=_LEVELS[said.level],
                logger=said.logger,
                data=said.data,
                hidden=secrets(call),
            )
            listener(call, message)

    return spoken
