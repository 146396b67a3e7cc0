"""How things look to callers: instants, run statuses on each surface, and the views that several operations share.

Statuses of a run are mapped here and nowhere else.

Above it: operations and surfaces. Below it: the engine's words.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias, get_args

import msgspec

from penstock.base.errors import Rejected
from penstock.definitions.durations import format_instant

__all__ = ["MCP_TASK_STATUS", "OPENWOP_STATUS", "RUN_STATUSES", "Deleted", "RunStatusName", "instant", "milliseconds"]

RunStatusName: TypeAlias = Literal[
    "pending",
    "running",
    "paused",
    "waiting_input",
    "waiting_approval",
    "waiting_activity",
    "waiting_signal",
    "waiting_timer",
    "waiting_child",
    "waiting_decision",
    "compensating",
    "completed",
    "failed",
    "cancelling",
    "cancelled",
]
RUN_STATUSES: tuple[str, ...] = get_args(RunStatusName)

# A failed run is a completed task whose result is an error: only a failure of the host itself fails a task.
MCP_TASK_STATUS: dict[str, str] = {
    **dict.fromkeys(RUN_STATUSES, "working"),
    "waiting_input": "input_required",
    "waiting_approval": "input_required",
    "completed": "completed",
    "failed": "completed",
    "cancelled": "cancelled",
}

OPENWOP_STATUS: dict[str, str] = {
    "pending": "pending",
    "running": "running",
    "paused": "paused",
    "waiting_input": "waiting-input",
    "waiting_approval": "waiting-approval",
    "waiting_activity": "waiting-external",
    "waiting_signal": "waiting-external",
    "waiting_timer": "running",
    "waiting_child": "running",
    "waiting_decision": "waiting-input",
    "compensating": "running",
    "completed": "completed",
    "failed": "failed",
    "cancelling": "cancelling",
    "cancelled": "cancelled",
}


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """Something is gone."""

    id: str
    deleted: bool = True


def instant(epoch_ms: int | None) -> str | None:
    """An instant as RFC 3339 in UTC with milliseconds."""
    return None if epoch_ms is None else format_instant(epoch_ms)


def milliseconds(text: str | None, name: str) -> int | None:
    """The instant that a caller wrote; `name` is the argument it stands in."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        told = f"{name}: {text[:50]!r} is not an instant"
        raise Rejected("INVALID_ARGUMENTS", told, "write it as RFC 3339 with an offset, e.g. 2026-01-31T09:00:00Z")
    return int(moment.timestamp() * 1000)
