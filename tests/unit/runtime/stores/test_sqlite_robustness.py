"""What the SQLite store does when its file cannot be used: a clear error, nothing lost, nothing half done."""

import asyncio
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.base.errors import CorruptHistory, PenstockError, Rejected, Unavailable
from penstock.runtime.ports.runs import Appended, StoredRun
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.schema import migrations
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.privileges import as_ordinary_user
from tests.conformance.stores import contents, listed, run_bounded, start, step
from tests.unit.runtime.stores.holding import held
from tests.waiting import SECONDS_MAX

ROOT = Path(__file__).parents[4]


async def filled(path: Path, runs: int = 1) -> None:
    """A file with some runs in it."""
    store = RunStore(SqliteDatabase(path, synchronous="OFF"))
    await store.open()
    await asyncio.gather(
        *(
            store.append(start(f"r_{number}", labels={"n": str(number)}, payload={"n": number}))
            for number in range(runs)
        )
    )
    await store.close()


def make(path: Path, runs: int = 1) -> None:
    run_bounded(filled(path, runs))


def refusal_of(path: Path, *, busy_timeout_ms: int = 50) -> PenstockError:
    """The error with which a file is not opened."""
    found: list[PenstockError] = []

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path, busy_timeout_ms=busy_timeout_ms))
        with pytest.raises(PenstockError) as caught:
            await store.open()
        found.append(caught.value)
        await store.close()

    run_bounded(scenario())
    return found[0]


def check(error: PenstockError, code: str, *words: str) -> None:
    """An error has a code, says what is wrong and where, and what to do."""
    assert error.code == code, str(error)
    assert error.hint
    for word in words:
        assert word in str(error)


# --- no room -------------------------------------------------------------------------------------


def test_a_file_that_may_not_grow_is_full_and_goes_on_when_it_may(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "store.db"))
        await store.open()
        await store.database.write(lambda transaction: transaction.rows("PRAGMA max_page_count = 120"))
        acknowledged: list[str] = []

        async def fill() -> None:
            for number in range(1_000):
                await store.append(start(f"r_{number}", payload={"text": "x" * 2_000}, labels={"team": "blue"}))
                acknowledged.append(f"r_{number}")

        with pytest.raises(Unavailable) as caught:
            await fill()
        check(caught.value, "STORE_FULL", "store.db", "full", "nothing that was acknowledged is lost")
        assert len(acknowledged) > 10
        before = await contents(store)
        assert sorted(before["order"]) == sorted(acknowledged)
        with pytest.raises(Unavailable, match="STORE_FULL"):
            await store.append(start("large", payload={"text": "x" * 50_000}))
        assert await contents(store) == before
        await store.database.write(lambda transaction: transaction.rows("PRAGMA max_page_count = 100000"))
        assert await store.append(start("after")) == Appended()
        await store.close()

    run_bounded(scenario())


def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """On a file system of four megabytes, mounted where nobody else sees it."""
    script = f'mount -t tmpfs -o size=4m tmpfs "$1" && exec "{sys.executable}" -m tests.conformance.full_disk "$1"'
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("this machine has no unshare")
    mount = [unshare, "-Urm", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine allows no mounts of one's own")
    command = [unshare, "-Urm", "sh", "-c", script, "sh", str(tmp_path)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["code"] == "STORE_FULL"
    assert result["acknowledged"] > 50
    assert result["found"] == result["runs"] == result["acknowledged"]
    assert result["again"] is True


# --- no permission -------------------------------------------------------------------------------


@contextmanager
def permissions(path: Path, mode: int) -> Iterator[None]:
    """Permissions for a while; a folder without any could not be cleaned up."""
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        yield
    finally:
        path.chmod(before)


def refused_to_an_ordinary_user(path: Path) -> PenstockError:
    found: list[PenstockError] = []
    as_ordinary_user(lambda: found.append(refusal_of(path)))
    return found[0]


def test_a_file_without_permission_to_write_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make(path)
    with permissions(path, 0o444):
        check(refused_to_an_ordinary_user(path), "STORE_READ_ONLY", "store.db", "cannot be written")


def test_a_file_without_permission_to_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make(path)
    with permissions(path, 0o000):
        check(refused_to_an_ordinary_user(path), "STORE_UNREACHABLE", "store.db", "read and write")


def test_a_folder_without_permission_to_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    make(folder / "store.db")
    with permissions(folder, 0o555):
        check(refused_to_an_ordinary_user(folder / "store.db"), "STORE_READ_ONLY", "store.db", "folder")
        check(refused_to_an_ordinary_user(folder / "new.db"), "STORE_READ_ONLY", "new.db", "folder")


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    check(refusal_of(tmp_path / "missing" / "store.db"), "STORE_UNREACHABLE", "its folder does not exist", "missing")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    check(refusal_of(tmp_path), "STORE_UNREACHABLE", "this is a folder")


@pytest.mark.parametrize("name", [":memory:", "", "file:store.db?mode=memory"])
def test_a_store_needs_a_file(name: str) -> None:
    async def scenario() -> None:
        with pytest.raises(Rejected, match="STORE_PATH_INVALID"):
            await RunStore(SqliteDatabase(name)).open()

    run_bounded(scenario())


# --- somebody else -------------------------------------------------------------------------------


def test_a_file_that_another_process_holds_is_locked_until_it_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make(path)

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path, busy_timeout_ms=200))
        await store.open()
        with held(path, "BEGIN IMMEDIATE"):
            began = time.monotonic()
            writes = [start(f"w_{number}") for number in range(500)]
            outcomes = await asyncio.gather(*(store.append(write) for write in writes), return_exceptions=True)
            # All of them wait together, not one after the other: that would be 100 s.
            assert time.monotonic() - began < 60
            for outcome in outcomes:
                assert isinstance(outcome, Unavailable)
                check(outcome, "STORE_LOCKED", "store.db", "another process")
            assert await listed(store) == ["r_0"]
        assert await store.append(writes[0]) == Appended()
        await store.close()

    run_bounded(scenario())


