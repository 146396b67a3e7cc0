"""Memory: values under keys, in spaces that belong to a tenant, a principal or a session.

Spaces do not see each other. An entry may expire; from then on it does not exist. Deleting an entry erases it: it can
no longer be found, and its bytes are overwritten.

Every driver has its own way to find words and to overwrite bytes: `WordIndex` and `Erasure`.

Above it: `operations.memory`, `runtime.tables.memory`. Below it: drivers in `runtime.stores`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from penstock.base.json import JsonValue
from penstock.runtime.ports.transactions import Transaction

__all__ = [
    "Erasure",
    "MemoryEntry",
    "MemoryFull",
    "MemoryOutcome",
    "MemoryPage",
    "MemoryPut",
    "MemoryRoom",
    "MemoryScope",
    "MemorySpace",
    "WordIndex",
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


class WordIndex(Protocol):
    """Finds rows of `memory_entries` by the tokens in their columns `place` and `words`.

    A token has only letters and digits of ASCII. A space is between two of them.
    """

    def add(self, transaction: Transaction, entry: int) -> None:
        """Add an entry after it was inserted."""

    def remove(self, transaction: Transaction, entry: int) -> None:
        """Remove an entry before it is deleted."""

    def match_any(self, place: str, words: Sequence[str]) -> tuple[str, str]:
        """Return the SQL condition for entries in a place with any of some words, and the value of `:words` in it.

        The last word may be the beginning of one. The condition may select a few entries too many, never too few.
        """


class Erasure(Protocol):
    """Overwrites the bytes of deleted entries, so that nobody can read them in the files of the database."""

    def overwrite(self, transaction: Transaction) -> None:
        """Overwrite all that was deleted from memory. This takes a time proportional to all that is remembered."""

    async def finish(self) -> None:
        """Remove the overwritten bytes from the log too, after the commit.

        Raises nothing: if this fails, or a reader needs the bytes, they are left for the next call.
        """

    @property
    def is_unfinished(self) -> bool:
        """Whether bytes may be left in the log, so that `finish` has to be called again."""
