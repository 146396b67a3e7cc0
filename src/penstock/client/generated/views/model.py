"""What operations on model answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["ModelPage", "ModelView"]


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """A model, and since when it is as it is."""

    provider: str
    """Who provides it."""
    model: str
    """What the provider calls it."""
    base_url: str | None = None
    """Where it is, if not at the provider's usual address."""
    api_key_secret: str | None = None
    """The name of a secret of the server; never the secret itself."""
    parameters: dict[str, Any] | None = None
    """Temperature and the like."""
    description: str | None = None
    """What it is, for people."""
    id: str
    etag: str
    created_at: str | None
    updated_at: str | None
    updated_by: str | None


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of models."""

    items: list[ModelView]
    next_cursor: str | None
