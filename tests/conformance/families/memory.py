"""Memory."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from penstock.runtime.ports.database import Database
from penstock.runtime.ports.memory import MemoryRoom, MemorySpace
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.tables import memory
from penstock.runtime.tables.listings import id_cursor
from tests.conformance.families.family import Family
from tests.conformance.platform_stores import AT, SEAL, SPACE, entry, note

__all__ = ["MEMORY"]

ROOM = MemoryRoom(entries_max=4, bytes_max=999, tenant_bytes_max=100)
MINE = MemorySpace(tenant="acme", scope="principal", owner="key:a")


def put(database: Database, key: str, value: str, space: MemorySpace = SPACE, **more: Any) -> Awaitable[object]:
    """Store an entry."""
    return memory.put_memory(database, space, note(key, value, **more), room=ROOM)


def told(number: int) -> CallRecord:
    """The record of a call."""
    return CallRecord(entry=entry(number), seal=SEAL)


async def list_pages(database: Database) -> None:
    """List with every condition."""
    for cursor in (None, id_cursor("a")):
        await memory.list_memory(database, SPACE, now=AT, limit=1, cursor=cursor, prefix="c")


MEMORY = Family(
    given=[
        lambda database: put(database, "colour", "green"),
        lambda database: put(database, "sky", "blue"),
        lambda database: put(database, "brief", "gone", expires_at=AT + 1),
        lambda database: put(database, "colour", "mine", MINE),
    ],
    changes={
        "put_memory": lambda database: put(database, "colour", "red"),
        "put_memory: new": lambda database: put(database, "sea", "blue"),
        "put_memory: new, too": lambda database: put(database, "sand", "yellow"),
        "put_memory: in the place of one that has ended": lambda database: put(database, "brief", "again", at=AT + 1),
        "put_memory: large": lambda database: put(database, "large", "x" * 40, MINE),
        "put_memory: large, too": lambda database: put(database, "large", "y" * 41),
        "delete_memory": lambda database: memory.delete_memory(database, SPACE, "sky", now=AT, call=told(84)),
        "clear_memory": lambda database: memory.clear_memory(database, SPACE, now=AT, call=told(85)),
        "forget_memory": lambda database: memory.forget_memory(database, now=AT + 1, limit=5),
    },
    reads={
        "read_memory": lambda database: memory.read_memory(database, SPACE, "colour", now=AT),
        "list_memory": list_pages,
        "search_memory": lambda database: memory.search_memory(database, SPACE, "green bl", now=AT, limit=5),
    },
)
