"""Removes audit records past their time, and erases personal data in others, without breaking the chain.

What is removed leaves its leaves behind: rows of `audit_removed` stand for records in a row, each sealed. Adjacent rows
are merged up to a size, so that retention that removes a few records at a time does not leave a row for each.

Above it: `store`. Below it: `records`, `heads`, `governance.audit`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

import msgspec

from penstock.base import limits
from penstock.base.errors import CorruptHistory
from penstock.governance.audit.chain import RemovedRecords
from penstock.governance.audit.leaves import entry_leaf, redact_entry
from penstock.governance.audit.redactions import removable
from penstock.governance.audit.tree import HASH_BYTES
from penstock.runtime.ports.audit import AuditEntry, AuditHold, AuditRecord, Seal
from penstock.runtime.stores.sqlite.checksums import checked_columns, row_checksum
from penstock.runtime.stores.sqlite.codec import encode_json
from penstock.runtime.stores.sqlite.errors import concerns_row
from penstock.runtime.stores.sqlite.platform.audit.heads import move_first
from penstock.runtime.stores.sqlite.platform.audit.records import COLUMNS, not_held, record_of
from penstock.runtime.stores.sqlite.set_aside import SetAside, undone_if_it_fails

__all__ = ["forget_audit", "read_removed", "redact_audit"]

_KIND = "audit"
_SEQ = COLUMNS.replace(" ", "").split(",").index("seq")
_LAST = "SELECT max(seq) FROM audit WHERE tenant = ?"
_REMOVED = (
    "SELECT first_seq, last_seq, previous_hash, last_hash, leaves, seal FROM audit_removed"
    " WHERE tenant = ? AND last_seq > ? ORDER BY first_seq LIMIT ?"
)
_ENDING_AT = (
    "SELECT first_seq, last_seq, previous_hash, last_hash, leaves, seal FROM audit_removed"
    " WHERE tenant = ? AND last_seq = ?"
)
_EXISTS = "SELECT 1 FROM audit WHERE tenant = ? AND seq = ?"
_KEEP = f"INSERT OR REPLACE INTO audit_removed ({checked_columns('audit_removed')}, checksum) VALUES (?,?,?,?,?,?,?,?)"
_CHECK = f"UPDATE audit SET checksum = row_checksum({checked_columns('audit')}) WHERE tenant = ? AND seq = ?"
_ERASE = (
    "UPDATE audit SET principal = :principal, principal_name = :principal_name, acting_for = :acting_for,"
    " remote = :remote, client = :client, subject = :subject, salt = NULL, redacted = :redacted"
    " WHERE tenant = :tenant AND seq = :seq"
)


def forget_audit(
    connection: sqlite3.Connection,
    set_aside: SetAside,
    *,
    tenant: str,
    before_seq: int,
    seal: Seal,
    holds: Sequence[AuditHold] = (),
) -> int:
    """Remove the oldest records that nothing holds, a bounded number at a time, but never the newest.

    One that cannot be removed is set aside, and stays as a held one does.
    """
    ((last,),) = connection.execute(_LAST, (tenant,)).fetchall()
    if last is None:
        return 0
    condition, parameters = not_held(holds)
    aside = "? || '/' || seq NOT IN (SELECT value FROM json_each(?))"
    statement = f"SELECT {COLUMNS} FROM audit WHERE tenant = ? AND seq < ?{condition} AND {aside} ORDER BY seq LIMIT ?"
    before = min(before_seq, last)
    given = (tenant, before, *parameters, tenant, set_aside.names(_KIND), limits.AUDIT_REMOVED_AT_ONCE_MAX)
    records: dict[str, AuditRecord] = {}
    for columns in connection.execute(statement, given).fetchall():
        name = f"{tenant}/{columns[_SEQ]}"
        try:
            records[name] = record_of(columns)
        except (CorruptHistory, ValueError) as error:
            set_aside.add(_KIND, name, error)

    def remove(stretch: Sequence[AuditRecord]) -> int:
        going = removable(stretch, lambda seq: bool(connection.execute(_EXISTS, (tenant, seq)).fetchall()))
        for removed in _in_rows(going):
            _keep(connection, tenant, removed, seal)
            span = (tenant, removed.first_seq, removed.last_seq)
            connection.execute("DELETE FROM audit WHERE tenant = ? AND seq BETWEEN ? AND ?", span)
        return len(going)

    try:
        with undone_if_it_fails(connection):
            count = remove([*records.values()])
    except sqlite3.Error as error:
        if not concerns_row(error):
            raise
        count = set_aside.delete_each(connection, _KIND, records, lambda name: remove([records[name]]))
    if count:
        move_first(connection, tenant, seal)
    return count


def _in_rows(records: Iterable[AuditRecord]) -> Iterable[RemovedRecords]:
    """Records as stretches of consecutive numbers, of a bounded length."""
    size = limits.AUDIT_REMOVED_LEAVES_MAX
    # Consecutive numbers have the same difference to their position.
    for _, found in groupby(enumerate(records), lambda item: item[1].seq - item[0]):
        stretch = [record for _, record in found]
        for start in range(0, len(stretch), size):
            part = stretch[start : start + size]
            yield RemovedRecords(
                first_seq=part[0].seq,
                last_seq=part[-1].seq,
                previous_hash=part[0].previous_hash,
                last_hash=part[-1].hash,
                leaves=b"".join(entry_leaf(record.entry, record.seq) for record in part),
            )


def _keep(connection: sqlite3.Connection, tenant: str, removed: RemovedRecords, seal: Seal) -> None:
    """Store a stretch, together with the one before it if both fit into a row."""
    for columns in connection.execute(_ENDING_AT, (tenant, removed.first_seq - 1)).fetchall():
        before = RemovedRecords(**dict(zip(RemovedRecords.__struct_fields__, columns, strict=True)))
        fits = len(before.leaves) + len(removed.leaves) <= limits.AUDIT_REMOVED_LEAVES_MAX * HASH_BYTES
        # A stretch that was altered stays as it is, so that this shows.
        if fits and before.last_hash == removed.previous_hash and seal.holds_removed(tenant, before):
            removed = msgspec.structs.replace(
                removed,
                first_seq=before.first_seq,
                previous_hash=before.previous_hash,
                leaves=before.leaves + removed.leaves,
            )
    columns = (tenant, *msgspec.structs.astuple(seal.removed(tenant, removed)))
    connection.execute(_KEEP, (*columns, row_checksum(columns)))


def read_removed(connection: sqlite3.Connection, tenant: str, after_seq: int, limit: int) -> tuple[RemovedRecords, ...]:
    """The stretches that end after a number, oldest first."""
    found = connection.execute(_REMOVED, (tenant, after_seq, limit)).fetchall()
    return tuple(
        RemovedRecords(**dict(zip(RemovedRecords.__struct_fields__, columns, strict=True))) for columns in found
    )


def redact_audit(
    connection: sqlite3.Connection,
    *,
    tenant: str,
    seqs: Sequence[int],
    names: Collection[str],
    holds: Sequence[AuditHold] = (),
) -> int:
    """Erase fields of records, unless something holds them."""
    count = 0
    statement = f"SELECT {COLUMNS} FROM audit WHERE tenant = ? AND seq = ?"
    for seq in seqs:
        for columns in connection.execute(statement, (tenant, seq)).fetchall():
            entry = record_of(columns).entry
            erased = None if any(hold.covers(entry) for hold in holds) else redact_entry(entry, names)
            if erased is not None:
                _erase(connection, seq, erased)
                count += 1
    return count


def _erase(connection: sqlite3.Connection, seq: int, entry: AuditEntry) -> None:
    encoded = None if entry.acting_for is None else encode_json(entry.acting_for)
    values = {**msgspec.structs.asdict(entry), "acting_for": encoded, "redacted": encode_json(entry.redacted)}
    connection.execute(_ERASE, {**values, "seq": seq})
    connection.execute(_CHECK, (entry.tenant, seq))
