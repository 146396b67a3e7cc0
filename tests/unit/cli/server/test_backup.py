"""`penstock server backup`, `restore` and `check` say what they did, in words and JSON, and answer with exit codes."""

import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import app
from penstock.runtime.stores.sqlite.schema.migrations import SCHEMA_VERSION
from tests.conformance.stores import run_bounded
from tests.unit.runtime.stores.holding import held
from tests.unit.runtime.stores.real_runs import make_database


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("original") / "store.db"
    run_bounded(make_database(path, 1))
    return path.read_bytes()


@pytest.fixture
def folder(original: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database under the usual name, as the place to be."""
    (tmp_path / "penstock.db").write_bytes(original)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def penstock(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_a_backup_is_made_and_told(folder: Path) -> None:
    result = penstock("server", "backup", "copy.db")
    assert result.exit_code == 0
    size = (folder / "copy.db").stat().st_size
    assert result.stdout == f"backed up to copy.db: 3 runs, {size / 1024:.1f} KiB, checked\n"
    assert penstock("server", "check", "--db", "copy.db").exit_code == 0


def test_a_backup_as_json(folder: Path) -> None:
    result = penstock("server", "backup", "copy.db", "--json", "--db", str(folder / "penstock.db"))
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    size = (folder / "copy.db").stat().st_size
    assert told == {"ok": True, "path": "copy.db", "size_bytes": size, "runs": 3, "format_version": SCHEMA_VERSION}


def test_a_backup_that_cannot_be_made(folder: Path) -> None:
    penstock("server", "backup", "copy.db")
    again = penstock("server", "backup", "copy.db")
    assert again.exit_code == 2
    assert "BACKUP_EXISTS: copy.db already exists" in again.stderr
    assert penstock("server", "backup", "copy.db", "--overwrite").exit_code == 0
    missing = penstock("server", "backup", "other.db", "--db", "missing.db", "--json")
    assert missing.exit_code == 2
    assert json.loads(missing.stdout)["error"]["code"] == "STORE_NOT_FOUND"


def test_a_backup_is_restored_and_what_was_there_is_kept(folder: Path) -> None:
    penstock("server", "backup", "copy.db")
    refused = penstock("server", "restore", "copy.db")
    assert refused.exit_code == 2
    assert "STORE_EXISTS" in refused.stderr
    done = penstock("server", "restore", "copy.db", "--force")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "restored penstock.db: 3 runs",
        "the database that was there is now penstock.db.before-1",
        "start a worker with penstock server worker --db penstock.db",
    ]
    told = json.loads(penstock("server", "restore", "copy.db", "--db", "new.db", "--json").stdout)
    assert told == {
        "ok": True,
        "path": "new.db",
        "kept_as": None,
        "runs": 3,
        "format_version": SCHEMA_VERSION,
        "not_on_record": None,
    }


def test_a_database_in_use_is_not_replaced(folder: Path) -> None:
    penstock("server", "backup", "copy.db")
    with held(folder / "penstock.db", "SELECT 1"):
        result = penstock("server", "restore", "copy.db", "--force")
    assert result.exit_code == 2
    assert "STORE_IN_USE: penstock.db is in use by another process" in result.stderr
    assert "hint: stop the processes that use it" in result.stderr


def test_a_sound_database(folder: Path) -> None:
    result = penstock("server", "check")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("sound: 3 runs, ")
    assert lines[1].endswith(f"; format {SCHEMA_VERSION}")
    assert [line.split() for line in lines[2:]] == [["1", "completed"], ["1", "waiting_input"], ["1", "waiting_timer"]]
    told = json.loads(penstock("server", "check", "--json").stdout)
    assert told["ok"] is True
    assert told["problems"] == []
    assert told["file"]["runs_by_status"] == {"completed": 1, "waiting_input": 1, "waiting_timer": 1}


def test_a_database_with_something_wrong(folder: Path) -> None:
    connection = sqlite3.connect(folder / "penstock.db")
    connection.execute("UPDATE runs SET status = 'failed' WHERE run_id = 'asking-0'")
    connection.commit()
    connection.close()
    result = penstock("server", "check")
    assert result.exit_code == 1
    told = "INDEX_DIFFERS run asking-0: the index says status 'failed', the history says 'waiting_input'"
    assert result.stdout.splitlines()[0] == told
    assert result.stdout.splitlines()[1].startswith("1 problem in 3 runs, ")
    as_json = penstock("server", "check", "--json")
    assert as_json.exit_code == 1
    [problem] = json.loads(as_json.stdout)["problems"]
    assert (problem["code"], problem["run_id"]) == ("INDEX_DIFFERS", "asking-0")


def test_a_damaged_and_a_missing_database(folder: Path) -> None:
    (folder / "penstock.db").write_bytes(b"\xff" * 5_000)
    damaged = penstock("server", "check")
    assert damaged.exit_code == 1
    assert damaged.stdout.startswith("STORE_CORRUPT ")
    assert "1 problem (there may be more)" in damaged.stdout
    assert json.loads(penstock("server", "check", "--json").stdout)["file"] is None
    missing = penstock("server", "check", "--db", "missing.db")
    assert missing.exit_code == 2
    assert "STORE_NOT_FOUND" in missing.stderr


def test_a_database_is_written_anew_and_its_sizes_told(folder: Path) -> None:
    before = (folder / "penstock.db").stat().st_size
    result = penstock("server", "vacuum")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"written anew penstock.db: {before / 1024:.1f} KiB before, ")
    assert result.stderr == f"rewriting {before / 1024:.1f} KiB takes about 1 second\n"
    told = json.loads(penstock("server", "vacuum", "--json").stdout)
    assert told["ok"] is True
    assert told["bytes_after"] == (folder / "penstock.db").stat().st_size
    assert penstock("server", "check").exit_code == 0


def test_a_database_that_is_in_use_is_not_written_anew(folder: Path) -> None:
    with held(folder / "penstock.db", "SELECT 1"):
        result = penstock("server", "vacuum")
    assert result.exit_code == 2
    assert "STORE_IN_USE: penstock.db is in use by another process" in result.stderr
