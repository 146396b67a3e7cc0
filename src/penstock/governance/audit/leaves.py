"""What is hashed of an audit record: its leaf in the Merkle tree, in which personal data can be erased later.

A leaf is the SHA-256 of a zero byte and the canonical JSON of `{"commitments": ..., "entry": ..., "seq": ...}`. Fields
that may name a person are not in `entry`. `commitments` has a salted hash of each of them instead, so the leaf stays
the same when such a field is erased together with its salt (`redact`). With the salt the value can be verified; without
it the value cannot be guessed.

Every record has a random salt, from which those of its personal fields are derived (SHAKE256). Erasing some of the
fields replaces the common salt by the salts of those that remain. Records of earlier releases have no salt; their leaf
covers all fields in clear, and nothing in them can be erased.

Anybody who has a record can compute its commitments. So a record has exactly one form for each set of erased fields,
and every other form is refused here: a value beside its commitment, a salt of nothing, another spelling. `redactions`
checks that the erasure is on record.

Above it: `chain` seals leaves, `trails` verifies exported ones, stores erase. Below it: canonical JSON. It draws no
salts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from penstock.base.encoding import SafeEncoder
from penstock.base.json import JsonObject, JsonValue, is_flat
from penstock.definitions.canonical import canonical_json
from penstock.governance.audit.tree import HASH_BYTES

__all__ = [
    "ERASED",
    "PERSONAL",
    "SALT_BYTES",
    "canonical_fields",
    "entry_fields",
    "entry_leaf",
    "erased_commitments",
    "leaf_hash",
    "redact",
    "redact_entry",
]

T = TypeVar("T", bound=msgspec.Struct)
PERSONAL = ("principal", "principal_name", "acting_for", "remote", "client", "subject")
"""The fields that can be erased, because they may name a person or a machine of theirs."""
ERASED = "erased"
"""What an erased principal is shown as; other fields are empty."""
SALT_BYTES = 16
# These tell how to verify a record and are not part of what is hashed.
_BESIDE = ("salt", "redacted")
# These may be more than a text or a number.
_NESTED = ("details", "reasons")
_SCALARS = frozenset({str, int})
_HEXADECIMAL = frozenset("0123456789abcdef")
_SCALARS_OR_NONE = _SCALARS | {type(None)}
_encode_sorted = SafeEncoder(order="sorted").encode
# For objects whose members are declared in the order of their names: only what is nested in them is sorted.
_encode_ordered = SafeEncoder(order="deterministic").encode


def entry_fields(entry: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of an entry that are set, as JSON."""
    return {
        name: list(value) if type(value) is tuple else value
        for name, value in msgspec.structs.asdict(entry).items()
        if value is not None
    }


def leaf_hash(fields: Mapping[str, Any], seq: int) -> bytes:
    """Return the leaf of a record; raise ValueError if it cannot have been recorded like that.

    `fields` are those that are set, as `entry_fields` returns them or as an exported record has them.
    """
    return hashlib.sha256(b"\x00" + _covered(fields, seq)).digest()


def _covered(fields: Mapping[str, Any], seq: int) -> bytes:
    if "salt" not in fields and "redacted" not in fields:
        return canonical_fields({"entry": {**fields}, "seq": seq})
    entry: JsonObject = {name: value for name, value in fields.items() if name not in _HIDDEN}
    return canonical_fields({"commitments": _commitments(fields), "entry": entry, "seq": seq})


def entry_leaf(entry: msgspec.Struct, seq: int) -> bytes:
    """Return the leaf of an entry: `leaf_hash` of its fields.

    A record is hashed whenever something is changed, so those that consist of texts and numbers take a short way.
    """
    covered = _covered_quickly(entry, seq)
    return leaf_hash(entry_fields(entry), seq) if covered is None else hashlib.sha256(b"\x00" + covered).digest()


class _Layout(NamedTuple):
    """How entries of one type are read. `Open` has the fields that are not hidden, ordered by their names."""

    open_type: Callable[..., msgspec.Struct]
    open_values: Callable[[msgspec.Struct], tuple[Any, ...]]
    scalars: Callable[[msgspec.Struct], tuple[Any, ...]]
    nested: Callable[[msgspec.Struct], tuple[Any, ...]]
    personal: Callable[[msgspec.Struct], tuple[Any, ...]]


