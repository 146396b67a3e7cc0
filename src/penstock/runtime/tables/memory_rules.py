"""Rules of memory: what is a word of an entry, how found entries are ordered, what is its size.

Above it: `memory`. Below it: the port.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.runtime.ports.memory import MemoryEntry, MemoryFull, MemoryRoom

__all__ = ["entry_bytes", "entry_words", "no_room", "query_words", "ranked", "words_of"]

_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """The words of a text, in one Unicode form and without letter case; each once, in their order."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return list(dict.fromkeys(word[: limits.MEMORY_WORD_CHARACTERS_MAX] for word in _WORD.findall(plain)))


def query_words(text: str) -> list[str]:
    """The words that are searched for."""
    return words_of(text)[: limits.MEMORY_SEARCHED_WORDS_MAX]


def entry_words(key: str, value: JsonValue) -> list[str]:
    """The words by which an entry is found: of its key, and of all texts, names and numbers in its value."""
    return words_of(" ".join((key, *_texts(value))))


def _texts(value: JsonValue) -> Iterator[str]:
    match value:
        case dict():
            for name, member in value.items():
                yield name
                yield from _texts(member)
        case list():
            for item in value:
                yield from _texts(item)
        case str():
            yield value
        case bool() | None:
            return
        case _:
            yield str(value)


def ranked(found: Iterable[MemoryEntry], words: list[str], limit: int) -> tuple[MemoryEntry, ...]:
    """The entries that have any of the words, the best first."""
    scored = []
    for entry in found:
        held = set(entry_words(entry.key, entry.value))
        count = sum(word in held for word in words[:-1])
        count += any(word.startswith(words[-1]) for word in held)
        if count:
            scored.append((-count, -entry.updated_at, entry.key, entry))
    return tuple(entry for *_, entry in sorted(scored, key=lambda item: item[:3])[:limit])


def entry_bytes(key: str, value: JsonValue) -> int:
    """The size of an entry, for the limits of a space."""
    return len(key.encode()) + len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def no_room(room: MemoryRoom, *, entries: int, size: int, tenant_size: int) -> MemoryFull | None:
    """Why a space would be too full with so many entries and bytes; None if it would not."""
    if entries > room.entries_max:
        return MemoryFull(what="entries", limit=room.entries_max)
    if size > room.bytes_max:
        return MemoryFull(what="bytes", limit=room.bytes_max)
    if tenant_size > room.tenant_bytes_max:
        return MemoryFull(what="tenant_bytes", limit=room.tenant_bytes_max)
    return None
