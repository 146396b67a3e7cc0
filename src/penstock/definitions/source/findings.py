"""The results of checks: findings with a place, a code, a message and a hint, and spelling suggestions.

Every reader and check in `definitions` returns findings; the surfaces print or send them. This module checks nothing.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from penstock.base.choices import nearest
from penstock.base.json import JsonObject
from penstock.base.limits import GUESS_CHARACTERS_MAX, GUESS_COMPARISONS_MAX

__all__ = ["Finding", "NameSuggestions", "Position", "Severity", "nearest", "suggestion", "summarize"]

# Nobody reads a hint with more names than this.
_LISTED_MAX = 6


class Severity(StrEnum):
    """Whether a finding makes the document unusable."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a text; line and column both count from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of a check: `code` for programs, `message` and `hint` for people, `path` as a JSON pointer."""

    code: str
    message: str
    path: str = ""
    hint: str | None = None
    severity: Severity = Severity.ERROR
    position: Position | None = None
    file: str | None = None
    keyword: str | None = None

    @property
    def location(self) -> str:
        """The place as `file:line:column`, with the parts that are known; empty when nothing is known."""
        place = "" if self.position is None else f"{self.position.line}:{self.position.column}"
        return ":".join(part for part in (self.file or "", place) if part)

    def to_json(self) -> JsonObject:
        """The finding as a JSON object; unknown fields are left out."""
        fields: JsonObject = {
            "code": self.code,
            "message": self.message,
            "path": self.path,
            "hint": self.hint,
            "severity": str(self.severity),
            "file": self.file,
            "line": None if self.position is None else self.position.line,
            "column": None if self.position is None else self.position.column,
            "keyword": self.keyword,
        }
        return {name: value for name, value in fields.items() if value is not None}


def summarize(subject: str, findings: Sequence[Finding]) -> str:
    """Return a sentence about the mistakes of a document: how many there are, and the first one with its place."""
    first = findings[0]
    place = first.location or first.path or "/"
    if len(findings) == 1:
        return f"{subject} has a mistake at {place}: {first.message}"
    return f"{subject} has {len(findings)} mistakes; first, at {place}: {first.message}"


def suggestion(word: str, candidates: Iterable[str]) -> str | None:
    """Return a question that offers the nearest candidate, for the hint of an unknown name."""
    match = nearest(word, candidates)
    return None if match is None else f"did you mean `{match}`?"


@dataclass(slots=True)
class NameSuggestions:
    """Finds similar names for the unknown names of one document, within a budget.

    Comparing names takes time in proportion to their number. A document that consists of unknown names must not keep a
    server busy, so there are no suggestions once the budget is spent.
    """

    comparisons_left: int = GUESS_COMPARISONS_MAX

    def nearest(self, word: str, candidates: Collection[str]) -> str | None:
        """Return the candidate that the author probably meant, or None."""
        if len(word) > GUESS_CHARACTERS_MAX or len(candidates) > self.comparisons_left:
            return None
        self.comparisons_left -= len(candidates)
        return nearest(word, [name for name in candidates if len(name) <= GUESS_CHARACTERS_MAX])

    def hint(self, word: str, candidates: Collection[str], *, otherwise: str = "there is") -> str | None:
        """Return a question that offers the nearest name or, if none is near, the list of names when it is short."""
        guess = self.nearest(word, candidates)
        if guess is not None:
            return f"did you mean `{guess}`?"
        if 0 < len(candidates) <= _LISTED_MAX and all(len(name) <= GUESS_CHARACTERS_MAX for name in candidates):
            return f"{otherwise} {', '.join(f'`{name}`' for name in candidates)}"
        return None
