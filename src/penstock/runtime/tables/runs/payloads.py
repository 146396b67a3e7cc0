"""Large values of histories ("payloads"): each is stored once, by the hash of its JSON, however many records hold it.

A page of history is `[record, ...]`. A page with a large value is `{"records": [...], "payloads": [...]}` instead: the
value is null in its record, and the list has the path to it and its hash. No value has a special meaning of its own. A
table maps runs to the payloads they use. A payload is deleted with the last run that uses it.

Above it: `appending` and `deleting`, `history`, `checks`. Below it: `codec`. Small pages never come here:
the caller decides by their size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from penstock.base import limits
from penstock.base.errors import CorruptHistory
from penstock.base.json import JsonValue
from penstock.engine.records import Record
from penstock.runtime.ports.transactions import Reader, Transaction, any_of
from penstock.runtime.tables.codec import Columns, columns_of, decode_json, encode_json, records_of

__all__ = [
    "PageSplitter",
    "PayloadReader",
    "altered_payloads",
    "content_hash",
    "drop_payloads",
    "keep_payloads",
    "lock_payloads",
]

Place: TypeAlias = tuple[str | int, ...]
_CHARACTER_BYTES_MAX = 6  # the longest JSON encoding of one character
_PAYLOAD_COLUMN = 3  # index of the payload in an encoded record
_WITH_PLACES = b"{"  # the first byte of a page that is not a plain list of records
_KEEP = "INSERT INTO payloads (hash, content) VALUES (?,?) ON CONFLICT (hash) DO NOTHING"
_USE = "INSERT INTO payload_uses (run, hash) VALUES (?,?) ON CONFLICT (run, hash) DO NOTHING"
_DROP = "DELETE FROM payloads WHERE hash = ? AND NOT EXISTS (SELECT 1 FROM payload_uses WHERE hash = ?)"
_USED_BY = "SELECT DISTINCT hash FROM payload_uses WHERE run IN (SELECT key FROM runs WHERE {chosen})"
_RUNS_AT_ONCE = 500
_PAYLOADS_AFTER = "SELECT hash, content FROM payloads WHERE hash > ? ORDER BY hash LIMIT ?"
_PAYLOADS_AT_ONCE = 100
_HINT = "restore a backup with `penstock server restore`"


class _Page(msgspec.Struct):
    """A page and the paths where its values are missing. An outer path comes before a path inside it."""

    records: list[Columns]
    payloads: list[tuple[list[Any], str]]


class _UnreadPage(msgspec.Struct):
    """The same page with undecoded records, for callers that want only some of them."""

    records: list[msgspec.Raw]
    payloads: list[tuple[list[Any], str]]

    def read(self, part: slice) -> _Page:
        """Decode the wanted records and keep only their paths."""
        numbers = range(*part.indices(len(self.records)))
        payloads = [
            ([numbers.index(number), *rest], name) for (number, *rest), name in self.payloads if number in numbers
        ]
        return _Page(columns_of(self.records[part]), payloads)


class _Split(msgspec.Struct, frozen=True):
    """A value without its large parts, and the paths and hashes of those parts."""

    left: Any
    places: tuple[tuple[Place, str], ...]


_PAGE = msgspec.json.Decoder(_Page)
_UNREAD_PAGE = msgspec.json.Decoder(_UnreadPage)


def content_hash(content: bytes) -> str:
    """The hash under which a payload is stored."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()


# --- writing -------------------------------------------------------------------------------------


