"""An empty file and one that took every step have the same format."""

import sqlite3
from pathlib import Path

import pytest

from penstock.runtime.stores.sqlite.schema import migrations
from penstock.runtime.stores.sqlite.schema.sql_functions import register_functions


def opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    register_functions(connection)
    return connection


def objects(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


def test_a_new_file_is_as_one_that_took_every_step(tmp_path: Path) -> None:
    new, stepped = opened(tmp_path / "new.db"), opened(tmp_path / "stepped.db")
    migrations.migrate(new, "new.db")
    migrations.migrate_by_steps(stepped, 0)
    assert objects(new) == objects(stepped)
    assert migrations.identify(new, "new.db") == migrations.SCHEMA_VERSION
    for connection in (new, stepped):
        connection.close()


def test_a_new_file_takes_no_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "MIGRATIONS", {})
    connection = opened(tmp_path / "new.db")
    migrations.migrate(connection, "new.db")
    assert migrations.identify(connection, "new.db") == migrations.SCHEMA_VERSION
    connection.close()


def test_tables_that_were_written_for_another_version_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", 1)
    connection = opened(tmp_path / "first.db")
    migrations.migrate(connection, "first.db")
    assert ("table", "audit") not in {item[:2] for item in objects(connection)}
    assert migrations.identify(connection, "first.db") == 1
    connection.close()
