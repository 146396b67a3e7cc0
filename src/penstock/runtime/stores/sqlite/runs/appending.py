"""Appends decisions to runs in the SQLite file, one by one or many at once, and deletes runs with all their rows.

This is the hot path of the store: many decisions are written with one statement for all rows of a kind.

Above it: `store`, which chooses the transaction. Below it: `history`, `row_keys`, `text_index`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import msgspec

from penstock.base import limits
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import Appended, AppendOutcome, RunRow, RunWrite, SequenceConflict
from penstock.runtime.ports.transactions import NotTogetherError
from penstock.runtime.stores.sqlite.history.payloads import PageSplitter, drop_uses, keep
from penstock.runtime.stores.sqlite.history.shapes import ShapeNumbers
from penstock.runtime.stores.sqlite.runs.row_keys import KeyMaker
from penstock.runtime.stores.sqlite.runs.spending import drop_spending
from penstock.runtime.stores.sqlite.runs.text_index import TextIndexQueue
from penstock.runtime.stores.sqlite.schema.sql_functions import indexed_text
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction
from penstock.runtime.tables.call_records import write_calls
from penstock.runtime.tables.codec import encode_json, labels_of
from penstock.runtime.tables.search_rules import folded
from penstock.runtime.tables.usage import add_usage, count_start

__all__ = ["DELETED_COLUMNS", "RunAppend", "WriterState", "append_runs", "delete_run", "encode_append", "small_append"]

_INSERT_RUN = (
    "INSERT INTO runs (key, run_id, workflow_name, workflow_version, definition_hash, status, seq, created_at,"
    " updated_at, parent_run_id, labels, wake_at, has_work, owner, terminal, tenant, epoch, started_by)"
    " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    " ON CONFLICT DO NOTHING"
)
# The same for most runs. Columns left out are NULL. Binding a None, like anything that is not a number, a text or a
# bytearray, makes Python's sqlite3 look for an adapter, which takes longer than writing the row.
_INSERT_PLAIN_RUN = (
    "INSERT INTO runs (key, run_id, workflow_name, workflow_version, definition_hash, status, seq, created_at,"
    " updated_at, has_work, owner, terminal, tenant, epoch, started_by) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    " ON CONFLICT DO NOTHING"
)
_UPDATE_RUN = (
    "UPDATE runs SET status = ?, seq = ?, updated_at = ?, wake_at = ?, has_work = ?, owner = ?, terminal = ?, epoch = ?"
    " WHERE run_id = ? AND seq = ? AND epoch = ? RETURNING key"
)
_MOVE_RUN = "UPDATE runs SET seq = ?, updated_at = ? WHERE run_id = ? AND seq = ? AND epoch = ? RETURNING key"
# By key, which saves a lookup in the index of ids. The statement still checks that the key belongs to this run.
_UPDATE_KEY = (
    "UPDATE runs SET status = ?, seq = ?, updated_at = ?, wake_at = ?, has_work = ?, owner = ?, terminal = ?, epoch = ?"
    " WHERE key = ? AND run_id = ? AND seq = ? AND epoch = ?"
)
_END_KEY = (
    "UPDATE runs SET status = ?, seq = ?, updated_at = ?, wake_at = NULL, has_work = 0, owner = NULL, terminal = 1,"
    " epoch = ? WHERE key = ? AND run_id = ? AND seq = ? AND epoch = ?"
)
_MOVE_KEY = "UPDATE runs SET seq = ?, updated_at = ? WHERE key = ? AND run_id = ? AND seq = ? AND epoch = ?"
_INSERT_HISTORY = "INSERT INTO history (run, first_seq, last_seq, records, checksum) VALUES (?,?,?,?,?)"
_APPENDED = Appended()
_KNOWN_KEYS_MAX = 10_000  # about a megabyte; then the cache is emptied and fills again on use
# The columns of a deleted run that other tables refer to.
DELETED_COLUMNS = "key, tenant, run_id, workflow_name, labels"


@dataclass(frozen=True, slots=True)
class WriterState:
    """The writer's state beside its connection: the next keys, numbers of shapes, and texts to be indexed."""

    keys: KeyMaker = field(default_factory=KeyMaker)
    texts: TextIndexQueue = field(default_factory=TextIndexQueue)
    shapes: ShapeNumbers = field(default_factory=ShapeNumbers)
    known: dict[str, int] = field(default_factory=dict)  # keys of runs that are likely to be written again

    def clear(self) -> None:
        """Drop what a rolled-back transaction left."""
        self.texts.clear()
        self.shapes.clear()

    def write(self, connection: sqlite3.Connection) -> None:
        """Write what the jobs of a transaction left for its end."""
        self.texts.write(connection)

    def write_calls(self, connection: sqlite3.Connection, calls: Sequence[CallRecord]) -> None:
        """Write the records of the calls whose changes the transaction has."""
        write_calls(SqliteTransaction(connection), calls)

    def remember(self, row: RunRow, key: int) -> None:
        """Remember the key of a run that continues. A stale key does no harm: the statement that uses it detects it."""
        if row.terminal:
            self.known.pop(row.run_id, None)
            return
        if len(self.known) >= _KNOWN_KEYS_MAX:
            self.known.clear()
        self.known[row.run_id] = key


