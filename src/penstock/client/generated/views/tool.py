"""What operations on tool answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["ToolPage", "ToolView"]


class ToolView(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, and since when it is as it is."""

    kind: str
    """What performs it."""
    name: str
    """What the server or the module calls it."""
    server: str | None = None
    """With `mcp`: the server, as it is called in the configuration."""
    input_schema: dict[str, Any] | None = None
    description: str | None = None
    """What it is, for people."""
    id: str
    etag: str
    created_at: str | None
    updated_at: str | None
    updated_by: str | None


class ToolPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of tools."""

    items: list[ToolView]
    next_cursor: str | None
