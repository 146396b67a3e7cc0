"""Apps: keys that belong together, by a group whose name says so. What else an app is, `agent_profile` knows.

Above it: operations that show one app's things to its keys alone. Below it: nothing but the groups of a principal.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["app_group", "app_id_of"]

_GROUP = "app."


def app_group(app_id: str) -> str:
    """Return the group that the keys of an app belong to."""
    return f"{_GROUP}{app_id}"


def app_id_of(groups: Iterable[str]) -> str | None:
    """Return the app among the groups of a key; None if it belongs to none."""
    return next((group.removeprefix(_GROUP) for group in groups if group.startswith(_GROUP)), None)
