"""What a run may reach because a person approved its start: names with their approved versions.

The start of the run keeps it, and child runs and the next runs of a chain inherit it. So a version that is stored later
does not run under an earlier approval. A run whose start nobody had to approve has none.

Above it: what starts child runs and makes calls for nodes. Below it: plain JSON.
"""

from __future__ import annotations

from penstock.base.json import JsonObject, JsonValue

__all__ = ["APPROVED", "AUTHORS", "CHANGED_CODE", "approved_reach", "authors_of", "with_authors"]

APPROVED = "approved"
"""The member of a starter that has it."""
AUTHORS = "authors"
"""The member of a starter that names the agents which wrote what is started, and who is behind them."""
CHANGED_CODE = "APPROVED_VERSION_CHANGED"
"""The error code if something has changed since the approval."""


def approved_reach(starter: JsonObject | None) -> JsonObject | None:
    """Return the approved versions by name; None if nobody had to approve the start of the run."""
    found: JsonValue = None if starter is None else starter.get(APPROVED)
    return found if isinstance(found, dict) else None


def authors_of(starter: JsonObject | None) -> tuple[str, ...]:
    """Return the agents that wrote what a run is of, or a run above it, and who is behind them."""
    found: JsonValue = None if starter is None else starter.get(AUTHORS)
    return tuple(item for item in found if isinstance(item, str)) if isinstance(found, list) else ()


def with_authors(starter: JsonObject | None, names: tuple[str, ...]) -> JsonObject | None:
    """Return a starter that names these authors beside those that it has."""
    if not names:
        return starter
    merged: list[JsonValue] = [*dict.fromkeys((*authors_of(starter), *names))]
    return {**(starter or {}), AUTHORS: merged}
