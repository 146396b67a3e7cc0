"""What operations on schema answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.client.generated.views.workflow import AuthorView, ProposalView

__all__ = ["SchemaPage", "SchemaVersion", "SchemaView"]


class SchemaView(msgspec.Struct, frozen=True, kw_only=True):
    """A schema, and since when it is as it is."""

    schema: dict[str, Any]
    """A JSON Schema (draft 2020-12)."""
    title: str | None = None
    """A title for people."""
    description: str | None = None
    """What it is, for people."""
    id: str
    etag: str
    created_at: str | None
    updated_at: str | None
    updated_by: str | None
    author: AuthorView | None = None
    version: int
    versions: list[int]


class SchemaPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of schemas."""

    items: list[SchemaView]
    next_cursor: str | None
    proposals: list[ProposalView] = msgspec.field(default_factory=list)


class SchemaVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a schema, as documents may refer to it."""

    id: str
    version: int
    ref: str
    hash: str
    schema: dict[str, Any]
    created_at: str | None = None
