"""The space that an SQLite file takes: what is forgotten is given back."""

import asyncio
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.errors import Conflict, NotFound
from penstock.runtime.retention import Retention
from penstock.runtime.stores.sqlite.maintenance.backups import check_integrity
from penstock.runtime.stores.sqlite.schema.files import open_for_writing
from penstock.runtime.stores.sqlite.schema.vacuum import vacuum

DOCUMENT = """
penstock: v1
name: keep
nodes:
  - {id: done, type: end}
"""
RUNS, TEXT = 60, "x" * 60_000


async def filled(path: Path) -> None:
    """Some megabytes of ended runs, each with a text of its own."""
    async with Penstock.open(path, workflows=[DOCUMENT]) as penstock:
        started = [await penstock.start("keep", {"text": f"{number}{TEXT}"}) for number in range(RUNS)]
        for run in started:
            await run.result(timeout_seconds=240)


async def forgotten(path: Path) -> int:
    """Forget every run that has ended."""
    async with Penstock.open(path, workflows=[DOCUMENT]) as penstock:
        clock = penstock.host.clock
        return await Retention(store=penstock.store, clock=clock, keep_ms=0, pause_seconds=0).sweep()


def as_an_older_release_made_it(path: Path) -> None:
    """A file that does not keep track of its pages."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("VACUUM")


def test_a_file_is_smaller_after_its_runs_were_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    asyncio.run(filled(path))
    before = path.stat().st_size
    assert before > RUNS * len(TEXT)
    assert asyncio.run(forgotten(path)) == RUNS
    assert path.stat().st_size < before / 2
    assert check_integrity(path).ok


def test_one_piece_of_work_gives_back_a_bounded_number_of_pages_and_some_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STORE_PAGES_RETURNED_MAX", 100)
    path = tmp_path / "a.db"
    asyncio.run(filled(path))
    page_bytes = 4096
    before = path.stat().st_size // page_bytes

    async def pieces() -> list[int]:
        counts = []
        async with Penstock.open(path, workflows=[DOCUMENT]) as penstock:
            for _ in range(30):
                await penstock.store.delete_ended(before=2**60, limit=10)
                with closing(sqlite3.connect(path)) as reader:
                    counts.append(int(reader.execute("PRAGMA page_count").fetchone()[0]))
        return counts

    counts = [before, *asyncio.run(pieces())]
    assert max(earlier - later for earlier, later in pairwise(counts)) <= 101  # one that kept track of others
    assert counts[-1] == counts[-2]
    assert counts[-1] >= limits.STORE_FREE_PAGES_KEPT


def test_a_file_of_an_older_release_shrinks_once_it_was_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    asyncio.run(filled(path))
    as_an_older_release_made_it(path)
    before = path.stat().st_size
    assert asyncio.run(forgotten(path)) == RUNS
    assert path.stat().st_size == before
    done = vacuum(path)
    assert (done.bytes_before, done.bytes_after) == (before, path.stat().st_size)
    assert done.bytes_after < before / 2
    assert check_integrity(path).ok
    asyncio.run(filled(path))
    grown = path.stat().st_size
    assert asyncio.run(forgotten(path)) == RUNS
    assert path.stat().st_size < grown / 2


def test_a_file_that_is_in_use_is_not_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def body() -> None:
        async with Penstock.open(path, workflows=[DOCUMENT]) as penstock:
            with pytest.raises(Conflict, match="in use"):
                vacuum(path)
            run = await penstock.start("keep", {})
            await run.result(timeout_seconds=240)

    asyncio.run(body())
    with pytest.raises(NotFound):
        vacuum(tmp_path / "nothing.db")


def test_the_write_ahead_log_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = open_for_writing(str(path), synchronous="OFF")
    largest = 0
    with closing(connection):
        for number in range(300):
            connection.execute("INSERT INTO payloads VALUES (?, zeroblob(400000))", (number.to_bytes(4, "big"),))
            largest = max(largest, Path(f"{path}-wal").stat().st_size)
    frame_bytes, one_insert_pages = 4096 + 24, 110
    assert largest > limits.STORE_CHECKPOINT_PAGES * frame_bytes / 2
    assert largest <= (limits.STORE_CHECKPOINT_PAGES + one_insert_pages) * frame_bytes
