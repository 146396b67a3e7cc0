"""Storage: a run store and the services that come with its kind.

A store on a database has its secrets, a probe and counters; a temporary one has none of these. Callers ask for the
value they need, never for the kind of store.

Above it: `Penstock`, the gate, the server. Below it: the ports. `drivers` makes them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from penstock.app.server_secret.keys import ServerKeys
from penstock.runtime.ports.backups import BackupFolder
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.graphs import GraphStore
from penstock.runtime.tables.runs.store import RunStore

__all__ = ["Storage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A run store and what belongs to it."""

    store: RunStore
    probe: Callable[[], Awaitable[object]]
    """Raises the error that a caller would get if the store cannot be used now."""
    database: Database | None = None
    """The database of all of it, if there is one. Usable while the run store is open."""
    keys: ServerKeys | None = None
    """Where the server's secret and its audit key come from, if there is a database."""
    graphs: Callable[[], GraphStore] | None = None
    """The store for graphs, if there is one. Usable while the run store is open."""
    backups: BackupFolder | None = None
    """The folder for backups of all of it, if the operator named one."""
    set_aside: Callable[[], Mapping[str, Mapping[str, str]]] = field(default=dict)
    """What could not be deleted when its time was over: by kind, the names with the reasons."""
    counts: Callable[[], Mapping[str, int]] = field(default=dict)
    """Counters of the store since it was opened, by name: `commits`, `jobs`."""
