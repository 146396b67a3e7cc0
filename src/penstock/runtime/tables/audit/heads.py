"""The heads of audit chains: the sealed first and last record of each chain, and the chain count.

A chain continues from its head, not from whichever record happens to be last, so a tail that was cut off leaves a
visible gap. A head that is missing or was altered is replaced by one that leaves a gap too. Tampering therefore stays
visible. Chains older than heads are sealed as they are when the first record is appended.

Above it: `records`, `removal`. Below it: the database port.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from penstock.base.encoding import encode_bytes
from penstock.governance.audit.chain import GENESIS_HASH, ChainHead
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import AuditChains, Seal
from penstock.runtime.ports.transactions import Reader, Transaction
from penstock.runtime.tables.checksums import checked_columns, row_checksum

__all__ = [
    "broken_heads",
    "count_audit_chains",
    "end_after_gap",
    "find_audit_head",
    "lock_trails",
    "move_first",
    "read_chains",
    "read_head",
    "sealed_end",
    "write_last",
]

_COUNT_MARK, _UNSEALED_MARK = "audit_chains", "audit_unsealed"
_READ = "SELECT first_seq, first_previous_hash, last_seq, last_hash, seal FROM audit_heads WHERE tenant = ?"
_COLUMNS = checked_columns("audit_heads")
_WRITE = (
    f"INSERT INTO audit_heads ({_COLUMNS}, checksum) VALUES (?,?,?,?,?,?,?) ON CONFLICT (tenant) DO UPDATE SET"
    " first_seq = excluded.first_seq, first_previous_hash = excluded.first_previous_hash, last_seq = excluded.last_seq,"
    " last_hash = excluded.last_hash, seal = excluded.seal, checksum = excluded.checksum"
)
_FIRST = "SELECT seq, previous_hash FROM audit WHERE tenant = ? ORDER BY seq LIMIT 1"
_LAST = "SELECT seq, hash FROM audit WHERE tenant = ? ORDER BY seq DESC LIMIT 1"
_MARK = "SELECT value FROM marks WHERE name = ?"
_KEEP_MARK = (
    "INSERT INTO marks (name, value, checksum) VALUES (?,?,?)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value, checksum = excluded.checksum"
)
_COUNT = msgspec.json.Decoder(tuple[int, str])


async def find_audit_head(database: Database, tenant: str) -> ChainHead | None:
    """Return the sealed ends of a tenant's chain, or None if it has none."""
    return await database.read(lambda reader: read_head(reader, tenant))


async def count_audit_chains(database: Database) -> AuditChains:
    """Return how many chains there are, and how many were sealed."""
    return await database.read(read_chains)


def read_head(reader: Reader, tenant: str) -> ChainHead | None:
    """The head of a chain."""
    found = reader.rows(_READ, (tenant,))
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


def read_chains(reader: Reader) -> AuditChains:
    """The number of chains found and the number sealed."""
    ((found,),) = reader.rows("SELECT count(*) FROM audit_heads")
    kept = reader.rows(_MARK, (_COUNT_MARK,))
    try:
        sealed, seal = _COUNT.decode(kept[0][0]) if kept else (None, None)
    except (msgspec.DecodeError, msgspec.ValidationError):
        sealed, seal = -1, None
    return AuditChains(found=found, sealed=sealed, seal=seal)


def lock_trails(transaction: Transaction, tenants: Iterable[str]) -> None:
    """Hold trails until the end of the transaction: all that it will append to, at once."""
    for tenant in sorted({*tenants}):
        transaction.lock(f"audit/{tenant}")


def sealed_end(transaction: Transaction, tenant: str, seal: Seal) -> ChainHead:
    """The head that a chain continues from. The head of a new chain has the number 0."""
    head = read_head(transaction, tenant)
    if head is None and transaction.rows(_MARK, (_UNSEALED_MARK,)):
        _seal_all(transaction, seal)
        head = read_head(transaction, tenant)
    if head is not None and seal.holds(tenant, head):
        return head
    if head is None:
        _count(transaction, seal, 1)
    if head is None and transaction.one(_LAST, (tenant,)) is None:
        return seal.head(tenant, (1, GENESIS_HASH), (0, GENESIS_HASH))
    return end_after_gap(transaction, tenant, seal)


