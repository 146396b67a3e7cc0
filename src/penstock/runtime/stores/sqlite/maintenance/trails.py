"""Reads the audit trails in a file without its secret, to verify them with a public key.

The file is only read. Records come oldest first, with what stands for removed ones, a few at a time.

Above it: `file`. Below it: `tables.audit`, sqlite3.
"""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from penstock.base.errors import CorruptHistory, Rejected
from penstock.governance.audit.chain import RemovedRecords
from penstock.governance.audit.trails import RemovedPart
from penstock.runtime.ports.maintenance import StoredPart
from penstock.runtime.ports.transactions import RowError, StatementError
from penstock.runtime.stores.sqlite.errors import explain
from penstock.runtime.stores.sqlite.schema.files import connect
from penstock.runtime.stores.sqlite.schema.migrations import SCHEMA_VERSION, identify
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction, cause_of
from penstock.runtime.tables.audit.records import audit_tenants, stored_records
from penstock.runtime.tables.audit.removal import read_removed

__all__ = ["SqliteTrails", "open_trails"]

_BODY = msgspec.json.Decoder(dict[str, Any])
_NOTES = "SELECT resource_id, body FROM resources WHERE kind = ? AND tenant = ? ORDER BY resource_id"


@dataclass(frozen=True, slots=True)
class SqliteTrails:
    """The trails of an open file."""

    connection: sqlite3.Connection

    def tenants(self) -> tuple[str, ...]:
        """Every tenant that has records."""
        return audit_tenants(SqliteTransaction(self.connection))

    def notes(self, kind: str, tenant: str) -> list[str]:
        """The notes that a tenant has under a kind of resource."""
        return [str(body["note"]) for body in self.bodies(kind, tenant)]

    def bodies(self, kind: str, tenant: str) -> list[dict[str, Any]]:
        """The bodies of what a tenant has under a kind of resource."""
        return [_decode_body(kind, tenant, *row) for row in self.connection.execute(_NOTES, (kind, tenant))]

    def parts(self, tenant: str) -> Iterator[StoredPart]:
        """The records of a trail, and what stands for removed ones; raise `AuditRecordUnreadable` at a damaged one."""
        position = 0
        for record in stored_records(SqliteTransaction(self.connection), tenant):
            for part in self._removed_before(tenant, position, record.seq):
                yield part
                position = part.last_seq
            yield record
            position = record.seq

    def _removed_before(self, tenant: str, position: int, before: int) -> Iterator[RemovedPart]:
        while position + 1 < before:
            found = read_removed(SqliteTransaction(self.connection), tenant, position, 1)
            if found and found[0].first_seq == position + 1:
                yield _part(found[0])
                position = found[0].last_seq
            elif position == 0:
                last = min(before, found[0].first_seq if found else before) - 1
                yield RemovedPart(first_seq=1, last_seq=last)
                position = last
            else:
                return  # records are missing, which shows in the numbers


def _decode_body(kind: str, tenant: str, resource_id: object, body: object) -> dict[str, Any]:
    try:
        return _BODY.decode(body)  # type: ignore[arg-type]  # a damaged cell may have any type
    except (ValueError, TypeError) as error:
        message = f"{kind} {resource_id} of {tenant!r} cannot be read: {error}"
        raise CorruptHistory("STORE_CORRUPT", message, "restore a backup with `penstock server restore`") from error


def _part(stretch: RemovedRecords) -> RemovedPart:
    return RemovedPart(
        first_seq=stretch.first_seq,
        last_seq=stretch.last_seq,
        previous_hash=stretch.previous_hash,
        last_hash=stretch.last_hash,
        leaves=base64.b64encode(stretch.leaves).decode(),
    )


@contextmanager
def open_trails(path: Path) -> Iterator[SqliteTrails]:
    """Open a file to read its trails; refuse a file in the format of another release."""
    try:
        connection = connect(str(path), mode="ro")
        try:
            version = identify(connection, str(path))
            if version != SCHEMA_VERSION:
                message = f"{path} has the format {version} of an older release, which a public key cannot verify"
                raise Rejected("STORE_TOO_OLD", message, "open it once with this release, which brings it up to date")
            connection.execute("BEGIN")  # one snapshot of the file, while others may write
            yield SqliteTrails(connection)
        finally:
            connection.close()
    except (sqlite3.Error, RowError, StatementError) as error:
        raise explain(cause_of(error), str(path)) from error
