"""The statuses of a run, and their names on MCP and on the OpenWOP wire. They are mapped here and nowhere else.

Above it: operations and surfaces. Below it: nothing.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

__all__ = ["MCP_TASK_STATUS", "RUN_STATUSES", "RunStatusName"]


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
