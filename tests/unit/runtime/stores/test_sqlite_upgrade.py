"""A file of the first released format becomes current and loses nothing: its tables are spelled out here, for good."""

import json
import sqlite3
from pathlib import Path

import pytest

from penstock.base.errors import Unavailable
from penstock.base.ids import ENTROPY_BYTES, run_id_of
from penstock.runtime.ports.runs import DefinitionRow, ScheduleRow
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.maintenance.backups import backup, check_integrity, stats
from penstock.runtime.stores.sqlite.schema import migrations
from penstock.runtime.tables.codec import encode_json
from penstock.runtime.tables.runs.row_keys import first_key_of
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.schedules import list_schedules
from penstock.runtime.tables.workers import list_workers
from tests.conformance.stores import AT, definition, listed, record, run_bounded, start, step

FIRST_FORMAT = """
CREATE TABLE runs (
    key INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, workflow_name TEXT NOT NULL, workflow_version TEXT NOT NULL,
    definition_hash TEXT NOT NULL, status TEXT NOT NULL, seq INTEGER NOT NULL, created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL, parent_run_id TEXT, labels TEXT, wake_at INTEGER, has_work INTEGER NOT NULL,
    owner TEXT, terminal INTEGER NOT NULL
);
CREATE INDEX runs_by_text ON runs (run_id COLLATE NOCASE);
CREATE INDEX runs_by_status ON runs (status);
CREATE INDEX runs_by_workflow ON runs (workflow_name);
CREATE INDEX runs_by_parent ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX runs_by_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_with_work ON runs (owner) WHERE has_work = 1;
CREATE INDEX runs_ended ON runs (updated_at) WHERE terminal = 1;
CREATE TABLE labels (
    folded TEXT NOT NULL, name TEXT NOT NULL, run INTEGER NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (folded, name, run)
) WITHOUT ROWID;
CREATE TABLE history (
    run INTEGER NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, records BLOB NOT NULL
);
CREATE UNIQUE INDEX history_by_run ON history (run, first_seq);
CREATE TABLE definitions (
    hash TEXT PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, document BLOB NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE workflows (name TEXT PRIMARY KEY, hash TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE schedules (
    schedule_id TEXT PRIMARY KEY, workflow_name TEXT NOT NULL, spec BLOB NOT NULL, next_at INTEGER,
    paused INTEGER NOT NULL, last_run_id TEXT
) WITHOUT ROWID;
CREATE TABLE workers (worker_id TEXT PRIMARY KEY, expires_at INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 1;
PRAGMA application_id = 1346719315;
"""

RUN_IDS = ["Order-1", "order-2", run_id_of(AT, b"x" * ENTROPY_BYTES), f"{run_id_of(AT, b'x' * ENTROPY_BYTES)}:charge:1"]
LABELS: list[dict[str, str]] = [{"customer": "Straße 7", "team": "blue"}, {}, {"team": "Blue"}, {}]
STATUSES = ["running", "completed", "waiting_input", "running"]


