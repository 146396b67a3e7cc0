"""Stores the decisions of runs, one by one or many at once.

This is the hot path of the store: many decisions are written with one statement for all rows of a kind.

Above it: `store`. Below it: `shapes`, `payloads`, `row_keys`, and the run index of the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

import msgspec

from penstock.base import limits
from penstock.runtime.ports.run_index import RunIndex, RunText
from penstock.runtime.ports.runs import Appended, AppendOutcome, RunRow, RunWrite, SequenceConflict
from penstock.runtime.ports.transactions import NotTogetherError, Transaction
from penstock.runtime.tables.codec import encode_json
from penstock.runtime.tables.runs.payloads import PageSplitter, keep_payloads
from penstock.runtime.tables.runs.row_keys import KeyMaker
from penstock.runtime.tables.runs.shapes import ShapeNumbers
from penstock.runtime.tables.search_rules import folded
from penstock.runtime.tables.usage import add_usage, count_start

__all__ = ["Appender", "RunAppend", "encode_append", "small_append", "text_of"]

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
_INSERT_LABEL = "INSERT INTO labels (folded, name, run, value) VALUES (?,?,?,?)"
_INSERT_HISTORY = "INSERT INTO history (run, first_seq, last_seq, records, checksum) VALUES (?,?,?,?,?)"
_APPENDED = Appended()
_KNOWN_KEYS_MAX = 10_000  # about a megabyte; then the cache is emptied and fills again on use


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


class Appender:
    """Stores decisions. It remembers what the next ones need: keys of runs, and numbers of shapes.

    What it remembers may be stale: the statements that use it find out.
    """

    def __init__(self, index: RunIndex) -> None:
        self._index = index
        self._keys = KeyMaker()
        self._shapes = ShapeNumbers()
        self._known: dict[str, int] = {}  # keys of runs that are likely to be written again

    def append(self, transaction: Transaction, appends: list[RunAppend]) -> list[AppendOutcome]:
        """Store decisions, many with one statement for all rows of a kind."""
        return [self._append_one(transaction, appends[0])] if len(appends) == 1 else self._append(transaction, appends)

    def _append_one(self, transaction: Transaction, append: RunAppend) -> AppendOutcome:
        """Store a decision: the index row, a page of history, and the payloads that belong to the page."""
        write, row = append.write, append.write.row
        if write.expected_seq == 0:
            key = self._insert(transaction, row)
        elif write.same_index:
            moved = transaction.one(
                _MOVE_RUN, (row.seq, row.updated_at, row.run_id, write.expected_seq, write.expected_epoch)
            )
            key = None if moved is None else moved[0]
        else:
            found = transaction.one(_UPDATE_RUN, (*_changes(row), row.run_id, write.expected_seq, write.expected_epoch))
            key = None if found is None else found[0]
        if key is None:
            return SequenceConflict()
        page = self._page(transaction, append)
        transaction.execute(_INSERT_HISTORY, (key, write.expected_seq + 1, append.last_seq, page, crc32(page)))
        if append.further:
            transaction.many(_INSERT_HISTORY, [(key, *more, crc32(more[-1])) for more in append.further])
        if append.payloads:
            keep_payloads(transaction, {key: append.payloads})
        if write.usage is not None:
            add_usage(transaction, write.usage)
        if write.quota is not None:  # raises if the start of a run is above it, which rolls it back
            count_start(transaction, write.quota, row.run_id)
        self._remember(row, key)
        return _APPENDED

    def _append(self, transaction: Transaction, appends: list[RunAppend]) -> list[AppendOutcome]:
        """Store many decisions: the same rows, with one statement for all rows of a kind."""
        _refuse_together(appends)
        changes: dict[str, list[tuple[object, ...]]] = {}
        pages: list[tuple[object, ...]] = []
        further: list[tuple[object, ...]] = []
        payloads: dict[int, Mapping[str, bytes]] = {}
        for append in appends:
            write, row = append.write, append.write.row
            if write.expected_seq == 0:
                key = self._keys.next_key(transaction, row.created_at)
                self._remember(row, key)
                self._index_texts(transaction, key, row)
            else:
                key = self._known.get(row.run_id) or self._find_key(transaction, row)
            statement, values = _index_change(write, key)
            changes.setdefault(statement, []).append(values)
            page = self._page(transaction, append)
            pages.append((key, write.expected_seq + 1, append.last_seq, page, crc32(page)))
            if append.further:
                further += [(key, *more, crc32(more[-1])) for more in append.further]
            if append.payloads:
                payloads[key] = append.payloads
            if row.terminal:
                self._known.pop(row.run_id, None)
        for statement, rows in changes.items():
            if transaction.many(statement, rows) != len(rows):
                raise NotTogetherError  # another writer has advanced, created or taken over a run, or used a key
        transaction.many(_INSERT_HISTORY, pages + further)
        if payloads:
            keep_payloads(transaction, payloads)
        for used in [append.write.usage for append in appends if append.write.usage is not None]:
            add_usage(transaction, used)
        return [_APPENDED] * len(appends)

    def _page(self, transaction: Transaction, append: RunAppend) -> bytes | bytearray:
        if append.page is not None:
            return append.page
        if append.write.move is None:
            raise TypeError("a decision to be stored has neither a page nor a move")
        return self._shapes.page(transaction, append.write.move)

    def _remember(self, row: RunRow, key: int) -> None:
        if row.terminal:
            self._known.pop(row.run_id, None)
            return
        if len(self._known) >= _KNOWN_KEYS_MAX:
            self._known.clear()
        self._known[row.run_id] = key

    def _find_key(self, transaction: Transaction, row: RunRow) -> int:
        found = transaction.one("SELECT key FROM runs WHERE run_id = ?", (row.run_id,))
        if found is None:
            raise NotTogetherError
        key = int(found[0])
        self._remember(row, key)
        return key

    def _insert(self, transaction: Transaction, row: RunRow) -> int | None:
        """Store a new run and return its key; None if a run with its id exists."""
        columns = _columns(row)
        key = self._keys.next_key(transaction, row.created_at)
        while transaction.execute(_INSERT_RUN, (key, *columns)) == 0:
            if transaction.one("SELECT 1 FROM runs WHERE run_id = ?", (row.run_id,)) is not None:
                return None
            # Another process, or this one before a restart, has used the key.
            key = self._keys.free_key(transaction, row.created_at)
        self._index_texts(transaction, key, row)
        return key

    def _index_texts(self, transaction: Transaction, key: int, row: RunRow) -> None:
        for name, value in row.labels.items():
            transaction.execute(_INSERT_LABEL, (folded(value), name, key, value))
        self._index.add(transaction, key, text_of(row))


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


def text_of(row: RunRow) -> RunText:
    """Return what a search looks at."""
    return RunText(
        tenant=row.tenant,
        run_id=row.run_id,
        workflow_name=row.workflow_name,
        label_values=tuple(row.labels.values()),
    )
