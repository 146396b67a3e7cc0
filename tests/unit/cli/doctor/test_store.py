"""`penstock server doctor` says whether backups are scheduled, and whether they are made."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.app.drivers import make_storage
from penstock.app.penstock import Penstock
from penstock.app.server_secret.keys import ServerKeys
from penstock.app.settings.model import BackupSettings, StorageSettings
from penstock.cli.doctor.store import backup_checks
from penstock.runtime.system import SystemClock

DAY_MS = 86_400_000

keys_of = ServerKeys.beside


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "penstock.db"

    async def make() -> None:
        async with Penstock.open(path, perform=False):
            pass

    asyncio.run(make())
    return path


def chosen(folder: Path) -> StorageSettings:
    return StorageSettings(backup_folder=str(folder), backups=BackupSettings(every=timedelta(days=1)))


def test_a_database_without_scheduled_backups_is_a_warning(store: Path, tmp_path: Path) -> None:
    [check] = backup_checks(store, StorageSettings(), keys_of(store))
    assert (check.status, check.message) == ("warn", "no backups are scheduled")
    assert "storage.backups.every" in (check.hint or "")
    none = tmp_path / "none.db"
    [check] = backup_checks(none, StorageSettings(), keys_of(none))
    assert check.status == "skip"


def test_a_folder_that_is_gone_fails_and_old_backups_are_a_warning(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    [check] = backup_checks(store, chosen(folder), keys_of(store))
    assert check.status == "fail"
    assert "BACKUP_FOLDER_UNAVAILABLE" in check.message
    folder.mkdir()
    assert [check.status for check in backup_checks(store, chosen(folder), keys_of(store))] == ["skip"]
    now, backups = SystemClock().now_ms(), make_storage(store, backup_folder=str(folder)).backups
    assert backups is not None
    asyncio.run(backups.create(now))
    assert [check.status for check in backup_checks(store, chosen(folder), keys_of(store))] == ["skip"], (
        "nobody scheduled that one"
    )
    asyncio.run(backups.create(now - 3 * DAY_MS, scheduled=True))
    [check] = backup_checks(store, chosen(folder), keys_of(store))
    assert (check.status, "1 scheduled backup" in check.message) == ("warn", True)
    asyncio.run(backups.create(now - 1, scheduled=True))
    [check] = backup_checks(store, chosen(folder), keys_of(store))
    assert (check.status, "penstock.db.secret" in check.message) == ("ok", True)
