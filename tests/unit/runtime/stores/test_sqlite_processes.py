"""An SQLite file with several processes on it, and with a process that is killed in the middle of its work."""

import asyncio
import random
import shutil
import subprocess
import sys
from pathlib import Path

from penstock.runtime.ports.runs import Appended, StoredRun
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.stores import listed, record, run_bounded, start
from tests.waiting import SECONDS_MAX

ROOT = Path(__file__).parents[4]


def appender(path: Path, name: str, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.conformance.appender", str(path), name, *options]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def kill_after(process: subprocess.Popen[str], lines: int) -> dict[str, int]:
    """Kill a process once it has acknowledged so many decisions; the last acknowledged number of each run."""
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    told = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    told += process.stdout.readlines()
    process.stdout.close()
    assert process.wait(SECONDS_MAX) == -9
    acknowledged: dict[str, int] = {}
    for line in told:
        if line.endswith("\n"):
            run_id, seq = line.split()
            acknowledged[run_id] = int(seq)
    return acknowledged


async def check_whole(store: RunStore) -> dict[str, int]:
    """Every run is whole: its row, its records, its labels; the number of records of each."""
    run_ids = await listed(store, limit=1_000)
    for run_id in run_ids:
        name, lane, _ = run_id.split("-")
        loaded = await store.load(run_id)
        assert loaded is not None
        assert loaded.records == tuple(record(seq) for seq in range(1, loaded.row.seq + 1))
        assert loaded.row.seq in (3, 5, 7, 9, 11)
        assert loaded.row.labels == {"by": name, "lane": lane}
    names = {run_id.split("-")[0] for run_id in run_ids}
    labelled = [run_id for name in sorted(names) for run_id in await listed(store, label=("by", name), limit=1_000)]
    assert sorted(labelled) == sorted(run_ids)
    rows = [await store.row(run_id) for run_id in run_ids]
    return {row.run_id: row.seq for row in rows if row is not None}


def test_a_killed_process_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    chance = random.Random(7)
    acknowledged: dict[str, int] = {}

    async def look() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        kept = await check_whole(store)
        assert {run_id: seq for run_id, seq in acknowledged.items() if kept.get(run_id, 0) < seq} == {}
        await store.close()

    for number in range(4):
        acknowledged |= kill_after(appender(path, f"round{number}"), chance.randint(1, 300))
        run_bounded(look())
    assert len({run_id.split("-")[0] for run_id in acknowledged}) == 4


def test_a_log_that_was_cut_off_leaves_whole_decisions_only(tmp_path: Path) -> None:
    """As after a power failure that kept only the beginning of what was written last."""
    path = tmp_path / "store.db"
    kill_after(appender(path, "cut"), 150)
    log = (tmp_path / "store.db-wal").read_bytes()
    assert len(log) > 10_000
    chance = random.Random(3)
    kept: list[int] = []

    async def look(copy: Path) -> None:
        store = RunStore(SqliteDatabase(copy))
        await store.open()
        kept.append(sum((await check_whole(store)).values()))
        assert await store.append(start("after-0-0")) == Appended()
        await store.close()

    lengths = [0, 31, 32, 33, *sorted(chance.randrange(len(log)) for _ in range(8)), len(log) - 1, len(log)]
    for number, length in enumerate(lengths):
        copy = tmp_path / f"copy{number}.db"
        shutil.copy(path, copy)
        (tmp_path / f"copy{number}.db-wal").write_bytes(log[:length])
        run_bounded(look(copy))
    assert kept == sorted(kept)
    assert kept[0] < kept[-1]


def test_two_processes_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    times = 60
    names = ["one", "two"]
    processes = [appender(path, name, "--shared", str(times)) for name in names]
    for name, process in zip(names, processes, strict=True):
        told, _ = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 0
        assert told.splitlines() == ["open", f"{name} {times}"]

    async def look() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        loaded = await store.load("shared")
        assert isinstance(loaded, StoredRun)
        assert [found.seq for found in loaded.records] == list(range(1, 2 + 2 * times + 1))
        by = [found.payload["by"] for found in loaded.records]
        assert {name: by.count(name) for name in names} == {"one": times, "two": times}
        run_ids = set(await listed(store, limit=1_000))
        assert {f"{name}-{number}" for name in names for number in range(times)} <= run_ids
        await store.close()

    run_bounded(look())


def test_many_stores_open_one_new_file_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        for number in range(5):
            stores = [RunStore(SqliteDatabase(tmp_path / f"{number}.db")) for _ in range(6)]
            await asyncio.gather(*(store.open() for store in stores))
            await asyncio.gather(*(store.append(start(f"r_{index}")) for index, store in enumerate(stores)))
            for store in stores:
                assert len(await listed(store)) == 6
            await asyncio.gather(*(store.close() for store in stores))

    run_bounded(scenario())
