"""Reads the history of a run. It is the only module that knows all forms in which a page is stored.

Above it: `store`, `checks`. Below it: `shapes`, `payloads`, the engine's `pages`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.base.errors import CorruptHistory
from penstock.engine.pages import expand
from penstock.engine.records import Record
from penstock.runtime.ports.runs import StoredRun
from penstock.runtime.ports.transactions import Reader
from penstock.runtime.tables.codec import RUN_COLUMNS, decode_json, part_of, run_of
from penstock.runtime.tables.runs.payloads import PayloadReader
from penstock.runtime.tables.runs.shapes import ShapeReader, is_move

__all__ = ["PAGES", "HistoryReader", "load_run", "read_history"]

PAGES = "SELECT first_seq, records FROM history WHERE run = ? ORDER BY first_seq"
"""The whole history of a run, by the run's key."""

# The page with the first wanted record, and the pages after it.
_PAGES_FROM = (
    "SELECT first_seq, last_seq, records FROM history WHERE run = :run AND first_seq <= :last"
    " AND first_seq >= (SELECT max(first_seq) FROM history WHERE run = :run AND first_seq <= :first)"
    " ORDER BY first_seq"
)
_MOVE: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[Any])
_HEADER_VALUES = 2  # the number of the shape and the time come before the values of a move


class HistoryReader:
    """Reads pages of one run from one snapshot."""

    def __init__(self, reader: Reader, run_id: str, shapes: ShapeReader) -> None:
        self._reader = reader
        self._run_id = run_id
        self._shapes = shapes
        self._payloads = PayloadReader(reader)

    @property
    def payload_hashes(self) -> set[str]:
        """The hashes of the payloads that were read."""
        return self._payloads.hashes

    def records(self, first_seq: int, page: bytes, part: slice | None = None) -> list[Record]:
        """The records of a page that starts at a sequence number, or a slice of them."""
        if not is_move(page):
            return self._payloads.records(page, part)
        found = decode_json(_MOVE, page)
        match found[:_HEADER_VALUES]:
            case [int(number), int(at)]:
                shape = self._shapes.shape(self._reader, number)
                records = list(expand(shape, self._run_id, first_seq, at, found[_HEADER_VALUES:]))
            case _:
                message = f"row {first_seq} is a move without a shape or a time"
                raise CorruptHistory("STORE_CORRUPT", message, "restore a backup with `penstock server restore`")
        return records if part is None else records[part]


def load_run(reader: Reader, run_id: str, shapes: ShapeReader) -> StoredRun | None:
    """Return a run with its whole history. The reader must read from one snapshot."""
    found = reader.one(f"SELECT {RUN_COLUMNS}, key FROM runs WHERE run_id = ?", (run_id,))
    if found is None:
        return None
    history = HistoryReader(reader, run_id, shapes)
    pages = reader.rows(PAGES, (found[-1],))
    return StoredRun(run_of(found), tuple(record for first, page in pages for record in history.records(first, page)))


def read_history(reader: Reader, run_id: str, shapes: ShapeReader, *, after_seq: int, limit: int) -> tuple[Record, ...]:
    """Return records of a run after a sequence number. The reader must read from one snapshot."""
    wanted = (after_seq + 1, after_seq + limit)
    run = reader.one("SELECT key FROM runs WHERE run_id = ?", (run_id,))
    if run is None:
        return ()
    history = HistoryReader(reader, run_id, shapes)
    pages = reader.rows(_PAGES_FROM, {"run": run[0], "first": wanted[0], "last": wanted[1]})
    return tuple(
        record for first, last, page in pages for record in history.records(first, page, part_of(first, last, *wanted))
    )