def make(path: Path) -> None:
    """A file of the first format, as its release would have left it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(FIRST_FORMAT)
    for number, (run_id, labels, status) in enumerate(zip(RUN_IDS, LABELS, STATUSES, strict=True)):
        key = first_key_of(AT + number)
        text = json.dumps(labels) if labels else None
        columns = (key, run_id, "refund", "1.0.0", "hash-1", status, 2, AT + number, AT + number, None, text)
        connection.execute("INSERT INTO runs VALUES (?,?,?,?,?,?,?,?,?,?,?,NULL,0,NULL,?)", (*columns, number == 1))
        for name, value in labels.items():
            connection.execute("INSERT INTO labels VALUES (?,?,?,?)", (value.casefold(), name, key, value))
        page = encode_json((record(1), record(2)))
        connection.execute("INSERT INTO history VALUES (?,1,2,?)", (key, page))
    # The second was rolled back to the first; a definition of the other name was put in between.
    for number, name in ((1, "refund"), (2, "refund"), (3, "onboarding"), (4, "refund")):
        row = definition(number, name=name)
        document = encode_json(row.document)
        values = (row.hash, row.name, row.version, document, row.created_at)
        connection.execute("INSERT INTO definitions VALUES (?,?,?,?,?)", values)
    connection.execute("INSERT INTO workflows VALUES ('refund', 'hash-1'), ('onboarding', 'hash-3')")
    connection.execute("INSERT INTO schedules VALUES ('nightly', 'refund', '{\"cron\":\"0 3 * * *\"}', 5, 1, 'r_0')")
    connection.execute("INSERT INTO workers VALUES ('w1', 77)")
    connection.close()


def hashes(rows: tuple[DefinitionRow, ...]) -> list[str]:
    return [row.hash for row in rows]


async def holds_everything(store: RunStore) -> None:
    """What was in the file is there, in the default tenant."""
    assert await listed(store) == RUN_IDS[::-1]
    assert await listed(store, tenant="default") == RUN_IDS[::-1]
    assert await listed(store, tenant="other") == []
    for number, (run_id, labels, status) in enumerate(zip(RUN_IDS, LABELS, STATUSES, strict=True)):
        wanted = start(
            run_id,
            labels=labels,
            status=status,
            created_at=AT + number,
            updated_at=AT + number,
            terminal=number == 1,
        )
        loaded = await store.load(run_id)
        assert loaded is not None
        assert (loaded.row, loaded.records) == (wanted.row, wanted.records)
        assert loaded.row.tenant == "default"
    assert await listed(store, tenant="default", statuses=("running",)) == [RUN_IDS[3], RUN_IDS[0]]
    assert await listed(store, workflow_name="refund") == RUN_IDS[::-1]
    for text, found in {
        "order": ["order-2", "Order-1"],
        "rder-2": ["order-2"],
        "STRASSE": ["Order-1"],
        "blue": [RUN_IDS[2], "Order-1"],
        "charge": [RUN_IDS[3]],
        RUN_IDS[2]: [RUN_IDS[3], RUN_IDS[2]],
        "fund": RUN_IDS[::-1],
    }.items():
        assert await listed(store, text=text) == found, text
    assert hashes(await store.definitions.list_newest()) == ["hash-3", "hash-1"]
    assert await store.definitions.list_newest(tenant="other") == ()
    assert await store.definitions.find_named("refund") == definition(1)
    assert hashes((await store.definitions.list_versions("refund", limit=9)).rows) == ["hash-1", "hash-4", "hash-2"]
    for number, name in ((1, "refund"), (2, "refund"), (3, "onboarding"), (4, "refund")):
        assert await store.definitions.find(f"hash-{number}") == definition(number, name=name)
    wanted_schedule = ScheduleRow(
        schedule_id="nightly",
        workflow_name="refund",
        spec={"cron": "0 3 * * *"},
        next_at=5,
        paused=True,
        last_run_id="r_0",
    )
    assert await list_schedules(store.database, tenant="default") == (wanted_schedule,)
    assert [(found.worker_id, found.beats) for found in await list_workers(store.database)] == [("w1", 0)]


def test_a_file_of_the_first_format_becomes_current_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make(path)

    async def scenario() -> None:
        for _ in range(2):
            store = RunStore(SqliteDatabase(path))
            await store.open()
            await holds_everything(store)
            await store.close()
        store = RunStore(SqliteDatabase(path))
        await store.open()
        loaded = await store.load("Order-1")
        assert loaded is not None
        await store.append(step(start("Order-1", labels=LABELS[0], created_at=AT), status="completed", terminal=True))
        await store.append(start("new", tenant="acme", labels={"team": "blue"}, created_at=AT + 9))
        assert await listed(store, tenant="acme", text="blue") == ["new"]
        assert await store.delete_runs(["Order-1", "order-2"]) == 2
        assert await listed(store, text="order") == []
        assert await listed(store, text="blue") == ["new", RUN_IDS[2]]
        await store.definitions.put(definition(2))
        assert hashes((await store.definitions.list_versions("refund", limit=2)).rows) == ["hash-2", "hash-1"]
        await store.close()

    run_bounded(scenario())
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (migrations.SCHEMA_VERSION,)
    connection.execute("INSERT INTO runs_text (runs_text) VALUES ('integrity-check')")
    connection.close()


def test_a_file_of_the_first_format_can_be_looked_at_and_copied_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make(path)
    assert stats(path).runs == len(RUN_IDS)
    assert backup(path, tmp_path / "copy.db").format_version == 1
    problems = {problem.code for problem in check_integrity(path).problems}
    assert "STORE_CORRUPT" not in problems
    assert "STORE_INCONSISTENT" not in problems
    assert stats(path).format_version == 1


def test_an_sqlite_without_an_index_of_texts_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        migrations,
        "MIGRATIONS",
        {**migrations.MIGRATIONS, 4: "CREATE VIRTUAL TABLE t USING no_such_module (a)"},
    )
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", 4)

    async def scenario() -> None:
        with pytest.raises(Unavailable, match="STORE_UNSUITABLE"):
            await RunStore(SqliteDatabase(tmp_path / "store.db")).open()

    run_bounded(scenario())
