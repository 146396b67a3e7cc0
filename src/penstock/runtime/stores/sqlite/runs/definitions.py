"""Definitions in the SQLite file: documents by hash, and for each name of a tenant its versions and the newest one.

A document is stored once, even if several tenants store it. Each time a definition becomes the newest of a name, it
gets a numbered version. A deleted name keeps its versions, but is no longer listed among the workflows.

Above it: `store`. Below it: `codec`, `claimed_names`.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, TypeAlias

import msgspec

from penstock.base import limits
from penstock.definitions.canonical import is_newly_signed, signature_of
from penstock.governance.authorship import takes_over
from penstock.runtime.ports.runs import (
    ANY,
    AnyHash,
    DefinitionOutcome,
    DefinitionPage,
    DefinitionPut,
    DefinitionRefused,
    DefinitionRow,
)
from penstock.runtime.stores.sqlite.runs.claimed_names import release_names, take_names
from penstock.runtime.tables.checksums import checked_columns, row_checksum
from penstock.runtime.tables.codec import author_column, author_of_column, decode_json, definition_of
from penstock.runtime.tables.listings import (
    cut_page,
    definitions_page_size,
    name_cursor,
    name_position,
    number_cursor,
    number_position,
)
from penstock.runtime.tables.outcomes import definition_conflict

__all__ = [
    "MISSED",
    "Missed",
    "RecentDefinitions",
    "definition_by_hash",
    "definition_versions",
    "definitions_page",
    "delete_definition",
    "newest_definitions",
    "put_definition",
    "put_definitions",
]

_COLUMNS = "d.hash, v.name, d.version, d.document, v.created_at, v.tenant, v.created_by, v.author"
_VERSIONS = f"SELECT {_COLUMNS}, v.number FROM definition_versions AS v JOIN definitions AS d ON d.hash = v.hash"
# Walks the names in order, and fetches documents only for those on the page.
_NEWEST = (
    f"SELECT {_COLUMNS} FROM workflows AS w CROSS JOIN definition_versions AS v ON v.number = w.number"
    " CROSS JOIN definitions AS d ON d.hash = w.hash"
)

_NEWEST_NUMBERED = _NEWEST.replace(" FROM ", ", w.number FROM ", 1)

_CURRENT = (
    "SELECT w.hash, v.author FROM workflows AS w JOIN definition_versions AS v ON v.number = w.number"
    " WHERE w.tenant = ? AND w.name = ?"
)
_DOCUMENT = msgspec.json.Decoder(dict[str, Any])
_NUMBER_MAX = (1 << 63) - 1
_CHARACTER_MAX = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class Missed(Enum):
    """A cache miss: the document has to be read."""

    MISSED = auto()


MISSED = Missed.MISSED

_Conditions: TypeAlias = list[tuple[str, tuple[object, ...]]]


def put_definition(
    connection: sqlite3.Connection, definition: DefinitionRow, document: bytes, expected_hash: str | AnyHash | None
) -> DefinitionOutcome:
    """Store a definition, whose document is given as JSON, and make it the newest of its name."""
    place = (definition.tenant, definition.name)
    found = connection.execute(_CURRENT, place).fetchone()
    current = None if found is None else str(found[0])
    conflict = definition_conflict(expected_hash, current)
    if conflict is not None:
        return conflict
    signs = _signs_stored(connection, definition)
    if current == definition.hash and not signs and not takes_over(author_of_column(found[1]), definition.author):
        return DefinitionPut()
    taken = take_names(connection, definition)
    if taken is not None:
        return taken
    connection.execute(
        "INSERT INTO definitions (hash, name, version, document, created_at) VALUES (?,?,?,?,?) ON CONFLICT DO NOTHING",
        (
            definition.hash,
            definition.name,
            definition.version,
            document,
            definition.created_at,
        ),
    )
    if signs:
        connection.execute("UPDATE definitions SET document = ? WHERE hash = ?", (document, definition.hash))
    version = (*place, definition.hash, definition.created_at, definition.created_by, author_column(definition.author))
    number = connection.execute(
        f"INSERT INTO definition_versions ({checked_columns('definition_versions')}, checksum) VALUES (?,?,?,?,?,?,?)",
        (*version, row_checksum(version)),
    ).lastrowid
    connection.execute(
        "INSERT INTO workflows (tenant, name, hash, number) VALUES (?,?,?,?)"
        " ON CONFLICT DO UPDATE SET hash = excluded.hash, number = excluded.number",
        (*place, definition.hash, number),
    )
    return DefinitionPut()


def _signs_stored(connection: sqlite3.Connection, definition: DefinitionRow) -> bool:
    """Whether a definition is stored already, and has a signature that the stored one does not have."""
    if signature_of(definition.document) is None:
        return False
    found = connection.execute("SELECT document FROM definitions WHERE hash = ?", (definition.hash,)).fetchone()
    return found is not None and is_newly_signed(decode_json(_DOCUMENT, found[0]), definition.document)


def put_definitions(
    connection: sqlite3.Connection, definitions: Sequence[tuple[DefinitionRow, bytes, str | None]]
) -> DefinitionPut | DefinitionRefused:
    """Store definitions in order; store none of them if one is refused."""
    connection.execute("SAVEPOINT put_definitions")
    for definition, document, expected_hash in definitions:
        outcome = put_definition(connection, definition, document, expected_hash)
        if not isinstance(outcome, DefinitionPut):
            connection.execute("ROLLBACK TO put_definitions")
            connection.execute("RELEASE put_definitions")
            return DefinitionRefused(definition.name, outcome)
    connection.execute("RELEASE put_definitions")
    return DefinitionPut()


def delete_definition(
    connection: sqlite3.Connection, name: str, tenant: str, expected_hash: str | AnyHash = ANY
) -> bool:
    """Hide a name if its newest version is the expected one."""
    given = {"tenant": tenant, "name": name, "hash": None if expected_hash is ANY else expected_hash}
    statement = "DELETE FROM workflows WHERE tenant = :tenant AND name = :name AND (:hash IS NULL OR hash = :hash)"
    if connection.execute(statement, given).rowcount == 0:
        return False
    release_names(connection, name, tenant)
    return True


def definition_by_hash(
    connection: sqlite3.Connection, definition_hash: str, tenant: str | None
) -> DefinitionRow | None:
    """The version that a tenant put last under a hash; without a tenant, the one that anybody put first."""
    parameters: tuple[str, ...] = (definition_hash,)
    statement = f"{_VERSIONS} WHERE v.hash = ? ORDER BY v.number LIMIT 1"
    if tenant is not None:
        parameters = (definition_hash, tenant)
        statement = f"{_VERSIONS} WHERE v.hash = ? AND v.tenant = ? ORDER BY v.number DESC LIMIT 1"
    found = connection.execute(statement, parameters).fetchone()
    return None if found is None else definition_of(found)


class RecentDefinitions:
    """Cache of recently read definitions, by version number. The content of a version never changes."""

    def __init__(self) -> None:
        self._rows: OrderedDict[int, DefinitionRow] = OrderedDict()

    def known(self, connection: sqlite3.Connection, name: str, tenant: str) -> DefinitionRow | Missed | None:
        """The newest definition of a name, with one index lookup; `MISSED` if its document has to be read."""
        statement = "SELECT number FROM workflows WHERE tenant = ? AND name = ?"
        found = connection.execute(statement, (tenant, name)).fetchall()
        if not found:
            return None
        row = self._rows.get(found[0][0])
        return MISSED if row is None else row

    def read(self, connection: sqlite3.Connection, name: str, tenant: str) -> DefinitionRow | None:
        """Read the newest definition of a name and cache it."""
        statement = f"{_NEWEST_NUMBERED} WHERE w.tenant = ? AND w.name = ?"
        found = connection.execute(statement, (tenant, name)).fetchone()
        if found is None:
            return None
        row = self._rows[found[-1]] = definition_of(found)
        if len(self._rows) > limits.DEFINITIONS_KEPT_MAX:
            self._rows.popitem(last=False)
        return row


def newest_definitions(connection: sqlite3.Connection, tenant: str | None) -> tuple[DefinitionRow, ...]:
    """The newest definition of every name."""
    return tuple(map(definition_of, _newest(connection, _of_tenant(tenant), limit=-1)))


def definition_versions(
    connection: sqlite3.Connection, name: str, tenant: str, *, limit: int, cursor: str | None
) -> DefinitionPage:
    """The versions of a name, newest first."""
    size, before = definitions_page_size(limit), number_position(cursor)
    statement = f"{_VERSIONS} WHERE v.tenant = ? AND v.name = ? AND v.number < ? ORDER BY v.number DESC LIMIT ?"
    parameters = (tenant, name, _NUMBER_MAX if before is None else min(before, _NUMBER_MAX), size + 1)
    found = connection.execute(statement, parameters).fetchall()
    page, next_cursor = cut_page(found, size, lambda columns: number_cursor(columns[-1]))
    return DefinitionPage(tuple(map(definition_of, page)), next_cursor)


def definitions_page(
    connection: sqlite3.Connection, tenant: str | None, prefix: str, *, limit: int, cursor: str | None
) -> DefinitionPage:
    """One page of the newest definitions whose names start with a prefix, ordered by name."""
    size, after = definitions_page_size(limit), name_position(cursor)
    conditions = _of_tenant(tenant)
    if prefix:
        conditions.append(("w.name >= ?", (prefix,)))
        end = _after(prefix)
        if end is not None:
            conditions.append(("w.name < ?", (end,)))
    if after is not None and tenant is not None:
        name, of = after
        # The same as below, in a form that the index can answer: within one tenant each name occurs once.
        conditions.append(("w.name > ?" if tenant <= of else "w.name >= ?", (name,)))
    elif after is not None:
        conditions.append(("(w.name, w.tenant) > (?, ?)", after))
    found = _newest(connection, conditions, limit=size + 1)
    page, next_cursor = cut_page(list(map(definition_of, found)), size, lambda row: name_cursor(row.name, row.tenant))
    return DefinitionPage(tuple(page), next_cursor)


def _of_tenant(tenant: str | None) -> _Conditions:
    return [] if tenant is None else [("w.tenant = ?", (tenant,))]


def _newest(connection: sqlite3.Connection, conditions: _Conditions, *, limit: int) -> list[tuple[object, ...]]:
    where = " AND ".join(condition for condition, _ in conditions) or "1"
    parameters = [value for _, values in conditions for value in values]
    return connection.execute(
        f"{_NEWEST} WHERE {where} ORDER BY w.name, w.tenant LIMIT ?", (*parameters, limit)
    ).fetchall()


def _after(prefix: str) -> str | None:
    """The first text that sorts after every text with this prefix; None if no text does."""
    prefix = prefix.rstrip(chr(_CHARACTER_MAX))
    if not prefix:
        return None
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