class _Leaf(msgspec.Struct):
    """What a leaf covers, ordered by name."""

    commitments: dict[str, str]
    entry: msgspec.Struct
    seq: int


@lru_cache(maxsize=8)
def _layout_of(kind: type[msgspec.Struct]) -> _Layout | None:
    """Return how entries of a type are read; None if the type has fewer fields than records have now."""
    names = kind.__struct_fields__
    if not {*PERSONAL, *_BESIDE, *_NESTED} <= set(names):
        return None
    shown = sorted(name for name in names if name not in _HIDDEN)
    return _Layout(
        open_type=msgspec.defstruct("Open", [(name, Any, None) for name in shown], omit_defaults=True),
        open_values=attrgetter(*shown),
        scalars=attrgetter(*(name for name in shown if name not in _NESTED)),
        nested=attrgetter(*_NESTED),
        personal=attrgetter(*PERSONAL),
    )


def _covered_quickly(entry: msgspec.Struct, seq: int) -> bytes | None:
    """Return what the leaf of an entry covers; None if the fast encoder may not write it as canonical JSON."""
    layout = _layout_of(type(entry))
    if layout is None:
        return None
    salt, redacted = getattr(entry, "salt", None), getattr(entry, "redacted", None)
    if type(salt) is not str or redacted is not None:
        return None
    if not _SCALARS_OR_NONE.issuperset(map(type, layout.scalars(entry))):
        return None
    details, reasons = layout.nested(entry)
    if (details and not _is_plain(details)) or (reasons and not _is_plain(list(reasons))):
        return None
    joined, start = _joined_salts(salt), 0
    commitments: dict[str, str] = {}
    for name, value in zip(PERSONAL, layout.personal(entry), strict=True):
        if type(value) is str and name != "acting_for":
            commitments[name] = _commitment(joined[start : start + SALT_BYTES], value)
        elif value is not None:
            return None  # acts for others, which hardly any caller does
        start += SALT_BYTES
    try:
        return _encode_ordered(_Leaf(commitments, layout.open_type(*layout.open_values(entry)), seq))
    except (UnicodeEncodeError, OverflowError):
        return None  # a lone surrogate, or an integer of more than 64 bits


_HIDDEN = frozenset((*PERSONAL, *_BESIDE))
_PLACES = tuple((name, number * SALT_BYTES, (number + 1) * SALT_BYTES) for number, name in enumerate(PERSONAL))


def _commitments(fields: Mapping[str, Any]) -> JsonObject:
    for name in PERSONAL:
        if name in fields and not _is_personal(name, fields[name]):
            raise ValueError(f"{name} is not of its type")
    if "redacted" in fields:
        commitments, salts = _redacted_parts(fields)
        shown = {name: _commitment(bytes.fromhex(salt), fields[name]) for name, salt in salts.items()}
        return {**commitments, **shown}
    # Records are made all the time and changed hardly ever, so this is the short way.
    joined = _joined_salts(fields["salt"])
    return {name: _commitment(joined[start:end], fields[name]) for name, start, end in _PLACES if name in fields}


def _is_personal(name: str, value: object) -> bool:
    """Whether a personal field has its type: a list of texts and its JSON as a text have the same commitment."""
    if name != "acting_for":
        return type(value) is str
    return type(value) is list and all(type(item) is str for item in value)


