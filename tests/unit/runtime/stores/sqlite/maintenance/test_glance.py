"""A look at a file counts what is in it, and leaves the file and its folder as they are."""

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.base import limits
from penstock.runtime.stores.sqlite.maintenance.glance import glance_at
from penstock.runtime.stores.sqlite.schema.files import open_for_writing
from penstock.runtime.stores.sqlite.schema.version import SCHEMA_VERSION
from tests.golden.record_store import STORES

NOW = 1_800_000_000_000
RUN = (
    "INSERT INTO runs (run_id, tenant, workflow_name, workflow_version, definition_hash, status, seq, created_at,"
    " updated_at, has_work, terminal) VALUES (?, ?, 'w', '1', 'h', ?, 1, 0, ?, 0, ?)"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "penstock.db"
    with closing(open_for_writing(str(path))) as connection:
        for run_id, tenant, status, moved in (
            ("a", "default", "waiting_input", NOW),
            ("b", "default", "waiting_approval", NOW),
            ("c", "default", "failed", NOW - 10),
            ("d", "default", "failed", NOW - 1_000),
            ("e", "default", "completed", NOW),
            ("f", "other", "waiting_input", NOW),
            ("g", "other", "failed", NOW),
        ):
            connection.execute(RUN, (run_id, tenant, status, moved, int(status in ("failed", "completed"))))
    return path


def files(path: Path) -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in path.parent.iterdir()}


def test_the_runs_of_the_owner_are_counted(file: Path) -> None:
    before = files(file)
    found = glance_at(file, failed_since=NOW - 100, now=NOW)
    assert found.problem is None
    assert (found.format_version, found.current_format) == (SCHEMA_VERSION, SCHEMA_VERSION)
    assert found.live == {"waiting_input": 1, "waiting_approval": 1}
    assert (found.failed, found.workers) == (1, 0)
    assert files(file) == before


def test_a_worker_counts_as_long_as_it_is_heard_of(file: Path) -> None:
    with closing(open_for_writing(str(file))) as connection:
        for name, seen in (("alive", NOW - 1), ("gone", NOW - limits.WORKER_LEASE_MS - 1)):
            connection.execute("INSERT INTO workers (worker_id, seen_at) VALUES (?, ?)", (name, seen))
        # In use meanwhile, with a log beside it.
        assert glance_at(file, failed_since=NOW, now=NOW).workers == 1


def test_a_file_that_says_it_has_a_log_and_has_none_gets_none(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("INSERT INTO marks (name, value) VALUES ('x', '1')")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        lone = file.parent / "lone" / "penstock.db"
        lone.parent.mkdir()
        lone.write_bytes(file.read_bytes())
    found = glance_at(lone, failed_since=NOW, now=NOW)
    assert found.live == {"waiting_input": 1, "waiting_approval": 1}
    assert [path.name for path in lone.parent.iterdir()] == ["penstock.db"]


def test_only_the_format_of_an_older_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"
    path.write_bytes(gzip.decompress(next(STORES.glob("format-15.db.gz")).read_bytes()))
    found = glance_at(path, failed_since=0, now=NOW)
    assert (found.format_version, found.live, found.problem) == (15, {}, None)


def test_what_is_no_database_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"
    assert glance_at(path, failed_since=0, now=NOW).problem is not None
    path.write_text("no database\n" * 50, encoding="utf-8")
    assert glance_at(path, failed_since=0, now=NOW).problem == "file is not a database"
