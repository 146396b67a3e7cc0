"""A log that was cut or changed is noticed if acknowledged commits are gone; every other log is read as before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.base.errors import Unavailable
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.maintenance.backups import check_integrity, restore, stats
from penstock.runtime.stores.sqlite.schema.files import open_for_writing
from penstock.runtime.stores.sqlite.schema.log_ends import NOTE_SUFFIX, count_frames, is_log_cut
from penstock.runtime.stores.sqlite.schema.log_notes import accept_missing_log
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.stores import run_bounded, start
from tests.opened_database import sqlite_of
from tests.waiting import until

# Acknowledges runs and dies.
KILLED = """
import asyncio, os, signal, sys
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.stores import start
from tests.unit.runtime.stores.sqlite.schema.test_log_ends import is_all_noted
from tests.waiting import until

async def main():
    store = RunStore(SqliteDatabase(sys.argv[1], **({"synchronous": sys.argv[2]} if len(sys.argv) > 2 else {})))
    await store.open()
    for number in range(20):
        await store.append(start(f"r_{number}"))
    if len(sys.argv) == 2:
        await until(lambda: is_all_noted(sys.argv[1]))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def is_all_noted(path: str | Path) -> bool:
    """Whether the note says how far the log goes now."""
    log = os.open(f"{path}-wal", os.O_RDONLY)
    try:
        frames = count_frames(log)
    finally:
        os.close(log)
    note = Path(f"{path}{NOTE_SUFFIX}")
    return note.exists() and note.read_bytes()[8:] == frames.to_bytes(8, "big")


def kill_after_appends(path: Path, *more: str) -> Path:
    """Make a file whose process was killed after 20 runs; return its log."""
    subprocess.run([sys.executable, "-c", KILLED, str(path), *more], check=False)
    return Path(f"{path}-wal")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("killed") / "penstock.db"
    kill_after_appends(path)
    return path


@pytest.fixture
def path(killed: Path, tmp_path: Path) -> Path:
    """A file with its log, left by a killed process."""
    for suffix in ("", "-wal", NOTE_SUFFIX):
        shutil.copy(f"{killed}{suffix}", tmp_path / f"penstock.db{suffix}")
    return tmp_path / "penstock.db"


def count_runs(path: Path) -> int:
    with closing(open_for_writing(str(path))) as connection:
        return int(connection.execute("SELECT count(*) FROM runs").fetchone()[0])


def test_a_log_that_was_cut_in_half_is_not_read_until_somebody_accepts_it(path: Path) -> None:
    log = Path(f"{path}-wal")
    whole = log.read_bytes()
    os.truncate(log, len(whole) // 2)
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"log penstock\.db-wal was cut or changed") as refused:
            open_for_writing(str(path))
        assert refused.value.code == "STORE_LOG_CUT"
    assert [problem.code for problem in check_integrity(path).problems] == ["STORE_LOG_CUT"]
    stats(path)
    assert log.stat().st_size == len(whole) // 2, "looking at it leaves the log alone"
    assert accept_missing_log(str(path))
    assert 0 < count_runs(path) < 20
    assert "STORE_LOG_CUT" not in {problem.code for problem in check_integrity(path).problems}
    assert not accept_missing_log(str(path))


def test_the_whole_log_can_be_put_back(path: Path) -> None:
    log = Path(f"{path}-wal")
    whole = log.read_bytes()
    os.truncate(log, 0)
    assert is_log_cut(str(path))
    log.write_bytes(whole)
    assert count_runs(path) == 20


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_every_cut_and_every_changed_byte_of_a_log_is_noticed(path: Path, data: st.DataObject) -> None:
    log = Path(f"{path}-wal")
    whole = log.read_bytes()
    place = data.draw(st.integers(32, len(whole) - 1))
    if data.draw(st.booleans()):
        log.write_bytes(whole[:place])
    else:
        log.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << data.draw(st.integers(0, 7))]) + whole[place + 1 :])
    assert is_log_cut(str(path))
    log.write_bytes(whole)
    assert not is_log_cut(str(path))


def test_what_was_not_acknowledged_may_be_missing(path: Path) -> None:
    with open(f"{path}-wal", "ab") as log:
        log.write(b"half of a frame that nobody waited for")
    assert count_runs(path) == 20


def test_a_file_that_was_closed_leaves_no_note_and_a_killed_one_works_again(path: Path, tmp_path: Path) -> None:
    assert count_runs(path) == 20
    assert not Path(f"{path}{NOTE_SUFFIX}").exists()
    kill_after_appends(tmp_path / "other.db", "NORMAL")
    assert not (tmp_path / f"other.db{NOTE_SUFFIX}").exists(), "commits that may be lost are not noted"


def test_a_log_that_is_emptied_on_purpose_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        for number in range(3):
            await store.append(start(f"r_{number}"))
            await until(lambda: is_all_noted(path))
            assert not is_log_cut(str(path))
            await sqlite_of(store).cut_log()
            assert os.stat(f"{path}-wal").st_size == 0
            assert not is_log_cut(str(path))
        await store.close()

    run_bounded(scenario())
    assert sorted(found.name for found in tmp_path.iterdir()) == ["penstock.db"]


def test_a_log_that_began_anew_is_compared_with_its_own_note(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        for number in range(30):
            await store.append(start(f"r_{number}"))
            if number % 7 == 0:
                await sqlite_of(store).checkpoint()
            assert not is_log_cut(str(path))
        await store.close()

    run_bounded(scenario())
    assert count_runs(path) == 30


def test_a_restored_file_has_nothing_of_the_old_note(path: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    open_for_writing(str(backup)).close()
    restore(backup, path, force=True)
    assert not Path(f"{path}{NOTE_SUFFIX}").exists()
    assert count_runs(path) == 0
