"""Which locks the functions of the tables take: before they read what they decide by, and in one order.

SQLite has one writer and takes none of them. So these are recorded, for databases that have many writers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.runtime.ports.transactions import Transaction, Values
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction
from tests.conformance.families import CHANGES, GIVEN, function_of
from tests.conformance.platform_stores import open_sqlite
from tests.conformance.test_store_failures import copied

Event = tuple[str, str]
# What is past its time stays so, and each deletion names its condition again.
RETENTION = frozenset(
    {"forget_calls", "forget_deliveries", "forget_memory", "forget_runs", "forget_usage", "delete_ended"}
)
# A decision takes no lock of its own: its update names the number and the epoch that it was made for.
GUARDED = frozenset({"append"})
# What never changes, and says what is to be locked; or what is read again under the locks.
READ_BEFORE = (
    "SELECT DISTINCT hash FROM payload_uses ",
    "SELECT above, ",
    "SELECT tenant, parent_run_id, labels FROM runs ",
    "WITH RECURSIVE made ",
)
_WRITES = ("INSERT", "UPDATE", "DELETE")


class Recording:
    """What the transactions of a file do, in order: locks, reads and writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.transactions: list[list[Event]] = []
        for name in ("rows", "execute", "many"):
            monkeypatch.setattr(SqliteTransaction, name, self._recording(getattr(SqliteTransaction, name)))
        monkeypatch.setattr(SqliteTransaction, "lock", lambda _, name: self.transactions[-1].append(("lock", name)))
        for name in ("write", "write_together"):
            monkeypatch.setattr(SqliteDatabase, name, self._beginning(getattr(SqliteDatabase, name)))

    def _recording(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(transaction: SqliteTransaction, statement: str, values: Values = ()) -> Any:
            if self.transactions:
                events = self.transactions[-1]
                if not statement.startswith(READ_BEFORE) or any(kind == "lock" for kind, _ in events):
                    events.append(("write" if statement.startswith(_WRITES) else "read", statement))
            return method(transaction, statement, values)

        return call

    def _beginning(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def write(database: SqliteDatabase, change: Callable[..., Any], *item: Any, **more: Any) -> Any:
            def apply(transaction: Transaction, *items: Any) -> Any:
                self.transactions.append([])
                return change(transaction, *items)

            return method(database, apply, *item, **more)

        return write


def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[Event]]]:
    """What each changing function does in its transactions."""
    found: dict[str, list[list[Event]]] = {}

    async def scenario() -> None:
        async with open_sqlite(folder / "empty.db") as database:
            for call in GIVEN:
                await call(database)
        recording = Recording(monkeypatch)
        for name, call in CHANGES.items():
            async with open_sqlite(copied(folder, name)) as database:
                await call(database)
            found[name], recording.transactions = recording.transactions, []

    asyncio.run(scenario())
    return found


def mistakes(events: list[Event]) -> list[str]:
    """What is wrong with a transaction that reads and then writes."""
    kinds = [kind for kind, _ in events]
    if "read" not in kinds or "write" not in kinds[kinds.index("read") :]:
        return []
    return (
        [] if "lock" in kinds[: kinds.index("read")] else [f"reads before it locks: {events[kinds.index('read')][1]}"]
    )


def disorder(events: list[Event]) -> list[str]:
    """What is wrong with the order of the locks. One that is held already may be taken again at any time."""
    names = list(dict.fromkeys(name for kind, name in events if kind == "lock"))
    trails = [name for name in names if name.startswith("audit/")]
    others = [name for name in names if not name.startswith("audit/") and name != "mark/audit_chains"]
    wanted = [*sorted(others), *sorted(trails), *(name for name in names if name == "mark/audit_chains")]
    return [] if names == wanted else [f"locks {names}, and not {wanted}"]


def test_what_reads_before_it_writes_holds_a_lock_and_locks_have_one_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = recorded(tmp_path, monkeypatch)
    assert all(transactions for transactions in found.values())
    assert any(kind == "lock" for events in found["put_resource: new"] for kind, _ in events)
    wrong = {
        name: [
            *(
                mistake
                for events in transactions
                if function_of(name) not in RETENTION | GUARDED
                for mistake in mistakes(events)
            ),
            *(mistake for events in transactions for mistake in disorder(events)),
        ]
        for name, transactions in found.items()
    }
    assert {name: told for name, told in wrong.items() if told} == {}


def test_a_transaction_without_a_lock_and_one_in_disorder_are_found() -> None:
    assert mistakes([("read", "SELECT 1"), ("write", "DELETE")]) == ["reads before it locks: SELECT 1"]
    assert mistakes([("lock", "a"), ("read", "SELECT 1"), ("write", "DELETE")]) == []
    assert mistakes([("write", "DELETE"), ("read", "SELECT 1")]) == []
    assert disorder([("lock", "b"), ("lock", "a")]) == ["locks ['b', 'a'], and not ['a', 'b']"]
    assert disorder([("lock", "audit/a"), ("lock", "key/a")]) != []
    assert disorder([("lock", "key/a"), ("lock", "audit/a"), ("lock", "mark/audit_chains")]) == []
