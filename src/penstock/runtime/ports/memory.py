"""The port of memory: values under keys, in spaces that belong to a tenant, a principal or a session.

Spaces do not see each other. An entry may expire; from then on it does not exist. Deleting an entry erases it: it can
no longer be found, and the store overwrites its bytes.

Above it: `operations.memory`. Below it: adapters in `runtime.stores`; one conformance suite defines what they must do.
It decides nothing: whose space it is, and how long entries are kept, is decided above.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import msgspec

from penstock.base.json import JsonValue
from penstock.runtime.ports.platform import CallRecord

__all__ = [
    "MemoryEntry",
    "MemoryFull",
    "MemoryOutcome",
    "MemoryPage",
    "MemoryPut",
    "MemoryRoom",
    "MemoryScope",
    "MemorySpace",
    "MemoryStore",
]

MemoryScope: TypeAlias = Literal["session", "principal", "tenant"]


class MemorySpace(msgspec.Struct, frozen=True, kw_only=True):
    """Where entries are. `owner` is empty for the space of a whole tenant, `session` for all but those of sessions."""

    tenant: str
    scope: MemoryScope
    owner: str = ""
    session: str = ""


class MemoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A value under a key. Times are epoch milliseconds."""

    key: str
    value: JsonValue
    created_at: int
    updated_at: int
    updated_by: str | None = None
    expires_at: int | None = None
    untrusted: bool = False
    """Whether the value was written by a model or came from outside."""


class MemoryPage(msgspec.Struct, frozen=True):
    """A page of entries, ordered by key."""

    entries: tuple[MemoryEntry, ...]
    next_cursor: str | None


class MemoryRoom(msgspec.Struct, frozen=True, kw_only=True):
    """How much there may be: in one space, and in all spaces of a tenant."""

    entries_max: int
    bytes_max: int
    tenant_bytes_max: int


class MemoryPut(msgspec.Struct, frozen=True):
    """The entry is stored; `created` says whether it is new."""

    created: bool


class MemoryFull(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing was changed: the entry does not fit. `limit` is the bound that it would exceed."""

    what: Literal["entries", "bytes", "tenant_bytes"]
    limit: int


MemoryOutcome: TypeAlias = MemoryPut | MemoryFull


class MemoryStore(Protocol):
    """Keeps memory. When a method returns, its effect is stored; when it raises, nothing was.

    Entries that have ended by `now` are not there for any method; they do not count, and a new one may take their key.
    """

    async def put(
        self, space: MemorySpace, entry: MemoryEntry, *, room: MemoryRoom, call: CallRecord | None = None
    ) -> MemoryOutcome:
        """Store an entry, in place of one with its key; `created_at` stays that of the first. `updated_at` is now."""

    async def get(self, space: MemorySpace, key: str, *, now: int) -> MemoryEntry | None:
        """Return the entry of a key."""

    async def list_entries(
        self, space: MemorySpace, *, now: int, limit: int, cursor: str | None = None, prefix: str = ""
    ) -> MemoryPage:
        """Return entries, ordered by key; with `prefix`, only entries whose keys begin with it."""

    async def search(self, space: MemorySpace, text: str, *, now: int, limit: int) -> tuple[MemoryEntry, ...]:
        """Return entries with words of a text in their keys or values.

        Those with the most of its words come first, then those that were changed last. The last word of the text may
        be the beginning of a word.
        """

    async def delete(self, space: MemorySpace, key: str, *, now: int, call: CallRecord | None = None) -> bool:
        """Erase the entry of a key; return whether there was one."""

    async def clear(self, space: MemorySpace, *, now: int, call: CallRecord | None = None) -> int:
        """Erase all entries of a space; return how many there were."""

    async def forget(self, *, now: int, limit: int) -> int:
        """Erase entries that have ended, at most `limit`; return how many. Also completes what was left to erase."""
