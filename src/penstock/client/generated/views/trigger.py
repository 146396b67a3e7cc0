"""What operations on trigger answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

import msgspec

__all__ = ["TriggerList", "TriggerView"]


class TriggerView(msgspec.Struct, frozen=True, kw_only=True):
    """An address that starts or signals a workflow. `problem` says why it does not, if it does not."""

    id: str
    workflow_id: str
    enabled: bool
    method: str
    url: str
    action: str
    signal: str | None
    strategy: str
    secret: str | None
    problem: str | None


class TriggerList(msgspec.Struct, frozen=True, kw_only=True):
    """Triggers in order of their workflows."""

    items: list[TriggerView]