class RunAppend(msgspec.Struct, frozen=True, gc=False):
    """A decision as it is stored: its records as a page, and the large values that are stored beside it.

    A decision without a page is a move, whose page depends on the number of its shape. A decision with very many
    records is stored as several pages.
    """

    write: RunWrite
    page: bytes | None = None
    payloads: Mapping[str, bytes] = {}
    further: tuple[tuple[int, int, bytes], ...] = ()
    """The pages after the first: first and last sequence number, and the page."""

    @property
    def last_seq(self) -> int:
        """The sequence number of the last record of the first page."""
        return self.further[0][0] - 1 if self.further else self.write.row.seq


def small_append(write: RunWrite) -> RunAppend | None:
    """Encode a small decision; None if encoding it would take long."""
    if write.move is not None:
        return RunAppend(write) if len(write.move.encoded) <= limits.PAYLOAD_INLINE_BYTES_MAX else None
    if len(write.records) > limits.FOLDED_AT_ONCE:
        return None
    page = encode_json(write.records)
    return RunAppend(write, page) if len(page) <= limits.PAYLOAD_INLINE_BYTES_MAX else None


def encode_append(write: RunWrite) -> RunAppend:
    """Encode a decision of any size."""
    records, splitter = write.history, PageSplitter()
    size = limits.STORED_PAGE_RECORDS_MAX
    parts = [records[start : start + size] for start in range(0, len(records), size)]
    pages = [(part[0].seq, part[-1].seq, splitter.page(part)) for part in parts]
    return RunAppend(write, pages[0][-1], splitter.payloads, tuple(pages[1:]))


def _page(connection: sqlite3.Connection, append: RunAppend, state: WriterState) -> bytes | bytearray:
    if append.page is not None:
        return append.page
    if append.write.move is None:
        raise TypeError("a decision to be stored has neither a page nor a move")
    return state.shapes.page(connection, append.write.move)


def append_run(connection: sqlite3.Connection, append: RunAppend, state: WriterState) -> AppendOutcome:
    """Store a decision: the index row, a page of history, and the payloads that belong to the page."""
    write, row = append.write, append.write.row
    if write.expected_seq == 0:
        key = _insert(connection, row, state)
    elif write.same_index:
        moved = connection.execute(
            _MOVE_RUN, (row.seq, row.updated_at, row.run_id, write.expected_seq, write.expected_epoch)
        ).fetchone()
        key = None if moved is None else moved[0]
    else:
        found = connection.execute(
            _UPDATE_RUN, (*_changes(row), row.run_id, write.expected_seq, write.expected_epoch)
        ).fetchone()
        key = None if found is None else found[0]
    if key is None:
        return SequenceConflict()
    page = _page(connection, append, state)
    connection.execute(_INSERT_HISTORY, (key, write.expected_seq + 1, append.last_seq, page, crc32(page)))
    if append.further:
        connection.executemany(_INSERT_HISTORY, [(key, *more, crc32(more[-1])) for more in append.further])
    if append.payloads:
        keep(connection, key, append.payloads)
    if write.usage is not None:
        add_usage(SqliteTransaction(connection), write.usage)
    if write.quota is not None:  # raises if the start of a run is above it, which rolls it back
        count_start(SqliteTransaction(connection), write.quota, row.run_id)
    state.remember(row, key)
    return _APPENDED


def append_runs(connection: sqlite3.Connection, appends: list[RunAppend], state: WriterState) -> list[AppendOutcome]:
    """Store many decisions: the same rows as with `append_run`, with one statement for all rows of a kind."""
    if len(appends) == 1:
        return [append_run(connection, appends[0], state)]
    _refuse_together(appends)
    changes: dict[str, list[tuple[object, ...]]] = {}
    pages: list[tuple[object, ...]] = []
    further: list[tuple[object, ...]] = []
    for append in appends:
        write, row = append.write, append.write.row
        if write.expected_seq == 0:
            key = state.keys.next_key(connection, row.created_at)
            state.remember(row, key)
            _index_texts(connection, key, row, state)
        else:
            key = state.known.get(row.run_id) or _looked_up_key(connection, row, state)
        statement, values = _index_change(write, key)
        changes.setdefault(statement, []).append(values)
        page = _page(connection, append, state)
        pages.append((key, write.expected_seq + 1, append.last_seq, page, crc32(page)))
        if append.further:
            further += [(key, *more, crc32(more[-1])) for more in append.further]
        if append.payloads:
            keep(connection, key, append.payloads)
        if row.terminal:
            state.known.pop(row.run_id, None)
    for statement, rows in changes.items():
        if connection.executemany(statement, rows).rowcount != len(rows):
            raise NotTogetherError  # another writer has advanced, created or taken over one of the runs, or used a key
    connection.executemany(_INSERT_HISTORY, pages + further)
    for used in [append.write.usage for append in appends if append.write.usage is not None]:
        add_usage(SqliteTransaction(connection), used)
    return [_APPENDED] * len(appends)


