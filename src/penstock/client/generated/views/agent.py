"""What operations on agent answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

import msgspec

__all__ = ["AgentPage", "AgentView"]


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, and since when it is as it is."""

    name: str | None = None
    """A name for people."""
    model: str | None = None
    """The id of a model."""
    instructions: str | None = None
    """What it is for, and how it works."""
    workflows: list[str] = msgspec.field(default_factory=list)
    """Workflows that it may run."""
    tools: list[str] = msgspec.field(default_factory=list)
    """Ids of tools that it may use."""
    description: str | None = None
    """What it is, for people."""
    id: str
    etag: str
    created_at: str | None
    updated_at: str | None
    updated_by: str | None


class AgentPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of agents."""

    items: list[AgentView]
    next_cursor: str | None
