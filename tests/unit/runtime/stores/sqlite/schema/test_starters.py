"""A file that does not say who started its runs learns it from their histories."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from penstock.base.json import JsonObject
from penstock.engine.records import Record
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.maintenance.backups import check_integrity
from penstock.runtime.stores.sqlite.schema.files import open_for_writing
from penstock.runtime.stores.sqlite.schema.migrations import SCHEMA_VERSION
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.stores import AT, listed, run_bounded, start
from tests.unit.runtime.stores.sqlite.schema.test_key_subjects import without_subjects

LARGE = "x" * 100_000


def without_starters(connection: sqlite3.Connection) -> None:
    """Make a file one of the format before runs had starters."""
    connection.execute("DROP TABLE run_spending")
    for table in ("definition_versions", "resources"):
        connection.execute(f"ALTER TABLE {table} DROP COLUMN author")
    connection.execute("DROP INDEX runs_by_starter")
    connection.execute("ALTER TABLE runs DROP COLUMN started_by")


def begun(payload: JsonObject) -> tuple[Record, ...]:
    return (Record(1, "event", "ExecutionStarted", payload, AT), Record(2, "event", "StateUpdated", {}, AT))


def test_who_started_runs_is_read_from_their_histories(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    payloads: dict[str, JsonObject] = {
        "ada": {"startedBy": "key:ada"},
        "large": {"startedBy": "key:ada", "input": LARGE},
        "nobody": {},
        "odd": {"startedBy": 7},
        "broken": {"startedBy": "key:ada"},
    }

    async def filled() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        for run_id, payload in payloads.items():
            write = start(run_id, started_by="key:ada")
            await store.append(type(write)(expected_seq=0, row=write.row, records=begun(payload)))
        for number in range(1_200):  # more than are read at a time
            write = start(f"many-{number}", created_at=AT + number)
            await store.append(
                type(write)(expected_seq=0, row=write.row, records=begun({"startedBy": f"key:{number % 2}"}))
            )
        await store.close()

    run_bounded(filled())
    connection = sqlite3.connect(path, isolation_level=None)
    without_starters(connection)
    connection.execute(
        "UPDATE history SET records = 'damage' WHERE run = (SELECT key FROM runs WHERE run_id = 'broken')"
    )
    without_subjects(connection)
    connection.execute("PRAGMA user_version = 19")
    connection.close()
    assert not any("starter" in problem.message for problem in check_integrity(path).problems)
    open_for_writing(str(path)).close()

    async def found() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        assert sorted(await listed(store, started_by="key:ada")) == ["ada", "large"]
        assert len(await listed(store, started_by="key:1", limit=1_000)) == 600
        for run_id in ("nobody", "odd", "broken"):
            row = await store.row(run_id)
            assert row is not None
            assert row.started_by is None
        await store.close()

    run_bounded(found())
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    connection.close()