def _refuse_together(appends: list[RunAppend]) -> None:
    """Raise if decisions have to be stored one by one."""
    seen: set[str] = set()
    for append in appends:
        write = append.write
        seen.add(write.row.run_id)
        if write.quota is not None:
            raise NotTogetherError  # a start that is above its quota is refused alone
    if len(seen) < len(appends):
        raise NotTogetherError  # decisions of one run must be stored in the order in which they were submitted


def _index_change(write: RunWrite, key: int) -> tuple[str, tuple[object, ...]]:
    """How a decision changes the index: a statement that many decisions may share, and its values."""
    row = write.row
    if write.same_index:
        return _MOVE_KEY, (row.seq, row.updated_at, key, row.run_id, write.expected_seq, write.expected_epoch)
    if write.expected_seq == 0:
        if row.parent_run_id is None and row.wake_at is None and row.owner is not None and not row.labels:
            return _INSERT_PLAIN_RUN, (key, *_plain_columns(row))
        return _INSERT_RUN, (key, *_columns(row))
    guard = (key, row.run_id, write.expected_seq, write.expected_epoch)
    if row.terminal and not row.has_work and row.owner is None and row.wake_at is None:
        return _END_KEY, (row.status, row.seq, row.updated_at, row.epoch, *guard)
    return _UPDATE_KEY, (*_changes(row), *guard)


def _looked_up_key(connection: sqlite3.Connection, row: RunRow, state: WriterState) -> int:
    found = connection.execute("SELECT key FROM runs WHERE run_id = ?", (row.run_id,)).fetchone()
    if found is None:
        raise NotTogetherError
    key = int(found[0])
    state.remember(row, key)
    return key


def _insert(connection: sqlite3.Connection, row: RunRow, state: WriterState) -> int | None:
    """The key of a new run; None if a run with its id exists."""
    columns = _columns(row)
    key = state.keys.next_key(connection, row.created_at)
    while connection.execute(_INSERT_RUN, (key, *columns)).rowcount == 0:
        if connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (row.run_id,)).fetchone() is not None:
            return None
        # Another process, or this one before a restart, has used the key.
        key = state.keys.free_key(connection, row.created_at)
    _index_texts(connection, key, row, state)
    return key


def _changes(row: RunRow) -> tuple[object, ...]:
    """The values that `_UPDATE_RUN` and `_UPDATE_KEY` set."""
    return (
        row.status,
        row.seq,
        row.updated_at,
        row.wake_at,
        int(row.has_work),
        row.owner,
        int(row.terminal),
        row.epoch,
    )


def _columns(row: RunRow) -> tuple[object, ...]:
    """The values of `_INSERT_RUN` after the key."""
    return (
        row.run_id,
        row.workflow_name,
        row.workflow_version,
        row.definition_hash,
        row.status,
        row.seq,
        row.created_at,
        row.updated_at,
        row.parent_run_id,
        encode_json(row.labels).decode() if row.labels else None,
        row.wake_at,
        int(row.has_work),
        row.owner,
        int(row.terminal),
        row.tenant,
        row.epoch,
        row.started_by or "",
    )


def _plain_columns(row: RunRow) -> tuple[object, ...]:
    """The values of `_INSERT_PLAIN_RUN` after the key."""
    return (
        row.run_id,
        row.workflow_name,
        row.workflow_version,
        row.definition_hash,
        row.status,
        row.seq,
        row.created_at,
        row.updated_at,
        int(row.has_work),
        row.owner,
        int(row.terminal),
        row.tenant,
        row.epoch,
        row.started_by or "",
    )


def _index_texts(connection: sqlite3.Connection, key: int, row: RunRow, state: WriterState) -> None:
    for name, value in row.labels.items():
        connection.execute("INSERT INTO labels VALUES (?,?,?,?)", (folded(value), name, key, value))
    state.texts.add(key, indexed_text(row.tenant, row.run_id, row.workflow_name, row.labels.values()))


def delete_run(connection: sqlite3.Connection, statement: str, name: str | int, state: WriterState) -> int:
    """Delete a run and everything that belongs to it. The statement must return `DELETED_COLUMNS`."""
    found = connection.execute(statement, (name,)).fetchall()
    for key, tenant, run_id, workflow_name, encoded in found:
        labels = labels_of(encoded)
        connection.execute("DELETE FROM history WHERE run = ?", (key,))
        drop_uses(connection, key)
        drop_spending(connection, run_id)
        for label, value in labels.items():
            connection.execute(
                "DELETE FROM labels WHERE folded = ? AND name = ? AND run = ?", (folded(value), label, key)
            )
        # At last: it is not undone if anything before it fails.
        state.texts.forget(key, indexed_text(tenant, run_id, workflow_name, labels.values()))
    return len(found)
