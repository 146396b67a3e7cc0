"""The pace of work that is written piece by piece: how many rows a piece has, and when the next one begins.

Everybody else who writes waits for a piece, so its size follows from how long pieces took: it is shorter while others
write, and after such a piece they have the file for as long as the piece had it. The log is copied into the file in
between, beside the writer, before the writer would have to.

Above it: `staged_work`. Below it: `database`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from penstock.base import limits
from penstock.runtime.stores.sqlite.database import SqliteDatabase

__all__ = ["Pace"]

T = TypeVar("T")


class Pace:
    """The pace of all such work on one file in this process. Each kind of work has its own size of pieces."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._sizes: dict[str, int] = {}
        self._jobs_seen = 0

    def size(self, kind: str) -> int:
        """How many rows the next piece of some work should have."""
        return self._sizes.get(kind, limits.GRAPH_PIECE_ROWS_MIN)

    async def piece(self, kind: str, rows: int, apply: Callable[[sqlite3.Connection], T]) -> T:
        """Write a piece of so many rows, and wait until it is time for the next one."""
        writer = self._database.writer
        began = [0.0]

        def timed(connection: sqlite3.Connection) -> T:
            began[0] = time.perf_counter()  # not before: until now, others may have had their turn
            return apply(connection)

        outcome = await self._database.write_raw(timed, is_long=True)
        held = time.perf_counter() - began[0]
        others = writer.jobs - self._jobs_seen > 1
        self._jobs_seen = writer.jobs
        self._adapt(kind, rows, held, others=others)
        if self._database.log_pages() >= limits.GRAPH_LOG_PAGES_MAX:
            await self._database.checkpoint()
        if others:
            await asyncio.sleep(min(held, limits.GRAPH_PIECE_PAUSE_SECONDS_MAX))
        return outcome

    def _adapt(self, kind: str, rows: int, held: float, *, others: bool) -> None:
        """Choose the next size: at most twice this one, and what fits into the time that a piece may take."""
        wanted = limits.GRAPH_PIECE_SECONDS if others else limits.GRAPH_PIECE_SECONDS_ALONE
        fitting = int(rows * min(2.0, wanted / max(held, 1e-6)))
        if rows < self.size(kind) and fitting >= rows:
            return  # the last piece of something says nothing about larger ones
        self._sizes[kind] = max(limits.GRAPH_PIECE_ROWS_MIN, min(fitting, limits.GRAPH_PIECE_ROWS_MAX))
