"""The heads of audit chains in the SQLite file: the sealed first and last record of each chain, and the chain count.

A chain continues from its head, not from whichever record happens to be last, so a tail that was cut off leaves a
visible gap. A head that is missing or was altered is replaced by one that leaves a gap too. Tampering therefore stays
visible. Chains older than heads are sealed as they are when the first record is appended.

Above it: `records`, `removal`. Below it: sqlite3.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec

from penstock.base.encoding import encode_bytes
from penstock.governance.audit.chain import GENESIS_HASH, ChainHead
from penstock.runtime.ports.platform import AuditChains, Seal
from penstock.runtime.stores.sqlite.checksums import checked_columns, row_checksum

__all__ = ["broken_heads", "end_after_gap", "move_first", "read_chains", "read_head", "sealed_end", "write_last"]

_COUNT_MARK, _UNSEALED_MARK = "audit_chains", "audit_unsealed"
_READ = "SELECT first_seq, first_previous_hash, last_seq, last_hash, seal FROM audit_heads WHERE tenant = ?"
_COLUMNS = checked_columns("audit_heads")
_WRITE = f"INSERT OR REPLACE INTO audit_heads ({_COLUMNS}, checksum) VALUES (?,?,?,?,?,?,?)"
_FIRST = "SELECT seq, previous_hash FROM audit WHERE tenant = ? ORDER BY seq LIMIT 1"
_LAST = "SELECT seq, hash FROM audit WHERE tenant = ? ORDER BY seq DESC LIMIT 1"
_MARK = "SELECT value FROM marks WHERE name = ?"
_KEEP_MARK = "INSERT OR REPLACE INTO marks (name, value, checksum) VALUES (?, ?, ?)"
_IS_THERE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'audit_heads'"
_COUNT = msgspec.json.Decoder(tuple[int, str])


def read_head(connection: sqlite3.Connection, tenant: str) -> ChainHead | None:
    """The head of a chain."""
    found = connection.execute(_READ, (tenant,)).fetchall()
    if not found:
        return None
    first_seq, first_previous_hash, last_seq, last_hash, seal = found[0]
    return ChainHead(
        first_seq=first_seq,
        first_previous_hash=first_previous_hash,
        last_seq=last_seq,
        last_hash=last_hash,
        seal=seal,
    )


def read_chains(connection: sqlite3.Connection) -> AuditChains:
    """The number of chains found and the number sealed."""
    (found,) = connection.execute("SELECT count(*) FROM audit_heads").fetchone()
    kept = connection.execute(_MARK, (_COUNT_MARK,)).fetchall()
    try:
        sealed, seal = _COUNT.decode(kept[0][0]) if kept else (None, None)
    except (msgspec.DecodeError, msgspec.ValidationError):
        sealed, seal = -1, None
    return AuditChains(found=found, sealed=sealed, seal=seal)


def sealed_end(connection: sqlite3.Connection, tenant: str, seal: Seal) -> ChainHead:
    """The head that a chain continues from. The head of a new chain has the number 0."""
    head = read_head(connection, tenant)
    if head is None and connection.execute(_MARK, (_UNSEALED_MARK,)).fetchall():
        _seal_all(connection, seal)
        head = read_head(connection, tenant)
    if head is not None and seal.holds(tenant, head):
        return head
    if head is None:
        _count(connection, seal, 1)
    if head is None and connection.execute(_LAST, (tenant,)).fetchone() is None:
        return seal.head(tenant, (1, GENESIS_HASH), (0, GENESIS_HASH))
    return end_after_gap(connection, tenant, seal)


def end_after_gap(connection: sqlite3.Connection, tenant: str, seal: Seal) -> ChainHead:
    """The head for a chain whose end or head somebody altered.

    It skips a number, which leaves a gap that is found as long as the records are kept.
    """
    head = read_head(connection, tenant)
    first = connection.execute(_FIRST, (tenant,)).fetchone()
    last = connection.execute(_LAST, (tenant,)).fetchone()
    known = max(last[0] if last else 0, head.last_seq if head else 0)
    return seal.head(tenant, first or (1, GENESIS_HASH), (known + 1, last[1] if last else GENESIS_HASH))


def write_last(connection: sqlite3.Connection, tenant: str, head: ChainHead, last: tuple[int, str], seal: Seal) -> None:
    """Store the new last record of a chain."""
    _write(connection, tenant, seal.head(tenant, (head.first_seq, head.first_previous_hash), last))


def move_first(connection: sqlite3.Connection, tenant: str, seal: Seal) -> None:
    """Store the new first record of a chain after its oldest were deleted, unless the head's seal is broken."""
    head, first = read_head(connection, tenant), connection.execute(_FIRST, (tenant,)).fetchone()
    if head is not None and first is not None and seal.holds(tenant, head):
        _write(connection, tenant, seal.head(tenant, first, (head.last_seq, head.last_hash)))


def _write(connection: sqlite3.Connection, tenant: str, head: ChainHead) -> None:
    columns = (tenant, *msgspec.structs.astuple(head))
    connection.execute(_WRITE, (*columns, row_checksum(columns)))


def _seal_all(connection: sqlite3.Connection, seal: Seal) -> None:
    """Seal the chains of an older file as they are."""
    tenants = connection.execute("SELECT DISTINCT tenant FROM audit").fetchall()
    for (tenant,) in tenants:
        first, last = (connection.execute(statement, (tenant,)).fetchone() for statement in (_FIRST, _LAST))
        _write(connection, tenant, seal.head(tenant, first, last))
    connection.execute("DELETE FROM marks WHERE name = ?", (_UNSEALED_MARK,))
    _count(connection, seal, len(tenants))


def _count(connection: sqlite3.Connection, seal: Seal, more: int) -> None:
    """Add new chains to the sealed count. A count that was altered stays wrong."""
    known = read_chains(connection)
    sealed = known.sealed or 0
    if known.sealed is None and known.found > more:
        return  # the count was removed: its absence shows that
    if known.seal is not None and known.seal != seal.count(sealed):
        return
    kept = encode_bytes((sealed + more, seal.count(sealed + more)))
    connection.execute(_KEEP_MARK, (_COUNT_MARK, kept, row_checksum((_COUNT_MARK, kept))))


def broken_heads(connection: sqlite3.Connection) -> Iterator[str]:
    """Find problems with the ends of chains that are visible without the key. Older files have no heads."""
    if connection.execute(_IS_THERE).fetchone() is None or connection.execute(_MARK, (_UNSEALED_MARK,)).fetchone():
        return
    for (tenant,) in connection.execute(
        "SELECT DISTINCT tenant FROM audit WHERE tenant NOT IN (SELECT tenant FROM audit_heads)"
    ):
        yield f"the audit trail of {tenant!r} has lost its head"
    for tenant, first_seq, first_hash, last_seq, last_hash, _ in connection.execute(
        f"SELECT {_COLUMNS} FROM audit_heads"
    ):
        if connection.execute(_FIRST, (tenant,)).fetchone() != (first_seq, first_hash):
            yield f"the audit trail of {tenant!r} does not begin with its record {first_seq}: its beginning is missing"
        if connection.execute(_LAST, (tenant,)).fetchone() != (last_seq, last_hash):
            yield f"the audit trail of {tenant!r} does not end with its record {last_seq}: its end is missing"
    chains = read_chains(connection)
    if chains.found != (chains.sealed or 0):
        yield f"there are {chains.found} audit trails, but {chains.sealed or 0} were begun"
