"""Scopes: what a key grants and what calls and workflows need. One grammar for keys, documents, settings and messages.

    scope     = "*" | word *( separator part ) [ separator "*" ]
    word      = a small letter, then small letters, digits, "_" and "-"
    part      = a letter or digit, then letters, digits, "_" and "-"
    separator = "." | ":"

`*` covers everything; a scope that ends in a separator and `*` covers every scope that begins with the text before the
`*`. Any other scope covers only itself. The two separators differ: `orders.refund` is not `orders:refund`.

Above it: code that checks or compares scopes. Below it: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from penstock.base import limits

__all__ = [
    "EVERYTHING",
    "SCOPE_HINT",
    "Scope",
    "common_scopes",
    "is_scope",
    "likely_scope",
    "missing_scope",
    "parse_scope",
    "scope_allows",
]

EVERYTHING = "*"
"""The scope that covers every other scope."""
SCOPE_HINT = (
    "write words joined by dots or colons, at the end perhaps a `*`: shop:refund, workflow:read, execution:*, *"
)

_SCOPE = re.compile(r"\*|[a-z][a-z0-9_-]*(?:[.:][A-Za-z0-9][A-Za-z0-9_-]*)*(?:[.:]\*)?")
# Cache of parsed scopes: documents and keys repeat the same few.
_PARSED_KEPT = 4_096
# Cache of decisions for combinations of required and granted scopes.
_GRANTS_KEPT = 4_096
# Scopes at least this similar may be a misspelling: about one letter in ten differs.
_ALIKE_MIN = 0.8


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope that follows the grammar."""

    text: str

    @property
    def is_wildcard(self) -> bool:
        """Whether it covers scopes other than itself."""
        return self.text.endswith("*")

    def covers(self, other: str) -> bool:
        """Return whether this scope allows everything that the other one allows."""
        return self.text == other or (self.is_wildcard and other.startswith(self.text[:-1]))


@lru_cache(maxsize=_PARSED_KEPT)
def parse_scope(text: str) -> Scope | None:
    """Parse a scope; None for text that does not follow the grammar."""
    fits = len(text) <= limits.SCOPE_CHARACTERS_MAX and _SCOPE.fullmatch(text) is not None
    return Scope(text) if fits else None


def is_scope(text: str) -> bool:
    """Return whether a text follows the grammar of scopes."""
    return parse_scope(text) is not None


def scope_allows(granted: Iterable[str], required: str) -> bool:
    """Return whether one of the granted scopes covers the required one.

    A granted text that does not follow the grammar covers only itself. A required scope that ends in `*` is covered
    only by a scope that covers all of it.
    """
    for text in granted:
        scope = parse_scope(text)
        if text == required or (scope is not None and scope.covers(required)):
            return True
    return False


def common_scopes(first: frozenset[str], second: frozenset[str]) -> frozenset[str]:
    """Return the scopes that cover exactly what both sets cover."""
    return frozenset(
        {scope for scope in first if scope_allows(second, scope)}
        | {scope for scope in second if scope_allows(first, scope)}
    )


@lru_cache(maxsize=_GRANTS_KEPT)
def missing_scope(granted: frozenset[str], required: tuple[str, ...]) -> str | None:
    """Return the first required scope that no granted scope covers, or None if all are covered."""
    return next((scope for scope in required if not scope_allows(granted, scope)), None)


def likely_scope(text: str, known: Iterable[str]) -> str | None:
    """Return the known scope probably meant (other separator, or a misspelling), or None if none is similar."""
    listed = sorted(set(known) - {text})
    plain = text.replace(".", ":")
    same = next((scope for scope in listed if scope.replace(".", ":") == plain), None)
    return same or next(iter(get_close_matches(text, listed, n=1, cutoff=_ALIKE_MIN)), None)
