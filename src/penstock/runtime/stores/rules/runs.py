"""Rules that every store keeps in the same way: which writes it takes, what text matches, how pages are cut.

A text that is looked for is taken word by word, in large or small letters: each must be part of a word of the run's id,
of its workflow's name or of a label's value. Words of one or two letters are only looked for at the beginning of
words, since nearly everything has them somewhere. So are all words in ids that are made here (`base.ids`): nobody looks
for a part of something random, and an index of it would cost more than the rest together.

Above it: the stores. It keeps nothing and reads nothing.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.ids import RUN_ID_CHARACTERS, id_for_callers
from penstock.runtime.ports.runs import RunQuery, RunWrite

__all__ = [
    "PART_CHARACTERS_MIN",
    "check_write",
    "cursor_of",
    "definition_cursor_of",
    "definition_position_of",
    "definitions_page_size",
    "folded",
    "held_words",
    "made_id_in",
    "page_size",
    "position_of",
    "text_matches",
    "words_of",
]

# A shorter word is looked for at the beginning of words, one of this length or more anywhere in them.
PART_CHARACTERS_MIN = 3

_OF_TENANT = "~."
_MADE_ID = re.compile(rf"r_[0-9a-z]{{{RUN_ID_CHARACTERS - 2}}}")
_CURSOR = re.compile(r"k[0-9a-f]{1,40}")


def check_write(write: RunWrite) -> None:
    """Refuse a decision that could not be read back: a gap in its numbers, or text that is not Unicode."""
    row, move, records = write.row, write.move, write.records
    if move is not None:
        fits = move.first_seq == write.expected_seq + 1 and move.first_seq + len(move.shape.records) == row.seq + 1
    else:
        fits = bool(records) and records[0].seq == write.expected_seq + 1 and records[-1].seq == row.seq
    if not fits:
        raise ValueError(f"run {row.run_id!r}: the records do not lead from row {write.expected_seq} to row {row.seq}")
    if write.expected_seq == 0:
        _check_text("the run id", row.run_id)
        for name, value in row.labels.items():
            _check_text("a label", name)
            _check_text(f"the label {name}", value)


def _check_text(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        message = f"{what} has one half of a surrogate pair, which no Unicode text can contain"
        raise Rejected("TEXT_NOT_UNICODE", message, "send well-formed text") from None


def folded(text: str) -> str:
    """Text without the difference between large and small letters."""
    return text.casefold()


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text that is looked for."""
    if len(text) > limits.SEARCH_TEXT_CHARACTERS_MAX:
        message = f"a text to look for cannot have {len(text)} characters"
        raise Rejected("SEARCH_TEXT_TOO_LONG", message, f"use at most {limits.SEARCH_TEXT_CHARACTERS_MAX}")
    # Whoever has an id as it is stored means what it is called in its tenant.
    return tuple(dict.fromkeys(word.rpartition(_OF_TENANT)[2] or word for word in folded(text).split()))


def held_words(tenant: str, run_id: str, workflow_name: str, label_values: Iterable[str]) -> list[str]:
    """The words in which a text is looked for; the id as callers of the tenant know it."""
    return folded(" ".join((id_for_callers(tenant, run_id), workflow_name, *label_values))).split()


def text_matches(held: Sequence[str], words: Iterable[str]) -> bool:
    """Whether every word is found in the words of a run."""
    return all(any(_is_found(word, in_word) for in_word in held) for word in words)


def _is_found(word: str, in_word: str) -> bool:
    if in_word.startswith(word):
        return True
    return len(word) >= PART_CHARACTERS_MIN and word in in_word[len(made_id_in(in_word)) :]


def made_id_in(word: str) -> str:
    """The id that was made here at the beginning of a word, which may go on (a child run's does); empty without one."""
    found = _MADE_ID.match(word)
    return "" if found is None else found.group()


def page_size(query: RunQuery) -> int:
    """How many runs a page of this listing has at most."""
    if query.limit < 1:
        raise Rejected("INVALID_LIST_LIMIT", f"a page cannot have {query.limit} runs", "ask for at least one")
    return min(query.limit, limits.RUNS_PAGE_MAX)


def cursor_of(position: int) -> str:
    """The cursor that continues after the run at a position."""
    return f"k{position:x}"


def position_of(cursor: str | None) -> int | None:
    """The position that a cursor stands for."""
    if cursor is None:
        return None
    if _CURSOR.fullmatch(cursor) is None:
        raise _foreign_cursor()
    return int(cursor[1:], 16)


def _foreign_cursor() -> Rejected:
    message = "the cursor is not one that a listing returned"
    return Rejected("INVALID_LIST_CURSOR", message, "begin again without a cursor")


def definitions_page_size(limit: int) -> int:
    """How many definitions a page has at most."""
    if limit < 1:
        raise Rejected("INVALID_LIST_LIMIT", f"a page cannot have {limit} definitions", "ask for at least one")
    return min(limit, limits.DEFINITIONS_PAGE_MAX)


def definition_cursor_of(name: str, tenant: str) -> str:
    """The cursor that continues after a name of a tenant."""
    return "n" + urlsafe_b64encode(json.dumps([name, tenant]).encode()).decode().rstrip("=")


def definition_position_of(cursor: str | None) -> tuple[str, str] | None:
    """The name and the tenant that a cursor stands for."""
    if cursor is None:
        return None
    try:
        found = json.loads(urlsafe_b64decode(cursor[1:] + "=" * (-len(cursor[1:]) % 4)))
    except ValueError:
        raise _foreign_cursor() from None
    match found:
        case [str(name), str(tenant)] if cursor.startswith("n"):
            return name, tenant
        case _:
            raise _foreign_cursor()
