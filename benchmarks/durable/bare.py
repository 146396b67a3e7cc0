"""The anchor of `benchmarks.durable`: a loop that only appends what a run of Penstock appends.

It writes the same rows into the same tables: for each decision the row of history, of the same bytes, and the change of
the run's row in the index, which is made with the first and updated with each of the others, with the indexes that
belong to it. So it commits as many bytes as the runtime does (`wal_bytes_per_run` shows both) and as many rows. What it
leaves out is everything else: no engine, no guard against concurrent writers, nothing encoded. What remains is SQLite,
the disk and asyncio.

With group commit everything that waits shares one transaction, whose COMMIT runs on a thread; without it each append is
a transaction of its own. Settings of the file are those of the product's store.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.durable.load import Load, closed_loop
from penstock.runtime.stores.sqlite.schema.files import open_for_writing

__all__ = ["Append", "appends_of", "bare_load"]

_FIRST_KEY = 1_700_000_000_000 << 20  # as large as the keys of real runs
_Values = tuple[object, ...]
_Write = tuple["Append", _Values, _Values]  # one append of one run: its rows of the index and of history


@dataclass(frozen=True, slots=True)
class Append:
    """One append of a run: what it writes to the index (all columns at first, later those that change) and to history.

    Statements take the key of the run, and at first its id, before these values.
    """

    index_statement: str
    history_statement: str
    index: _Values
    history: _Values

    @property
    def history_bytes(self) -> int:
        """The size of the page of records."""
        return max(len(value) for value in self.history if isinstance(value, bytes))


def appends_of(rows: Sequence[tuple[dict[str, object], dict[str, object]]]) -> list[Append]:
    """The appends that lead to these rows, of the index and of history, one after the other."""
    appends: list[Append] = []
    before: dict[str, object] = {}
    for index, history in rows:
        written = {name: value for name, value in history.items() if name != "run"}
        changed = {name: value for name, value in index.items() if name not in before or value != before[name]}
        if not before:
            changed = {name: value for name, value in index.items() if name not in ("key", "run_id")}
            statement = _insert("runs", ["key", "run_id", *changed])
        else:
            changes = ", ".join(f"{name} = ?{number}" for number, name in enumerate(changed, 2))
            statement = f"UPDATE runs SET {changes} WHERE key = ?1"
        appends.append(
            Append(statement, _insert("history", ["run", *written]), tuple(changed.values()), tuple(written.values()))
        )
        before = index
    return appends


def _insert(table: str, columns: list[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


class GroupCommit:
    """Appends that wait are committed together."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[tuple[_Write, asyncio.Future[None]]] = []
        self._busy = False

    def append(self, write: _Write) -> asyncio.Future[None]:
        """Done when the rows are durable."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((write, future))
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
        by_statement: dict[str, list[_Values]] = {}
        for (append, index, history), _ in batch:
            by_statement.setdefault(append.index_statement, []).append(index)
            by_statement.setdefault(append.history_statement, []).append(history)
        for statement, rows in by_statement.items():
            self._connection.executemany(statement, rows)

        def committed(done: Future[sqlite3.Cursor]) -> None:
            done.result()
            self._loop.call_soon_threadsafe(self._deliver, batch)

        self._thread.submit(self._connection.execute, "COMMIT").add_done_callback(committed)

    def _deliver(self, batch: list[tuple[_Write, asyncio.Future[None]]]) -> None:
        for _, future in batch:
            future.set_result(None)
        self._flush()


class SingleCommit:
    """Every append is a transaction of its own."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def append(self, write: _Write) -> None:
        """Done when the rows are durable; then the next client has its turn."""
        append, index, history = write
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(append.index_statement, index)
        self._connection.execute(append.history_statement, history)
        self._connection.execute("COMMIT")
        await asyncio.sleep(0)

    def close(self) -> None:
        """There is nothing to end."""


async def bare_load(
    path: Path, appends: Sequence[Append], *, group: bool, clients: int, seconds: float, keep_log: bool = False
) -> Load:
    """The throughput of the bare loop; one "run" is each of the appends, one after the other."""
    connection = open_for_writing(str(path), synchronous="FULL")
    keys = itertools.count(_FIRST_KEY)
    writer = GroupCommit(connection) if group else SingleCommit(connection)
    append: Callable[[_Write], Awaitable[None]] = writer.append

    async def one_run() -> None:
        key = next(keys)
        await append((appends[0], (key, f"r_{key:026}", *appends[0].index), (key, *appends[0].history)))
        for planned in appends[1:]:
            await append((planned, (key, *planned.index), (key, *planned.history)))

    try:
        load = await closed_loop(one_run, clients=clients, seconds=seconds, keep_log_of=path if keep_log else None)
        (runs,) = connection.execute("SELECT count(*) FROM runs").fetchone()
        (rows,) = connection.execute("SELECT count(*) FROM history").fetchone()
        if (runs, rows) != (load.runs, load.runs * len(appends)):
            raise SystemExit(f"the bare loop stored {runs} runs with {rows} rows of history for {load.runs} runs")
        return load
    finally:
        writer.close()
        connection.close()
