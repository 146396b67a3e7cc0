"""Text indexes: which rows have which words. This module has their DDL.

The index of a column has the words of every version in its table. Triggers keep it so, in the transaction of whatever
writes the table: commits, loads, merges, undone loads, clean-ups. Beside the words it has their number in each text,
which `bm25` needs.

An index of a table that has rows already is built piece by piece, and used only when it is complete; so is one whose
words were made, even in part, with other tables of Unicode than this Python has. Until then texts are searched without
it.

Above it: `type_tables`, `store`, `garbage`. Below it: sqlite3, `penstock.graph`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from penstock.graph.schema.model import EntityType, NodeType
from penstock.graph.sql.layout import NO_TEXT_INDEXES, OPEN, Table, TextIndex, TextIndexes, text_index
from penstock.graph.text_index import UNICODE

__all__ = ["build_piece", "drop_text_indexes", "update_text_indexes", "usable_text_indexes"]

_KEY = "table_name = ? AND column_name = ?"


def update_text_indexes(connection: sqlite3.Connection, table: Table, entity: EntityType) -> None:
    """Make the indexes that a type asks for, and drop those that it no longer asks for."""
    names = entity.searched if isinstance(entity, NodeType) else ()
    wanted = {table.columns[name] for name in names}
    existing = set(_columns(connection, table.name))
    for column in sorted(existing - wanted):
        _drop(connection, table.name, column)
    for column in sorted(wanted - existing):
        _create(connection, table.name, column)


def drop_text_indexes(connection: sqlite3.Connection, table: str) -> None:
    """Drop the indexes of a table that is about to be dropped."""
    for column in _columns(connection, table):
        _drop(connection, table, column)


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    statement = "SELECT column_name FROM graph_text_indexes WHERE table_name = ?"
    return [column for (column,) in connection.execute(statement, (table,)).fetchall()]


def _create(connection: sqlite3.Connection, table: str, column: str) -> None:
    index = text_index(table, column)
    # The words are stored with the index, so that it can always take back what it has put in.
    connection.execute(f"CREATE VIRTUAL TABLE {index.words} USING fts5 (words, columnsize = 0, tokenize = 'ascii')")
    connection.execute(f"CREATE VIRTUAL TABLE {index.terms} USING fts5vocab ({index.words}, row)")
    connection.execute(f"CREATE TABLE {index.lengths} (rid INTEGER PRIMARY KEY, words INTEGER NOT NULL)")
    added = (
        f"INSERT INTO {index.words} (rowid, words) VALUES (NEW.rid, graph_words(NEW.{column}));"
        f" INSERT INTO {index.lengths} (rid, words) {_lengths(index)} rowid = NEW.rid;"
        f" UPDATE graph_text_indexes SET built_to = 0 WHERE table_name = '{table}' AND column_name = '{column}'"
        " AND unicode <> graph_unicode();"
    )
    removed = f"DELETE FROM {index.words} WHERE rowid = OLD.rid; DELETE FROM {index.lengths} WHERE rid = OLD.rid;"
    events = {
        "added": (f"AFTER INSERT ON {table} WHEN NEW.{column} IS NOT NULL", added),
        "removed": (f"AFTER DELETE ON {table} WHEN OLD.{column} IS NOT NULL", removed),
        "cleared": (f"AFTER UPDATE OF {column} ON {table} WHEN NEW.{column} IS NULL", removed),
        "replaced": (f"AFTER UPDATE OF {column} ON {table} WHEN NEW.{column} IS NOT NULL", f"{removed} {added}"),
    }
    for name, (event, body) in events.items():
        connection.execute(f"CREATE TRIGGER {index.words}_{name} {event} BEGIN {body} END")
    has_rows = connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None
    statement = "INSERT INTO graph_text_indexes (table_name, column_name, unicode, built_to) VALUES (?, ?, ?, ?)"
    connection.execute(statement, (table, column, UNICODE, 0 if has_rows else OPEN))


def _lengths(index: TextIndex) -> str:
    """How many words texts have: what is stored has a space before each."""
    return f"SELECT rowid, length(words) - length(replace(words, ' ', '')) FROM {index.words} WHERE"


def _drop(connection: sqlite3.Connection, table: str, column: str) -> None:
    index = text_index(table, column)
    for name in ("added", "removed", "cleared", "replaced"):
        connection.execute(f"DROP TRIGGER {index.words}_{name}")
    for name in (index.terms, index.lengths, index.words):
        connection.execute(f"DROP TABLE {name}")
    connection.execute(f"DELETE FROM graph_text_indexes WHERE {_KEY}", (table, column))


def usable_text_indexes(connection: sqlite3.Connection, wanted: Iterable[tuple[str, str]]) -> TextIndexes:
    """Those of some columns that have an index which is complete."""
    statement = f"SELECT 1 FROM graph_text_indexes WHERE {_KEY} AND unicode = ? AND built_to = {OPEN}"
    found = [each for each in wanted if connection.execute(statement, (*each, UNICODE)).fetchone() is not None]
    return frozenset(found) if found else NO_TEXT_INDEXES


def build_piece(connection: sqlite3.Connection, limit: int) -> int:
    """Go on with an index that is not complete; return how many rows were looked at. 0 means that all are complete."""
    statement = (
        "SELECT table_name, column_name, unicode, built_to FROM graph_text_indexes"
        f" WHERE built_to < {OPEN} OR unicode <> ? LIMIT 1"
    )
    found = connection.execute(statement, (UNICODE,)).fetchone()
    if found is None:
        return 0
    table, column, unicode, built_to = found
    index = text_index(table, column)
    begun = built_to if unicode == UNICODE else 0
    rows = connection.execute(f"SELECT rid FROM {table} WHERE rid > ? ORDER BY rid LIMIT ?", (begun, limit)).fetchall()
    end = rows[-1][0] if len(rows) == limit else OPEN
    given = (begun, end)
    some = f"SELECT rid, graph_words({column}) FROM {table} WHERE rid > ? AND rid <= ? AND {column} IS NOT NULL"
    connection.execute(f"REPLACE INTO {index.words} (rowid, words) {some}", given)
    counted = f"{_lengths(index)} rowid > ? AND rowid <= ?"
    connection.execute(f"REPLACE INTO {index.lengths} (rid, words) {counted}", given)
    statement = f"UPDATE graph_text_indexes SET unicode = ?, built_to = ? WHERE {_KEY}"
    connection.execute(statement, (UNICODE, end, table, column))
    return max(len(rows), 1)
