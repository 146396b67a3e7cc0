"""Storage: a run store and the services that come with its kind.

A store in a file has a database, a path for the secret beside it, a probe and counters; one in memory has none of
these. Callers ask for the value they need, never for the kind of store.

Above it: `Penstock`, the gate, the server. Below it: the adapters; this is the one module that pairs them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.lazy_import import lazy_import
from penstock.runtime.ports.backups import BackupFolder
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.graphs import GraphStore
from penstock.runtime.ports.runs import RunStore
from penstock.runtime.stores.sqlite.maintenance.probe import StoreProbe
from penstock.runtime.stores.sqlite.runs.store import SqliteRunStore
from penstock.runtime.stores.sqlite.schema.files import Synchronous

if TYPE_CHECKING:
    from penstock.runtime.stores.memory import run_store as memory_runs
    from penstock.runtime.stores.sqlite.graphs import store as sqlite_graphs
    from penstock.runtime.stores.sqlite.maintenance import backup_folder as sqlite_backups
else:
    memory_runs = lazy_import("penstock.runtime.stores.memory.run_store")
    sqlite_backups = lazy_import("penstock.runtime.stores.sqlite.maintenance.backup_folder")
    sqlite_graphs = lazy_import("penstock.runtime.stores.sqlite.graphs.store")

__all__ = ["Storage", "in_file", "in_memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A run store and what belongs to it."""

    store: RunStore
    probe: Callable[[], Awaitable[object]]
    """Raises the error that a caller would get if the store cannot be used now."""
    file: str | None = None
    """The path of the store, if it is a file. The server's secret is beside it."""
    database: Database | None = None
    """The database of all of it, if there is one. Usable while the run store is open."""
    graphs: Callable[[], GraphStore] | None = None
    """The store for graphs, if there is one. Usable while the run store is open."""
    backups: BackupFolder | None = None
    """The folder for backups of all of it, if the operator named one."""
    set_aside: Callable[[], Mapping[str, Mapping[str, str]]] = field(default=dict)
    """What could not be deleted when its time was over: by kind, the names with the reasons."""
    counts: Callable[[], Mapping[str, int]] = field(default=dict)
    """Counters of the store since it was opened, by name: `commits`, `jobs`."""


def in_file(path: str | Path, *, synchronous: Synchronous = "FULL", backup_folder: str | None = None) -> Storage:
    """Everything in one SQLite file. The caller opens and closes the store."""
    store = SqliteRunStore(path, synchronous=synchronous)
    database = store.database
    return Storage(
        store=store,
        file=database.path,
        database=database,
        graphs=lambda: sqlite_graphs.SqliteGraphStore(database),
        backups=None if backup_folder is None else sqlite_backups.SqliteBackupFolder(database.path, backup_folder),
        probe=StoreProbe(database).check,
        set_aside=database.set_aside.rows,
        counts=lambda: {"commits": database.writer.commits, "jobs": database.writer.jobs},
    )


def in_memory() -> Storage:
    """Runs and definitions in memory, without a platform store."""
    store = memory_runs.MemoryRunStore()
    return Storage(store=store, probe=store.workers)
