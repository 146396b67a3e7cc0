"""What failed attempts say: an error text of somebody else that fits into a history.

Above it: executors that talk to servers, models and agents.
"""

from __future__ import annotations

from penstock.base import limits

__all__ = ["shortened"]


def shortened(text: str, *, hidden: str | None = None) -> str:
    """Text of others as it may stand in a history: bounded, and without the key that was sent to them."""
    if hidden:
        text = text.replace(hidden, "***")
    text = text.strip()
    if len(text) <= limits.ERROR_TEXT_CHARACTERS_MAX:
        return text
    return text[: limits.ERROR_TEXT_CHARACTERS_MAX - 1] + "…"
