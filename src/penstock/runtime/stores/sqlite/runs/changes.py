"""What was stored, in the order of commits: the pages of history of all runs, one after the other.

Every decision adds one page of history, and the file numbers pages as they are added. Reading from a number onwards
finds everything new, and costs nothing while there is nothing. The last numbers are reused after runs were deleted, and
all numbers may change when a file is vacuumed or restored. A position therefore also names its page. If that page is
gone, pages are searched backwards for runs that changed since a given time.

Above it: `index`. Below it: `codec`, sqlite3.
"""

from __future__ import annotations

import re
import sqlite3

from penstock.runtime.ports.runs import ChangePage, RunChange
from penstock.runtime.tables.codec import RUN_COLUMNS, run_of

__all__ = ["read_changes"]

_POSITION = re.compile(r"([0-9]{1,18})\.([0-9]{1,19})\.([0-9]{1,18})")
_START = "0.0.0"
# Clocks of processes that share a file differ, and a decision is stored a moment after its timestamp was taken.
_SLACK_MS = 60_000
# Pages of runs that changed long ago may lie between others. After this many in a row, nothing before them is new.
_OLD_PAGES_MAX = 50
_PAGE = (
    f"SELECT {RUN_COLUMNS}, history.rowid, history.run, history.first_seq, history.last_seq FROM history"
    " CROSS JOIN runs ON key = history.run WHERE history.rowid > ? ORDER BY history.rowid LIMIT ?"
)
_BACKWARDS = (
    "SELECT history.rowid, max(created_at, updated_at) FROM history CROSS JOIN runs ON key = history.run"
    " ORDER BY history.rowid DESC"
)


def read_changes(connection: sqlite3.Connection, *, after: str | None, since: int, limit: int) -> ChangePage:
    """A page of what was stored after a position, or since a given time if the position is not known."""
    number = _known(connection, after)
    if number is None:
        number = _number_before(connection, since - _SLACK_MS)
        after = _position(connection, number)
    found = connection.execute(_PAGE, (number, limit + 1)).fetchall()
    changes = tuple(
        RunChange(row=run_of(columns), first_seq=columns[-2], last_seq=columns[-1]) for columns in found[:limit]
    )
    if found:
        last = found[:limit][-1]
        after = f"{last[-4]}.{last[-3]}.{last[-2]}"
    return ChangePage(changes, after or _START, has_more=len(found) > limit)


def _known(connection: sqlite3.Connection, position: str | None) -> int | None:
    """The page number of a position, if its page still exists."""
    parsed = _POSITION.fullmatch(position or "")
    if parsed is None:
        return None
    number, run, first_seq = (int(part) for part in parsed.groups())
    if number == 0:
        return 0
    statement = "SELECT 1 FROM history WHERE rowid = ? AND run = ? AND first_seq = ?"
    return number if connection.execute(statement, (number, run, first_seq)).fetchone() else None


def _number_before(connection: sqlite3.Connection, since: int) -> int:
    """The number of the last page before all pages of runs that changed since a given time."""
    before, old = None, 0
    for number, moved_at in connection.execute(_BACKWARDS):
        if moved_at >= since:
            before, old = number - 1, 0
            continue
        before = number if before is None else before
        old += 1
        if old >= _OLD_PAGES_MAX:
            break
    return before or 0


def _position(connection: sqlite3.Connection, number: int) -> str:
    """The position that continues after a number. A page with that number need not exist."""
    found = connection.execute(
        "SELECT rowid, run, first_seq FROM history WHERE rowid <= ? ORDER BY rowid DESC LIMIT 1", (number,)
    ).fetchone()
    return _START if found is None else f"{found[0]}.{found[1]}.{found[2]}"
