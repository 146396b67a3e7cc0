"""Backups in a folder: named by the time, one at a time, verified, and none where it could do harm."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable
from pathlib import Path

import pytest

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.runtime.stores.sqlite.maintenance.backup_folder import SqliteBackupFolder
from penstock.runtime.stores.sqlite.maintenance.backups import check_integrity, stats
from tests.unit.runtime.stores.holding import held
from tests.unit.runtime.stores.real_runs import make_database
from tests.waiting import SECONDS_MAX, until

pytestmark = pytest.mark.anyio
AT = 1_763_436_972_041
NAME = "penstock-2025-11-18T03-36-12.041Z.db"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("original") / "store.db"
    asyncio.run(make_database(path))
    return path.read_bytes()


@pytest.fixture
def store(original: bytes, tmp_path: Path) -> Path:
    """A database of nine runs."""
    path = tmp_path / "store.db"
    path.write_bytes(original)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "backups"
    path.mkdir()
    return path


def has_a_log_of(store: Path, size_bytes: int) -> None:
    """Give a store a log of this size, without a single block on the disk."""
    with Path(f"{store}-wal").open("wb") as log:
        log.truncate(size_bytes)


async def refused(call: Awaitable[object], code: str) -> None:
    with pytest.raises(PenstockError) as caught:
        await call
    assert caught.value.code == code, str(caught.value)
    assert caught.value.hint


async def test_a_backup_is_whole_has_the_time_as_its_name_and_is_for_its_owner_only(store: Path, folder: Path) -> None:
    backups = SqliteBackupFolder(store, folder)
    made = await backups.create(AT)
    path = folder / NAME
    assert (made.file.name, made.file.at, made.runs) == (NAME, AT, stats(store).runs)
    assert made.runs > 0
    assert os.listdir(folder) == [NAME]
    assert path.stat().st_mode & 0o777 == 0o600
    assert made.file.size_bytes == path.stat().st_size
    assert check_integrity(path).ok
    assert await backups.files() == (made.file,)


async def test_files_with_other_names_links_and_folders_are_no_backups(store: Path, folder: Path) -> None:
    backups = SqliteBackupFolder(store, folder)
    older = (await backups.create(AT)).file
    newer = (await backups.create(AT + 1)).file
    shutil.copy(folder / NAME, folder / "mine.db")
    (folder / "penstock-2025-99-18T03-36-12.041Z.db").write_bytes(b"")
    (folder / "penstock-2025-11-18T03-36-12.050Z.db").symlink_to(store)
    (folder / "penstock-2025-11-18T03-36-12.051Z.db").mkdir()
    assert await backups.files() == (newer, older)
    # The time is taken; the file that has it stays.
    await refused(backups.create(AT), "BACKUP_EXISTS")
    assert await backups.files() == (newer, older)


async def test_a_second_backup_is_refused_while_one_is_being_made(store: Path, folder: Path) -> None:
    backups = SqliteBackupFolder(store, folder)
    async with asyncio.timeout(SECONDS_MAX):
        with held(store, "PRAGMA locking_mode = EXCLUSIVE"):
            first = asyncio.create_task(backups.create(AT))
            # The copy was begun, and waits for the process that has the store to itself.
            await until(lambda: any(name.startswith(".penstock-") for name in os.listdir(folder)))
            await refused(backups.create(AT + 1), "BACKUP_RUNNING")
            assert await backups.files() == ()
        assert (await first).file.name == NAME
        await backups.create(AT + 2)


async def test_a_file_that_takes_the_name_while_the_copy_is_made_stays_as_it_is(store: Path, folder: Path) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        with held(store, "PRAGMA locking_mode = EXCLUSIVE"):
            making = asyncio.create_task(SqliteBackupFolder(store, folder).create(AT))
            await until(lambda: any(name.startswith(".penstock-") for name in os.listdir(folder)))
            (folder / NAME).write_bytes(b"of another server")
        await refused(making, "BACKUP_EXISTS")
    assert os.listdir(folder) == [NAME]
    assert (folder / NAME).read_bytes() == b"of another server"


async def test_scheduled_backups_are_counted_apart_and_a_changed_file_is_not_removed(store: Path, folder: Path) -> None:
    for number in range(limits.BACKUPS_MAX):
        (folder / f"penstock-2025-11-18T03-36-12.{number:03}Z.db").write_bytes(b"")
    backups = SqliteBackupFolder(store, folder)
    made = [(await backups.create(AT + number, scheduled=True)).file for number in range(2)]
    assert [file.scheduled for file in made] == [True, True]
    with (folder / made[0].name).open("ab") as file:
        file.write(b"x")
    assert await backups.remove(tuple(made)) == (made[1].name,)
    assert (folder / made[0].name).exists()
    assert not (folder / made[1].name).exists()


async def test_a_folder_that_is_full_or_missing_takes_no_backup_and_nothing_is_deleted(
    store: Path, folder: Path
) -> None:
    for number in range(limits.BACKUPS_MAX):
        (folder / f"penstock-2025-11-18T03-36-12.{number:03}Z.db").write_bytes(b"")
    await refused(SqliteBackupFolder(store, folder).create(AT + 500), "BACKUP_FOLDER_FULL")
    assert len(os.listdir(folder)) == limits.BACKUPS_MAX
    missing = SqliteBackupFolder(store, folder / "not-mounted")
    await refused(missing.create(AT), "BACKUP_FOLDER_UNAVAILABLE")
    await refused(missing.files(), "BACKUP_FOLDER_UNAVAILABLE")
    assert not (folder / "not-mounted").exists()


async def test_a_backup_that_would_fill_the_disk_is_not_begun(store: Path, folder: Path) -> None:
    has_a_log_of(store, shutil.disk_usage(folder).free)
    await refused(SqliteBackupFolder(store, folder).create(AT), "BACKUP_NO_ROOM")
    assert os.listdir(folder) == []


async def test_what_a_killed_process_left_behind_is_deleted_a_day_later(store: Path, folder: Path) -> None:
    left, under_way = folder / f".{NAME}.abc.part", folder / f".{NAME}.def.part"
    for path in (left, under_way):
        path.write_bytes(b"half of it")
    yesterday = left.stat().st_mtime - limits.BACKUP_UNFINISHED_SECONDS - 60
    os.utime(left, (yesterday, yesterday))
    await SqliteBackupFolder(store, folder).create(AT)
    assert sorted(os.listdir(folder)) == [under_way.name, NAME]
