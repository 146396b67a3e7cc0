"""The audit log as a chain: every entry is sealed together with its number and the seal of the entry before it.

Whoever does not have the key can neither change an entry, nor take one out, nor put one in, without the chain telling
so. What was cut off at either end is told by the chain's head: its first and its last link, kept apart and sealed under
the same key (`ChainHead`). Chain and head put back together to how they once were show only to somebody who kept a
later number and hash elsewhere.

The seal is an HMAC-SHA256 over the canonical JSON (RFC 8785, with integers written in full) of `{"entry": ...,
"previous_hash": ..., "seq": ...}`. Fields of the entry that are None are left out, so that a later release can add
fields and still verify what an earlier one sealed.

Above it: `operations` (verify, export), `runtime` (appends). It keeps nothing and knows no store.
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
# What stands before the first entry of a chain.
GENESIS_HASH = "0" * 64

ChainBreak: TypeAlias = Literal["altered", "gap", "reordered", "wrong_link"]
"""An entry is not what was sealed; entries are missing before it; it comes too early, too late or twice; or it does
not follow the entry before it."""


class ChainedRecord(Protocol):
    """An entry in its chain, whoever keeps it."""

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
    """The two ends of a chain: what its first record is and follows, and what its last record is."""

    first_seq: int
    first_previous_hash: str
    last_seq: int
    last_hash: str
    seal: str


class ChainSeal(msgspec.Struct, frozen=True):
    """Seals entries, the ends of chains, and how many chains there are, under one key."""

    key: bytes

    def __call__(self, previous_hash: str, seq: int, entry: msgspec.Struct) -> str:
        """The hash of an entry in its place."""
        return seal_entry(self.key, previous_hash, seq, entry)

    def head(self, tenant: str, first: tuple[int, str], last: tuple[int, str]) -> ChainHead:
        """A sealed head: the number of the first record with the hash before it, and the last record's with its own."""
        seal = _head_seal(self.key, tenant, first, last)
        return ChainHead(
            first_seq=first[0], first_previous_hash=first[1], last_seq=last[0], last_hash=last[1], seal=seal
        )

    def holds(self, tenant: str, head: ChainHead) -> bool:
        """Whether a head is as it was sealed."""
        first, last = (head.first_seq, head.first_previous_hash), (head.last_seq, head.last_hash)
        return hmac.compare_digest(self.head(tenant, first, last).seal, head.seal)

    def count(self, chains: int) -> str:
        """The seal of how many chains there are."""
        return keyed_digest(self.key, f"audit chains {chains}".encode())


# A chain goes on from the head that was sealed last: whoever appends asks for each seal twice.
@lru_cache(maxsize=64)
def _head_seal(key: bytes, tenant: str, first: tuple[int, str], last: tuple[int, str]) -> str:
    text = json.dumps(["audit head", tenant, *first, *last])
    return keyed_digest(key, text.encode())


class ChainVerified(msgspec.Struct, frozen=True):
    """Nothing is wrong. The last number and hash are what to go on from; of no records, what was expected."""

    count: int
    last_seq: int | None
    last_hash: str | None


class ChainBroken(msgspec.Struct, frozen=True):
    """The first record at which something is wrong, by the number that it bears."""

    seq: int
    reason: ChainBreak


ChainOutcome: TypeAlias = ChainVerified | ChainBroken


def seal_entry(key: bytes, previous_hash: str, seq: int, entry: msgspec.Struct) -> str:
    """The hash of an entry in its place. ValueError if the entry holds something that is not JSON."""
    fields = {name: value for name, value in msgspec.structs.asdict(entry).items() if value is not None}
    sealed: JsonObject = {"entry": fields, "previous_hash": previous_hash, "seq": seq}
    return keyed_digest(key, _canonical(sealed, fields))


def _canonical(sealed: JsonObject, fields: JsonObject) -> bytes:
    """The canonical JSON of what is sealed. Nearly all of it is texts and whole numbers, which need no care."""
    if all(_is_plain(value) for value in fields.values()):
        try:
            return _encode_sorted(sealed)
        except (UnicodeEncodeError, OverflowError):
            pass  # half of a surrogate pair, or a number of more than 64 bits
    return canonical_json(sealed, exact_integers=True)


def _is_plain(value: JsonValue) -> bool:
    """Whether the encoder writes a value as canonical JSON has it: no fraction, and no key whose place is in doubt."""
    return is_flat(value) and (type(value) is not dict or all(map(str.isascii, value)))


def verify_chain(
    key: bytes,
    records: Iterable[ChainedRecord],
    *,
    expected_previous: str | None,
    expected_seq: int | None = None,
) -> ChainOutcome:
    """Look at records, oldest first, up to the first at which something is wrong.

    `expected_previous` is the hash before the first of them: `GENESIS_HASH` for a whole chain, `last_hash` to go on
    after other records, None when the beginning was forgotten. `expected_seq` is the first number, if it is known.
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
        return None  # nothing like it was ever sealed
