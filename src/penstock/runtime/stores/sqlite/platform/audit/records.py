"""The records of the audit log in the SQLite file: a hash chain for each tenant.

Entries are numbered and sealed inside the transaction of the file's only writer, which reads the head of the chain
first. Keeping the head in memory would save that read only if no other process could append. The numbers are the
primary key, so that not even a bug can fork a chain.

Above it: `store`, `removal`, `call_records`, `maintenance`. Below it: `heads`, `codec`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

import msgspec

from penstock.base.errors import CorruptHistory
from penstock.governance.audit.chain import ChainHead
from penstock.runtime.ports.audit import AuditRecordUnreadable
from penstock.runtime.ports.platform import AuditEntry, AuditHold, AuditPage, AuditQuery, AuditRecord, Seal
from penstock.runtime.stores.rules.listings import platform_page_size
from penstock.runtime.stores.rules.writes import audit_unavailable
from penstock.runtime.stores.sqlite.checksums import CHECKED, row_checksum
from penstock.runtime.stores.sqlite.codec import decode_json, encode_json
from penstock.runtime.stores.sqlite.errors import is_busy
from penstock.runtime.stores.sqlite.platform.audit.heads import broken_heads, end_after_gap, sealed_end, write_last

__all__ = [
    "COLUMNS",
    "append_audit",
    "audit_statement",
    "audit_tenants",
    "broken_links",
    "not_held",
    "probe_audit",
    "read_audit",
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
_IS_THERE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"

_DETAILS = msgspec.json.Decoder(dict[str, Any])
_TEXTS = msgspec.json.Decoder(tuple[str, ...])
_REDACTED = msgspec.json.Decoder(dict[str, dict[str, str]])
_INTEGER_MAX = 2**63 - 1
EndOf: TypeAlias = Callable[[sqlite3.Connection, str, Seal], ChainHead]
_ALL = f"SELECT {COLUMNS} FROM audit WHERE tenant = ? ORDER BY seq"
_NEXT_SEQ = "SELECT min(seq) FROM audit WHERE tenant = ? AND seq > ?"
# Cells in the order of `COLUMNS`; SQLite itself takes any type anywhere.
_NUMBERS, _REQUIRED = ("at", "count", "seq"), ("tenant", "principal", "surface", "operation", "outcome")
_TYPES = tuple(
    frozenset({int} if name in _NUMBERS else {bytes, str, type(None)} if name in _ENCODED else {str})
    | (frozenset() if name in (*_NUMBERS, *_REQUIRED, "previous_hash", "hash") else frozenset({type(None)}))
    for name in _COLUMN_NAMES
)
UNREADABLE = (sqlite3.DatabaseError, CorruptHistory, TypeError, ValueError)
"""What reading a damaged record raises."""


def append_audit(connection: sqlite3.Connection, entries: Sequence[AuditEntry], seal: Seal) -> None:
    """Number, seal and append entries: all of them, or none if the transaction is rolled back."""
    try:
        try:
            _append_after(connection, entries, seal, sealed_end)
        except sqlite3.IntegrityError:
            # Somebody else wrote a row after the sealed end. It stays, so that it is found; records follow after a gap.
            _append_after(connection, entries, seal, end_after_gap)
    except sqlite3.Error as error:
        raise _as_store_error(error) from error


def _append_after(connection: sqlite3.Connection, entries: Sequence[AuditEntry], seal: Seal, end_of: EndOf) -> None:
    heads: dict[str, ChainHead] = {}
    ends: dict[str, tuple[int, str]] = {}
    rows: list[tuple[object, ...]] = []
    for entry in entries:
        tenant = entry.tenant
        if tenant not in ends:
            head = heads[tenant] = end_of(connection, tenant, seal)
            ends[tenant] = (head.last_seq, head.last_hash)
        last_seq, previous_hash = ends[tenant]
        seq = last_seq + 1
        sealed = seal(previous_hash, seq, entry)
        ends[tenant] = (seq, sealed)
        rows.append(_columns_of(entry, seq, previous_hash, sealed))
    try:
        connection.executemany(_INSERT, rows)
    except sqlite3.IntegrityError:
        own = [(entry.tenant, columns[-4], columns[-2]) for entry, columns in zip(entries, rows, strict=True)]
        connection.executemany("DELETE FROM audit WHERE tenant = ? AND seq = ? AND hash = ?", own)
        raise
    for tenant, head in heads.items():
        write_last(connection, tenant, head, ends[tenant], seal)


def _as_store_error(error: sqlite3.Error) -> Exception:
    """Errors of the whole file (full, locked, gone) stay as they are. All others become errors of the audit log."""
    code = int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
    return audit_unavailable(error) if code in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR) else error


def _columns_of(entry: AuditEntry, seq: int, previous_hash: str, sealed: str) -> tuple[object, ...]:
    encoded = (encode_json(value) if value else None for value in _encoded_of(entry))
    columns = (*_plain_of(entry), *encoded, seq, previous_hash, sealed)
    return (*columns, row_checksum(_checked_of(columns)))


def read_audit(connection: sqlite3.Connection, query: AuditQuery) -> AuditPage:
    """A page of records."""
    size = platform_page_size(query.limit)
    statement, parameters = audit_statement(query)
    try:
        found = connection.execute(statement, (*parameters, size + 1)).fetchall()
        return AuditPage(tuple(record_of(columns) for columns in found[:size]), len(found) > size)
    except UNREADABLE as error:
        raise _first_unreadable(connection, query.tenant, error) from error


def _first_unreadable(connection: sqlite3.Connection, tenant: str, error: Exception) -> Exception:
    """Return which record of a tenant cannot be read; the error itself if all can be read one by one."""
    try:
        for _ in stored_records(connection, tenant):
            pass
    except AuditRecordUnreadable as found:
        return found
    return error


def stored_records(connection: sqlite3.Connection, tenant: str) -> Iterator[AuditRecord]:
    """The records of a trail, oldest first; raise `AuditRecordUnreadable` at the first that cannot be read.

    A damaged page or cell does not say where it is, so this knows the record by the one before it.
    """
    position = 0
    try:
        for columns in connection.execute(_ALL, (tenant,)):
            record = record_of(columns)
            yield record
            position = record.seq
    except UNREADABLE as error:
        if is_busy(error):
            raise
        raise AuditRecordUnreadable(tenant, _seq_after(connection, tenant, position), str(error)) from error


def _seq_after(connection: sqlite3.Connection, tenant: str, seq: int) -> int:
    try:
        ((found,),) = connection.execute(_NEXT_SEQ, (tenant, seq)).fetchall()
    except sqlite3.DatabaseError:
        found = None  # the page with the numbers is damaged
    return found if type(found) is int else seq + 1


def audit_statement(query: AuditQuery) -> tuple[str, tuple[object, ...]]:
    """The statement of a query and its parameters, without the last one: the number of rows."""
    conditions = ["tenant = ?"]
    parameters: list[object] = [query.tenant]
    for condition, value in (
        ("seq > ?", _bounded(query.after_seq)),
        ("seq < ?", _bounded(query.before_seq)),
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
            parameters.append(value)
    unheld, more = not_held(query.not_held_by)
    parameters += more
    # SQLite has no row counts and would walk the chain. Either index has far fewer records.
    index = ""
    if query.subject is not None:
        index = " INDEXED BY audit_by_subject"
    elif query.outcome not in (None, "allowed"):
        index = " INDEXED BY audit_not_allowed"
        conditions.append("outcome <> 'allowed'")  # worded as in the partial index, so that SQLite uses it
    where, direction = " AND ".join(conditions) + unheld, "ASC" if query.oldest_first else "DESC"
    statement = f"SELECT {COLUMNS} FROM audit{index} WHERE {where} ORDER BY seq {direction} LIMIT ?"
    return statement, tuple(parameters)


def not_held(holds: Sequence[AuditHold]) -> tuple[str, list[object]]:
    """The condition that no hold covers a record, as SQL that follows others, and its parameters."""
    conditions: list[str] = []
    parameters: list[object] = []
    for hold in holds:
        parts = ["1"]
        for part, value in (
            ("subject IS ?", hold.subject),
            ("principal IS ?", hold.principal),
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


def probe_audit(connection: sqlite3.Connection) -> None:
    """Raise the error that a call would get if no record could be written. Changes nothing."""
    entry = AuditEntry(at=0, tenant="", principal="", surface="", operation="probe", outcome="allowed")
    connection.execute("SAVEPOINT probe_audit")
    try:
        connection.execute(_INSERT, _columns_of(entry, 0, "", ""))
        connection.execute("SELECT 1 FROM audit_heads LIMIT 1").fetchall()
    except sqlite3.Error as error:
        raise _as_store_error(error) from error
    finally:
        connection.execute("ROLLBACK TO probe_audit")
        connection.execute("RELEASE probe_audit")


def audit_tenants(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Every tenant that has records, ordered by name; by the heads of their chains if the records are damaged."""
    try:
        found = connection.execute(_TENANTS).fetchall()
    except sqlite3.DatabaseError as error:
        if is_busy(error):
            raise
        found = connection.execute("SELECT tenant FROM audit_heads ORDER BY tenant").fetchall()
    return tuple(str(tenant) for (tenant,) in found)


def broken_links(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Find records that do not follow from the record before them. Yields codes and messages.

    This check needs no key. Only the owner of the key can verify that the records are the ones that were sealed. Older
    files have no records.
    """
    if connection.execute(_IS_THERE, ("audit",)).fetchone() is None:
        return
    has_removed = connection.execute(_IS_THERE, ("audit_removed",)).fetchone() is not None
    for tenant, seq in connection.execute(_BROKEN_LINKS).fetchall():
        if has_removed and connection.execute(_ARE_REMOVED, (tenant, seq)).fetchone() is not None:
            continue
        yield "AUDIT_CHAIN_BROKEN", f"the audit trail of {tenant!r} does not go on with its record {seq}"
    for message in broken_heads(connection):
        yield "AUDIT_CHAIN_BROKEN", message


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
