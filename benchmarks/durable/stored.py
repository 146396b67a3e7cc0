"""Part of `benchmarks.durable`: does a step cost the same in an empty file and in one full of ended runs?

And how many bytes does a run take there?

The full file is made by copying the rows of one real run many times over, with ids and times of their own, straight
into the tables: measuring does not depend on how they came there, and starting a million runs would take too long.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.durable.load import Load
from benchmarks.durable.product import engine_load, linear, opened
from penstock.base.ids import ENTROPY_BYTES, run_id_of

__all__ = ["STEPS", "bytes_of_a_stored_run", "fill", "stored_rounds"]

STEPS = 5
_CLIENTS = 200
_CHUNK_RUNS = 10_000
_MEASURED_RUNS = 4_000  # so many that a page more or less of the file does not show
_APART_MS = 500  # the copies began this long one after the other, the last one just now


async def _template(path: Path) -> None:
    async with opened(path, linear(STEPS)) as engine:
        await engine.run_to_its_end()


async def bytes_of_a_stored_run(folder: Path) -> float:
    """What the file grows by for a run of five steps with short results, with its share of the indexes."""
    path = folder / "grown.db"
    async with opened(path, linear(STEPS)) as engine:
        await asyncio.gather(*(engine.run_to_its_end() for _ in range(_CLIENTS)))
    before = _size(path)
    async with opened(path, linear(STEPS)) as engine:
        for _ in range(_MEASURED_RUNS // _CLIENTS):
            await asyncio.gather(*(engine.run_to_its_end() for _ in range(_CLIENTS)))
    return (_size(path) - before) / _MEASURED_RUNS


def _size(path: Path) -> int:
    """What a closed file takes, once its log is copied into it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def fill(path: Path, runs: int) -> float:
    """A file with that many ended runs; how long it took to make, in seconds."""
    began = time.perf_counter()
    asyncio.run(_template(path))
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -200000")
        _copy(connection, runs)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (stored,) = connection.execute("SELECT count(*) FROM runs WHERE terminal = 1").fetchone()
    finally:
        connection.close()
    if stored < runs:
        raise SystemExit(f"the full file holds {stored} runs instead of {runs}")
    return time.perf_counter() - began


def _copy(connection: sqlite3.Connection, runs: int) -> None:
    """Copy the newest run. Columns are taken as they are found, so that the tables may change."""
    columns, run_rows = _rows(connection, "SELECT * FROM runs ORDER BY key DESC LIMIT 1")
    run = run_rows[0]
    first_key = run["key"] + 1
    now = run["created_at"]
    page_columns, pages = _rows(connection, f"SELECT * FROM history WHERE run = {run['key']} ORDER BY first_seq")

    def copied_runs(numbers: range) -> Iterator[dict[str, object]]:
        for number in numbers:
            at = now - (runs - number) * _APART_MS
            run_id = run_id_of(at, secrets.token_bytes(ENTROPY_BYTES))
            own = {"key": first_key + number, "run_id": run_id, "created_at": at, "updated_at": at}
            yield {**run, **own}

    def copied_pages(numbers: range) -> Iterator[dict[str, object]]:
        for number in numbers:
            for page in pages:
                yield {**page, "run": first_key + number}

    for chunk in range(0, runs, _CHUNK_RUNS):
        numbers = range(chunk, min(chunk + _CHUNK_RUNS, runs))
        connection.execute("BEGIN")
        connection.executemany(_insert("runs", columns), copied_runs(numbers))
        connection.executemany(_insert("history", page_columns), copied_pages(numbers))
        connection.execute("COMMIT")


def _rows(connection: sqlite3.Connection, statement: str) -> tuple[list[str], list[dict[str, int]]]:
    cursor = connection.execute(statement)
    columns = [str(column[0]) for column in cursor.description]
    return columns, [dict(zip(columns, row, strict=True)) for row in cursor]


def _insert(table: str, columns: list[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(f':{name}' for name in columns)})"


def stored_rounds(folder: Path, full: Path, *, rounds: int, seconds: float) -> tuple[list[Load], list[Load]]:
    """The same load on a new file and on the full one, in turn."""
    on_empty: list[Load] = []
    on_full: list[Load] = []
    for number in range(rounds):
        turn = [(folder / f"empty-{number}.db", on_empty), (full, on_full)]
        for path, loads in turn if number % 2 == 0 else reversed(turn):
            loads.append(asyncio.run(engine_load(path, STEPS, clients=_CLIENTS, seconds=seconds)))
    return on_empty, on_full
