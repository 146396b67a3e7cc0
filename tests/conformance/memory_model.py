"""A model of memory in dictionaries, which a database is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.runtime.ports.memory import MemoryEntry, MemoryOutcome, MemoryPage, MemoryPut, MemoryRoom, MemorySpace
from penstock.runtime.tables.memory_rules import entry_bytes, no_room, query_words, ranked

__all__ = ["ModelOfMemory"]


@dataclass(slots=True)
class ModelOfMemory:
    """Entries in dictionaries."""

    _spaces: dict[MemorySpace, dict[str, MemoryEntry]] = field(default_factory=dict)

    def put(self, space: MemorySpace, entry: MemoryEntry, *, room: MemoryRoom) -> MemoryOutcome:
        """Store an entry."""
        now = entry.updated_at
        kept = {known.key: known for known in self._live(space, now)}
        old = kept.pop(entry.key, None)
        size = sum(entry_bytes(known.key, known.value) for known in kept.values())
        tenant_size = size + sum(
            entry_bytes(known.key, known.value)
            for other in self._spaces
            if other.tenant == space.tenant and other != space
            for known in self._live(other, now)
        )
        more = entry_bytes(entry.key, entry.value)
        full = no_room(room, entries=len(kept) + 1, size=size + more, tenant_size=tenant_size + more)
        if full is not None:
            return full
        created_at = entry.created_at if old is None else old.created_at
        self._spaces.setdefault(space, {})[entry.key] = replace(entry, created_at=created_at)
        return MemoryPut(created=old is None)

    def _live(self, space: MemorySpace, now: int) -> list[MemoryEntry]:
        found = self._spaces.get(space, {}).values()
        return [entry for entry in found if entry.expires_at is None or entry.expires_at > now]

    def page(self, space: MemorySpace, *, now: int) -> MemoryPage:
        """All entries, ordered by key."""
        return MemoryPage(tuple(sorted(self._live(space, now), key=lambda entry: entry.key)), None)

    def search(self, space: MemorySpace, text: str, *, now: int, limit: int) -> tuple[MemoryEntry, ...]:
        """Entries with words of a text."""
        return ranked(self._live(space, now), query_words(text), limit)

    def delete(self, space: MemorySpace, key: str, *, now: int) -> bool:
        """Erase the entry of a key."""
        is_there = any(entry.key == key for entry in self._live(space, now))
        if is_there:
            del self._spaces[space][key]
        return is_there

    def clear(self, space: MemorySpace, *, now: int) -> int:
        """Erase all entries of a space."""
        count = len(self._live(space, now))
        if count:
            del self._spaces[space]
        return count

    def forget(self, *, now: int) -> int:
        """Erase entries that have ended."""
        ended = [
            (space, entry.key)
            for space, kept in self._spaces.items()
            for entry in kept.values()
            if entry.expires_at is not None and entry.expires_at <= now
        ]
        for space, key in ended:
            del self._spaces[space][key]
        return len(ended)
