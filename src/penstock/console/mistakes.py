"""The problems that an operation found in its arguments, by field of the form.

Above it: the pages with forms. Below it: the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.base.errors import PenstockError
from penstock.operations.catalogue.reasons import hint_of

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
    hint = hint_of(error)
    return {"": [f"{error.message} ({hint})" if hint else error.message]}
