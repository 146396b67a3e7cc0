"""Rules that every store keeps in the same way: which writes it takes, what text matches, how pages are cut.

Above it: the stores. It keeps nothing and reads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.runtime.ports import RunQuery, RunWrite

__all__ = ["begins_with", "check_write", "cursor_of", "folded", "folded_id", "page_size", "position_of"]

_CURSOR = re.compile(r"k[0-9a-f]{1,40}")
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def check_write(write: RunWrite) -> None:
    """Refuse a decision that could not be read back: a gap in its numbers, or text that is not Unicode."""
    records, row = write.records, write.row
    if not records or records[0].seq != write.expected_seq + 1 or records[-1].seq != row.seq:
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
        told = f"{what} has one half of a surrogate pair, which no Unicode text can contain"
        raise Rejected("TEXT_NOT_UNICODE", told, "send well-formed text") from None


def folded(text: str) -> str:
    """Text without the difference between large and small letters."""
    return text.casefold()


def folded_id(text: str) -> str:
    """An id without the difference between large and small letters; ids are compared by ASCII letters only."""
    return text.translate(_ASCII_LOWER)


def begins_with(run_id: str, label_values: Iterable[str], text: str) -> bool:
    """Whether an id or one of the label values begins with a text, in large or small letters."""
    if folded_id(run_id).startswith(folded_id(text)):
        return True
    wanted = folded(text)
    return any(folded(value).startswith(wanted) for value in label_values)


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
        told = "the cursor is not one that a listing returned"
        raise Rejected("INVALID_LIST_CURSOR", told, "begin again without a cursor")
    return int(cursor[1:], 16)
