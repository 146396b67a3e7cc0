"""Whatever fails, and whenever: an operation of a store happened or it did not, and the store goes on.

One scenario of many operations is run again and again; each time another call fails, from the first to the last. After
the failure everything is as it was before the operation; tried again, it works, and the end is the same.
"""

import asyncio
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import PenstockError
from penstock.runtime.ports.runs import Appended
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.schema.log_notes import NotedConnection
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.schedules import delete_schedule, put_schedule
from penstock.runtime.tables.workers import record_heartbeat, register_worker, remove_worker
from tests.conformance.stores import (
    AT,
    contents,
    definition,
    listed,
    run_bounded,
    schedule,
    start,
    step,
)
from tests.opened_database import sqlite_of
from tests.thorough import IS_THOROUGH

FIRST = start(labels={"team": "blue", "customer": "Ada"}, has_work=True, owner="w1", wake_at=AT + 5)
SECOND = step(FIRST, records=3, status="waiting_input", has_work=False, owner=None)
ENDING = step(SECOND, status="completed", terminal=True, wake_at=None, updated_at=AT + 9)
OTHER = start("r_2", has_work=True, owner="gone", labels={"team": "green"})
ENDED = start("r_3", status="failed", terminal=True, labels={"team": "blue"}, created_at=AT + 1)

Operation = Callable[[RunStore], Awaitable[object]]
OPERATIONS: list[Operation] = [
    lambda store: store.definitions.put(definition(1)),
    lambda store: store.append(FIRST),
    lambda store: store.append(OTHER),
    lambda store: store.append(SECOND),
    lambda store: store.append(FIRST),  # a conflict
    lambda store: register_worker(store.database, "w1", at=AT),
    lambda store: register_worker(store.database, "w2", at=AT),
    lambda store: record_heartbeat(store.database, "w1", at=AT + 1),
    lambda store: remove_worker(store.database, "w2"),
    lambda store: store.claim(owner="w1", limit=5),
    lambda store: store.set_work("r_2", has_work=False, owner=None, expected_epoch=1),
    lambda store: put_schedule(store.database, schedule("a")),
    lambda store: put_schedule(store.database, schedule("b")),
    lambda store: delete_schedule(store.database, "a"),
    lambda store: store.append(ENDED),
    lambda store: store.append(ENDING),
    lambda store: store.delete_runs(["r_3", "r_2"]),
    lambda store: store.definitions.put(definition(2)),
    lambda store: store.definitions.put(definition(3), expected_hash="hash-2"),
    lambda store: store.definitions.put(definition(4), expected_hash="hash-2"),  # a conflict
    lambda store: store.definitions.put_all(
        [(definition(5, name="a"), None), (definition(6), "hash-2")]
    ),  # a conflict too
    lambda store: store.definitions.delete("refund"),
    lambda store: store.definitions.put(definition(2)),
    lambda store: store.delete_ended(before=AT + 10, limit=5),
]


class Fault:
    """Fails one counted call, or a few in a row."""

    def __init__(self) -> None:
        self.countdown = 0
        self.remaining = 0
        self.fired = False
        self.calls = 0

    def arm(self, number: int, *, times: int = 1) -> None:
        self.countdown, self.remaining, self.fired, self.calls = number, times, False, 0

    def strikes(self) -> bool:
        self.calls += 1
        if self.calls < self.countdown or self.remaining == 0:
            return False
        self.remaining -= 1
        self.fired = True
        return True


def copied(folder: Path, name: str) -> Path:
    """Return a copy of the empty file in the folder: to make its tables anew takes most of the time."""
    return Path(shutil.copy(folder / "empty.db", folder / f"{name}.db"))


async def reference(store: RunStore) -> tuple[list[Any], list[Any]]:
    """What every operation gives, and what the store holds after it, when nothing fails."""
    given: list[Any] = []
    held = [await contents(store)]
    for operation in OPERATIONS:
        given.append(await operation(store))
        held.append(await contents(store))
    return given, held


