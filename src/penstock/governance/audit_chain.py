"""The audit log as a chain: every entry is sealed together with its number and the seal of the entry before it.

Without the key, nobody can change, remove or insert an entry without breaking the chain. The head of the chain
(`ChainHead`) reveals entries that were cut off at either end: it holds the first and the last link, is stored
separately and is sealed under the same key. If chain and head are both rolled back to an earlier state, only somebody
who noted a later number and hash elsewhere can tell.

The seal is an HMAC-SHA256 over the canonical JSON (RFC 8785, with integers written in full) of `{"entry": ...,
"previous_hash": ..., "seq": ...}`. Fields of the entry that are None are left out, so that a later release can add
fields and still verify what an earlier one sealed.

Above it: `operations` (verify, export), `runtime` (appends). It keeps no state and knows no store.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias

import msgspec

from penstock.base.json import JsonObject, JsonValue, is_flat
from penstock.base.keyed_digests import keyed_digest
from penstock.definitions.canonical import canonical_json

__all__ = [
    "GENESIS_HASH",
    "ChainBreak",
    "ChainBroken",
    "ChainHead",
    "ChainOutcome",
    "ChainSeal",
    "ChainVerified",
    "ChainedRecord",
    "seal_entry",
    "verify_chain",
]

_encode_sorted = msgspec.json.Encoder(order="sorted").encode
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

    def count(self, chains: int) -> str:
        """Return the seal of the number of chains."""
        return keyed_digest(self.key, f"audit chains {chains}".encode())


# Appending verifies the head that was sealed last and seals a new one, so each seal is needed twice.
@lru_cache(maxsize=64)
def _head_seal(key: bytes, tenant: str, first: tuple[int, str], last: tuple[int, str]) -> str:
    text = json.dumps(["audit head", tenant, *first, *last])
    return keyed_digest(key, text.encode())


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
    fields = {name: value for name, value in msgspec.structs.asdict(entry).items() if value is not None}
    sealed: JsonObject = {"entry": fields, "previous_hash": previous_hash, "seq": seq}
    return keyed_digest(key, _canonical(sealed, fields))


def _canonical(sealed: JsonObject, fields: JsonObject) -> bytes:
    """Return the canonical JSON of the sealed value.

    Nearly all entries consist of strings and integers, which the fast encoder writes in canonical form.
    """
    if all(_is_plain(value) for value in fields.values()):
        try:
            return _encode_sorted(sealed)
        except (UnicodeEncodeError, OverflowError):
            pass  # a lone surrogate, or an integer of more than 64 bits
    return canonical_json(sealed, exact_integers=True)


def _is_plain(value: JsonValue) -> bool:
    """Whether the fast encoder writes this value as canonical JSON: no fractions, and no keys that sort differently."""
    return is_flat(value) and (type(value) is not dict or all(map(str.isascii, value)))


def verify_chain(
    key: bytes,
    records: Iterable[ChainedRecord],
    *,
    expected_previous: str | None,
    expected_seq: int | None = None,
) -> ChainOutcome:
    """Verify records, oldest first, up to the first at which the chain is broken.

    `expected_previous` is the hash before the first record: `GENESIS_HASH` for a whole chain, `last_hash` to continue
    after other records, None if the beginning was deleted. `expected_seq` is the first number, if it is known.
    """
    count, last_seq, last_hash = 0, None if expected_seq is None else expected_seq - 1, expected_previous
    if expected_previous == GENESIS_HASH:
        last_seq = 0
    remaining = iter(records)
    for record in remaining:
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


def _out_of_place(seq: int, expected_seq: int, remaining: Iterable[ChainedRecord]) -> ChainBreak:
    if seq > expected_seq and not any(record.seq == expected_seq for record in remaining):
        return "gap"
    return "reordered"


def _seal_of(key: bytes, record: ChainedRecord) -> str | None:
    try:
        return seal_entry(key, record.previous_hash, record.seq, record.entry)
    except ValueError:
        return None  # such an entry cannot have been sealed