def end_after_gap(transaction: Transaction, tenant: str, seal: Seal) -> ChainHead:
    """The head for a chain whose end or head somebody altered.

    It skips a number, which leaves a gap that is found as long as the records are kept.
    """
    head = read_head(transaction, tenant)
    first = transaction.one(_FIRST, (tenant,))
    last = transaction.one(_LAST, (tenant,))
    known = max(last[0] if last else 0, head.last_seq if head else 0)
    return seal.head(tenant, first or (1, GENESIS_HASH), (known + 1, last[1] if last else GENESIS_HASH))


def write_last(transaction: Transaction, tenant: str, head: ChainHead, last: tuple[int, str], seal: Seal) -> None:
    """Store the new last record of a chain."""
    _write(transaction, tenant, seal.head(tenant, (head.first_seq, head.first_previous_hash), last))


def move_first(transaction: Transaction, tenant: str, seal: Seal) -> None:
    """Store the new first record of a chain after its oldest were deleted, unless the head's seal is broken."""
    head, first = read_head(transaction, tenant), transaction.one(_FIRST, (tenant,))
    if head is not None and first is not None and seal.holds(tenant, head):
        _write(transaction, tenant, seal.head(tenant, first, (head.last_seq, head.last_hash)))


def _write(transaction: Transaction, tenant: str, head: ChainHead) -> None:
    columns = (tenant, *msgspec.structs.astuple(head))
    transaction.execute(_WRITE, (*columns, row_checksum(columns)))


def _seal_all(transaction: Transaction, seal: Seal) -> None:
    """Seal the chains of an older file as they are."""
    tenants = transaction.rows("SELECT DISTINCT tenant FROM audit")
    for (tenant,) in tenants:
        (first,), (last,) = (transaction.rows(statement, (tenant,)) for statement in (_FIRST, _LAST))
        _write(transaction, tenant, seal.head(tenant, first, last))
    transaction.execute("DELETE FROM marks WHERE name = ?", (_UNSEALED_MARK,))
    _count(transaction, seal, len(tenants))


def _count(transaction: Transaction, seal: Seal, more: int) -> None:
    """Add new chains to the sealed count. A count that was altered stays wrong."""
    transaction.lock(f"mark/{_COUNT_MARK}")
    known = read_chains(transaction)
    sealed = known.sealed or 0
    if known.sealed is None and known.found > more:
        return  # the count was removed: its absence shows that
    if known.seal is not None and known.seal != seal.count(sealed):
        return
    kept = encode_bytes((sealed + more, seal.count(sealed + more)))
    transaction.execute(_KEEP_MARK, (_COUNT_MARK, kept, row_checksum((_COUNT_MARK, kept))))


def broken_heads(reader: Reader) -> Iterator[str]:
    """Find problems with the ends of chains that are visible without the key."""
    if reader.one(_MARK, (_UNSEALED_MARK,)):
        return
    for (tenant,) in reader.rows(
        "SELECT DISTINCT tenant FROM audit WHERE tenant NOT IN (SELECT tenant FROM audit_heads)"
    ):
        yield f"the audit trail of {tenant!r} has lost its head"
    for tenant, first_seq, first_hash, last_seq, last_hash, _ in reader.rows(f"SELECT {_COLUMNS} FROM audit_heads"):
        if reader.one(_FIRST, (tenant,)) != (first_seq, first_hash):
            yield f"the audit trail of {tenant!r} does not begin with its record {first_seq}: its beginning is missing"
        if reader.one(_LAST, (tenant,)) != (last_seq, last_hash):
            yield f"the audit trail of {tenant!r} does not end with its record {last_seq}: its end is missing"
    chains = read_chains(reader)
    if chains.found != (chains.sealed or 0):
        yield f"there are {chains.found} audit trails, but {chains.sealed or 0} were begun"
