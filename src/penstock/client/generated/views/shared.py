"""What several resources answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

import msgspec

__all__ = ["Deleted"]


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """Something is gone."""

    id: str
    deleted: bool = True
