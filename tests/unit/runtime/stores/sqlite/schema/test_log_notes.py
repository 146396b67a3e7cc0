"""A file that lost its log is noticed; one that was closed, killed with its log, copied or shared is not."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from penstock.base.errors import Unavailable
from penstock.runtime.stores.sqlite.maintenance.backups import backup, check_integrity, restore, stats
from penstock.runtime.stores.sqlite.schema.files import open_for_writing
from penstock.runtime.stores.sqlite.schema.log_notes import accept_missing_log, is_log_missing

# Commits something into the log of a file and dies.
KILLED = """
import os, signal, sys
from penstock.runtime.stores.sqlite.schema.files import open_for_writing
connection = open_for_writing(sys.argv[1])
connection.execute("INSERT OR REPLACE INTO marks (name, value) VALUES ('kept', '7')")
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path) -> Path:
    """A file whose process was killed; returns its log."""
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    log = Path(f"{path}-wal")
    assert log.stat().st_size > 0
    return log


def kept(path: Path) -> bool:
    with closing(open_for_writing(str(path))) as connection:
        return connection.execute("SELECT 1 FROM marks WHERE name = 'kept'").fetchone() is not None


def test_a_file_that_lost_its_log_is_not_opened_until_somebody_accepts_it(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"
    killed(path).unlink()
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"log penstock\.db-wal is gone") as refused:
            open_for_writing(str(path))
        assert refused.value.code == "STORE_LOG_MISSING"
    report = check_integrity(path)
    assert [problem.code for problem in report.problems] == ["STORE_LOG_MISSING"]
    stats(path)
    assert is_log_missing(str(path)), "looking at it takes nothing back"
    assert accept_missing_log(str(path))
    assert not kept(path)
    assert check_integrity(path).ok
    assert not accept_missing_log(str(path))


def test_a_killed_process_leaves_its_log_and_the_next_start_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"
    killed(path)
    assert not is_log_missing(str(path))
    assert kept(path)
    killed(path)
    assert check_integrity(path).ok, "the check merges the log, as it is the last to close the file"
    assert not Path(f"{path}-wal").exists()
    assert kept(path)


def test_a_file_is_noted_until_the_last_process_closes_it(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"
    first, second = (open_for_writing(str(path)) for _ in range(2))
    first.close()
    assert Path(f"{path}-wal").exists(), "the second still has it open"
    second.execute("INSERT INTO marks (name, value) VALUES ('kept', '7')")
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    assert is_log_missing(str(copy)), "a copy without the log lacks what is in the log"
    second.close()
    assert not Path(f"{path}-wal").exists()
    shutil.copy(path, copy)
    assert not is_log_missing(str(copy))
    assert kept(copy)


def test_backups_and_what_is_restored_from_them_need_no_log(tmp_path: Path) -> None:
    path, copy, again = (tmp_path / name for name in ("penstock.db", "copy.db", "again.db"))
    with closing(open_for_writing(str(path))):
        backup(path, copy)
    restore(copy, again)
    for file in (copy, again):
        assert not is_log_missing(str(file))
        open_for_writing(str(file)).close()


def test_a_file_of_an_earlier_release_is_opened_although_its_header_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"
    open_for_writing(str(path)).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM marks WHERE name = 'log_noted'")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert not os.path.exists(f"{path}-wal")
    open_for_writing(str(path)).close()


def test_a_process_that_is_killed_while_it_closes_a_file_leaves_one_that_can_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"
    open_for_writing(str(path)).close()
    with closing(sqlite3.connect(path)) as connection:  # the log is gone, and the header is not changed yet
        connection.execute("PRAGMA journal_mode = WAL")
    assert not is_log_missing(str(path))
    killed(path).unlink()
    assert is_log_missing(str(path)), "opened again, it is noted again"
