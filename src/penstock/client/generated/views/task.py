"""What operations on task answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["TaskList", "TaskView"]


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A node, where it stands, and the version of the workflow that it is in."""

    id: str
    type: str
    workflow_id: str
    workflow_hash: str
    position: int
    task: dict[str, Any]


class TaskList(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a workflow in their order."""

    workflow_id: str
    workflow_hash: str
    items: list[TaskView]
