"""The table of entries, and the index of their words.

The words of an entry, and the space that it is in, are tokens of a full-text index (FTS5) whose content is the table
itself. Tokens are hexadecimal, because SQLite's own splitting of texts into words differs from ours and between
versions. The index finds candidates, in one space; `rules.memory` decides which of them match, and their order.

All functions take a connection. Those that write run inside a transaction of the file's only writer.

Above it: `store`. Below it: `rules.memory`, `codec`.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonValue
from penstock.runtime.ports.memory import (
    MemoryEntry,
    MemoryOutcome,
    MemoryPage,
    MemoryPut,
    MemoryRoom,
    MemorySpace,
)
from penstock.runtime.ports.set_aside import SetAside
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction
from penstock.runtime.tables.checksums import CHECKED, row_checksum
from penstock.runtime.tables.codec import decode_json
from penstock.runtime.tables.listings import cut_page, id_cursor, id_position, platform_page_size
from penstock.runtime.tables.memory_rules import entry_bytes, entry_words, no_room, query_words, ranked

__all__ = [
    "clear_space",
    "delete_entry",
    "forget_ended",
    "list_entries",
    "put_entry",
    "read_entry",
    "search_entries",
    "total_bytes",
]

_KIND = "memory"

_COLUMNS = "name, value, created_at, updated_at, updated_by, expires_at, untrusted"
_IN_SPACE = "tenant = :tenant AND scope = :scope AND owner = :owner AND session = :session"
_LIVE = "(expires_at IS NULL OR expires_at > :now)"
_UNINDEX = (
    "INSERT INTO memory_text (memory_text, rowid, place, words) SELECT 'delete', entry, place, words"
    " FROM memory_entries WHERE entry = ?"
)
_INDEX = "INSERT INTO memory_text (rowid, place, words) SELECT entry, place, words FROM memory_entries WHERE entry = ?"
_INSERT = (
    "INSERT INTO memory_entries (tenant, scope, owner, session, name, value, size, created_at, updated_at, updated_by,"
    " expires_at, untrusted, place, words, checksum) VALUES (:tenant, :scope, :owner, :session, :name, :value, :size,"
    " :created_at, :updated_at, :updated_by, :expires_at, :untrusted, :place, :words, :checksum)"
)
_SIZES = f"SELECT count(*), coalesce(sum(size), 0) FROM memory_entries WHERE {_IN_SPACE} AND {_LIVE} AND name <> :name"
_TENANT_SIZE = f"SELECT coalesce(sum(size), 0) FROM memory_entries WHERE tenant = :tenant AND {_LIVE}"
_VALUE: msgspec.json.Decoder[JsonValue] = msgspec.json.Decoder()
_PLACE_CHARACTERS: Final = 32


def _named(space: MemorySpace, **more: object) -> dict[str, object]:
    members = {"tenant": space.tenant, "scope": space.scope, "owner": space.owner, "session": space.session}
    return {**members, **more}


def _place(space: MemorySpace) -> str:
    """The token of a space in the index."""
    text = encode_bytes([space.tenant, space.scope, space.owner, space.session])
    return f"p{hashlib.sha256(text).hexdigest()[:_PLACE_CHARACTERS]}"


def _token(word: str) -> str:
    return f"w{word.encode('utf-8', 'surrogatepass').hex()}"


def _tokens(words: Iterable[str]) -> str:
    return " ".join(map(_token, words))


def _entry(row: tuple[Any, ...]) -> MemoryEntry:
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


def put_entry(
    connection: sqlite3.Connection, space: MemorySpace, entry: MemoryEntry, value: bytes, room: MemoryRoom
) -> tuple[MemoryOutcome, bool]:
    """Store an entry; also return whether another value was replaced, which is left to be erased."""
    now, size = entry.updated_at, entry_bytes(entry.key, entry.value)
    names = _named(space, name=entry.key, now=now)
    rows = connection.execute(
        f"SELECT entry, size, created_at, {_LIVE} FROM memory_entries WHERE {_IN_SPACE} AND name = :name", names
    ).fetchall()
    live = [row for row in rows if row[3]]
    count, others = connection.execute(_SIZES, names).fetchone()
    (in_tenant,) = connection.execute(_TENANT_SIZE, names).fetchone()
    tenant_size = in_tenant - sum(row[1] for row in live) + size
    full = no_room(room, entries=count + 1, size=others + size, tenant_size=tenant_size)
    if full is not None:
        return full, False
    for row in rows:
        _remove(connection, row[0])
    given = _named(
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
        words=_tokens(entry_words(entry.key, entry.value)),
    )
    given["checksum"] = row_checksum([given[name] for name in CHECKED["memory_entries"]])
    number = connection.execute(_INSERT, given).lastrowid
    connection.execute(_INDEX, (number,))
    return MemoryPut(created=not live), bool(rows)


def _remove(connection: sqlite3.Connection, number: int) -> None:
    connection.execute(_UNINDEX, (number,))
    connection.execute("DELETE FROM memory_entries WHERE entry = ?", (number,))


def _remove_all(connection: sqlite3.Connection, statement: str, names: dict[str, object]) -> int:
    found = connection.execute(statement, names).fetchall()
    for (number,) in found:
        _remove(connection, number)
    return len(found)


def delete_entry(connection: sqlite3.Connection, space: MemorySpace, key: str, now: int) -> bool:
    """Delete the entry of a key."""
    statement = f"SELECT entry FROM memory_entries WHERE {_IN_SPACE} AND name = :name AND {_LIVE}"
    return _remove_all(connection, statement, _named(space, name=key, now=now)) > 0


def clear_space(connection: sqlite3.Connection, space: MemorySpace, now: int) -> int:
    """Delete all entries of a space, those that have ended as well; return how many had not."""
    names = _named(space, now=now)
    (count,) = connection.execute(
        f"SELECT count(*) FROM memory_entries WHERE {_IN_SPACE} AND {_LIVE}", names
    ).fetchone()
    if count:
        _remove_all(connection, f"SELECT entry FROM memory_entries WHERE {_IN_SPACE}", names)
    return int(count)


def forget_ended(connection: sqlite3.Connection, set_aside: SetAside, now: int, limit: int) -> int:
    """Delete entries that have ended."""
    found = connection.execute(
        "SELECT entry FROM memory_entries WHERE expires_at <= ?"
        " AND CAST(entry AS TEXT) NOT IN (SELECT value FROM json_each(?)) ORDER BY expires_at LIMIT ?",
        (now, json.dumps(set_aside.names(_KIND)), limit),
    ).fetchall()

    def delete(number: str) -> int:
        _remove(connection, int(number))
        return 1

    return set_aside.delete_each(SqliteTransaction(connection), _KIND, [str(number) for (number,) in found], delete)


def total_bytes(connection: sqlite3.Connection) -> int:
    """The size of all entries of all tenants."""
    (size,) = connection.execute("SELECT coalesce(sum(size), 0) FROM memory_entries").fetchone()
    return int(size)


def read_entry(connection: sqlite3.Connection, space: MemorySpace, key: str, now: int) -> MemoryEntry | None:
    """The entry of a key."""
    statement = f"SELECT {_COLUMNS} FROM memory_entries WHERE {_IN_SPACE} AND name = :name AND {_LIVE}"
    found = connection.execute(statement, _named(space, name=key, now=now)).fetchall()
    return _entry(found[0]) if found else None


def list_entries(
    connection: sqlite3.Connection, space: MemorySpace, *, now: int, limit: int, cursor: str | None, prefix: str
) -> MemoryPage:
    """A page of entries, ordered by key."""
    size, after = platform_page_size(limit), id_position(cursor)
    conditions = f"{_IN_SPACE} AND {_LIVE} AND substr(name, 1, :letters) = :prefix"
    conditions += "" if after is None else " AND name > :after"
    statement = f"SELECT {_COLUMNS} FROM memory_entries WHERE {conditions} ORDER BY name LIMIT :most"
    names = _named(space, now=now, letters=len(prefix), prefix=prefix, after=after, most=size + 1)
    found = [_entry(row) for row in connection.execute(statement, names).fetchall()]
    page, next_cursor = cut_page(found, size, lambda entry: id_cursor(entry.key))
    return MemoryPage(tuple(page), next_cursor)


def search_entries(
    connection: sqlite3.Connection, space: MemorySpace, text: str, *, now: int, limit: int
) -> tuple[MemoryEntry, ...]:
    """Entries with words of a text, the best first."""
    words = query_words(text)
    if not words:
        return ()
    wanted = [f'"{_token(word)}"' for word in words[:-1]]
    # The bytes of a word begin with those of its beginning.
    wanted.append(f'"{_token(words[-1])}" *')
    query = f'place : "{_place(space)}" AND words : ({" OR ".join(wanted)})'
    statement = (
        f"SELECT {_COLUMNS} FROM memory_entries WHERE entry IN"
        f" (SELECT rowid FROM memory_text WHERE memory_text MATCH :query) AND {_IN_SPACE} AND {_LIVE}"
    )
    found = connection.execute(statement, _named(space, query=query, now=now)).fetchall()
    return ranked(map(_entry, found), words, platform_page_size(limit))