def test_a_file_that_another_process_holds_cannot_be_opened_for_writing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make(path)
    with held(path, "BEGIN EXCLUSIVE"):
        check(refusal_of(path), "STORE_LOCKED", "store.db", "another process")
    with held(path, "PRAGMA locking_mode = EXCLUSIVE"):
        check(refusal_of(path), "STORE_LOCKED", "store.db", "another process")


def test_a_file_that_was_replaced_under_a_store_is_not_written_any_more(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        await store.append(start("before"))
        path.rename(tmp_path / "elsewhere.db")
        with pytest.raises(Unavailable, match="STORE_MOVED") as caught:
            await store.append(start("lost"))
        check(caught.value, "STORE_MOVED", "store.db", "moved, removed or replaced")
        (tmp_path / "elsewhere.db").rename(path)
        assert await store.append(start("after")) == Appended()
        path.unlink()
        with pytest.raises(Unavailable, match="STORE_MOVED"):
            await store.append(start("lost"))
        await store.close()

    run_bounded(scenario())


# --- damage --------------------------------------------------------------------------------------


def test_a_file_with_a_damaged_beginning_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make(path)
    with path.open("r+b") as file:
        file.write(b"\xff" * 100)
    damaged = path.read_bytes()
    check(refusal_of(path), "STORE_CORRUPT", "store.db", "penstock server restore")
    assert path.read_bytes() == damaged


def test_damage_in_the_middle_is_reported_where_it_is_met(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make(path, runs=400)
    pages = path.stat().st_size // 4096
    chance = random.Random(5)
    with path.open("r+b") as file:
        for page in chance.sample(range(pages // 4, pages), pages // 3):
            file.seek(page * 4096)
            file.write(chance.randbytes(4096))
    codes: set[str] = set()

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path))
        try:
            await store.open()
        except PenstockError as error:
            codes.add(error.code)
            return
        for number in range(400):
            try:
                loaded = await store.load(f"r_{number}")
            except PenstockError as error:
                codes.add(error.code)
                continue
            # A page of the index may be gone; what is found is right.
            if loaded is not None:
                expected = start(f"r_{number}", labels={"n": str(number)}, payload={"n": number})
                assert loaded == StoredRun(expected.row, expected.records)
        await store.close()

    run_bounded(scenario())
    assert codes == {"STORE_CORRUPT"}


def test_a_file_that_was_cut_off_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make(path, runs=400)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2 // 4096 * 4096)

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path))

        async def read_everything() -> None:
            await store.open()
            for number in range(400):
                await store.load(f"r_{number}")

        with pytest.raises(PenstockError, match="STORE_CORRUPT"):
            await read_everything()
        await store.close()

    run_bounded(scenario())