class PageSplitter:
    """Takes large values out of the pages of one decision. A value that several records share is processed once."""

    def __init__(self) -> None:
        self.payloads: dict[str, bytes] = {}
        """The payloads of all pages, by hash."""
        # Keyed by identity: the records keep their values alive, and comparing large values would cost more than it
        # saves.
        self._seen: dict[int, _Split | None] = {}

    def page(self, records: Sequence[Record]) -> bytes:
        """Encode records as they are stored."""
        page = encode_json(records)
        if len(page) <= limits.PAYLOAD_INLINE_BYTES_MAX:
            return page
        rows: list[tuple[object, ...]] = []
        places: list[tuple[Place, str]] = []
        for number, record in enumerate(records):
            payload = record.payload
            for name, value in payload.items():
                moved = self.moved(value)
                if moved is not None:
                    payload = {**payload, name: moved.left}
                    places += [((number, _PAYLOAD_COLUMN, name, *place), found) for place, found in moved.places]
            rows.append((record.seq, record.kind, record.name, payload, record.at))
        return encode_json({"records": rows, "payloads": places}) if places else page  # only many small values

    def moved(self, value: JsonValue) -> _Split | None:
        """Split a value; None if it stays whole."""
        if not _may_be_large(value):
            return None
        if id(value) not in self._seen:
            self._seen[id(value)] = self._move(value)
        return self._seen[id(value)]

    def _move(self, value: JsonValue) -> _Split | None:
        content = encode_json(value)
        if len(content) <= limits.PAYLOAD_INLINE_BYTES_MAX:
            return None
        # Large inner parts are moved first: they may stay the same while the value around them changes.
        left, inner = self._without_large_parts(value)
        if inner:
            content = encode_json(left)
            if len(content) <= limits.PAYLOAD_INLINE_BYTES_MAX:
                return _Split(left, tuple(inner))
        name = content_hash(content)
        self.payloads[name] = content
        return _Split(None, (((), name), *inner))

    def _without_large_parts(self, value: JsonValue) -> tuple[JsonValue, list[tuple[Place, str]]]:
        places: list[tuple[Place, str]] = []
        if isinstance(value, dict):
            members = value
            for name, item in value.items():
                moved = self.moved(item)
                if moved is not None:
                    members = {**members, name: moved.left}
                    places += [((name, *place), found) for place, found in moved.places]
            return members, places
        if isinstance(value, list):
            items = list(value)
            for index, item in enumerate(value):
                moved = self.moved(item)
                if moved is not None:
                    items[index] = moved.left
                    places += [((index, *place), found) for place, found in moved.places]
            return items, places
        return value, places


def _may_be_large(value: JsonValue) -> bool:
    if isinstance(value, str):
        return len(value) * _CHARACTER_BYTES_MAX + 2 > limits.PAYLOAD_INLINE_BYTES_MAX
    return isinstance(value, dict | list) and len(value) > 0


def keep_payloads(transaction: Transaction, payloads_of: Mapping[int, Mapping[str, bytes]]) -> None:
    """Store payloads of runs that are not stored yet, and record which run uses them."""
    for name in sorted({name for payloads in payloads_of.values() for name in payloads}):
        transaction.lock(f"payload/{name}")
    for run, payloads in payloads_of.items():
        for name, content in payloads.items():
            key = bytes.fromhex(name)
            transaction.execute(_KEEP, (key, content))
            transaction.execute(_USE, (run, key))


def lock_payloads(transaction: Transaction, run_ids: Sequence[str]) -> None:
    """Lock all payloads of runs that have ended, whose payloads stay the same, before any of the runs is deleted."""
    names: set[str] = set()
    for start in range(0, len(run_ids), _RUNS_AT_ONCE):
        chosen = run_ids[start : start + _RUNS_AT_ONCE]
        found = transaction.rows(_USED_BY.format(chosen=any_of("run_id", chosen)), chosen)
        names.update(bytes(key).hex() for (key,) in found)
    for name in sorted(names):
        transaction.lock(f"payload/{name}")


def drop_payloads(transaction: Transaction, runs: Sequence[int]) -> None:
    """Delete what runs use of payloads, and every payload that no other run uses."""
    for start in range(0, len(runs), _RUNS_AT_ONCE):
        _drop_together(transaction, runs[start : start + _RUNS_AT_ONCE])


