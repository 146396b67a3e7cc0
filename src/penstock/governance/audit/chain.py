"""The audit log as a chain: every entry is sealed together with its number and the seal of the entry before it.

Without the key, nobody can change, remove or insert an entry without breaking the chain. The head of the chain
(`ChainHead`) reveals entries that were cut off at either end: it holds the first and the last link, is stored
separately and is sealed under the same key. If chain and head are both rolled back to an earlier state, only a later
number and hash that were noted elsewhere reveal it.

The seal is an HMAC-SHA256 over the number, the leaf (`leaves`) and the seal before it. Records of earlier releases have
no salt; theirs is over the canonical JSON (RFC 8785, with integers written in full) of `{"entry": ..., "previous_hash":
..., "seq": ...}`. Fields with the value `None` are left out, so that a later release can add fields and still verify
  older seals.

Retention may remove records between others that are kept. A sealed `RemovedRecords` stands for them: it has their
leaves, so that the Merkle tree stays whole, and the seals at both ends, so that the chain does.

Above it: `operations` (verify, export), `runtime` (appends). Below it: `leaves`. It keeps no state and knows no store.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias

import msgspec

from penstock.base.keyed_digests import keyed_digest
from penstock.governance.audit.leaves import canonical_fields, entry_fields, entry_leaf

__all__ = [
    "GENESIS_HASH",
    "ChainBreak",
    "ChainBroken",
    "ChainHead",
    "ChainOutcome",
    "ChainSeal",
    "ChainVerified",
    "ChainedRecord",
    "RemovedRecords",
    "seal_entry",
    "verified_leaf",
    "verify_chain",
]

# The previous hash of the first entry of a chain.
GENESIS_HASH = "0" * 64

ChainBreak: TypeAlias = Literal["altered", "gap", "reordered", "wrong_link"]
"""Why a chain is broken at an entry.

- altered: the entry is not what was sealed.
- gap: entries are missing before it.
- reordered: it comes too early, too late or twice.
- wrong_link: it does not follow the entry before it.
"""


class ChainedRecord(Protocol):
    """An entry in its chain, in whatever form a store keeps it."""

    @property
    def seq(self) -> int:
        """The number of the entry."""

    @property
    def entry(self) -> msgspec.Struct:
        """The entry."""

    @property
    def previous_hash(self) -> str:
        """The seal of the entry before it."""

    @property
    def hash(self) -> str:
        """The seal of the entry."""


class ChainHead(msgspec.Struct, frozen=True, kw_only=True):
    """The two ends of a chain: the first record with the hash before it, and the last record."""

    first_seq: int
    first_previous_hash: str
    last_seq: int
    last_hash: str
    seal: str


class RemovedRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Records in a row that retention removed: the leaf of each, and the seals before the first and of the last."""

    first_seq: int
    last_seq: int
    previous_hash: str
    last_hash: str
    leaves: bytes
    """The leaves one after another, 32 bytes each."""
    seal: str = ""


class ChainSeal(msgspec.Struct, frozen=True):
    """Seals entries, the heads of chains, and the number of chains, under one key."""

    key: bytes

    def __call__(self, previous_hash: str, seq: int, entry: msgspec.Struct) -> str:
        """Return the hash of an entry at its place in the chain."""
        return seal_entry(self.key, previous_hash, seq, entry)

    def head(self, tenant: str, first: tuple[int, str], last: tuple[int, str]) -> ChainHead:
        """Return a sealed head.

        `first` is the first number and the hash before it; `last` the last number and its hash.
        """
        seal = _head_seal(self.key, tenant, first, last)
        return ChainHead(
            first_seq=first[0], first_previous_hash=first[1], last_seq=last[0], last_hash=last[1], seal=seal
        )

    def holds(self, tenant: str, head: ChainHead) -> bool:
        """Whether a head is as it was sealed."""
        first, last = (head.first_seq, head.first_previous_hash), (head.last_seq, head.last_hash)
        return hmac.compare_digest(self.head(tenant, first, last).seal, head.seal)

    def removed(self, tenant: str, records: RemovedRecords) -> RemovedRecords:
        """Return removed records with their seal."""
        return msgspec.structs.replace(records, seal=self._removed_seal(tenant, records))

    def holds_removed(self, tenant: str, records: RemovedRecords) -> bool:
        """Whether removed records are as they were sealed."""
        return hmac.compare_digest(self._removed_seal(tenant, records), records.seal)

    def _removed_seal(self, tenant: str, records: RemovedRecords) -> str:
        ends = (records.first_seq, records.previous_hash, records.last_seq, records.last_hash)
        text = json.dumps(["audit removed", tenant, *ends, hashlib.sha256(records.leaves).hexdigest()])
        return keyed_digest(self.key, text.encode())

    def count(self, chains: int) -> str:
        """Return the seal of the number of chains."""
        return keyed_digest(self.key, f"audit chains {chains}".encode())


