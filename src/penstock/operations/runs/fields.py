"""Types of the fields by which callers name and start runs, and the statuses that runs have, with their names on MCP.

Above it: the inputs of operations on runs and schedules. Below it: nothing but data.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from msgspec import Meta

__all__ = [
    "CHOSEN_ID",
    "MCP_TASK_STATUS",
    "RUN_STATUSES",
    "WAIT_SECONDS_ACCEPTED",
    "AnyId",
    "ChosenId",
    "LabelName",
    "LabelValue",
    "Labels",
    "Name",
    "RunStatusName",
    "ShortText",
    "Text",
    "Wait",
]


# Callers choose from these characters; the server adds `~`, `:` and `@` to mark ids that it derives.
CHOSEN_ID = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$"
_ID_CHARACTERS_MAX = 512
# A longer wait than the server grants is shortened to what it grants; this bound only rejects nonsense.
WAIT_SECONDS_ACCEPTED = 86_400

# Bounds are on the types that have them, descriptions on the optional types.
ShortText = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=330)]
AnyId = Annotated[str, Meta(min_length=1, max_length=_ID_CHARACTERS_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
ChosenId = Annotated[
    Annotated[str, Meta(pattern=CHOSEN_ID)] | None,
    Meta(
        description="An id of your own for the new run; the same id and input again give the same run.",
        examples=["order-1042"],
    ),
]
LabelName = Annotated[str, Meta(min_length=1, max_length=64)]
LabelValue = Annotated[str, Meta(max_length=256)]
Labels = Annotated[dict[LabelName, LabelValue], Meta(description="Labels to find it by.", max_length=32)]
Wait = Annotated[
    Annotated[float, Meta(ge=0, le=WAIT_SECONDS_ACCEPTED)] | None,
    Meta(description="How many seconds to wait at most."),
]

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
