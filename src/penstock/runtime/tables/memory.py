"""Memory: values under keys, in spaces that belong to a tenant, a principal or a session.

Entries that have ended by `now` are not there for any function: they do not count, and a new one may take their key. A
row never changes: a new value under a key is a new row, and the old one is deleted.

The words of an entry, and the space that it is in, are tokens. They are hexadecimal, because databases differ in how
they split texts into words. The index of a database finds candidates in one space; `memory_rules` decides which of them
match, and their order.

A deletion returns when the bytes are overwritten. If that is too much at once, a mark says that something is left, and
`forget_memory` does it, which is called once a minute.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonValue
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.memory import (
    MemoryEntry,
    MemoryOutcome,
    MemoryPage,
    MemoryPut,
    MemoryRoom,
    MemorySpace,
    WordIndex,
)
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.set_aside import SetAside
from penstock.runtime.ports.transactions import Reader, Row, Transaction, Values, none_of
from penstock.runtime.tables.checksums import CHECKED, checked_columns, row_checksum
from penstock.runtime.tables.codec import decode_json, encode_json
from penstock.runtime.tables.listings import cut_page, id_cursor, id_position, platform_page_size
from penstock.runtime.tables.memory_rules import entry_bytes, entry_words, no_room, query_words, ranked
from penstock.runtime.tables.resources import stored_mark, write_mark

__all__ = [
    "clear_memory",
    "delete_memory",
    "forget_memory",
    "list_memory",
    "put_memory",
    "read_memory",
    "search_memory",
]

_KIND = "memory"
_OVERWRITING = "overwriting of deleted entries"
"""What is named in the health of a server if a damaged entry keeps the bytes of deleted ones from being overwritten."""
_ERASURE_MARK = "memory-erasure"
"""The mark that says that something was deleted and is not overwritten yet."""

_COLUMNS = "name, value, created_at, updated_at, updated_by, expires_at, untrusted"
_IN_SPACE = "tenant = :tenant AND scope = :scope AND owner = :owner AND session = :session"
_LIVE = "(expires_at IS NULL OR expires_at > :now)"
_NAMED = f"SELECT entry, size, created_at, {_LIVE} FROM memory_entries WHERE {_IN_SPACE} AND name = :name"
_CHECKED = CHECKED["memory_entries"]
_INSERT = (
    f"INSERT INTO memory_entries ({checked_columns('memory_entries')}, checksum)"
    f" VALUES ({', '.join(f':{name}' for name in _CHECKED)}, :checksum) RETURNING entry"
)
_DELETE = "DELETE FROM memory_entries WHERE entry = ?"
_SIZE = "SELECT {whose}, count(*), coalesce(sum(size), 0) FROM memory_entries WHERE {condition}"
# One statement: how many other entries a space has and how large they are, and the same of all entries of the tenant.
_SIZES = " UNION ALL ".join(
    (
        _SIZE.format(whose="'space'", condition=f"{_IN_SPACE} AND {_LIVE} AND name <> :name"),
        _SIZE.format(whose="'tenant'", condition=f"tenant = :tenant AND {_LIVE}"),
    )
)
_WHOLE_SIZE = "SELECT coalesce(sum(size), 0) FROM memory_entries"
_VALUE: msgspec.json.Decoder[JsonValue] = msgspec.json.Decoder()
_PLACE_CHARACTERS: Final = 32


# --- entries ----------------------------------------------------------------------------------------


async def put_memory(
    database: Database, space: MemorySpace, entry: MemoryEntry, *, room: MemoryRoom, call: CallRecord | None = None
) -> MemoryOutcome:
    """Store an entry, in place of one with its key; `created_at` stays that of the first. `updated_at` is now.

    What it replaces is overwritten a little later.
    """
    index, value = database.word_index, encode_json(entry.value)
    return await database.write(
        lambda transaction: _put_entry(transaction, index, space, entry, value, room), call=call
    )


def _put_entry(
    transaction: Transaction, index: WordIndex, space: MemorySpace, entry: MemoryEntry, value: bytes, room: MemoryRoom
) -> MemoryOutcome:
    _lock_space(transaction, space)
    now, size = entry.updated_at, entry_bytes(entry.key, entry.value)
    names = _values_of(space, name=entry.key, now=now)
    rows = transaction.rows(_NAMED, names)
    live = [row for row in rows if row[3]]
    found = {whose: (count, int(total)) for whose, count, total in transaction.rows(_SIZES, names)}
    (count, others), (_, in_tenant) = found["space"], found["tenant"]
    tenant_size = in_tenant - sum(row[1] for row in live) + size
    full = no_room(room, entries=count + 1, size=others + size, tenant_size=tenant_size)
    if full is not None:
        return full
    replaced = sum(
        _delete_entry(transaction, index, number) for number, *_ in rows
    )  # an ended one may be forgotten by now
    given = _values_of(
        space,
        name=entry.key,
        value=value,
        size=size,
        created_at=live[0][2] if live else entry.created_at,
        updated_at=now,
        updated_by=entry.updated_by,
        expires_at=entry.expires_at,
        untrusted=int(entry.untrusted),
        place=_place(space),
        words=" ".join(map(_make_token, entry_words(entry.key, entry.value))),
    )
    given["checksum"] = row_checksum([given[name] for name in _CHECKED])
    ((number,),) = transaction.rows(_INSERT, given)
    index.add(transaction, number)
    if replaced:
        _leave_remains(transaction)
    return MemoryPut(created=not live)


def _lock_space(transaction: Transaction, space: MemorySpace) -> None:
    """Lock the memory of a tenant, which has room for all of its spaces together."""
    transaction.lock(f"memory/{space.tenant}")


def _values_of(space: MemorySpace, **more: object) -> dict[str, object]:
    members = {"tenant": space.tenant, "scope": space.scope, "owner": space.owner, "session": space.session}
    return {**members, **more}


def _place(space: MemorySpace) -> str:
    """The token of a space in the index."""
    text = encode_bytes([space.tenant, space.scope, space.owner, space.session])
    return f"p{hashlib.sha256(text).hexdigest()[:_PLACE_CHARACTERS]}"


def _make_token(word: str) -> str:
    """The token of a word. Those of its beginnings are beginnings of it."""
    return f"w{word.encode('utf-8', 'surrogatepass').hex()}"


def _entry(row: Row) -> MemoryEntry:
    name, value, created_at, updated_at, updated_by, expires_at, untrusted = row
    return MemoryEntry(
        key=name,
        value=decode_json(_VALUE, value),
        created_at=created_at,
        updated_at=updated_at,
        updated_by=updated_by,
        expires_at=expires_at,
        untrusted=bool(untrusted),
    )


async def read_memory(database: Database, space: MemorySpace, key: str, *, now: int) -> MemoryEntry | None:
    """Return the entry of a key."""
    statement = f"SELECT {_COLUMNS} FROM memory_entries WHERE {_IN_SPACE} AND name = :name AND {_LIVE}"
    found = await database.one(statement, _values_of(space, name=key, now=now))
    return None if found is None else _entry(found)


async def list_memory(
    database: Database, space: MemorySpace, *, now: int, limit: int, cursor: str | None = None, prefix: str = ""
) -> MemoryPage:
    """Return entries, ordered by key; with `prefix`, only entries whose keys begin with it."""
    size, after = platform_page_size(limit), id_position(cursor)
    conditions = f"{_IN_SPACE} AND {_LIVE} AND substr(name, 1, length(:prefix)) = :prefix"
    conditions += "" if after is None else " AND name > :after"
    statement = f"SELECT {_COLUMNS} FROM memory_entries WHERE {conditions} ORDER BY name LIMIT :most"
    names = _values_of(space, now=now, prefix=prefix, after=after, most=size + 1)
    found = await _entries(database, statement, names)
    page, next_cursor = cut_page(found, size, lambda entry: id_cursor(entry.key))
    return MemoryPage(tuple(page), next_cursor)


async def search_memory(
    database: Database, space: MemorySpace, text: str, *, now: int, limit: int
) -> tuple[MemoryEntry, ...]:
    """Return entries with words of a text in their keys or values.

    Those with the most of its words come first, then those that were changed last. The last word of the text may be the
    beginning of a word.
    """
    words = query_words(text)
    if not words:
        return ()
    matches, wanted = database.word_index.match_any(_place(space), [_make_token(word) for word in words])
    statement = f"SELECT {_COLUMNS} FROM memory_entries WHERE {matches} AND {_IN_SPACE} AND {_LIVE}"
    found = await _entries(database, statement, _values_of(space, words=wanted, now=now))
    return ranked(found, words, platform_page_size(limit))


async def _entries(database: Database, statement: str, values: Values) -> list[MemoryEntry]:
    """Read entries where the database reads: decoding many of them takes long."""
    return await database.read(lambda reader: [_entry(row) for row in reader.rows(statement, values)])


# --- deletion ---------------------------------------------------------------------------------------


async def delete_memory(
    database: Database, space: MemorySpace, key: str, *, now: int, call: CallRecord | None = None
) -> bool:
    """Erase the entry of a key; return whether there was one."""

    def change(transaction: Transaction) -> bool:
        _lock_space(transaction, space)
        rows = transaction.rows(_NAMED, _values_of(space, name=key, now=now))
        return _erase(transaction, database, [row[0] for row in rows if row[3]]) > 0

    found = await database.write(change, call=call, happened=bool, is_long=True)
    if found:
        await database.erasure.finish()
    return found


async def clear_memory(database: Database, space: MemorySpace, *, now: int, call: CallRecord | None = None) -> int:
    """Erase all entries of a space, those that have ended as well; return how many had not."""

    def change(transaction: Transaction) -> int:
        _lock_space(transaction, space)
        statement = f"SELECT entry, {_LIVE} FROM memory_entries WHERE {_IN_SPACE}"
        rows = transaction.rows(statement, _values_of(space, now=now))
        live, ended = ([number for number, is_live in rows if bool(is_live) is wanted] for wanted in (True, False))
        return _erase(transaction, database, live, ended)

    count = await database.write(change, call=call, happened=bool, is_long=True)
    if count:
        await database.erasure.finish()
    return count


def _erase(transaction: Transaction, database: Database, numbers: Sequence[int], ended: Sequence[int] = ()) -> int:
    """Delete entries, and overwrite them if that does not take long; return how many, without those that had ended."""
    count = sum(_delete_entry(transaction, database.word_index, number) for number in numbers)
    if count:
        for number in ended:
            _delete_entry(transaction, database.word_index, number)
        ((size,),) = transaction.rows(_WHOLE_SIZE)
        if size <= limits.MEMORY_ERASED_AT_ONCE_BYTES_MAX:
            _overwrite(transaction, database)
        else:
            _leave_remains(transaction)
    return count


def _delete_entry(transaction: Transaction, index: WordIndex, number: int) -> int:
    index.remove(transaction, number)
    return transaction.execute(_DELETE, (number,))


def _leave_remains(transaction: Transaction) -> None:
    """Note that something is left to be overwritten."""
    write_mark(transaction, _ERASURE_MARK, True)


def _overwrite(transaction: Transaction, database: Database) -> int:
    """Overwrite what was deleted. The mark is deleted first: a transaction that sets it again waits for this one."""
    transaction.execute("DELETE FROM marks WHERE name = ?", (_ERASURE_MARK,))
    database.erasure.overwrite(transaction)
    return 1


async def forget_memory(database: Database, *, now: int, limit: int) -> int:
    """Erase entries that have ended, at most `limit`; return how many. Also completes what was left to erase."""
    set_aside, index = database.set_aside, database.word_index

    def change(transaction: Transaction) -> tuple[int, bool]:
        numbers = _find_ended(transaction, set_aside, now, limit)
        count = set_aside.delete_each(
            transaction, _KIND, numbers, lambda number: _delete_entry(transaction, index, int(number))
        )
        if count:
            _leave_remains(transaction)
        overwritten = _can_overwrite(transaction, set_aside) and set_aside.attempt(
            transaction, _KIND, _OVERWRITING, lambda: _overwrite(transaction, database)
        )
        return count, bool(overwritten)

    count, overwritten = 0, False
    if await database.read(lambda reader: _can_overwrite(reader, set_aside) or _find_ended(reader, set_aside, now, 1)):
        count, overwritten = await database.write(change, is_long=True)
    if overwritten or database.erasure.is_unfinished:
        await database.erasure.finish()
    return count


def _find_ended(reader: Reader, set_aside: SetAside, now: int, limit: int) -> list[str]:
    """The numbers of entries that have ended, longest ended first."""
    aside = [int(name) for name in set_aside.names(_KIND) if name != _OVERWRITING]
    statement = (
        f"SELECT entry FROM memory_entries WHERE expires_at <= ? AND {none_of('entry', aside)}"
        " ORDER BY expires_at LIMIT ?"
    )
    return [str(number) for (number,) in reader.rows(statement, (now, *aside, limit))]


def _can_overwrite(reader: Reader, set_aside: SetAside) -> bool:
    """Whether something is left to be overwritten, and no damaged entry keeps it from that."""
    return not set_aside.has(_KIND, _OVERWRITING) and stored_mark(reader, _ERASURE_MARK) is not None
