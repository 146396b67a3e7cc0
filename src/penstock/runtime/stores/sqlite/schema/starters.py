"""The column with who started a run: the step that adds it reads it from the histories of a file that lacks it.

Above it: `migrations`. Below it: `tables.runs.history`.
"""

from __future__ import annotations

import sqlite3

from penstock.base.errors import CorruptHistory
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction
from penstock.runtime.tables.runs.history import HistoryReader
from penstock.runtime.tables.runs.shapes import ShapeReader

__all__ = ["add_starters"]

_BATCH = 1_000  # runs that are held in memory at a time
# Empty if nobody is known: binding a None takes longer than writing the row (see `tables.runs.appending`).
_COLUMN = "ALTER TABLE runs ADD COLUMN started_by TEXT NOT NULL DEFAULT ''"
_INDEX = "CREATE INDEX runs_by_starter ON runs (tenant, started_by)"
_BEGINNINGS = (
    "SELECT key, run_id, records FROM runs JOIN history ON run = key AND first_seq = 1"
    " WHERE key > ? ORDER BY key LIMIT ?"
)


def add_starters(connection: sqlite3.Connection) -> None:
    """Add the column, what the first records of the runs say, and the index.

    A run whose beginning cannot be read gets no starter. Reading the run reports the damage.
    """
    connection.execute(_COLUMN)
    shapes, last = ShapeReader(), -1
    while found := connection.execute(_BEGINNINGS, (last, _BATCH)).fetchall():
        known = ((_starter(connection, run_id, page, shapes), key) for key, run_id, page in found)
        connection.executemany(
            "UPDATE runs SET started_by = ? WHERE key = ?", [(starter, key) for starter, key in known if starter]
        )
        last = found[-1][0]
    connection.execute(_INDEX)


def _starter(connection: sqlite3.Connection, run_id: str, page: bytes, shapes: ShapeReader) -> str:
    try:
        (first, *_) = HistoryReader(SqliteTransaction(connection), run_id, shapes).records(1, page, slice(0, 1))
        starter = first.payload.get("startedBy")
        return starter.encode().decode() if isinstance(starter, str) else ""
    except (CorruptHistory, LookupError, TypeError, ValueError):
        return ""
