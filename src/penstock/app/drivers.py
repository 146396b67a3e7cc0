"""The drivers of databases: what `--db`, `PENSTOCK_DB` and `storage.path` name is opened here, and only here.

The path of a file is a SQLite database. There is no driver for addresses such as `postgresql://host/name` yet.

Above it: `Penstock`, `gate`, the command line. Below it: the adapters, which no other module knows. All are imported
when they are needed: a command that only glances at a database needs few of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.app.database_names import scheme_of
from penstock.base.errors import Rejected
from penstock.base.lazy_import import lazy_import

if TYPE_CHECKING:
    from penstock.app import storage as storages
    from penstock.app.server_secret import keys as server_keys
    from penstock.app.server_secret.keys import ServerKeys
    from penstock.app.settings.model import Settings
    from penstock.app.storage import Storage
    from penstock.runtime.ports.maintenance import Maintenance
    from penstock.runtime.stores.sqlite import database as sqlite_databases
    from penstock.runtime.stores.sqlite import temporary as sqlite_temporary
    from penstock.runtime.stores.sqlite.graphs import store as sqlite_graphs
    from penstock.runtime.stores.sqlite.maintenance import file as sqlite_files
    from penstock.runtime.stores.sqlite.maintenance import probe as sqlite_probe
    from penstock.runtime.stores.sqlite.schema.files import Synchronous
    from penstock.runtime.tables import workers
    from penstock.runtime.tables.runs import store as run_stores
else:
    server_keys = lazy_import("penstock.app.server_secret.keys")
    storages = lazy_import("penstock.app.storage")
    run_stores = lazy_import("penstock.runtime.tables.runs.store")
    sqlite_databases = lazy_import("penstock.runtime.stores.sqlite.database")
    sqlite_files = lazy_import("penstock.runtime.stores.sqlite.maintenance.file")
    sqlite_graphs = lazy_import("penstock.runtime.stores.sqlite.graphs.store")
    sqlite_probe = lazy_import("penstock.runtime.stores.sqlite.maintenance.probe")
    sqlite_temporary = lazy_import("penstock.runtime.stores.sqlite.temporary")
    workers = lazy_import("penstock.runtime.tables.workers")

__all__ = [
    "database_file",
    "has_database",
    "is_database_file",
    "maintenance_of",
    "make_storage",
    "storage_of",
    "temporary_storage",
]


def database_file(name: str | Path) -> Path:
    """Return the file that a name stands for; raise `Rejected` for a database that no driver can open."""
    scheme = scheme_of(name)
    if scheme is not None:
        message = f"this release has no driver for databases at {scheme}:// addresses"
        hint = "name a file such as penstock.db in `storage.path`, PENSTOCK_DB or --db"
        raise Rejected("DATABASE_UNSUPPORTED", message, hint)
    return Path(name)


def make_storage(
    name: str | Path,
    *,
    synchronous: Synchronous = "FULL",
    backup_folder: str | None = None,
    keys: ServerKeys | None = None,
) -> Storage:
    """Make the storage of a database: everything in one file. The caller opens and closes the store.

    Without `keys`, the server's secret and its audit key are in files beside the database.
    """
    file = database_file(name)
    database = sqlite_databases.SqliteDatabase(name, synchronous=synchronous)
    return storages.Storage(
        store=run_stores.RunStore(database),
        database=database,
        keys=keys or server_keys.ServerKeys.beside(file),
        graphs=lambda: sqlite_graphs.SqliteGraphStore(database),
        backups=None if backup_folder is None else maintenance_of(file).backup_folder(backup_folder),
        probe=sqlite_probe.StoreProbe(database).check,
        set_aside=database.set_aside.rows,
        counts=lambda: {"commits": database.writer.commits, "jobs": database.writer.jobs},
    )


def storage_of(settings: Settings, name: str | Path | None = None) -> Storage:
    """Make the storage that the settings name, or the same kind of another database."""
    chosen = settings.storage
    file = database_file(name or chosen.path)
    keys = server_keys.ServerKeys.chosen(settings, file)
    return make_storage(file, synchronous=chosen.synchronous, backup_folder=chosen.backup_folder, keys=keys)


def temporary_storage() -> Storage:
    """Make the storage of a database that ends with the process, for runs and definitions alone."""
    database = sqlite_temporary.TemporaryDatabase()

    async def probe() -> None:
        await workers.list_workers(database)

    return storages.Storage(store=run_stores.RunStore(database), probe=probe)


def maintenance_of(name: str | Path) -> Maintenance:
    """Return the maintenance of a database."""
    return sqlite_files.FileMaintenance(database_file(name))


def has_database(name: str | Path) -> bool:
    """Whether there is a database. An empty file does not count: opening it would make it one."""
    return maintenance_of(name).exists()


def is_database_file(path: Path) -> bool:
    """Whether a file is a database, not an export of one."""
    return sqlite_files.is_database_file(path)
