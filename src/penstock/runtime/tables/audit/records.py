"""The records of the audit log: a hash chain for each tenant.

Entries are numbered and sealed inside the transaction of their change, which reads the head of the chain first. The
numbers are the primary key, so that not even a bug can fork a chain.

Above it: `store`, `removal`, `call_records`, `maintenance`. Below it: `heads`, `codec`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

import msgspec

from penstock.base.errors import CorruptHistory
from penstock.governance.audit.chain import ChainHead
from penstock.runtime.ports.audit import AuditRecordUnreadable
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import AuditEntry, AuditHold, AuditPage, AuditQuery, AuditRecord, Seal
from penstock.runtime.ports.transactions import Reader, RowError, StatementError, Transaction
from penstock.runtime.tables.audit.heads import end_after_gap, lock_trails, sealed_end, write_last
from penstock.runtime.tables.checksums import CHECKED, row_checksum
from penstock.runtime.tables.codec import decode_json, encode_json
from penstock.runtime.tables.listings import platform_page_size
from penstock.runtime.tables.outcomes import audit_unavailable

__all__ = [
    "COLUMNS",
    "append_entries",
    "audit_statement",
    "audit_tenants",
    "broken_links",
    "list_audit",
    "list_audit_tenants",
    "not_held",
    "probe_audit",
    "record_of",
    "stored_records",
]

# One column for each field of an entry: a new field needs only its column in `schema.migrations`.
_ENCODED = ("details", "acting_for", "reasons", "redacted")
_PLAIN = tuple(name for name in AuditEntry.__struct_fields__ if name not in _ENCODED)
_plain_of = attrgetter(*_PLAIN)
_encoded_of = attrgetter(*_ENCODED)
_COLUMN_NAMES = (*_PLAIN, *_ENCODED, "seq", "previous_hash", "hash")
COLUMNS = ", ".join(_COLUMN_NAMES)
_INSERT = f"INSERT INTO audit ({COLUMNS}, checksum) VALUES ({','.join('?' * (len(_COLUMN_NAMES) + 1))})"
_INSERT += " ON CONFLICT (tenant, seq) DO NOTHING"
_checked_of = itemgetter(*(_COLUMN_NAMES.index(name) for name in CHECKED["audit"]))
# Skips from tenant to tenant in the index instead of reading all records.
_TENANTS = (
    "WITH RECURSIVE found (tenant) AS (SELECT min(tenant) FROM audit"
    " UNION ALL SELECT (SELECT min(tenant) FROM audit WHERE tenant > found.tenant) FROM found"
    " WHERE found.tenant IS NOT NULL) SELECT tenant FROM found WHERE tenant IS NOT NULL"
)
_BROKEN_LINKS = (
    "SELECT tenant, seq FROM (SELECT tenant, seq, previous_hash, lag(seq) OVER chain AS seq_before,"
    " lag(hash) OVER chain AS hash_before FROM audit WINDOW chain AS (PARTITION BY tenant ORDER BY seq))"
    " WHERE seq_before IS NOT NULL AND (seq <> seq_before + 1 OR previous_hash <> hash_before)"
)
# Records that retention removed in between, which files of older releases never have.
_ARE_REMOVED = (
    "SELECT 1 FROM audit_removed WHERE tenant = ? AND last_seq = ? - 1"
    " AND last_hash = (SELECT previous_hash FROM audit WHERE tenant = audit_removed.tenant AND seq = last_seq + 1)"
)

_DETAILS = msgspec.json.Decoder(dict[str, Any])
_TEXTS = msgspec.json.Decoder(tuple[str, ...])
_REDACTED = msgspec.json.Decoder(dict[str, dict[str, str]])
_INTEGER_MAX = 2**63 - 1
EndOf: TypeAlias = Callable[[Transaction, str, Seal], ChainHead]
_AFTER = f"SELECT {COLUMNS} FROM audit WHERE tenant = ? AND seq > ? ORDER BY seq LIMIT ?"
_RECORDS_AT_ONCE = 500
_NEXT_SEQ = "SELECT min(seq) FROM audit WHERE tenant = ? AND seq > ?"
# Cells in the order of `COLUMNS`; SQLite itself takes any type anywhere.
_NUMBERS, _REQUIRED = ("at", "count", "seq"), ("tenant", "principal", "surface", "operation", "outcome")
_TYPES = tuple(
    frozenset({int} if name in _NUMBERS else {bytes, str, type(None)} if name in _ENCODED else {str})
    | (frozenset() if name in (*_NUMBERS, *_REQUIRED, "previous_hash", "hash") else frozenset({type(None)}))
    for name in _COLUMN_NAMES
)
UNREADABLE = (RowError, CorruptHistory, TypeError, ValueError)
"""What reading a damaged record raises."""


def append_entries(transaction: Transaction, entries: Sequence[AuditEntry], seal: Seal) -> None:
    """Number, seal and append entries: all of them, or none if the transaction is rolled back."""
    lock_trails(transaction, [entry.tenant for entry in entries])
    try:
        # Somebody else may have written a row after the sealed end. It stays, so that it is found; records follow after
        # a gap.
        if not _append_after(transaction, entries, seal, sealed_end):
            _append_after(transaction, entries, seal, end_after_gap)
    except StatementError as error:
        raise audit_unavailable(error) from error
    except RowError as error:
        if error.is_refusal:
            raise audit_unavailable(error) from error
        raise


def _append_after(transaction: Transaction, entries: Sequence[AuditEntry], seal: Seal, end_of: EndOf) -> bool:
    """Append entries after the ends of their chains; False if a number is taken, and nothing was appended."""
    heads: dict[str, ChainHead] = {}
    ends: dict[str, tuple[int, str]] = {}
    rows: list[tuple[object, ...]] = []
    for entry in entries:
        tenant = entry.tenant
        if tenant not in ends:
            head = heads[tenant] = end_of(transaction, tenant, seal)
            ends[tenant] = (head.last_seq, head.last_hash)
        last_seq, previous_hash = ends[tenant]
        seq = last_seq + 1
        sealed = seal(previous_hash, seq, entry)
        ends[tenant] = (seq, sealed)
        rows.append(_columns_of(entry, seq, previous_hash, sealed))
    if transaction.many(_INSERT, rows) < len(rows):
        own = [(entry.tenant, columns[-4], columns[-2]) for entry, columns in zip(entries, rows, strict=True)]
        transaction.many("DELETE FROM audit WHERE tenant = ? AND seq = ? AND hash = ?", own)
        return False
    for tenant, head in heads.items():
        write_last(transaction, tenant, head, ends[tenant], seal)
    return True


def _columns_of(entry: AuditEntry, seq: int, previous_hash: str, sealed: str) -> tuple[object, ...]:
    encoded = (encode_json(value) if value else None for value in _encoded_of(entry))
    columns = (*_plain_of(entry), *encoded, seq, previous_hash, sealed)
    return (*columns, row_checksum(_checked_of(columns)))


async def list_audit(database: Database, query: AuditQuery) -> AuditPage:
    """Return records of a tenant."""
    return await database.read(lambda reader: _read_page(reader, query))


def _read_page(reader: Reader, query: AuditQuery) -> AuditPage:
    size = platform_page_size(query.limit)
    statement, values = audit_statement(query)
    try:
        found = reader.rows(statement, (*values, size + 1))
        return AuditPage(tuple(record_of(columns) for columns in found[:size]), len(found) > size)
    except UNREADABLE as error:
        raise _first_unreadable(reader, query.tenant, error) from error


def _first_unreadable(reader: Reader, tenant: str, error: Exception) -> Exception:
    """Return which record of a tenant cannot be read; the error itself if all can be read one by one."""
    try:
        for _ in stored_records(reader, tenant):
            pass
    except AuditRecordUnreadable as found:
        return found
    return error


def stored_records(reader: Reader, tenant: str) -> Iterator[AuditRecord]:
    """The records of a trail, oldest first; raise `AuditRecordUnreadable` at the first that cannot be read.

    A damaged page or cell does not say where it is, so this knows the record by the one before it.
    """
    position, size = 0, _RECORDS_AT_ONCE
    while True:
        try:
            found = [record_of(columns) for columns in reader.rows(_AFTER, (tenant, position, size))]
        except UNREADABLE as error:
            if size == 1:
                raise AuditRecordUnreadable(tenant, _seq_after(reader, tenant, position), str(error)) from error
            size = 1  # those before the damage can be read
            continue
        yield from found
        if len(found) < size:
            return
        position = found[-1].seq


def _seq_after(reader: Reader, tenant: str, seq: int) -> int:
    try:
        found = reader.one(_NEXT_SEQ, (tenant, seq))
    except RowError:
        found = None  # the page with the numbers is damaged
    return found[0] if found is not None and type(found[0]) is int else seq + 1


def audit_statement(query: AuditQuery) -> tuple[str, tuple[object, ...]]:
    """The statement of a query and its values, without the last one: the number of rows."""
    conditions = ["tenant = ?"]
    values: list[object] = [query.tenant]
    after, before = _bounded(query.after_seq), _bounded(query.before_seq)
    above, below = "seq > ?", "seq < ?"
    if query.subject is not None or query.outcome not in (None, "allowed"):
        # These have indexes of their own, with far fewer records. SQLite has no row counts: it uses them if numbers are
        # bounded on the side where the walk begins, and only there.
        if query.oldest_first:
            after, below = after or 0, "seq + 0 < ?"
        else:
            before, above = before or _INTEGER_MAX, "seq + 0 > ?"
    for condition, value in (
        (above, after),
        (below, before),
        ("operation = ?", query.operation),
        ("operation <> ?", query.not_operation),
        ("principal = ?", query.principal),
        ("subject = ?", query.subject),
        ("outcome = ?", query.outcome),
        ("at > ?", _bounded(query.since)),
        ("at < ?", _bounded(query.until)),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    unheld, more = not_held(query.not_held_by)
    values += more
    if query.subject is None and query.outcome not in (None, "allowed"):
        conditions.append("outcome <> 'allowed'")  # worded as in the partial index
    where, direction = " AND ".join(conditions) + unheld, "ASC" if query.oldest_first else "DESC"
    return f"SELECT {COLUMNS} FROM audit WHERE {where} ORDER BY seq {direction} LIMIT ?", tuple(values)


def not_held(holds: Sequence[AuditHold]) -> tuple[str, list[object]]:
    """The condition that no hold covers a record, as SQL that follows others, and its parameters."""
    conditions: list[str] = []
    parameters: list[object] = []
    for hold in holds:
        parts = ["1 = 1"]
        for part, value in (
            ("coalesce(subject, '') = ?", hold.subject),
            ("principal = ?", hold.principal),
            ("at >= ?", hold.since),
            ("at <= ?", hold.until),
        ):
            if value is not None:
                parts.append(part)
                parameters.append(value)
        conditions.append(f"({' AND '.join(parts)})")
    return f" AND NOT ({' OR '.join(conditions)})" if conditions else "", parameters


def _bounded(number: int | None) -> int | None:
    """Clamp a number to what SQLite can hold. Values beyond that select the same records."""
    return None if number is None else max(-_INTEGER_MAX, min(number, _INTEGER_MAX))


def probe_audit(transaction: Transaction) -> None:
    """Raise the error that a call would get if no record could be written. Changes nothing."""
    entry = AuditEntry(at=0, tenant="", principal="", surface="", operation="probe", outcome="allowed")
    try:
        with transaction.undo_on_error():
            transaction.execute(_INSERT, _columns_of(entry, 0, "", ""))
            transaction.rows("SELECT 1 FROM audit_heads LIMIT 1")
            raise _ProbedError
    except _ProbedError:
        return
    except StatementError as error:
        raise audit_unavailable(error) from error
    except RowError as error:
        if error.is_refusal:
            raise audit_unavailable(error) from error
        raise


class _ProbedError(Exception):
    """The record can be written, and is undone."""


async def list_audit_tenants(database: Database) -> tuple[str, ...]:
    """Return every tenant that has records, by name."""
    return await database.read(audit_tenants)


def audit_tenants(reader: Reader) -> tuple[str, ...]:
    """Every tenant that has records, by name; by the heads of their chains if the records are damaged."""
    try:
        found = reader.rows(_TENANTS)
    except RowError:
        found = reader.rows("SELECT tenant FROM audit_heads ORDER BY tenant")
    return tuple(str(tenant) for (tenant,) in found)


def broken_links(reader: Reader, *, has_removed: bool) -> Iterator[tuple[str, str]]:
    """Find records that do not follow from the record before them. Yields codes and messages.

    This check needs no key. Only the owner of the key can verify that the records are the ones that were sealed.
    `has_removed` says whether the database knows of removed records; those of older releases do not.
    """
    for tenant, seq in reader.rows(_BROKEN_LINKS):
        if has_removed and reader.one(_ARE_REMOVED, (tenant, seq)) is not None:
            continue
        yield "AUDIT_CHAIN_BROKEN", f"the audit trail of {tenant!r} does not continue with its record {seq}"


def record_of(columns: Sequence[Any]) -> AuditRecord:
    """The record in a row of `COLUMNS`; raise TypeError or `CorruptHistory` if a cell is damaged."""
    for name, value, expected in zip(_COLUMN_NAMES, columns, _TYPES, strict=True):
        if type(value) not in expected:
            raise TypeError(f"{name} is not of its type")
    *plain, details, acting_for, reasons, redacted, seq, previous_hash, sealed = columns
    entry = AuditEntry(
        **dict(zip(_PLAIN, plain, strict=True)),
        details={} if details is None else decode_json(_DETAILS, details),
        acting_for=None if acting_for is None else decode_json(_TEXTS, acting_for),
        reasons=None if reasons is None else decode_json(_TEXTS, reasons),
        redacted=None if redacted is None else decode_json(_REDACTED, redacted),
    )
    return AuditRecord(seq=seq, entry=entry, previous_hash=previous_hash, hash=sealed)
