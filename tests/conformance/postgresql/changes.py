"""What was stored, in the order of commits: the pages of history of all runs, one after the other.

A page has the number of its transaction, and a number of its own. Transactions get their numbers in the order in which
they begin to write, and may end in another. So only pages are listed whose transaction is older than every one that
still writes: no page with a smaller number can come after them. A decision that follows another one of its run has the
larger number: it was asked for after the other was committed.

A transaction that takes long, in any database of the server, holds the list up. Numbers of transactions belong to a
server: a copy of the tables on another one has to begin with new ones.

Above it: `run_index`. Below it: `codec`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from penstock.runtime.ports.runs import ChangePage, RunChange
from penstock.runtime.ports.transactions import Reader, Row
from penstock.runtime.tables.codec import RUN_COLUMNS, run_of

__all__ = ["read_changes"]

_POSITION = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")
_Place: TypeAlias = tuple[int, int]
_BEGINNING: _Place = (0, 0)
_END: _Place = ((1 << 63) - 1, 0)
# Clocks of processes differ, and a decision is stored a moment after its timestamp was taken.
_SLACK_MS = 60_000
# Pages of runs that changed long ago may lie between others. After this many in a row, nothing before them is new.
_OLD_PAGES_MAX = 50
_READ_AT_ONCE = 1_000
_IS_SETTLED = "writer < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
_PAGES = (
    f"SELECT {RUN_COLUMNS}, writer, number, first_seq, last_seq FROM history JOIN runs ON key = run"
    f" WHERE (writer, number) > (?, ?) AND {_IS_SETTLED} ORDER BY writer, number LIMIT ?"
)
_BACKWARDS = (
    "SELECT writer, number, greatest(created_at, updated_at) FROM history JOIN runs ON key = run"
    f" WHERE (writer, number) < (?, ?) AND {_IS_SETTLED} ORDER BY writer DESC, number DESC LIMIT ?"
)
_EXISTS = "SELECT 1 FROM history WHERE writer = ? AND number = ?"


def read_changes(reader: Reader, *, after: str | None, since: int, limit: int) -> ChangePage:
    """Return what was stored after a position, or since a given time if the position is not known."""
    place = _known(reader, after) or _place_before(reader, since - _SLACK_MS)
    found = reader.rows(_PAGES, (*place, limit + 1))
    listed = found[:limit]
    if listed:
        place = _place(listed[-1])
    changes = tuple(RunChange(row=run_of(page), first_seq=page[-2], last_seq=page[-1]) for page in listed)
    return ChangePage(changes, f"{place[0]}.{place[1]}", has_more=len(found) > limit)


def _place(page: Row) -> _Place:
    return page[-4], page[-3]


def _known(reader: Reader, position: str | None) -> _Place | None:
    """Return the place of a position, if its page still exists."""
    parsed = _POSITION.fullmatch(position or "")
    if parsed is None:
        return None
    place = (int(parsed[1]), int(parsed[2]))
    return place if place == _BEGINNING or reader.one(_EXISTS, place) is not None else None


def _place_before(reader: Reader, since: int) -> _Place:
    """Return the place of the last page before all pages of runs that changed since a given time."""
    before: _Place | None = None
    old = 0
    for *place, moved_at in _backwards(reader):
        if moved_at >= since:
            before, old = None, 0
            continue
        before = before or (place[0], place[1])
        old += 1
        if old >= _OLD_PAGES_MAX:
            break
    return before or _BEGINNING


def _backwards(reader: Reader) -> Iterator[Row]:
    place = _END
    while found := reader.rows(_BACKWARDS, (*place, _READ_AT_ONCE)):
        yield from found
        place = (found[-1][0], found[-1][1])
