"""Removes audit records past their time, and erases personal data in others, without breaking the chain.

What is removed leaves its leaves behind: rows of `audit_removed` stand for records in a row, each sealed. Adjacent rows
are merged up to a size, so that retention that removes a few records at a time does not leave a row for each.

Above it: `store`. Below it: `records`, `heads`, `governance.audit`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Any

import msgspec

from penstock.base import limits
from penstock.base.errors import CorruptHistory
from penstock.governance.audit.chain import RemovedRecords
from penstock.governance.audit.leaves import entry_leaf, redact_entry
from penstock.governance.audit.redactions import removable
from penstock.governance.audit.tree import HASH_BYTES
from penstock.runtime.ports.audit import AuditHold, AuditRecord, Seal
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.set_aside import SetAside
from penstock.runtime.ports.transactions import Reader, RowError, Transaction, none_of
from penstock.runtime.tables.audit.heads import lock_trails, move_first
from penstock.runtime.tables.audit.records import COLUMNS, not_held, record_of
from penstock.runtime.tables.checksums import CHECKED, checked_columns, row_checksum
from penstock.runtime.tables.codec import encode_json
from penstock.runtime.tables.listings import platform_page_size

__all__ = ["forget_audit", "list_removed_audit", "read_removed", "redact_audit"]

_KIND = "audit"
_SEQ = COLUMNS.replace(" ", "").split(",").index("seq")
_LAST = "SELECT max(seq) FROM audit WHERE tenant = ?"
_PART = "SELECT first_seq, last_seq, previous_hash, last_hash, leaves, seal FROM audit_removed"
_REMOVED = f"{_PART} WHERE tenant = ? AND last_seq > ? ORDER BY first_seq LIMIT ?"
_ENDING_AT = f"{_PART} WHERE tenant = ? AND last_seq = ?"
_EXISTS = "SELECT 1 FROM audit WHERE tenant = ? AND seq = ?"
_KEEP = (
    f"INSERT INTO audit_removed ({checked_columns('audit_removed')}, checksum) VALUES (?,?,?,?,?,?,?,?)"
    " ON CONFLICT (tenant, first_seq) DO UPDATE SET last_seq = excluded.last_seq,"
    " previous_hash = excluded.previous_hash, last_hash = excluded.last_hash, leaves = excluded.leaves,"
    " seal = excluded.seal, checksum = excluded.checksum"
)
_STORED = f"SELECT {checked_columns('audit')} FROM audit WHERE tenant = ? AND seq = ?"
_ERASED = ("principal", "principal_name", "acting_for", "remote", "client", "subject", "salt", "redacted")
_ERASE = f"UPDATE audit SET {', '.join(f'{name} = ?' for name in _ERASED)}, checksum = ? WHERE tenant = ? AND seq = ?"


async def forget_audit(
    database: Database,
    *,
    tenant: str,
    before_seq: int,
    seal: Seal,
    holds: Sequence[AuditHold] = (),
    call: CallRecord | None = None,
) -> int:
    """Remove the oldest records of a chain that no hold covers; what is left of them is in `list_removed_audit`.

    The rest still verifies from its new first end, which is sealed again. The newest record always stays, because the
    chain continues from it. Removes `AUDIT_REMOVED_AT_ONCE_MAX` at most; 0 means that nothing is left. A record that
    cannot be removed is set aside, and stays as a held one does.
    """
    set_aside = database.set_aside

    def change(transaction: Transaction) -> int:
        _lock_trail(transaction, tenant, call)
        records = _find_oldest(transaction, set_aside, tenant, before_seq, holds)

        def remove(stretch: Sequence[AuditRecord]) -> int:
            going = removable(stretch, lambda seq: transaction.one(_EXISTS, (tenant, seq)) is not None)
            for removed in _in_rows(going):
                _keep(transaction, tenant, removed, seal)
                span = (tenant, removed.first_seq, removed.last_seq)
                transaction.execute("DELETE FROM audit WHERE tenant = ? AND seq BETWEEN ? AND ?", span)
            return len(going)

        try:
            with transaction.undo_on_error():
                count = remove([*records.values()])
        except RowError:
            count = set_aside.delete_each(transaction, _KIND, records, lambda name: remove([records[name]]))
        if count:
            move_first(transaction, tenant, seal)
        return count

    return await database.write(change, call=call, happened=bool, is_long=True)


def _lock_trail(transaction: Transaction, tenant: str, call: CallRecord | None) -> None:
    """Hold the trail that changes, and those that the call itself is appended to."""
    lock_trails(transaction, [tenant, *(entry.tenant for entry in (() if call is None else call.entries))])


def _find_oldest(
    reader: Reader, set_aside: SetAside, tenant: str, before_seq: int, holds: Sequence[AuditHold]
) -> dict[str, AuditRecord]:
    """The oldest records that may be removed, by the names under which they would be set aside."""
    ((last,),) = reader.rows(_LAST, (tenant,))
    if last is None:
        return {}
    beginning = f"{tenant}/"
    aside = [int(name.removeprefix(beginning)) for name in set_aside.names(_KIND) if name.startswith(beginning)]
    unheld, values = not_held(holds)
    statement = (
        f"SELECT {COLUMNS} FROM audit WHERE tenant = ? AND seq < ?{unheld} AND {none_of('seq', aside)}"
        " ORDER BY seq LIMIT ?"
    )
    given = (tenant, min(before_seq, last), *values, *aside, limits.AUDIT_REMOVED_AT_ONCE_MAX)
    records: dict[str, AuditRecord] = {}
    for columns in reader.rows(statement, given):
        name = f"{beginning}{columns[_SEQ]}"
        try:
            records[name] = record_of(columns)
        except (CorruptHistory, ValueError) as error:
            set_aside.add(_KIND, name, error)
    return records


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


def _keep(transaction: Transaction, tenant: str, removed: RemovedRecords, seal: Seal) -> None:
    """Store a stretch, together with the one before it if both fit into a row."""
    for columns in transaction.rows(_ENDING_AT, (tenant, removed.first_seq - 1)):
        before = _part_of(columns)
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
    transaction.execute(_KEEP, (*columns, row_checksum(columns)))


async def list_removed_audit(
    database: Database, tenant: str, *, after_seq: int = 0, limit: int
) -> tuple[RemovedRecords, ...]:
    """Return the stretches of a chain that were removed and that end after a number, oldest first."""
    size = platform_page_size(limit)
    return await database.read(lambda reader: read_removed(reader, tenant, after_seq, size))


def read_removed(reader: Reader, tenant: str, after_seq: int, limit: int) -> tuple[RemovedRecords, ...]:
    """Do what `list_removed_audit` does, in a transaction."""
    return tuple(map(_part_of, reader.rows(_REMOVED, (tenant, after_seq, limit))))


def _part_of(columns: Sequence[Any]) -> RemovedRecords:
    return RemovedRecords(**dict(zip(RemovedRecords.__struct_fields__, columns, strict=True)))


async def redact_audit(
    database: Database,
    *,
    tenant: str,
    seqs: Sequence[int],
    names: Collection[str],
    holds: Sequence[AuditHold] = (),
    call: CallRecord | None = None,
) -> int:
    """Erase fields of records (`governance.audit.leaves.PERSONAL`) and return how many records changed.

    Records that a hold covers, and records of earlier releases, stay as they are. The chain still verifies.
    """

    def change(transaction: Transaction) -> int:
        _lock_trail(transaction, tenant, call)
        return sum(_redact_record(transaction, tenant, seq, names, holds) for seq in seqs)

    return await database.write(change, call=call, happened=bool, is_long=True)


def _redact_record(
    transaction: Transaction, tenant: str, seq: int, names: Collection[str], holds: Sequence[AuditHold]
) -> bool:
    """Erase fields of a record, unless something holds it; return whether it changed."""
    found = transaction.one(f"SELECT {COLUMNS} FROM audit WHERE tenant = ? AND seq = ?", (tenant, seq))
    entry = None if found is None else record_of(found).entry
    if entry is None or any(hold.covers(entry) for hold in holds):
        return False
    erased = redact_entry(entry, names)
    stored = transaction.one(_STORED, (tenant, seq))
    if erased is None or stored is None:
        return False
    fields = {
        **msgspec.structs.asdict(erased),
        "acting_for": None if erased.acting_for is None else encode_json(erased.acting_for),
        "redacted": encode_json(erased.redacted),
        "salt": None,
    }
    changed = {name: fields[name] for name in _ERASED}
    checked = {**dict(zip(CHECKED["audit"], stored, strict=True)), **changed}
    transaction.execute(_ERASE, (*changed.values(), row_checksum([*checked.values()]), tenant, seq))
    return True
