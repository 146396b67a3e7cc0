"""Names of databases open drivers, and what has no driver is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.app.drivers import database_file, has_database, is_database_file, maintenance_of, make_storage, storage_of
from penstock.app.server_secret.keys import ServerKeys
from penstock.app.server_secret.sources import NamedKey
from penstock.app.settings.model import ServerSettings, Settings, StorageSettings
from penstock.app.settings.secrets import EnvironmentReference
from penstock.base.errors import Rejected

ADDRESSES = (
    "postgresql://user:password@db.example/penstock",
    "postgres://db.example/penstock",
    "POSTGRESQL+psycopg://db.example/penstock",
    "mysql://db.example/penstock",
    Path("postgresql://user:password@db.example/penstock"),
)


@pytest.mark.parametrize("name", ADDRESSES, ids=str)
@pytest.mark.parametrize("use", [database_file, has_database, maintenance_of, make_storage])
def test_an_address_has_no_driver_and_its_password_is_not_repeated(
    name: str | Path, use: Callable[[str | Path], object]
) -> None:
    with pytest.raises(Rejected, match="DATABASE_UNSUPPORTED") as caught:
        use(name)
    assert str(name).partition(":")[0].lower() in caught.value.message
    assert "password" not in str(caught.value)
    assert "PENSTOCK_DB" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "name", ["penstock.db", "/var/lib/a.db", "C:/data/a.db", "C:\\data\\a.db", "a:b.db", "./x:/y.db"]
)
def test_the_path_of_a_file_is_one(name: str) -> None:
    assert database_file(name) == Path(name)


def test_the_storage_is_where_the_settings_say() -> None:
    secret = EnvironmentReference("SERVER_SECRET")
    settings = Settings(storage=StorageSettings(path="a.db"), server=ServerSettings(secret=secret))
    keys = [storage_of(settings).keys, storage_of(settings, Path("b.db")).keys, make_storage("c.db").keys]
    assert [found.place for found in keys if found is not None] == ["a.db", "b.db", "c.db"]
    assert [found.secret == NamedKey(secret) for found in keys if found is not None] == [True, True, False]
    assert keys[2] == ServerKeys.beside(Path("c.db"))


@pytest.mark.anyio
async def test_there_is_a_database_once_a_store_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"
    assert not has_database(path)
    path.touch()
    assert not has_database(path)
    assert not is_database_file(path)
    storage = make_storage(path)
    await storage.store.open()
    await storage.store.close()
    assert (has_database(path), is_database_file(path)) == (True, True)


@pytest.mark.parametrize("name", ["", ":memory:", "file:store.db?mode=memory"])
def test_a_name_that_is_no_file_makes_no_database(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Rejected, match="STORE_PATH_INVALID"):
        asyncio.run(make_storage(name).store.open())
    assert list(tmp_path.iterdir()) == []