async def with_a_failure(store: RunStore, fault: Fault, given: list[Any], held: list[Any]) -> int:
    """Run the scenario with an armed fault, which is over when an operation has failed; how many have."""
    failed = 0
    for number, operation in enumerate(OPERATIONS):
        try:
            outcome = await operation(store)
        except (PenstockError, OSError):
            assert fault.fired
            fault.remaining = 0
            failed += 1
            assert await contents(store) == held[number]
            outcome = await operation(store)
        assert outcome == given[number]
    assert await contents(store) == held[-1]
    return failed


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    """A fault that strikes at statements of connections that write."""
    fault = Fault()
    connect = sqlite3.connect

    class FailingConnection(NotedConnection):
        def __init__(self, address: str, *arguments: Any, **options: Any) -> None:
            super().__init__(address, *arguments, **options)
            self.writes = "mode=ro" not in address

        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            self.may_fail()
            return super().execute(*arguments)

        def executemany(self, *arguments: Any) -> sqlite3.Cursor:
            self.may_fail()
            return super().executemany(*arguments)

        def may_fail(self) -> None:
            if self.writes and fault.strikes():
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR
                error.sqlite_errorname = "SQLITE_IOERR"
                raise error

    def failing(address: str, **options: Any) -> sqlite3.Connection:
        options["factory"] = FailingConnection
        found: sqlite3.Connection = connect(address, **options)
        return found

    monkeypatch.setattr(sqlite3, "connect", failing)
    return fault


@pytest.mark.parametrize("times", [1, 3, 1_000], ids=["once", "a_few_times", "and_all_that_follow"])
def test_an_sqlite_store_survives_the_failure_of_any_statement(fault: Fault, times: int, tmp_path: Path) -> None:
    """A failure that passes is tried again before anybody hears of it; one that stays is reported."""
    step_size = 1 if times == 1 or IS_THOROUGH else 4

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "empty.db", synchronous="OFF"))
        await store.open()
        await store.close()
        store = RunStore(SqliteDatabase(copied(tmp_path, "reference"), synchronous="OFF"))
        await store.open()
        given, held = await reference(store)
        await store.close()
        number = 1 - step_size
        while number < 1 or fault.fired:
            number += step_size
            store = RunStore(SqliteDatabase(copied(tmp_path, str(number)), synchronous="OFF"))
            await store.open()
            fault.arm(number, times=times)
            failed = await with_a_failure(store, fault, given, held)
            assert failed == fault.fired if times == 1_000 else failed <= fault.fired
            fault.remaining = 0
            await store.close()
        assert number > 3 * len(OPERATIONS)

    run_bounded(scenario())


def test_an_sqlite_store_survives_an_interruption_inside_any_statement(tmp_path: Path) -> None:
    """Not before a statement but inside it: after so many steps of SQLite's machine."""

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "reference.db", synchronous="OFF"))
        await store.open()
        fault = Fault()

        async def interruptible(store: RunStore) -> None:
            await sqlite_of(store).write_raw(lambda connection: connection.set_progress_handler(fault.strikes, 1))

        await interruptible(store)
        given, held = await reference(store)
        await store.close()
        steps = fault.calls
        struck = failed = 0
        for number in range(1, steps, steps // 40):
            store = RunStore(SqliteDatabase(tmp_path / f"{number}.db", synchronous="OFF"))
            await store.open()
            fault.arm(0, times=0)
            await interruptible(store)
            fault.arm(number, times=1_000_000)
            failed += await with_a_failure(store, fault, given, held)
            struck += fault.fired
            await store.close()
        assert struck >= failed >= 30

    run_bounded(scenario())


def test_a_file_that_could_not_be_made_is_made_at_the_next_try(fault: Fault, tmp_path: Path) -> None:
    async def scenario() -> None:
        number = 0
        while number == 0 or fault.fired:
            number += 1
            store = RunStore(SqliteDatabase(tmp_path / f"{number}.db", synchronous="OFF"))
            fault.arm(number)
            try:
                await store.open()
            except PenstockError:
                assert fault.fired
                await store.open()
            fault.remaining = 0
            assert await store.append(FIRST) == Appended()
            await store.close()
        assert number > 10

    run_bounded(scenario())


def test_of_many_decisions_in_one_commit_those_that_failed_are_not_there(fault: Fault, tmp_path: Path) -> None:
    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "store.db", synchronous="OFF"))
        await store.open()
        number = 0
        while number == 0 or fault.fired:
            number += 1
            fault.arm(number, times=number * 3)
            writes = [start(f"r_{number}_{index}", labels={"team": "blue"}) for index in range(8)]
            outcomes = await asyncio.gather(*(store.append(write) for write in writes), return_exceptions=True)
            for write, outcome in zip(writes, outcomes, strict=True):
                found = await store.load(write.row.run_id)
                if outcome == Appended():
                    assert found is not None
                    assert found.records == write.records
                else:
                    assert isinstance(outcome, PenstockError)
                    assert found is None
        assert number > 10
        labelled = await listed(store, label=("team", "blue"))
        assert sorted(labelled) == sorted(await listed(store))
        await store.close()

    run_bounded(scenario())