_encode = json.JSONEncoder().encode


# Appending verifies the head that was sealed last and seals a new one, so each seal is needed twice.
@lru_cache(maxsize=64)
def _head_seal(key: bytes, tenant: str, first: tuple[int, str], last: tuple[int, str]) -> str:
    return keyed_digest(key, _encode(["audit head", tenant, *first, *last]).encode())


class ChainVerified(msgspec.Struct, frozen=True):
    """The records are intact. The last number and hash say where to continue; without records they are as expected."""

    count: int
    last_seq: int | None
    last_hash: str | None


class ChainBroken(msgspec.Struct, frozen=True):
    """The first record at which the chain is broken, by its own number."""

    seq: int
    reason: ChainBreak


ChainOutcome: TypeAlias = ChainVerified | ChainBroken


def seal_entry(key: bytes, previous_hash: str, seq: int, entry: msgspec.Struct) -> str:
    """Return the hash of an entry at its place in the chain; raise ValueError if the entry is not JSON."""
    if _is_salted(entry):
        return _seal_of_leaf(key, previous_hash, seq, entry_leaf(entry, seq))
    fields = entry_fields(entry)
    return keyed_digest(key, canonical_fields({"entry": fields, "previous_hash": previous_hash, "seq": seq}))


def _is_salted(entry: msgspec.Struct) -> bool:
    """Whether the seal of an entry covers its leaf. Entries of earlier releases are sealed as they are."""
    return getattr(entry, "salt", None) is not None or getattr(entry, "redacted", None) is not None


def _seal_of_leaf(key: bytes, previous_hash: str, seq: int, leaf: bytes) -> str:
    return keyed_digest(key, f"audit record {seq} {leaf.hex()} {previous_hash}".encode())


def verified_leaf(key: bytes, record: ChainedRecord) -> bytes | None:
    """Return the leaf of a record by itself; None if the record is not what was sealed.

    The same as `verify_chain` of this record alone and then its leaf, which is computed only once.
    """
    if record.seq == 1 and record.previous_hash != GENESIS_HASH:
        return None
    try:
        leaf = entry_leaf(record.entry, record.seq)
        if _is_salted(record.entry):
            sealed = _seal_of_leaf(key, record.previous_hash, record.seq, leaf)
        else:
            sealed = seal_entry(key, record.previous_hash, record.seq, record.entry)
    except ValueError:
        return None  # such an entry cannot have been sealed
    return leaf if sealed == record.hash else None


def verify_chain(
    key: bytes,
    records: Iterable[ChainedRecord],
    *,
    expected_previous: str | None,
    expected_seq: int | None = None,
    removed: Mapping[int, RemovedRecords] | None = None,
) -> ChainOutcome:
    """Verify records, oldest first, up to the first at which the chain is broken.

    `expected_previous` is the hash before the first record: `GENESIS_HASH` for a whole chain, `last_hash` to continue
    after other records, None if the beginning was deleted. `expected_seq` is the first number, if it is known.
    `removed` has what retention removed in between, by first number; the caller has verified the seals.
    """
    count, last_seq, last_hash = 0, None if expected_seq is None else expected_seq - 1, expected_previous
    if expected_previous == GENESIS_HASH:
        last_seq = 0
    remaining = iter(records)
    for record in remaining:
        if removed and last_seq is not None:
            last_seq, last_hash = _after_removed(removed, last_seq, last_hash)
        if last_seq is not None and record.seq != last_seq + 1:
            return ChainBroken(record.seq, _out_of_place(record.seq, last_seq + 1, remaining))
        if last_hash is None and record.seq == 1:
            last_hash = GENESIS_HASH
        if last_hash is not None and record.previous_hash != last_hash:
            return ChainBroken(record.seq, "wrong_link")
        if _seal_of(key, record) != record.hash:
            return ChainBroken(record.seq, "altered")
        count, last_seq, last_hash = count + 1, record.seq, record.hash
    return ChainVerified(count, last_seq, last_hash)


def _after_removed(
    removed: Mapping[int, RemovedRecords], last_seq: int, last_hash: str | None
) -> tuple[int, str | None]:
    """Return where the chain continues after the records that were removed behind a record."""
    while (gap := removed.get(last_seq + 1)) is not None and last_hash in (None, gap.previous_hash):
        last_seq, last_hash = gap.last_seq, gap.last_hash
    return last_seq, last_hash


def _out_of_place(seq: int, expected_seq: int, remaining: Iterable[ChainedRecord]) -> ChainBreak:
    if seq > expected_seq and not any(record.seq == expected_seq for record in remaining):
        return "gap"
    return "reordered"


def _seal_of(key: bytes, record: ChainedRecord) -> str | None:
    try:
        return seal_entry(key, record.previous_hash, record.seq, record.entry)
    except ValueError:
        return None  # such an entry cannot have been sealed
