"""The credentials of a run, and whether an answer shows a part of one that it must not show.

Every key that the kit was given or that the server made for it is known here. An answer may show a key once, when it is
made. After that, no part of its secret may be in anything that the server says: not in an error, not in a header, and
above all not in the audit trail.

Above it: `target`. Below it: nothing.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.governance.keys import parse_key

__all__ = ["Credentials"]

# So long that no two texts share it by chance, and so short that nobody could guess the rest.
_PART_CHARACTERS = 12
_PUBLIC_CHARACTERS_MAX = 16
_RUN = re.compile(r"[a-z0-9+/_=-]{12,}")
# Base64 of a text looks different at each of these distances from the beginning of what was encoded.
_ALIGNMENTS = range(3)


@dataclass(slots=True)
class Credentials:
    """All credentials that were used so far."""

    known: set[str] = field(default_factory=set)
    _parts: set[str] = field(default_factory=set)

    def add(self, credential: str) -> None:
        """Remember a credential; a short text does not count."""
        if credential not in self.known:
            self.known.add(credential)
            self._parts.update(_parts_of(_secret_of(credential)))

    def part_in(self, answer: str, request: str) -> str | None:
        """Return a part of a credential that an answer shows and its request did not name; None without one."""
        found = next(self._found_in(answer), None)
        return None if found is None or found in set(self._found_in(request)) else found

    def _found_in(self, text: str) -> Iterator[str]:
        for run in _RUN.findall(text.lower()):
            for start in range(len(run) - _PART_CHARACTERS + 1):
                if run[start : start + _PART_CHARACTERS] in self._parts:
                    yield run[start : start + _PART_CHARACTERS]


def _secret_of(credential: str) -> str:
    """Return the part that only the owner knows. Servers show the beginning of a key, so that people can tell it."""
    own = parse_key(credential)
    return own.secret if own is not None else credential[min(_PUBLIC_CHARACTERS_MAX, len(credential) // 3) :]


def _parts_of(secret: str) -> Iterator[str]:
    """Yield the parts of a secret as it is, in base64 and in hexadecimal, all in lower case."""
    written = [secret, secret.encode().hex()]
    for skipped in _ALIGNMENTS:
        encoded = base64.b64encode(secret[skipped:].encode()).decode().rstrip("=")
        written += [encoded, encoded.replace("+", "-").replace("/", "_")]
    for text in map(str.lower, written):
        yield from (text[start : start + _PART_CHARACTERS] for start in range(len(text) - _PART_CHARACTERS + 1))
