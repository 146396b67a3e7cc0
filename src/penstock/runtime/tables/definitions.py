"""Definitions: documents by hash, and for each name of a tenant its versions and the newest one.

A document is stored once, even if several tenants store it. Each time a definition becomes the newest of a name, it
gets a numbered version. A deleted name keeps its versions, but is no longer listed among the workflows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from penstock.base import limits
from penstock.base.ids import DEFAULT_TENANT
from penstock.definitions.canonical import is_newly_signed, signature_of
from penstock.governance.authorship import takes_over
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import (
    ANY,
    AnyHash,
    DefinitionOutcome,
    DefinitionPage,
    DefinitionPut,
    DefinitionRefused,
    DefinitionRow,
)
from penstock.runtime.ports.transactions import Reader, Row, Transaction
from penstock.runtime.tables.checksums import checked_columns, row_checksum
from penstock.runtime.tables.claimed_names import release_names, take_names
from penstock.runtime.tables.codec import author_column, author_of_column, decode_json, definition_of, encode_json
from penstock.runtime.tables.listings import (
    cut_page,
    definitions_page_size,
    name_cursor,
    name_position,
    number_cursor,
    number_position,
)
from penstock.runtime.tables.outcomes import definition_conflict

__all__ = ["Definitions"]

_COLUMNS = "d.hash, v.name, d.version, d.document, v.created_at, v.tenant, v.created_by, v.author"
_VERSIONS = f"SELECT {_COLUMNS}, v.number FROM definition_versions AS v JOIN definitions AS d ON d.hash = v.hash"
# Walks the names in order, and fetches documents only for those on the page.
_NEWEST = (
    f"SELECT {_COLUMNS}, w.number FROM workflows AS w CROSS JOIN definition_versions AS v CROSS JOIN definitions AS d"
    " WHERE v.number = w.number AND d.hash = w.hash"
)
_CURRENT = (
    "SELECT w.hash, v.author FROM workflows AS w JOIN definition_versions AS v ON v.number = w.number"
    " WHERE w.tenant = ? AND w.name = ?"
)
_PUT_DOCUMENT = (
    "INSERT INTO definitions (hash, name, version, document, created_at) VALUES (?,?,?,?,?)"
    " ON CONFLICT (hash) DO NOTHING"
)
_PUT_VERSION = (
    f"INSERT INTO definition_versions ({checked_columns('definition_versions')}, checksum) VALUES (?,?,?,?,?,?,?)"
    " RETURNING number"
)
_PUT_NAME = (
    "INSERT INTO workflows (tenant, name, hash, number) VALUES (?,?,?,?)"
    " ON CONFLICT (tenant, name) DO UPDATE SET hash = excluded.hash, number = excluded.number"
)
_DOCUMENT = msgspec.json.Decoder(dict[str, Any])
_NUMBER_MAX = (1 << 63) - 1
_CHARACTER_MAX = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)

_Conditions: TypeAlias = list[tuple[str, tuple[object, ...]]]


class Definitions:
    """Definitions, as tenants stored them. Recently read ones are cached: the content of a version never changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recent: OrderedDict[int, DefinitionRow] = OrderedDict()

    def clear_cache(self) -> None:
        """Forget what was read: the database may be a different one than before."""
        self._recent.clear()

    async def find(self, definition_hash: str, *, tenant: str | None = None) -> DefinitionRow | None:
        """Return a definition by hash, as the tenant last stored it; without a tenant, as any tenant did."""
        if tenant is None:
            statement, values = f"{_VERSIONS} WHERE v.hash = ? ORDER BY v.number LIMIT 1", (definition_hash,)
            found = await self._database.rows(statement, values)
        else:
            statement = f"{_VERSIONS} WHERE v.hash = ? AND v.tenant = ? ORDER BY v.number DESC LIMIT 1"
            found = await self._database.rows(statement, (definition_hash, tenant))
        return definition_of(found[0]) if found else None

    async def find_named(self, name: str, *, tenant: str = DEFAULT_TENANT) -> DefinitionRow | None:
        """Return the newest definition of a name, unless it is deleted."""
        current = await self._database.one("SELECT number FROM workflows WHERE tenant = ? AND name = ?", (tenant, name))
        if current is None:
            return None
        known = self._recent.get(current[0])
        if known is not None:
            return known
        found = await self._database.rows(f"{_NEWEST} AND w.tenant = ? AND w.name = ?", (tenant, name))
        if not found:
            return None
        row = self._recent[found[0][-1]] = definition_of(found[0])
        if len(self._recent) > limits.DEFINITIONS_KEPT_MAX:
            self._recent.popitem(last=False)
        return row

    async def list_newest(self, *, tenant: str | None = DEFAULT_TENANT) -> tuple[DefinitionRow, ...]:
        """Return the newest definition of every name that is not deleted; None for those of every tenant."""
        statement, values = _select_newest(_of_tenant(tenant))
        return tuple(map(definition_of, await self._database.rows(statement, values)))

    async def list_page(
        self, *, tenant: str | None = DEFAULT_TENANT, prefix: str | None = None, limit: int, cursor: str | None = None
    ) -> DefinitionPage:
        """Like `list_newest`, ordered by name and in pages; with `prefix`, only the names that begin with it."""
        size, after = definitions_page_size(limit), name_position(cursor)
        conditions = _of_tenant(tenant)
        if prefix:
            conditions.append(("w.name >= ?", (prefix,)))
            end = _end_of_prefix(prefix)
            if end is not None:
                conditions.append(("w.name < ?", (end,)))
        if after is not None and tenant is not None:
            name, of = after
            # The same as below, in a form that the index can answer: within one tenant each name occurs once.
            conditions.append(("w.name > ?" if tenant <= of else "w.name >= ?", (name,)))
        elif after is not None:
            conditions.append(("(w.name, w.tenant) > (?, ?)", after))
        statement, values = _select_newest(conditions)
        found = await self._database.rows(f"{statement} LIMIT ?", (*values, size + 1))
        rows = list(map(definition_of, found))
        page, next_cursor = cut_page(rows, size, lambda row: name_cursor(row.name, row.tenant))
        return DefinitionPage(tuple(page), next_cursor)

    async def list_versions(
        self, name: str, *, tenant: str = DEFAULT_TENANT, limit: int, cursor: str | None = None
    ) -> DefinitionPage:
        """Return what was stored under a name, newest first, even while the name is deleted.

        Each time that a definition became the newest is one version.
        """
        size, before = definitions_page_size(limit), number_position(cursor)
        statement = f"{_VERSIONS} WHERE v.tenant = ? AND v.name = ? AND v.number < ? ORDER BY v.number DESC LIMIT ?"
        values = (tenant, name, _NUMBER_MAX if before is None else min(before, _NUMBER_MAX), size + 1)
        found = await self._database.rows(statement, values)
        page, next_cursor = cut_page(found, size, lambda columns: number_cursor(columns[-1]))
        return DefinitionPage(tuple(map(definition_of, page)), next_cursor)

    async def put(
        self,
        definition: DefinitionRow,
        *,
        expected_hash: str | AnyHash | None = ANY,
        call: CallRecord | None = None,
    ) -> DefinitionOutcome:
        """Store a definition; new runs use the newest one of a tenant's name.

        Storing one again that is not the newest makes it the newest: that is how to roll back, and how to restore a
        deleted name. With `expected_hash`, only if that is the newest now; None: only if the name has no definition.
        The names of its tool, prompt, resource and webhooks belong to it from then on, until a newer version drops them
        or the workflow is deleted; a name that another workflow has is refused. A new signature makes a new version,
        too.
        """
        document = encode_json(definition.document)

        def change(transaction: Transaction) -> DefinitionOutcome:
            _lock_definitions(transaction, [definition])
            return _put_version(transaction, definition, document, expected_hash)

        return await self._database.write(change, call=call)

    async def put_all(
        self, definitions: Sequence[tuple[DefinitionRow, str | None]], *, call: CallRecord | None = None
    ) -> DefinitionPut | DefinitionRefused:
        """Store definitions one after the other, each with its expected hash: all of them, or none."""
        given = [(row, encode_json(row.document), expected_hash) for row, expected_hash in definitions]

        def change(transaction: Transaction) -> DefinitionPut | DefinitionRefused:
            _lock_definitions(transaction, [row for row, _, _ in given])
            try:
                with transaction.undo_on_error():
                    for row, document, expected_hash in given:
                        outcome = _put_version(transaction, row, document, expected_hash)
                        if not isinstance(outcome, DefinitionPut):
                            raise _RefusedError(DefinitionRefused(row.name, outcome))
            except _RefusedError as error:
                return error.refused
            return DefinitionPut()

        return await self._database.write(change, call=call, is_long=len(given) > 1)

    async def delete(
        self,
        name: str,
        *,
        tenant: str = DEFAULT_TENANT,
        expected_hash: str | AnyHash = ANY,
        call: CallRecord | None = None,
    ) -> bool:
        """Hide a name, so that no run starts by it; return whether it existed. It can still be read by its hash.

        With `expected_hash`, only if that is the newest of the name.
        """
        statement = "DELETE FROM workflows WHERE tenant = ? AND name = ?"
        values: tuple[str, ...] = (tenant, name)
        if not isinstance(expected_hash, AnyHash):
            statement, values = f"{statement} AND hash = ?", (*values, expected_hash)

        def change(transaction: Transaction) -> bool:
            transaction.lock(f"definitions/{tenant}")
            if transaction.execute(statement, values) == 0:
                return False
            release_names(transaction, name, tenant)
            return True

        return await self._database.write(change, call=call)


