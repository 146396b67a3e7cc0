"""What an operation found wrong with its arguments, by the field of the form that they were written into.

Above it: the pages with forms. Below it: nothing but errors.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.base.errors import PenstockError

__all__ = ["told_at"]


def told_at(error: PenstockError, names: Iterable[str]) -> dict[str, list[str]]:
    """Return messages by the names of arguments; under an empty name those about no argument of these."""
    known, listed = frozenset(names), error.details.get("errors")
    found: dict[str, list[str]] = {}
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, dict):
            name = str(item.get("pointer", "")).removeprefix("/").partition("/")[0]
            if name in known:
                found.setdefault(name, []).append(str(item.get("message")))
    if found:
        return found
    hint = f" ({error.hint})" if error.hint else ""
    return {"": [error.message + hint]}
