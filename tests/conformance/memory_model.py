"""A model of memory in dictionaries, which a store is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.runtime.ports.memory import (
    MemoryEntry,
    MemoryOutcome,
    MemoryPage,
    MemoryPut,
    MemoryRoom,
    MemorySpace,
)
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.stores.memory.call_records import MemoryCallRecords
from penstock.runtime.tables.listings import cut_page, id_cursor, id_position, platform_page_size
from penstock.runtime.tables.memory_rules import entry_bytes, no_room, query_words, ranked
from penstock.runtime.tables.outcomes import check_text

__all__ = ["ModelOfMemory"]


@dataclass(slots=True)
class ModelOfMemory:
    """Entries in dictionaries."""

    calls: MemoryCallRecords = field(default_factory=MemoryCallRecords)
    _spaces: dict[MemorySpace, dict[str, MemoryEntry]] = field(default_factory=dict)

    async def put(
        self, space: MemorySpace, entry: MemoryEntry, *, room: MemoryRoom, call: CallRecord | None = None
    ) -> MemoryOutcome:
        """Store an entry."""
        check_text(space)
        check_text(entry)
        now = entry.updated_at
        kept = {known.key: known for known in self._live(space, now)}
        old = kept.get(entry.key)
        others = {name: known for name, known in kept.items() if name != entry.key}
        size = sum(entry_bytes(known.key, known.value) for known in others.values())
        tenant_size = size + sum(
            entry_bytes(known.key, known.value)
            for other in self._spaces
            if other.tenant == space.tenant and other != space
            for known in self._live(other, now)
        )
        more = entry_bytes(entry.key, entry.value)
        full = no_room(room, entries=len(others) + 1, size=size + more, tenant_size=tenant_size + more)
        if full is not None:
            return full
        self.calls.check(call)
        created_at = entry.created_at if old is None else old.created_at
        self._spaces.setdefault(space, {})[entry.key] = replace(entry, created_at=created_at)
        outcome = MemoryPut(created=old is None)
        self.calls.keep(call, outcome)
        return outcome

    def _live(self, space: MemorySpace, now: int) -> list[MemoryEntry]:
        found = self._spaces.get(space, {}).values()
        return [entry for entry in found if entry.expires_at is None or entry.expires_at > now]

    async def get(self, space: MemorySpace, key: str, *, now: int) -> MemoryEntry | None:
        """The entry of a key."""
        return next((entry for entry in self._live(space, now) if entry.key == key), None)

    async def list_entries(
        self, space: MemorySpace, *, now: int, limit: int, cursor: str | None = None, prefix: str = ""
    ) -> MemoryPage:
        """A page of entries."""
        size, after = platform_page_size(limit), id_position(cursor)
        found = sorted(
            (
                entry
                for entry in self._live(space, now)
                if entry.key.startswith(prefix) and (after is None or entry.key > after)
            ),
            key=lambda entry: entry.key,
        )
        page, next_cursor = cut_page(found, size, lambda entry: id_cursor(entry.key))
        return MemoryPage(tuple(page), next_cursor)

    async def search(self, space: MemorySpace, text: str, *, now: int, limit: int) -> tuple[MemoryEntry, ...]:
        """Entries with words of a text."""
        words = query_words(text)
        return ranked(self._live(space, now), words, platform_page_size(limit)) if words else ()

    async def delete(self, space: MemorySpace, key: str, *, now: int, call: CallRecord | None = None) -> bool:
        """Erase the entry of a key."""
        if await self.get(space, key, now=now) is None:
            return False
        self.calls.check(call)
        del self._spaces[space][key]
        self.calls.keep(call)
        return True

    async def clear(self, space: MemorySpace, *, now: int, call: CallRecord | None = None) -> int:
        """Erase all entries of a space."""
        count = len(self._live(space, now))
        if count:
            self.calls.check(call)
            del self._spaces[space]
            self.calls.keep(call, count)
        return count

    async def forget(self, *, now: int, limit: int) -> int:
        """Erase entries that have ended."""
        ended = [
            (space, entry.key)
            for space, kept in self._spaces.items()
            for entry in kept.values()
            if entry.expires_at is not None and entry.expires_at <= now
        ][:limit]
        for space, key in ended:
            del self._spaces[space][key]
        return len(ended)
