"""The records of the audit log in the SQLite file: a hash chain for each tenant.

Entries are numbered and sealed inside the transaction of the file's only writer, which reads the head of the chain
first. Keeping the head in memory would save that read only if no other process could append. The numbers are the
primary key, so that not even a bug can fork a chain.

Above it: `store`, `removal`, `call_records`, `maintenance`. Below it: `heads`, `codec`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from penstock.governance.audit.chain import ChainHead
from penstock.runtime.ports.platform import AuditEntry, AuditHold, AuditPage, AuditQuery, AuditRecord, Seal
from penstock.runtime.stores.rules.listings import platform_page_size
from penstock.runtime.stores.rules.writes import audit_unavailable
from penstock.runtime.stores.sqlite.codec import decode_json, encode_json
from penstock.runtime.stores.sqlite.platform.audit.heads import broken_heads, sealed_end, write_last

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
]

# One column for each field of an entry: a new field needs only its column in `schema.migrations`.
_ENCODED = ("details", "acting_for", "reasons", "redacted")
_PLAIN = tuple(name for name in AuditEntry.__struct_fields__ if name not in _ENCODED)
_plain_of = attrgetter(*_PLAIN)
_encoded_of = attrgetter(*_ENCODED)
_COLUMN_NAMES = (*_PLAIN, *_ENCODED, "seq", "previous_hash", "hash")
COLUMNS = ", ".join(_COLUMN_NAMES)
_INSERT = f"INSERT INTO audit ({COLUMNS}) VALUES ({','.join('?' * len(_COLUMN_NAMES))})"
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


def append_audit(connection: sqlite3.Connection, entries: Sequence[AuditEntry], seal: Seal) -> None:
    """Number, seal and append entries: all of them, or none if the transaction is rolled back."""
    heads: dict[str, ChainHead] = {}
    ends: dict[str, tuple[int, str]] = {}
    rows: list[tuple[object, ...]] = []
    for entry in entries:
        tenant = entry.tenant
        if tenant not in ends:
            head = heads[tenant] = sealed_end(connection, tenant, seal)
            ends[tenant] = (head.last_seq, head.last_hash)
        last_seq, previous_hash = ends[tenant]
        seq = last_seq + 1
        sealed = seal(previous_hash, seq, entry)
        ends[tenant] = (seq, sealed)
        rows.append(_columns_of(entry, seq, previous_hash, sealed))
    try:
        connection.executemany(_INSERT, rows)
        for tenant, head in heads.items():
            write_last(connection, tenant, head, ends[tenant], seal)
    except sqlite3.Error as error:
        raise _as_store_error(error) from error


def _as_store_error(error: sqlite3.Error) -> Exception:
    """Errors of the whole file (full, locked, gone) stay as they are. All others become errors of the audit log."""
    code = int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
    return audit_unavailable(error) if code in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR) else error


def _columns_of(entry: AuditEntry, seq: int, previous_hash: str, sealed: str) -> tuple[object, ...]:
    encoded = (encode_json(value) if value else None for value in _encoded_of(entry))
    return (*_plain_of(entry), *encoded, seq, previous_hash, sealed)


def read_audit(connection: sqlite3.Connection, query: AuditQuery) -> AuditPage:
    """A page of records."""
    size = platform_page_size(query.limit)
    statement, parameters = audit_statement(query)
    found = connection.execute(statement, (*parameters, size + 1)).fetchall()
    return AuditPage(tuple(record_of(columns) for columns in found[:size]), len(found) > size)


def audit_statement(query: AuditQuery) -> tuple[str, tuple[object, ...]]:
    """The statement of a query and its parameters, without the last one: the number of rows."""
    conditions = ["tenant = ?"]
    parameters: list[object] = [query.tenant]
    for condition, value in (
        ("seq > ?", _bounded(query.after_seq)),
        ("seq < ?", _bounded(query.before_seq)),
        ("operation = ?", query.operation),
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
    """Every tenant that has records, ordered by name."""
    return tuple(str(tenant) for (tenant,) in connection.execute(_TENANTS).fetchall())


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
    """The record in a row of `COLUMNS`."""
    *plain, details, acting_for, reasons, redacted, seq, previous_hash, sealed = columns
    entry = AuditEntry(
        **dict(zip(_PLAIN, plain, strict=True)),
        details={} if details is None else decode_json(_DETAILS, details),
        acting_for=None if acting_for is None else decode_json(_TEXTS, acting_for),
        reasons=None if reasons is None else decode_json(_TEXTS, reasons),
        redacted=None if redacted is None else decode_json(_REDACTED, redacted),
    )
    return AuditRecord(seq=seq, entry=entry, previous_hash=previous_hash, hash=sealed)
