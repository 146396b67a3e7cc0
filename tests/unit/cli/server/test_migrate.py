"""`penstock server migrate` brings an older file to the current format, or says what it would do."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.app.drivers import maintenance_of
from penstock.cli.main import app
from penstock.runtime.stores.sqlite.schema.migrations import SCHEMA_VERSION
from tests.golden.record_store import STORES

OLD = 15


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    recorded = next(STORES.glob(f"format-{OLD:02}.db.gz"))
    (tmp_path / "penstock.db").write_bytes(gzip.decompress(recorded.read_bytes()))
    return tmp_path


def migrate(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["server", "migrate", *arguments])


def migrate_json(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(migrate(*arguments, "--json").stdout)
    return found


def test_check_says_what_would_be_done_and_changes_nothing(folder: Path) -> None:
    told = migrate("--check")
    assert told.exit_code == 1
    assert f"from format {OLD} to {SCHEMA_VERSION} ({SCHEMA_VERSION - OLD} steps)" in told.stdout
    assert "penstock server backup penstock.db.backup --db penstock.db" in told.stdout
    assert maintenance_of(folder / "penstock.db").stats().format_version == OLD
    assert [path.name for path in folder.iterdir()] == ["penstock.db"]


def test_the_file_is_migrated_and_keeps_its_runs(folder: Path) -> None:
    runs = maintenance_of(folder / "penstock.db").stats().runs
    done = migrate()
    assert done.exit_code == 0
    assert done.stdout.startswith(f"Migrated penstock.db from format {OLD} to {SCHEMA_VERSION}")
    after = maintenance_of(folder / "penstock.db").stats()
    assert (after.format_version, after.runs) == (SCHEMA_VERSION, runs)
    assert maintenance_of(folder / "penstock.db").check().ok
    assert migrate("--check").exit_code == 0
    assert "There is nothing to do." in migrate().stdout


def test_programs_get_json() -> None:
    formats = {"path": "penstock.db", "from_version": OLD, "to_version": SCHEMA_VERSION, "steps": SCHEMA_VERSION - OLD}
    assert migrate_json("--check") == {"ok": False, **formats, "migrated": False}
    assert migrate_json() == {"ok": True, **formats, "migrated": True}
    current = {"from_version": SCHEMA_VERSION, "steps": 0}
    assert migrate_json("--check") == {"ok": True, **formats, **current, "migrated": False}


@pytest.mark.parametrize("content", [None, b"", b"this is no database\n" * 50])
def test_a_file_that_is_no_database_is_refused_and_not_made_one(folder: Path, content: bytes | None) -> None:
    (folder / "penstock.db").unlink()
    if content is not None:
        (folder / "penstock.db").write_bytes(content)
    for arguments in ((), ("--check",)):
        refused = migrate(*arguments)
        assert refused.exit_code == 2
        assert refused.stderr.startswith("error: STORE_")
    assert ((folder / "penstock.db").read_bytes() if content is not None else None) == content
