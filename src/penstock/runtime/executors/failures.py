"""Failed attempts with more to say: an error text that fits into a history, and details for whoever handles them.

Above it: executors that talk to servers, models and agents. Below it: `runtime.performing`.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.runtime.performing import ActivityError

__all__ = ["DetailedError", "shortened"]


class DetailedError(ActivityError, frozen=True):
    """A failed attempt with details: the question of an agent, or what a model has cost before it failed."""

    details: JsonObject | None = None


def shortened(text: str, *, hidden: str | None = None) -> str:
    """Text of others as it may stand in a history: bounded, and without the key that was sent to them."""
    if hidden:
        text = text.replace(hidden, "***")
    text = text.strip()
    if len(text) <= limits.ERROR_TEXT_CHARACTERS_MAX:
        return text
    return text[: limits.ERROR_TEXT_CHARACTERS_MAX - 1] + "…"
