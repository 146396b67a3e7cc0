"""The maintenance of a file is what the port asks for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.app.penstock import Penstock
from penstock.base.errors import Conflict, NotFound
from penstock.runtime.ports.maintenance import Maintenance
from penstock.runtime.stores.sqlite.maintenance.file import FileMaintenance, is_database_file
from penstock.runtime.stores.sqlite.schema.version import SCHEMA_VERSION


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "penstock.db"

    async def make() -> None:
        async with Penstock.open(path, perform=False):
            pass

    asyncio.run(make())
    return path


def test_a_database_is_looked_at_from_every_side(file: Path) -> None:
    maintenance: Maintenance = FileMaintenance(file)
    assert maintenance.exists()
    assert maintenance.check().ok
    numbers, plan = maintenance.stats(), maintenance.plan_migration()
    assert (numbers.runs, numbers.format_version) == (0, SCHEMA_VERSION)
    assert (plan.steps, maintenance.migrate()) == (0, plan)
    assert maintenance.mark("nothing") is None
    assert maintenance.glance(failed_since=0, now=1).current_format == SCHEMA_VERSION
    with maintenance.trails() as trails:
        assert (trails.tenants(), list(trails.parts("default"))) == ((), [])
    assert maintenance.files() == (file, Path(f"{file}-wal"), Path(f"{file}-shm"))
    assert maintenance.vacuum().bytes_after > 0


def test_a_database_is_copied_and_put_back(file: Path, tmp_path: Path) -> None:
    maintenance: Maintenance = FileMaintenance(file)
    copy = tmp_path / "copy.db"
    assert maintenance.backup(copy).path == str(copy)
    assert is_database_file(copy)
    with pytest.raises(Conflict, match="BACKUP_EXISTS"):
        maintenance.backup(copy)
    maintenance.backup(copy, overwrite=True)
    with pytest.raises(Conflict, match="STORE_EXISTS"):
        maintenance.restore(copy)
    kept_as = maintenance.restore(copy, force=True).kept_as
    assert kept_as is not None
    assert Path(kept_as).exists()
    assert asyncio.run(maintenance.backup_folder(str(tmp_path)).files()) == ()


def test_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    maintenance: Maintenance = FileMaintenance(tmp_path / "penstock.db")
    assert not maintenance.exists()
    for look in (maintenance.check, maintenance.stats, maintenance.plan_migration, maintenance.vacuum):
        with pytest.raises(NotFound, match="STORE_NOT_FOUND"):
            look()
    assert list(tmp_path.iterdir()) == []
