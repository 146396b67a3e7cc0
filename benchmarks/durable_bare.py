"""The anchor of `benchmarks.durable`: a loop that only appends, as many times and as many bytes as a run of Penstock.

No engine, no index of runs, no guard against concurrent writers: what remains is SQLite, the disk and asyncio. With
group commit everything that waits shares one transaction, whose COMMIT runs on a thread; without it each append is a
transaction of its own. Settings of the file are those of the product's store.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from benchmarks.durable_load import Load, closed_loop

__all__ = ["append_sizes", "bare_load"]

_INSERT = "INSERT INTO log (run, number, body) VALUES (?, ?, ?)"
_Row = tuple[int, int, bytes]


class GroupCommit:
    """Appends that wait are committed together."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[tuple[_Row, asyncio.Future[None]]] = []
        self._busy = False

    def append(self, row: _Row) -> asyncio.Future[None]:
        """Done when the row is durable."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((row, future))
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._flush)
        return future

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def _flush(self) -> None:
        batch, self._waiting = self._waiting, []
        if not batch:
            self._busy = False
            return
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_INSERT, [row for row, _ in batch])

        def committed(done: Future[sqlite3.Cursor]) -> None:
            done.result()
            self._loop.call_soon_threadsafe(self._deliver, batch)

        self._thread.submit(self._connection.execute, "COMMIT").add_done_callback(committed)

    def _deliver(self, batch: list[tuple[_Row, asyncio.Future[None]]]) -> None:
        for _, future in batch:
            future.set_result(None)
        self._flush()


class SingleCommit:
    """Every append is a transaction of its own."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def append(self, row: _Row) -> None:
        """Done when the row is durable; then the next client has its turn."""
        self._connection.execute(_INSERT, row)
        await asyncio.sleep(0)

    def close(self) -> None:
        """There is nothing to end."""


def append_sizes(path: Path) -> list[int]:
    """How many bytes each append of the last stored run of Penstock wrote to its history."""
    connection = sqlite3.connect(path)
    try:
        sizes = connection.execute(
            "SELECT length(records) FROM history WHERE run = (SELECT max(run) FROM history) ORDER BY first_seq"
        ).fetchall()
    finally:
        connection.close()
    return [size for (size,) in sizes]


async def bare_load(path: Path, sizes: Sequence[int], *, group: bool, clients: int, seconds: float) -> Load:
    """The throughput of the bare loop; one "run" is one append of each of the sizes, one after the other."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -16000")
    connection.execute("CREATE TABLE log (key INTEGER PRIMARY KEY, run INTEGER, number INTEGER, body BLOB NOT NULL)")
    bodies = [bytes(size) for size in sizes]
    numbers = itertools.count()
    writer = GroupCommit(connection) if group else SingleCommit(connection)
    append: Callable[[_Row], Awaitable[None]] = writer.append

    async def one_run() -> None:
        run = next(numbers)
        for number, body in enumerate(bodies):
            await append((run, number, body))

    try:
        load = await closed_loop(one_run, clients=clients, seconds=seconds)
        (rows,) = connection.execute("SELECT count(*) FROM log").fetchone()
        if rows != load.runs * len(bodies):
            raise SystemExit(f"the bare loop stored {rows} rows for {load.runs} runs")
        return load
    finally:
        writer.close()
        connection.close()
