"""A model of definitions in dictionaries, which a store is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.base.ids import DEFAULT_TENANT
from penstock.runtime.ports.runs import (
    ANY,
    AnyHash,
    DefinitionChanged,
    DefinitionOutcome,
    DefinitionPage,
    DefinitionPut,
    DefinitionRow,
)
from penstock.runtime.tables.listings import (
    cut_page,
    definitions_page_size,
    name_cursor,
    name_position,
    number_cursor,
    number_position,
)

__all__ = ["ModelOfDefinitions"]


@dataclass(slots=True)
class ModelOfDefinitions:
    """Versions in the order in which they were put, without signatures, authors and claimed names."""

    _versions: list[DefinitionRow] = field(default_factory=list)
    _newest: dict[tuple[str, str], int] = field(default_factory=dict)  # by name and tenant

    async def put(self, definition: DefinitionRow, *, expected_hash: str | AnyHash | None = ANY) -> DefinitionOutcome:
        """Make a definition the newest of its name."""
        current = await self.find_named(definition.name, tenant=definition.tenant)
        current_hash = None if current is None else current.hash
        if not isinstance(expected_hash, AnyHash) and expected_hash != current_hash:
            return DefinitionChanged(current_hash)
        if current_hash == definition.hash:
            return DefinitionPut()
        first = await self.find(definition.hash)
        if first is not None:
            definition = replace(definition, version=first.version, document=first.document)
        self._newest[definition.name, definition.tenant] = len(self._versions)
        self._versions.append(definition)
        return DefinitionPut()

    async def find(self, definition_hash: str, *, tenant: str | None = None) -> DefinitionRow | None:
        """The version that a tenant put last under a hash; without a tenant, the one that anybody put first."""
        found = [row for row in self._versions if row.hash == definition_hash and tenant in (None, row.tenant)]
        if not found:
            return None
        return found[0] if tenant is None else found[-1]

    async def find_named(self, name: str, *, tenant: str = DEFAULT_TENANT) -> DefinitionRow | None:
        """The newest version of a name."""
        number = self._newest.get((name, tenant))
        return None if number is None else self._versions[number]

    async def list_versions(
        self, name: str, *, tenant: str = DEFAULT_TENANT, limit: int, cursor: str | None = None
    ) -> DefinitionPage:
        """The versions of a name, newest first."""
        size, before = definitions_page_size(limit), number_position(cursor)
        found = [
            (number, row)
            for number, row in reversed(list(enumerate(self._versions)))
            if (row.name, row.tenant) == (name, tenant) and (before is None or number < before)
        ]
        page, next_cursor = cut_page(found, size, lambda numbered: number_cursor(numbered[0]))
        return DefinitionPage(tuple(row for _, row in page), next_cursor)

    async def list_newest(self, *, tenant: str | None = DEFAULT_TENANT) -> tuple[DefinitionRow, ...]:
        """The newest version of every name, ordered by name."""
        return tuple(self._versions[number] for (_, of), number in sorted(self._newest.items()) if tenant in (None, of))

    async def list_page(
        self, *, tenant: str | None = DEFAULT_TENANT, prefix: str | None = None, limit: int, cursor: str | None = None
    ) -> DefinitionPage:
        """One page of the newest versions whose names start with a prefix, ordered by name."""
        size, after = definitions_page_size(limit), name_position(cursor)
        found = [
            row
            for row in await self.list_newest(tenant=tenant)
            if row.name.startswith(prefix or "") and (after is None or (row.name, row.tenant) > after)
        ]
        page, next_cursor = cut_page(found, size, lambda row: name_cursor(row.name, row.tenant))
        return DefinitionPage(tuple(page), next_cursor)

    async def delete(self, name: str, *, tenant: str = DEFAULT_TENANT, expected_hash: str | AnyHash = ANY) -> bool:
        """Hide a name if its newest version is the expected one."""
        current = await self.find_named(name, tenant=tenant)
        if current is None or not (isinstance(expected_hash, AnyHash) or expected_hash == current.hash):
            return False
        del self._newest[name, tenant]
        return True
