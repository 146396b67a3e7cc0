"""Definitions in memory: every version with its author, the newest version of each name, and the hidden names.

Above it: `run_store`. Nothing survives the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.definitions.canonical import is_newly_signed
from penstock.definitions.claims import claimed_names
from penstock.governance.authorship import takes_over
from penstock.runtime.ports.runs import (
    ANY,
    AnyHash,
    DefinitionNameTaken,
    DefinitionOutcome,
    DefinitionPage,
    DefinitionPut,
    DefinitionRefused,
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
from penstock.runtime.tables.outcomes import definition_conflict

__all__ = ["MemoryDefinitions"]


@dataclass(slots=True)
class MemoryDefinitions:
    """Versions in the order in which they were put. A name maps to the index of its newest version."""

    _versions: list[DefinitionRow] = field(default_factory=list)
    _newest: dict[tuple[str, str], int] = field(default_factory=dict)  # by name and tenant

    def put(self, definition: DefinitionRow, expected_hash: str | AnyHash | None) -> DefinitionOutcome:
        """Make a definition the newest of its name."""
        current = self.named(definition.name, definition.tenant)
        current_hash = None if current is None else current.hash
        conflict = definition_conflict(expected_hash, current_hash)
        if conflict is not None:
            return conflict
        first = self.by_hash(definition.hash, None)
        signs = first is not None and is_newly_signed(first.document, definition.document)
        again = current is not None and current.hash == definition.hash
        if current is not None and again and not signs and not takes_over(current.author, definition.author):
            return DefinitionPut()
        taken = self._taken(definition)
        if taken is not None:
            return taken
        if signs:
            self._versions = [
                replace(row, document=definition.document) if row.hash == definition.hash else row
                for row in self._versions
            ]
        if first is not None:
            document = definition.document if signs else first.document
            definition = replace(definition, version=first.version, document=document)
        self._newest[definition.name, definition.tenant] = len(self._versions)
        self._versions.append(definition)
        return DefinitionPut()

    def put_all(self, definitions: Sequence[tuple[DefinitionRow, str | None]]) -> DefinitionPut | DefinitionRefused:
        """Put definitions in order; put none of them if one is refused."""
        versions, newest = list(self._versions), dict(self._newest)
        for definition, expected_hash in definitions:
            outcome = self.put(definition, expected_hash)
            if not isinstance(outcome, DefinitionPut):
                self._versions, self._newest = versions, newest
                return DefinitionRefused(definition.name, outcome)
        return DefinitionPut()

    def _taken(self, definition: DefinitionRow) -> DefinitionNameTaken | None:
        """The refusal if another workflow already has one of the names that a definition asks for."""
        asked = claimed_names(definition.name, definition.document)
        for row in self.newest(definition.tenant) if asked else ():
            had = {*claimed_names(row.name, row.document)} if row.name != definition.name else set()
            for kind, name in asked:
                if (kind, name) in had:
                    return DefinitionNameTaken(kind=kind, name=name, owner=row.name)
        return None

    def by_hash(self, definition_hash: str, tenant: str | None) -> DefinitionRow | None:
        """The version that a tenant put last under a hash; without a tenant, the one that anybody put first."""
        found = [row for row in self._versions if row.hash == definition_hash and tenant in (None, row.tenant)]
        if not found:
            return None
        return found[0] if tenant is None else found[-1]

    def named(self, name: str, tenant: str) -> DefinitionRow | None:
        """The newest version of a name."""
        number = self._newest.get((name, tenant))
        return None if number is None else self._versions[number]

    def versions(self, name: str, tenant: str, *, limit: int, cursor: str | None) -> DefinitionPage:
        """The versions of a name, newest first."""
        size, before = definitions_page_size(limit), number_position(cursor)
        found = [
            (number, row)
            for number, row in reversed(list(enumerate(self._versions)))
            if (row.name, row.tenant) == (name, tenant) and (before is None or number < before)
        ]
        page, next_cursor = cut_page(found, size, lambda numbered: number_cursor(numbered[0]))
        return DefinitionPage(tuple(row for _, row in page), next_cursor)

    def newest(self, tenant: str | None) -> Iterator[DefinitionRow]:
        """The newest version of every name, ordered by name."""
        return (self._versions[number] for (_, of), number in sorted(self._newest.items()) if tenant in (None, of))

    def page(self, tenant: str | None, prefix: str, *, limit: int, cursor: str | None) -> DefinitionPage:
        """One page of the newest versions whose names start with a prefix, ordered by name."""
        size, after = definitions_page_size(limit), name_position(cursor)
        found = [
            row
            for row in self.newest(tenant)
            if row.name.startswith(prefix) and (after is None or (row.name, row.tenant) > after)
        ]
        page, next_cursor = cut_page(found, size, lambda row: name_cursor(row.name, row.tenant))
        return DefinitionPage(tuple(page), next_cursor)

    def delete(self, name: str, tenant: str, expected_hash: str | AnyHash) -> bool:
        """Hide a name if its newest version is the expected one."""
        current = self.named(name, tenant)
        if current is None or expected_hash not in (ANY, current.hash):
            return False
        del self._newest[name, tenant]
        return True
