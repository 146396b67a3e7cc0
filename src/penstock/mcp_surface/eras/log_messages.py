"""Log lines of steps, for the client that waits for the call.

A client of the handshake era chooses the level once for its session; until then it gets `info` and above. A client of
the newest era names a level with each request, or gets nothing. Lines are sent on the response stream of the waiting
call, and on no other. Secrets are removed where the lines are written.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, get_args

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from penstock.base.choices import list_choices, refuse_choice
from penstock.base.json import JsonObject
from penstock.mcp_surface.content.blocks import untrusted_meta
from penstock.mcp_surface.eras.sdk_internals import connection_of

__all__ = ["logging_to", "refuse_unknown_level", "set_level", "severity"]

_LEVELS: Final[tuple[types.LoggingLevel, ...]] = get_args(types.LoggingLevel)
_DEFAULT: Final[types.LoggingLevel] = "info"
_CHOSEN = "penstock.log_level"
# The standard library has no NOTICE level; it lies between INFO and WARNING.
_NOTICE = 25
_SEVERITIES: Final[tuple[tuple[int, types.LoggingLevel], ...]] = (
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (_NOTICE, "notice"),
    (logging.INFO, "info"),
)

Context = ServerRequestContext[Any, Any]


def severity(level: int) -> types.LoggingLevel:
    """Return the protocol's name for a level of the standard library."""
    return next((name for least, name in _SEVERITIES if level >= least), "debug")


async def set_level(context: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Set the minimum level of log lines for this session."""
    connection_of(context).state[_CHOSEN] = params.level
    return types.EmptyResult()


def logging_to(context: Context) -> Callable[[int, JsonObject], Awaitable[None]] | None:
    """Return a function that sends log lines to the client of a request; None if it wants none."""
    wanted = _wanted(context)
    if wanted is None:
        return None
    least = _LEVELS.index(wanted)

    async def log(level: int, line: JsonObject) -> None:
        name = severity(level)
        if _LEVELS.index(name) < least:
            return
        message = types.LoggingMessageNotificationParams(
            level=name,
            data=line.get("message"),
            logger=str(line.get("node_id")),
            _meta={"penstock/execution_id": line.get("execution_id"), **untrusted_meta(line)},
        )
        await context.session.send_notification(
            types.LoggingMessageNotification(params=message), related_request_id=context.request_id
        )

    return log


def _wanted(context: Context) -> types.LoggingLevel | None:
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        chosen: types.LoggingLevel = connection_of(context).state.get(_CHOSEN, _DEFAULT)
        return chosen
    asked = (context.meta or {}).get(types.LOG_LEVEL_META_KEY)
    return next((name for name in _LEVELS if name == asked), None)


async def refuse_unknown_level(ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
    """Middleware that refuses a request whose `_meta` asks for log lines of a level that does not exist."""
    asked = (ctx.meta or {}).get(types.LOG_LEVEL_META_KEY)
    if asked is not None and asked not in _LEVELS and ctx.request_id is not None:
        problem = refuse_choice(asked, _LEVELS) if isinstance(asked, str) else f"must be {list_choices(_LEVELS)}"
        message = f"Invalid params: _meta.{types.LOG_LEVEL_META_KEY}: {problem}"
        raise MCPError(code=types.INVALID_PARAMS, message=message)
    return await call_next(ctx)
