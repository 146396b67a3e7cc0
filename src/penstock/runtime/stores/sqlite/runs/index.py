"""The run index of an SQLite file.

Above it: `database`. Below it: `text_index`, `changes`.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.runtime.ports.run_index import FoundRuns, RunText
from penstock.runtime.ports.runs import ChangePage
from penstock.runtime.ports.transactions import Reader, Transaction
from penstock.runtime.stores.sqlite.runs.changes import read_changes
from penstock.runtime.stores.sqlite.runs.text_index import match_query
from penstock.runtime.stores.sqlite.schema.sql_functions import indexed_text
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction

__all__ = ["SqliteRunIndex"]


class SqliteRunIndex:
    """Searches with a table of FTS5. Rows of history are numbered in the order in which they were stored."""

    def add(self, transaction: Transaction, key: int, text: RunText) -> None:
        """Make a run findable by its text, when the transaction ends."""
        _read_in(transaction).run_texts.add(key, _text_of(text))

    def forget(self, transaction: Transaction, key: int, text: RunText) -> None:
        """Remove a run from the index, when the transaction ends."""
        _read_in(transaction).run_texts.forget(key, _text_of(text))

    def find(self, reader: Reader, text: str, words: Sequence[str]) -> FoundRuns:
        """Find by trigrams, and check with a function of ours."""
        return FoundRuns(
            tables="runs_text CROSS JOIN runs",
            key="runs_text.rowid",
            condition="runs_text MATCH ? AND runs.key = runs_text.rowid",
            values=(match_query(_read_in(reader).connection, words),),
            check="text_matches(tenant, run_id, workflow_name, labels, ?)",
            check_values=(text,),
        )

    def read_changes(self, reader: Reader, *, after: str | None, since: int, limit: int) -> ChangePage:
        """Return what any process stored after a position, in order."""
        return read_changes(_read_in(reader).connection, after=after, since=since, limit=limit)


def _text_of(text: RunText) -> str:
    return indexed_text(text.tenant, text.run_id, text.workflow_name, text.label_values)


def _read_in(reader: Reader) -> SqliteTransaction:
    """Return a transaction as what it is in this driver."""
    if not isinstance(reader, SqliteTransaction):
        raise TypeError(f"{type(reader).__name__} is not a transaction of SQLite")
    return reader
