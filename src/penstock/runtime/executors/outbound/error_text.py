"""Error texts of other systems, prepared for a history: shortened, and without our secrets."""

from __future__ import annotations

from penstock.base import limits
from penstock.base.masking import mask

__all__ = ["truncated"]


def truncated(text: str, *, hidden: str | None = None) -> str:
    """The text, stripped and at most `ERROR_TEXT_CHARACTERS_MAX` long; `hidden` (the key we sent) is masked."""
    text = (mask(text, (hidden,)) if hidden else text).strip()
    if len(text) <= limits.ERROR_TEXT_CHARACTERS_MAX:
        return text
    return text[: limits.ERROR_TEXT_CHARACTERS_MAX - 1] + "…"
