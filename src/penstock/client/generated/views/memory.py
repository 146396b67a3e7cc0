"""What operations on memory answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["ErasedMemory", "FoundMemory", "KeptMemory", "MemoryEntries", "MemoryView"]


class ErasedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """How many entries were erased."""

    scope: str
    erased: int


class MemoryView(msgspec.Struct, frozen=True, kw_only=True):
    """An entry."""

    scope: str
    key: str
    value: Any
    untrusted: bool
    created_at: str | None
    updated_at: str | None
    updated_by: str | None
    expires_at: str | None


class FoundMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that were found, the best first."""

    items: list[MemoryView]


class KeptMemory(msgspec.Struct, frozen=True, kw_only=True):
    """That an entry is kept."""

    scope: str
    key: str
    created: bool
    expires_at: str | None


class MemoryEntries(msgspec.Struct, frozen=True, kw_only=True):
    """A page of entries, ordered by key."""

    items: list[MemoryView]
    next_cursor: str | None