def _redacted_parts(fields: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the commitments and salts of a redacted record; raise ValueError unless it is what `redact` makes."""
    try:
        redacted = msgspec.convert(fields["redacted"], _Redacted)
    except msgspec.ValidationError as error:
        raise ValueError(f"`redacted` is not commitments and salts: {error}") from error
    commitments, salts = redacted.commitments, redacted.salts
    if "salt" in fields or not commitments or not commitments.keys() <= set(PERSONAL):
        raise ValueError("a redacted record has commitments to personal fields, and no salt of its own")
    if "principal" in commitments and fields.get("principal") != ERASED:
        raise ValueError("an erased principal shows a value")
    shown = {name for name in PERSONAL if name in fields and (name != "principal" or name not in commitments)}
    if both := sorted(shown & commitments.keys()):
        raise ValueError(f"an erased field shows a value: {', '.join(both)}")
    if shown != salts.keys():
        raise ValueError("the fields that are left and the salts do not belong together")
    if not all(_is_hex(text, HASH_BYTES) for text in commitments.values()):
        raise ValueError("a commitment is not a hash")
    if not all(_is_hex(text, SALT_BYTES) for text in salts.values()):
        raise ValueError("a salt is not hexadecimal")
    return commitments, salts


class _Redacted(msgspec.Struct, forbid_unknown_fields=True):
    """What stands for erased fields."""

    commitments: dict[str, str]
    salts: dict[str, str]


def _is_hex(text: str, size: int) -> bool:
    """Whether a text is so many bytes in hexadecimal, in the one way in which this module writes them."""
    return len(text) == 2 * size and _HEXADECIMAL.issuperset(text)


def _joined_salts(common: str) -> bytes:
    """Return the salts of all personal fields one after another; none of them tells anything about the others."""
    if type(common) is not str or not _is_hex(common, SALT_BYTES):
        raise ValueError("the salt is not hexadecimal")
    return hashlib.shake_256(bytes.fromhex(common)).digest(len(PERSONAL) * SALT_BYTES)


def _commitment(salt: bytes, value: JsonValue) -> str:
    text = value if type(value) is str else canonical_json(value, exact_integers=True).decode()
    return hashlib.sha256(salt + text.encode("utf-8", "surrogatepass")).hexdigest()


def erased_commitments(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the commitments to the fields that were erased in a record; raise ValueError if it cannot be like that."""
    return _redacted_parts(fields)[0] if "redacted" in fields else {}


def redact(fields: Mapping[str, Any], names: Collection[str]) -> dict[str, Any] | None:
    """Return the fields of a record with some of them erased; None if there is nothing to erase.

    A record of an earlier release, which has no salt, cannot be changed.
    """
    redacted = fields.get("redacted")
    done: Mapping[str, str] = redacted["commitments"] if redacted else {}
    wanted = [name for name in PERSONAL if name in names and name in fields and name not in done]
    if not wanted or (fields.get("salt") is None and redacted is None):
        return None
    made = _commitments(fields)
    kept = [name for name in PERSONAL if name in fields and name not in done and name not in wanted]
    if redacted:
        salts = {name: redacted["salts"][name] for name in kept}
    else:
        joined = _joined_salts(fields["salt"])
        salts = {name: joined[start:end].hex() for name, start, end in _PLACES if name in kept}
    erased = {**done, **{name: made[name] for name in wanted}}
    remaining = {name: value for name, value in fields.items() if name not in wanted and name != "salt"}
    if "principal" in wanted:
        remaining["principal"] = ERASED
    return {**remaining, "redacted": {"commitments": erased, "salts": salts}}


def redact_entry(entry: T, names: Collection[str]) -> T | None:
    """Return an entry with some of its fields erased; None if there is nothing to erase."""
    fields = redact(entry_fields(entry), names)
    if fields is None:
        return None
    erased = {name: None for name in PERSONAL if name not in fields}
    if fields["principal"] == ERASED:
        erased["principal"] = fields["principal"]
    return msgspec.structs.replace(entry, **erased, salt=None, redacted=fields["redacted"])


def canonical_fields(sealed: JsonObject) -> bytes:
    """Return the canonical JSON of what is hashed or sealed: an object whose members are numbers, texts and objects.

    Nearly all entries consist of strings and integers, which the fast encoder writes in canonical form.
    """
    entry = sealed["entry"]
    if isinstance(entry, dict) and all(type(value) in _SCALARS or _is_plain(value) for value in entry.values()):
        try:
            return _encode_sorted(sealed)
        except (UnicodeEncodeError, OverflowError):
            pass  # a lone surrogate, or an integer of more than 64 bits
    return canonical_json(sealed, exact_integers=True)


def _is_plain(value: JsonValue) -> bool:
    """Whether the fast encoder writes this value as canonical JSON: no fractions, and no keys that sort differently."""
    if type(value) is list:
        return all(type(item) is str for item in value)
    return is_flat(value) and (type(value) is not dict or all(map(str.isascii, value)))
