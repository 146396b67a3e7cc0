"""What an operator can do with a stored database: back it up, restore it, check it, migrate it, look at it.

Each driver implements `Maintenance`. Its methods may block, and need no open store: most of them work beside a process
that uses the database.

Above it: `app.maintenance`, the command line. Below it: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from penstock.base.json import JsonObject, JsonValue

if TYPE_CHECKING:
    from penstock.governance.audit.trails import RemovedPart
    from penstock.runtime.ports.audit import AuditRecord
    from penstock.runtime.ports.backups import BackupFolder

__all__ = [
    "BackupResult",
    "IntegrityProblem",
    "IntegrityReport",
    "Maintenance",
    "Migration",
    "RestoreResult",
    "StoreGlance",
    "StoreStats",
    "StoredPart",
    "StoredTrails",
    "VacuumResult",
]

StoredPart: TypeAlias = "AuditRecord | RemovedPart"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupResult:
    """A copy that was made and verified."""

    path: str
    size_bytes: int
    runs: int
    format_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """A copy that replaced a database. `kept_as` is the new path of the replaced one."""

    path: str
    kept_as: str | None
    runs: int
    format_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """The contents of a file. `free_bytes` in the file will be reused; `log_bytes` wait to be merged into it."""

    path: str
    format_version: int
    size_bytes: int
    free_bytes: int
    log_bytes: int
    runs: int
    runs_by_status: dict[str, int]
    records: int
    definitions: int
    schedules: int
    oldest_at: int | None
    newest_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityProblem:
    """One problem, with the database (no run id) or with a run."""

    code: str
    message: str
    run_id: str | None = None

    def to_json(self) -> JsonObject:
        """The problem as JSON."""
        return {"code": self.code, "message": self.message, "run_id": self.run_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityReport:
    """What was checked and the problems found. A report that is not `complete` stopped at too many problems."""

    runs: int
    records: int
    definitions: int
    problems: tuple[IntegrityProblem, ...]
    complete: bool = True
    unchecked_pages: int = 0
    """Pages of history that an earlier release wrote without a checksum."""
    unchecked_rows: int = 0
    """Rows of other tables that an earlier release wrote without a checksum."""

    @property
    def ok(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    def to_json(self) -> JsonObject:
        """The report as JSON."""
        return {
            "ok": self.ok,
            "complete": self.complete,
            "runs": self.runs,
            "records": self.records,
            "definitions": self.definitions,
            "unchecked_pages": self.unchecked_pages,
            "unchecked_rows": self.unchecked_rows,
            "problems": [problem.to_json() for problem in self.problems],
        }


@dataclass(frozen=True, slots=True)
class Migration:
    """What migrating a database does, or did: from which format to which, and how many steps that is."""

    path: str
    from_version: int
    to_version: int
    size_bytes: int
    seconds: float | None = None

    @property
    def steps(self) -> int:
        """How many steps lie between the two formats."""
        return self.to_version - self.from_version


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumResult:
    """A vacuumed database: its size before and after, and the duration."""

    path: str
    bytes_before: int
    bytes_after: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreGlance:
    """What a database says about itself. Only one of the current format is counted.

    `live` has the runs of the owner that have not ended, by status.
    """

    format_version: int
    current_format: int
    live: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    workers: int = 0
    problem: str | None = None


class StoredTrails(Protocol):
    """The audit trails of a database, read without its secret."""

    def tenants(self) -> tuple[str, ...]:
        """Return every tenant that has records."""

    def notes(self, kind: str, tenant: str) -> list[str]:
        """Return the notes that a tenant has under a kind of resource."""

    def bodies(self, kind: str, tenant: str) -> list[dict[str, Any]]:
        """Return the bodies of what a tenant has under a kind of resource."""

    def parts(self, tenant: str) -> Iterator[StoredPart]:
        """Return the records of a trail, and what stands for removed ones.

        Raises `AuditRecordUnreadable` at a damaged record.
        """


class Maintenance(Protocol):
    """The maintenance of one database."""

    def exists(self) -> bool:
        """Return whether there is a database with contents. Creates nothing."""

    def files(self) -> tuple[Path, ...]:
        """Return the files that hold the database, whether they exist or not."""

    def backup(self, target: Path, *, overwrite: bool = False) -> BackupResult:
        """Copy the database while it is in use. The copy is verified before this returns."""

    def backup_folder(self, folder: str) -> BackupFolder:
        """Return the backups of this database in a folder of its server."""

    def restore(self, source: Path, *, force: bool = False, note: JsonObject | None = None) -> RestoreResult:
        """Replace the database with a backup; nobody may have it open. `note` is stored in what replaces it."""

    def check(self) -> IntegrityReport:
        """Find every problem of the database and of the runs in it."""

    def accept_missing_log(self) -> None:
        """Continue with a database whose log is gone, without what was only in the log."""

    def stats(self) -> StoreStats:
        """Count what the database holds."""

    def mark(self, name: str) -> JsonValue:
        """Return the small value under a name; None without one."""

    def plan_migration(self) -> Migration:
        """Say what migrating would do, and change nothing."""

    def migrate(self) -> Migration:
        """Bring the database to the format of this release, completely or not at all."""

    def vacuum(self) -> VacuumResult:
        """Rewrite the database without free space. Nobody else may have it open."""

    def trails(self) -> AbstractContextManager[StoredTrails]:
        """Open the audit trails for reading."""

    def glance(self, *, failed_since: int, now: int) -> StoreGlance:
        """Look at the database in no time; whatever prevents that is in `problem`. Times are epoch milliseconds."""