class _RefusedError(Exception):
    def __init__(self, refused: DefinitionRefused) -> None:
        super().__init__(refused.name)
        self.refused = refused


def _lock_definitions(transaction: Transaction, definitions: Sequence[DefinitionRow]) -> None:
    """Lock documents, which tenants share, then all names of the tenants."""
    for definition_hash in sorted({row.hash for row in definitions}):
        transaction.lock(f"definition/{definition_hash}")
    for tenant in sorted({row.tenant for row in definitions}):
        transaction.lock(f"definitions/{tenant}")


def _put_version(
    transaction: Transaction, definition: DefinitionRow, document: bytes, expected_hash: str | AnyHash | None
) -> DefinitionOutcome:
    """Store a definition, whose document is given as JSON, and make it the newest of its name."""
    place = (definition.tenant, definition.name)
    found = transaction.one(_CURRENT, place)
    current = None if found is None else str(found[0])
    conflict = definition_conflict(expected_hash, current)
    if conflict is not None:
        return conflict
    signs = _signs_stored(transaction, definition)
    author = None if found is None else author_of_column(found[1])
    if current == definition.hash and not signs and not takes_over(author, definition.author):
        return DefinitionPut()
    taken = take_names(transaction, definition)
    if taken is not None:
        return taken
    created_at = definition.created_at
    transaction.execute(_PUT_DOCUMENT, (definition.hash, definition.name, definition.version, document, created_at))
    if signs:
        transaction.execute("UPDATE definitions SET document = ? WHERE hash = ?", (document, definition.hash))
    version = (*place, definition.hash, created_at, definition.created_by, author_column(definition.author))
    made = transaction.one(_PUT_VERSION, (*version, row_checksum(version)))
    if made is None:
        raise TypeError("a version got no number")
    transaction.execute(_PUT_NAME, (*place, definition.hash, made[0]))
    return DefinitionPut()


def _signs_stored(reader: Reader, definition: DefinitionRow) -> bool:
    """Whether a definition is stored already, and has a signature that the stored one does not have."""
    if signature_of(definition.document) is None:
        return False
    found = reader.one("SELECT document FROM definitions WHERE hash = ?", (definition.hash,))
    return found is not None and is_newly_signed(decode_json(_DOCUMENT, found[0]), definition.document)


def _of_tenant(tenant: str | None) -> _Conditions:
    return [] if tenant is None else [("w.tenant = ?", (tenant,))]


def _select_newest(conditions: _Conditions) -> tuple[str, Row]:
    where = "".join(f" AND {condition}" for condition, _ in conditions)
    values = tuple(value for _, given in conditions for value in given)
    return f"{_NEWEST}{where} ORDER BY w.name, w.tenant", values


def _end_of_prefix(prefix: str) -> str | None:
    """The first text that sorts after every text with this prefix; None if no text does."""
    prefix = prefix.rstrip(chr(_CHARACTER_MAX))
    if not prefix:
        return None
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
