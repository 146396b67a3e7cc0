"""What a check of a document has to say: findings with a place, a code, a message and a hint.

Every reader and check in `definitions` returns findings; the surfaces print or send them. Nothing here checks anything.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from penstock.base.json import JsonObject

__all__ = ["Finding", "Position", "Severity", "nearest", "not_enforced", "suggestion"]

# Below this similarity a suggestion confuses more than it helps.
SIMILARITY_MIN = 0.6


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
    """One thing a check found: `code` for programs, `message` and `hint` for people, `path` as a JSON pointer."""

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
        """The place as `file:line:column`, with the parts that are known; empty when none is."""
        place = "" if self.position is None else f"{self.position.line}:{self.position.column}"
        return ":".join(part for part in (self.file or "", place) if part)

    def to_json(self) -> JsonObject:
        """The finding as a JSON object; what is not known is left out."""
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


def not_enforced(what: str, path: str, hint: str) -> Finding:
    """The finding for a guard that a document declares and nothing acts on: whoever declares one relies on it."""
    return Finding(code="NOT_ENFORCED", message=f"{what} is not enforced by this release", path=path, hint=hint)


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that looks most like `word`, or None when none is close."""
    by_folded: dict[str, str] = {}
    for candidate in candidates:
        by_folded.setdefault(candidate.casefold(), candidate)
    matches = get_close_matches(word.casefold(), by_folded, n=1, cutoff=SIMILARITY_MIN)
    return by_folded[matches[0]] if matches else None


def suggestion(word: str, candidates: Iterable[str]) -> str | None:
    """A question that offers the nearest candidate, for the hint of an unknown name."""
    match = nearest(word, candidates)
    return None if match is None else f"did you mean `{match}`?"