def _drop_together(transaction: Transaction, runs: Sequence[int]) -> None:
    chosen = any_of("run", runs)
    used = sorted({bytes(key) for (key,) in transaction.rows(f"SELECT hash FROM payload_uses WHERE {chosen}", runs)})
    for key in used:
        transaction.lock(f"payload/{key.hex()}")
    transaction.execute(f"DELETE FROM payload_uses WHERE {chosen}", runs)
    for key in used:
        transaction.execute(_DROP, (key, key))


# --- reading -------------------------------------------------------------------------------------


class PayloadReader:
    """Reads pages from one snapshot. A payload that several records hold is read and kept in memory once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._contents: dict[str, bytes] = {}
        self._values: dict[str, JsonValue] = {}

    @property
    def hashes(self) -> set[str]:
        """The hashes of the payloads that were read."""
        return set(self._contents)

    def records(self, page: bytes, part: slice | None = None) -> list[Record]:
        """The records of a page, or of a slice of it, with all payloads filled in."""
        if page[:1] != _WITH_PLACES:
            return records_of(page, part)
        if part is not None:
            with suppress(msgspec.DecodeError, ValueError):  # half a surrogate pair, or damage: decode it all
                return self._filled(_UNREAD_PAGE.decode(page).read(part))
        found = self._filled(decode_json(_PAGE, page))
        return found if part is None else found[part]

    def _filled(self, stored: _Page) -> list[Record]:
        places = stored.payloads
        try:
            for number, (place, name) in enumerate(places):
                is_outer = number + 1 < len(places) and places[number + 1][0][: len(place)] == place
                # A payload with missing parts of its own is filled in below, so it must not be shared.
                value = self._fresh(name) if is_outer else self._shared(name)
                _put(stored.records, place, value)
        except (LookupError, TypeError) as error:
            message = f"a page names a place that it does not have ({type(error).__name__}: {error})"
            raise CorruptHistory("STORE_CORRUPT", message, _HINT) from None
        return [Record(*columns) for columns in stored.records]

    def _shared(self, name: str) -> JsonValue:
        if name not in self._values:
            self._values[name] = self._fresh(name)
        return self._values[name]

    def _fresh(self, name: str) -> JsonValue:
        content = self._contents.get(name)
        if content is None:
            content = self._contents[name] = self._read(name)
        return decode_json(_ANY, content)

    def _read(self, name: str) -> bytes:
        try:
            key = bytes.fromhex(name)
        except ValueError:
            raise CorruptHistory("STORE_CORRUPT", f"{name[:80]!r} is not the hash of a payload", _HINT) from None
        found = self._reader.one("SELECT content FROM payloads WHERE hash = ?", (key,))
        if found is None:
            raise CorruptHistory("PAYLOAD_MISSING", f"the large value {name[:12]} is not in the store", _HINT)
        content: object = found[0]
        if not isinstance(content, bytes) or content_hash(content) != name:
            message = f"the large value {name[:12]} does not match its hash"
            raise CorruptHistory("PAYLOAD_CHANGED", message, _HINT)
        return content


_ANY: msgspec.json.Decoder[JsonValue] = msgspec.json.Decoder()


def _put(rows: Any, place: Sequence[str | int], value: JsonValue) -> None:
    for part in place[:-1]:
        rows = rows[part]
    rows[place[-1]] = value


# --- checks --------------------------------------------------------------------------------------


def altered_payloads(reader: Reader) -> Iterator[tuple[str, str]]:
    """Find payloads that are altered or missing. Yields a code and a message for each."""
    after = b""
    while found := reader.rows(_PAYLOADS_AFTER, (after, _PAYLOADS_AT_ONCE)):
        for key, content in found:
            if not isinstance(content, bytes) or content_hash(content) != bytes(key).hex():
                yield "PAYLOAD_CHANGED", f"the large value {bytes(key).hex()[:12]} does not match its hash"
        after = found[-1][0]
    missing = "SELECT DISTINCT hash FROM payload_uses WHERE hash NOT IN (SELECT hash FROM payloads)"
    for (key,) in reader.rows(missing):
        yield "PAYLOAD_MISSING", f"the large value {bytes(key).hex()[:12]} is not in the store"
