"""What operations on session answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.client.generated.views.execution import ErrorView

__all__ = ["SessionDetail", "SessionPage", "SessionView", "TurnView"]


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """A message and its result. If its run is gone, only its number and `deleted` are known."""

    turn: int
    execution_id: str
    status: str
    message: str | None = None
    output: Any = None
    error: ErrorView | None = None
    tools: list[str] = msgspec.field(default_factory=list)
    untrusted: bool = False


class SessionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A session, and what was said in it, oldest first."""

    id: str
    agent_id: str
    status: str
    turns: int
    created_at: str | None = None
    updated_at: str | None = None
    items: list[TurnView] = msgspec.field(default_factory=list)


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A session, and since when nothing was said in it."""

    id: str
    agent_id: str
    status: str
    turns: int
    created_at: str | None = None
    updated_at: str | None = None


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions."""

    items: list[SessionView]
    next_cursor: str | None = None