@pytest.mark.parametrize("page", [b"", b"[", b"{}", b'[["a","event","x",{},1]]', b"[[1]]", b"\xff\xfe"])
def test_records_that_cannot_be_read_are_a_corrupt_history(page: bytes, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make(path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE history SET records = ?", (page,))
    connection.commit()
    connection.close()

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(path))
        await store.open()
        with pytest.raises(CorruptHistory) as caught:
            await store.load("r_0")
        check(caught.value, "STORE_CORRUPT")
        await store.append(start("r_1"))
        assert await store.load("r_1") is not None
        await store.close()

    run_bounded(scenario())


# --- other files ---------------------------------------------------------------------------------


def foreign_database(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE bookmarks (url TEXT)",),
        ("CREATE TABLE runs (id TEXT)", "PRAGMA user_version = 1"),
        ("PRAGMA user_version = 1",),
        ("PRAGMA application_id = 252006674",),
        ("CREATE TABLE runs (id TEXT)", "PRAGMA application_id = 252006674", "PRAGMA user_version = 99"),
    ],
    ids=["tables", "same_version", "version_only", "application", "all"],
)
def test_a_database_of_another_program_is_refused_and_left_alone(statements: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "places.db"
    foreign_database(path, *statements)
    before = path.read_bytes()
    check(refusal_of(path), "STORE_FOREIGN", "places.db", "another program")
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["places.db"]


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("remember the milk\n" * 1_000)
    before = path.read_bytes()
    check(refusal_of(path), "STORE_CORRUPT", "notes.txt", "not a Penstock file")
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    make(path)
    assert path.stat().st_size > 0


@pytest.mark.parametrize("name", ["a b.db", "a?b.db", "a#b.db", "a%20b.db", "Ünïcödé.db", "a'b\".db"])
def test_a_file_may_have_any_name(name: str, tmp_path: Path) -> None:
    make(tmp_path / name)
    assert [found.name for found in tmp_path.iterdir()] == [name]


# --- versions ------------------------------------------------------------------------------------


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(version)


def test_a_file_of_a_newer_release_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make(path)
    foreign_database(path, f"PRAGMA user_version = {migrations.SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    check(refusal_of(path), "STORE_TOO_NEW", "store.db", f"format {migrations.SCHEMA_VERSION + 1}")
    assert path.read_bytes() == before


NEXT = migrations.SCHEMA_VERSION + 1
GOOD = "CREATE TABLE extras (name TEXT PRIMARY KEY); ALTER TABLE runs ADD COLUMN region TEXT NOT NULL DEFAULT 'here';"


@pytest.fixture
def newer_release(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Become a release with two more migrations."""

    def become(last: str) -> None:
        monkeypatch.setattr(migrations, "SCHEMA_VERSION", NEXT + 1)
        monkeypatch.setattr(migrations, "MIGRATIONS", {**migrations.MIGRATIONS, NEXT: GOOD, NEXT + 1: last})

    return become


def test_an_older_file_is_migrated_and_keeps_everything(newer_release: Callable[[str], None], tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make(path, runs=5)
    newer_release("CREATE INDEX runs_by_region ON runs (region)")

    async def scenario() -> None:
        # Several at once: one migrates, the others wait for it.
        stores = [RunStore(SqliteDatabase(path)) for _ in range(4)]
        await asyncio.gather(*(store.open() for store in stores))
        store = stores[0]
        assert len(await listed(store)) == 5
        for number in range(5):
            loaded = await store.load(f"r_{number}")
            assert loaded is not None
            write = start(f"r_{number}", labels={"n": str(number)}, payload={"n": number})
            assert loaded == StoredRun(write.row, write.records)
            assert await store.append(step(write)) == Appended()
        await asyncio.gather(*(store.close() for store in stores))

    run_bounded(scenario())
    assert version_of(path) == NEXT + 1
    assert sqlite3.connect(path).execute("SELECT DISTINCT region FROM runs").fetchall() == [("here",)]


def test_a_migration_that_fails_changes_nothing(newer_release: Callable[[str], None], tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    make(path, runs=5)

    def dump() -> dict[str, list[object]]:
        connection = sqlite3.connect(path)
        made = connection.execute("SELECT name, type, sql FROM sqlite_master").fetchall()
        tables = [name for name, kind, sql in made if kind == "table" and "VIRTUAL" not in sql]
        held = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
        return {"": made, **held}

    before = dump()
    newer_release("CREATE TABLE more (name TEXT); CREATE INDEX broken ON runs (no_such_column)")
    check(refusal_of(path), "STORE_FAILED", "store.db", "no_such_column")
    assert version_of(path) == NEXT - 1
    assert dump() == before


# --- opening and closing -------------------------------------------------------------------------


def test_a_closed_store_says_so_and_can_be_opened_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "store.db"))
        for _ in range(2):
            with pytest.raises(Unavailable, match="STORE_CLOSED"):
                await store.row("r_1")
            with pytest.raises(Unavailable, match="STORE_CLOSED"):
                await store.append(start())
            await store.open()
            await store.row("r_1")
            await store.close()
            await store.close()

    run_bounded(scenario())


def test_what_was_given_to_a_store_before_it_closes_is_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "store.db"))
        await store.open()
        waiting = [asyncio.ensure_future(store.append(start(f"r_{number}"))) for number in range(100)]
        await store.close()
        assert set(await asyncio.gather(*waiting)) == {Appended()}
        await store.open()
        assert len(await listed(store)) == 100
        await store.close()

    run_bounded(scenario())


def test_a_closed_store_is_a_single_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "store.db"))
        await store.open()
        await store.append(start())
        await asyncio.gather(*(store.load("r_1") for _ in range(20)))
        await store.close()

    run_bounded(scenario())
    assert [found.name for found in tmp_path.iterdir()] == ["store.db"]
