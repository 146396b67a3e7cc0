"""Copies of a store are whole, a copy takes its place only when nobody is there, and whatever is wrong is told."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.maintenance.backups import backup, check_integrity, restore, stats
from penstock.runtime.stores.sqlite.schema import migrations
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.privileges import as_ordinary_user
from tests.conformance.stores import contents, listed, run_bounded, start
from tests.unit.runtime.stores.holding import held
from tests.unit.runtime.stores.real_runs import WORKFLOWS, make_database, make_runs


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("original") / "store.db"
    run_bounded(make_database(path))
    return path.read_bytes()


@pytest.fixture
def path(original: bytes, tmp_path: Path) -> Path:
    """A database of nine runs."""
    path = tmp_path / "store.db"
    path.write_bytes(original)
    return path


def refused(work: Callable[[], object], code: str, *words: str) -> None:
    with pytest.raises(PenstockError) as caught:
        work()
    assert caught.value.code == code, str(caught.value)
    assert caught.value.hint
    for word in words:
        assert word in str(caught.value)


def execute(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def files(folder: Path) -> list[str]:
    return sorted(found.name for found in folder.iterdir())


async def contents_of(path: Path) -> object:
    store = RunStore(SqliteDatabase(path))
    await store.open()
    found = await contents(store)
    await store.close()
    return found


def same_contents(one: Path, other: Path) -> bool:
    found: list[object] = []

    async def read() -> None:
        found.extend([await contents_of(one), await contents_of(other)])

    run_bounded(read())
    return found[0] == found[1]


# --- backup --------------------------------------------------------------------------------------


def test_a_backup_is_one_file_with_everything_in_it(path: Path, tmp_path: Path) -> None:
    done = backup(path, tmp_path / "copy.db")
    assert (done.runs, done.format_version) == (9, migrations.SCHEMA_VERSION)
    assert done.size_bytes == (tmp_path / "copy.db").stat().st_size
    assert files(tmp_path) == ["copy.db", "store.db"]
    assert check_integrity(tmp_path / "copy.db").ok
    assert same_contents(path, tmp_path / "copy.db")


def test_a_backup_is_made_while_runs_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Penstock.open(tmp_path / "store.db", workflows=WORKFLOWS) as penstock:
            await make_runs(penstock, 2)
            going_on = asyncio.ensure_future(make_more(penstock))
            for number in range(5):
                before = {row.run_id: row.seq for row in (await penstock.runs()).rows}
                copy = tmp_path / f"copy{number}.db"
                await asyncio.to_thread(backup, tmp_path / "store.db", copy)
                report = await asyncio.to_thread(check_integrity, copy)
                assert report.problems == ()
                assert report.runs >= len(before)
                store = RunStore(SqliteDatabase(copy))
                await store.open()
                for run_id, seq in before.items():
                    row = await store.row(run_id)
                    assert row is not None
                    assert row.seq >= seq
                await store.close()
            going_on.cancel()
            await asyncio.gather(going_on, return_exceptions=True)
            report = await asyncio.to_thread(check_integrity, tmp_path / "store.db")
            assert report.ok

    async def make_more(penstock: Penstock) -> None:
        while True:
            run = await penstock.start("ask", labels={"team": "Red"})
            await run.answer({})

    run_bounded(scenario())


def test_a_backup_does_not_overwrite_unless_told(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("something else")
    refused(lambda: backup(path, target), "BACKUP_EXISTS", "copy.db")
    assert target.read_text() == "something else"
    backup(path, target, overwrite=True)
    backup(path, target, overwrite=True)
    assert check_integrity(target).ok
    assert files(tmp_path) == ["copy.db", "store.db"]


def test_a_backup_never_replaces_the_store_itself(path: Path, tmp_path: Path) -> None:
    os.link(path, tmp_path / "link.db")
    (tmp_path / "symbolic.db").symlink_to(path)
    for target in (path, tmp_path / "link.db", tmp_path / "symbolic.db"):
        refused(lambda target=target: backup(path, target, overwrite=True), "BACKUP_ONTO_ITSELF")  # type: ignore[misc]


def test_a_backup_replaces_neither_a_store_in_use_nor_another_programs_database(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    run_bounded(make_database(other, 1))
    with held(other, "SELECT 1"):
        refused(lambda: backup(path, other, overwrite=True), "STORE_IN_USE", "other.db")
    foreign = tmp_path / "places.db"
    execute(foreign, "CREATE TABLE bookmarks (url TEXT)")
    refused(lambda: backup(path, foreign, overwrite=True), "STORE_FOREIGN", "places.db")
    assert stats(other).runs == 3
    assert files(tmp_path) == ["other.db", "places.db", "store.db"]


def test_what_cannot_be_backed_up_is_told_and_leaves_nothing_behind(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    foreign = tmp_path / "places.db"
    execute(foreign, "CREATE TABLE bookmarks (url TEXT)")
    text = tmp_path / "notes.txt"
    text.write_text("remember the milk\n" * 100)
    empty = tmp_path / "empty.db"
    empty.touch()
    refused(lambda: backup(tmp_path / "missing.db", target), "STORE_NOT_FOUND", "missing.db")
    refused(lambda: backup(tmp_path, target), "STORE_NOT_FOUND")
    refused(lambda: backup(foreign, target), "STORE_FOREIGN", "places.db")
    refused(lambda: backup(text, target), "STORE_CORRUPT", "notes.txt")
    refused(lambda: backup(empty, target), "STORE_EMPTY", "empty.db")
    refused(lambda: backup(path, tmp_path / "no" / "copy.db"), "FOLDER_NOT_FOUND", "no")
    assert files(tmp_path) == ["empty.db", "notes.txt", "places.db", "store.db"]


def test_a_damaged_store_is_not_backed_up(path: Path, tmp_path: Path) -> None:
    damage(path)
    refused(lambda: backup(path, tmp_path / "copy.db"), "STORE_CORRUPT", "store.db", "penstock server check")
    assert files(tmp_path) == ["store.db"]


def test_a_folder_that_cannot_be_written_is_told(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o555)
    as_ordinary_user(lambda: refused(lambda: backup(path, folder / "copy.db"), "STORE_READ_ONLY", "folder"))
    assert files(folder) == []


def test_a_backup_in_a_folder_that_cannot_be_written_can_be_read(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    backup(path, folder / "copy.db")
    (folder / "copy.db").chmod(0o444)
    folder.chmod(0o555)

    def look() -> None:
        assert check_integrity(folder / "copy.db").ok
        assert restore(folder / "copy.db", tmp_path / "again.db").runs == 9

    as_ordinary_user(look)
    folder.chmod(0o755)
    assert files(folder) == ["copy.db"]


def test_a_copy_is_its_owners_and_one_that_replaces_a_store_keeps_its_permissions(path: Path, tmp_path: Path) -> None:
    path.chmod(0o640)
    backup(path, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    restore(tmp_path / "copy.db", tmp_path / "elsewhere.db")
    assert (tmp_path / "elsewhere.db").stat().st_mode & 0o777 == 0o600
    restore(tmp_path / "copy.db", path, force=True)
    assert path.stat().st_mode & 0o777 == 0o640


# --- restore -------------------------------------------------------------------------------------


def test_a_backup_becomes_a_store_again(path: Path, tmp_path: Path) -> None:
    backup(path, tmp_path / "copy.db")
    done = restore(tmp_path / "copy.db", tmp_path / "new.db")
    assert (done.runs, done.kept_as) == (9, None)

    async def scenario() -> None:
        async with Penstock.open(tmp_path / "new.db") as penstock:
            await penstock.run("asking-1").answer({})
            await penstock.run("asking-1").result(timeout_seconds=240)

    run_bounded(scenario())
    assert stats(tmp_path / "new.db").runs_by_status["completed"] == 4


def test_a_store_is_replaced_only_when_told_and_kept(path: Path, tmp_path: Path) -> None:
    backup(path, tmp_path / "copy.db")
    run_bounded(add_run(path, "later"))
    refused(lambda: restore(tmp_path / "copy.db", path), "STORE_EXISTS", "store.db")
    assert stats(path).runs == 10
    done = restore(tmp_path / "copy.db", path, force=True)
    assert done.kept_as == str(tmp_path / "store.db.before-1")
    assert stats(path).runs == 9
    assert stats(done.kept_as).runs == 10
    assert restore(tmp_path / "copy.db", path, force=True).kept_as == str(tmp_path / "store.db.before-2")
    assert files(tmp_path) == ["copy.db", "store.db", "store.db.before-1", "store.db.before-2"]


async def add_run(path: Path, run_id: str) -> None:
    store = RunStore(SqliteDatabase(path))
    await store.open()
    await store.append(start(run_id))
    await store.close()


def test_a_store_that_another_process_has_open_is_not_replaced(path: Path, tmp_path: Path) -> None:
    backup(path, tmp_path / "copy.db")
    for statement in ("SELECT 1", "PRAGMA journal_mode = WAL", "BEGIN IMMEDIATE"):
        with held(path, statement):
            refused(lambda: restore(tmp_path / "copy.db", path, force=True), "STORE_IN_USE", "store.db")
    assert files(tmp_path) == ["copy.db", "store.db"]
    restore(tmp_path / "copy.db", path, force=True)


def test_a_store_that_is_open_here_is_not_replaced(path: Path, tmp_path: Path) -> None:
    backup(path, tmp_path / "copy.db")

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        refused(lambda: restore(tmp_path / "copy.db", path, force=True), "STORE_IN_USE", "store.db")
        await store.append(start("still works"))
        assert len(await listed(store)) == 10
        await store.close()

    run_bounded(scenario())


def test_what_cannot_be_restored_leaves_the_store_alone(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    foreign = tmp_path / "places.db"
    execute(foreign, "CREATE TABLE bookmarks (url TEXT)")
    newer = tmp_path / "newer.db"
    newer.write_bytes(before)
    execute(newer, f"PRAGMA user_version = {migrations.SCHEMA_VERSION + 1}")
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(before)
    damage(damaged)
    empty = tmp_path / "empty.db"
    empty.touch()
    for source, code in (
        (foreign, "STORE_FOREIGN"),
        (newer, "STORE_TOO_NEW"),
        (damaged, "STORE_CORRUPT"),
        (empty, "STORE_EMPTY"),
        (tmp_path / "missing.db", "STORE_NOT_FOUND"),
        (path, "BACKUP_ONTO_ITSELF"),
    ):
        refused(lambda source=source: restore(source, path, force=True), code, source.name)  # type: ignore[misc]
    assert path.read_bytes() == before
    assert files(tmp_path) == ["damaged.db", "empty.db", "newer.db", "places.db", "store.db"]


def test_a_damaged_store_can_be_replaced_and_is_kept(path: Path, tmp_path: Path) -> None:
    backup(path, tmp_path / "copy.db")
    path.write_bytes(b"\xff" * 5_000)
    (tmp_path / "store.db-wal").write_bytes(b"left over")
    done = restore(tmp_path / "copy.db", path, force=True)
    assert done.kept_as is not None
    assert Path(done.kept_as).read_bytes() == b"\xff" * 5_000
    assert check_integrity(path).ok
    kept = [name for name in files(tmp_path) if not name.endswith("-shm")]
    assert kept == ["copy.db", "store.db", "store.db.before-1", "store.db.before-1-wal"]


def test_the_log_of_a_file_that_is_gone_is_not_taken_for_that_of_the_new_one(path: Path, tmp_path: Path) -> None:
    backup(path, tmp_path / "copy.db")

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        await store.append(start("in the log"))
        (tmp_path / "log").write_bytes((tmp_path / "store.db-wal").read_bytes())
        await store.close()

    run_bounded(scenario())
    path.unlink()
    (tmp_path / "log").rename(tmp_path / "store.db-wal")
    done = restore(tmp_path / "copy.db", path)
    assert done.kept_as == str(tmp_path / "store.db.before-1")
    assert stats(path).runs == 9
    assert check_integrity(path).ok


def test_a_backup_of_an_older_format_is_restored_and_migrated_when_opened(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(path, tmp_path / "copy.db")
    version = migrations.SCHEMA_VERSION + 1
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", version)
    monkeypatch.setattr(migrations, "MIGRATIONS", {**migrations.MIGRATIONS, version: "CREATE TABLE more (a)"})
    assert restore(tmp_path / "copy.db", tmp_path / "new.db").format_version == version - 1
    run_bounded(add_run(tmp_path / "new.db", "later"))
    assert stats(tmp_path / "new.db").format_version == version


# --- check ---------------------------------------------------------------------------------------


def damage(path: Path) -> None:
    """Overwrite the second half of every page but the first, where rows are."""
    with path.open("r+b") as file:
        for page in range(1, path.stat().st_size // 4096):
            file.seek(page * 4096 + 2048)
            file.write(b"\xaa" * 1024)


def problems(path: Path) -> list[tuple[str, str | None]]:
    report = check_integrity(path)
    assert not report.ok
    return [(problem.code, problem.run_id) for problem in report.problems]


def test_a_sound_store_has_no_problems(path: Path) -> None:
    report = check_integrity(path)
    assert report.to_json() == {
        "ok": True,
        "complete": True,
        "runs": 9,
        "records": report.records,
        "definitions": 2,
        "unchecked_pages": 0,
        "unchecked_rows": 0,
        "problems": [],
    }
    assert report.records > 30


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("UPDATE runs SET status = 'running' WHERE run_id = 'asking-1'", "status"),
        ("UPDATE runs SET seq = seq + 1 WHERE run_id = 'asking-1'", "number of records"),
        ("UPDATE runs SET terminal = 1 WHERE run_id = 'asking-1'", "end"),
        ("UPDATE runs SET wake_at = 5 WHERE run_id = 'asking-1'", "next timer"),
        ("UPDATE runs SET parent_run_id = 'x' WHERE run_id = 'asking-1'", "parent"),
        ("UPDATE runs SET run_id = 'asking-other' WHERE run_id = 'asking-1'", "id"),
        ("UPDATE runs SET tenant = 'other' WHERE run_id = 'asking-1'", "tenant"),
        ("DELETE FROM labels WHERE folded = '1'", "labels"),
    ],
)
def test_a_run_whose_index_differs_from_its_history_is_named(path: Path, statement: str, word: str) -> None:
    execute(path, statement)
    [problem, *_] = check_integrity(path).problems
    assert problem.code == "INDEX_DIFFERS"
    assert problem.run_id is not None
    assert problem.run_id.startswith("asking-")
    assert word in problem.message


def test_runs_that_cannot_be_found_by_their_text_are_named(path: Path) -> None:
    execute(path, "INSERT INTO runs_text (runs_text) VALUES ('delete-all')")
    assert {code for code, _ in problems(path)} == {"INDEX_DIFFERS"}
    assert len(problems(path)) == 9


def test_a_timer_that_would_never_fire_is_found(path: Path) -> None:
    execute(path, "UPDATE runs SET wake_at = NULL WHERE run_id = 'napping-0'")
    assert problems(path) == [("INDEX_DIFFERS", "napping-0")]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("DELETE FROM history WHERE run = (SELECT key FROM runs WHERE run_id = 'answered-1')", "INDEX_DIFFERS"),
        (
            "DELETE FROM history WHERE first_seq = 1 AND run = (SELECT key FROM runs WHERE run_id = 'answered-1')",
            "HISTORY_GAP",
        ),
        (
            "UPDATE history SET records = x'00' WHERE run = (SELECT key FROM runs WHERE run_id = 'answered-1')",
            "STORE_CORRUPT",
        ),
        (
            'UPDATE history SET records = \'[[1,"event","Nonsense",{},1]]\''
            " WHERE run = (SELECT key FROM runs WHERE run_id = 'answered-1')",
            "RECORD_UNKNOWN",
        ),
        (
            'UPDATE history SET records = \'[[1,"event","NodeScheduled",{},1]]\''
            " WHERE run = (SELECT key FROM runs WHERE run_id = 'answered-1')",
            "",
        ),
    ],
    ids=["gone", "gap", "unreadable", "unknown", "out_of_place"],
)
def test_a_damaged_history_is_named_and_the_others_are_checked(path: Path, statement: str, code: str) -> None:
    execute(path, statement)
    report = check_integrity(path)
    assert report.runs == 9
    assert {problem.run_id for problem in report.problems} == {"answered-1"}
    assert not code or code in {problem.code for problem in report.problems}


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("DELETE FROM runs WHERE run_id = 'asking-1'", "belong to no run"),
        ("DELETE FROM definitions WHERE name = 'ask'", "definition that is not there"),
    ],
)
def test_loose_ends_are_counted(path: Path, statement: str, word: str) -> None:
    execute(path, statement)
    report = check_integrity(path)
    assert {problem.code for problem in report.problems} == {"STORE_INCONSISTENT"}
    assert any(word in problem.message for problem in report.problems)


def test_a_definition_that_was_changed_is_found(path: Path) -> None:
    execute(path, "UPDATE definitions SET document = replace(document, 'Shall we?', 'Pay me?') WHERE name = 'ask'")
    assert problems(path) == [("DEFINITION_CHANGED", None)]


def test_damage_to_the_file_is_told(path: Path) -> None:
    damage(path)
    assert "STORE_CORRUPT" in {code for code, _ in problems(path)}
    path.write_bytes(b"\xff" * 100 + path.read_bytes()[100:])
    report = check_integrity(path)
    assert [problem.code for problem in report.problems] == ["STORE_CORRUPT"]
    assert not report.complete


def test_a_report_has_an_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INTEGRITY_PROBLEMS_MAX", 4)
    execute(path, "UPDATE runs SET status = 'lost'")
    report = check_integrity(path)
    assert len(report.problems) == 4
    assert not report.complete


def test_what_is_no_store_is_not_checked(tmp_path: Path) -> None:
    refused(lambda: check_integrity(tmp_path / "missing.db"), "STORE_NOT_FOUND", "missing.db")
    foreign = tmp_path / "places.db"
    execute(foreign, "CREATE TABLE bookmarks (url TEXT)")
    refused(lambda: check_integrity(foreign), "STORE_FOREIGN", "places.db")
    refused(lambda: stats(foreign), "STORE_FOREIGN", "places.db")
    empty = tmp_path / "empty.db"
    empty.touch()
    refused(lambda: check_integrity(empty), "STORE_EMPTY", "empty.db")
    refused(lambda: stats(empty), "STORE_EMPTY", "empty.db")


def test_a_store_in_use_is_checked_without_disturbing_it(path: Path) -> None:
    with held(path, "BEGIN IMMEDIATE"):
        assert check_integrity(path).ok
        assert stats(path).runs == 9


# --- numbers -------------------------------------------------------------------------------------


def test_the_numbers_of_a_store(path: Path) -> None:
    found = stats(path)
    assert found.runs == 9
    assert found.runs_by_status == {"completed": 3, "waiting_input": 3, "waiting_timer": 3}
    assert found.records == check_integrity(path).records
    assert (found.definitions, found.schedules) == (2, 0)
    assert found.size_bytes == path.stat().st_size
    assert found.oldest_at is not None
    assert found.newest_at is not None
    assert found.oldest_at <= found.newest_at


def test_the_log_and_the_free_space_are_counted(path: Path) -> None:
    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        for number in range(20):
            await store.append(start(f"r_{number}", status="completed", terminal=True, payload={"text": "x" * 5_000}))
        assert stats(path).log_bytes > 10_000
        await store.delete_runs([f"r_{number}" for number in range(20)])
        await store.close()

    run_bounded(scenario())
    found = stats(path)
    assert found.log_bytes == 0
    assert found.free_bytes > 50_000


FLIPS = ("history.records", "payloads.content", "shapes.content", "definitions.document")


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_byte_in_any_stored_value_is_found(path: Path, data: st.DataObject) -> None:
    table, column = data.draw(st.sampled_from(FLIPS)).split(".")
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute(f"SELECT {column} FROM {table} ORDER BY 1").fetchall()
        if not rows:
            return
        number = data.draw(st.integers(0, len(rows) - 1))
        content = bytearray(rows[number][0])
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        where = f"{column} = ? AND {column} IN (SELECT {column} FROM {table} ORDER BY 1 LIMIT 1 OFFSET {number})"
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (bytes(content), rows[number][0]))
    try:
        report = check_integrity(path)
        assert not report.ok
        if table == "history":
            assert "PAGE_CHANGED" in {problem.code for problem in report.problems}
            assert any("table history" in problem.message for problem in report.problems)
    finally:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (rows[number][0], bytes(content)))
    assert check_integrity(path).ok


def test_pages_of_an_earlier_release_are_counted_as_unchecked(path: Path) -> None:
    assert check_integrity(path).unchecked_pages == 0
    execute(path, "UPDATE history SET checksum = NULL")
    report = check_integrity(path)
    assert report.ok
    assert report.unchecked_pages > 0
