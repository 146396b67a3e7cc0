"""Whatever fails, and whenever: an operation of a platform store happened or it did not, and the store goes on.

As for stores of runs: one scenario of many operations is run again and again, and each time another call fails.
"""

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import PenstockError
from penstock.governance.audit.chain import ChainVerified
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.memory import MemoryRoom
from penstock.runtime.ports.platform import ANY_ETAG
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.schema.log_notes import NotedConnection
from penstock.runtime.tables.api_keys import put_key, replace_key, touch_keys
from penstock.runtime.tables.audit.removal import forget_audit
from penstock.runtime.tables.call_records import append_audit, forget_calls, release_call
from penstock.runtime.tables.deliveries import (
    add_deliveries,
    change_delivery,
    claim_delivery,
    forget_deliveries,
    save_delivery,
)
from penstock.runtime.tables.memory import clear_memory, delete_memory, forget_memory, put_memory
from penstock.runtime.tables.resources import delete_resource, put_resource, put_resources, set_mark
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.families import CHANGES, GIVEN, SEVERAL, function_of
from tests.conformance.platform_stores import (
    AT,
    SEAL,
    SPACE,
    claim,
    claimed,
    completed,
    delivery,
    entry,
    key_row,
    note,
    open_sqlite,
    platform_contents,
    resource,
    run_bounded,
    told,
    verified,
)
from tests.conformance.races import Outcome, open_course
from tests.conformance.test_store_failures import Fault, copied
from tests.thorough import IS_THOROUGH

OTHER = claim("other", digest="digest-2")
ROOM = MemoryRoom(entries_max=9, bytes_max=999, tenant_bytes_max=999)

Operation = Callable[[Database], Awaitable[object]]
OPERATIONS: list[Operation] = [
    lambda store: put_key(store, key_row()),
    lambda store: put_key(store, key_row("bbbbbbbbbbbb", created_at=AT + 1)),
    lambda store: replace_key(
        store,
        key_row("bbbbbbbbbbbb", created_at=AT + 1, revoked_at=AT + 2),
        key_row("cccccccccccc", created_at=AT + 2, replaces="bbbbbbbbbbbb"),
    ),
    lambda store: replace_key(store, key_row("bbbbbbbbbbbb"), key_row("dddddddddddd")),  # replaced already
    lambda store: touch_keys(store, {"aaaaaaaaaaaa": AT + 1, "bbbbbbbbbbbb": AT + 2}),
    lambda store: put_key(store, key_row(revoked_at=AT + 3)),
    lambda store: claimed(store, claim()),
    lambda store: claimed(store, claim(digest="digest-3")),  # in flight
    lambda store: claimed(store, OTHER),
    lambda store: completed(store, claim(), {"status": 200}),
    lambda store: claimed(store, claim(digest="digest-3")),  # finished
    lambda store: release_call(store, OTHER),
    lambda store: claimed(store, OTHER),
    lambda store: put_resource(store, resource("third"), expected_etag=None, call=told(OTHER, {})),
    lambda store: append_audit(store, [entry(0), entry(1, tenant="other"), entry(2)], seal=SEAL),
    lambda store: append_audit(store, [entry(3, outcome="refused")], seal=SEAL),
    lambda store: forget_audit(store, tenant="acme", before_seq=2, seal=SEAL),
    lambda store: put_resource(store, resource(), expected_etag=None),
    lambda store: put_resource(store, resource(etag="etag-2"), expected_etag="etag-1"),
    lambda store: put_resource(store, resource(etag="etag-3"), expected_etag="etag-1"),  # changed
    lambda store: put_resource(store, resource("second"), expected_etag=ANY_ETAG),
    lambda store: put_resources(store, [resource("second", etag="etag-2"), resource("fourth")]),
    lambda store: delete_resource(store, "acme", "schema", "refund", expected_etag="etag-2"),
    lambda store: add_deliveries(store, [delivery(0), delivery(1), delivery(0), delivery(2, state="dead")]),
    lambda store: claim_delivery(store, delivery(1), now=AT + 5, until=AT + 50),
    lambda store: claim_delivery(store, delivery(1), now=AT + 6, until=AT + 60),  # claimed
    lambda store: change_delivery(store, delivery(1, attempts=1, next_at=AT + 50), delivery(1, attempts=1)),
    lambda store: save_delivery(store, delivery(0, state="delivered", next_at=None, attempts=1)),
    lambda store: forget_deliveries(store, before=AT + 1, limit=1),
    lambda store: set_mark(store, "place", {"seq": 1}),
    lambda store: set_mark(store, "place", {"seq": 2}),
    lambda store: put_memory(store, SPACE, note(), room=ROOM),
    lambda store: put_memory(store, SPACE, note("sky", "blue"), room=ROOM),
    lambda store: put_memory(store, SPACE, note("sky", "green"), room=ROOM),  # replaced
    lambda store: delete_memory(store, SPACE, "colour", now=AT),
    lambda store: put_memory(store, SPACE, note(expires_at=AT + 1), room=ROOM),
    lambda store: forget_memory(store, now=AT + 1, limit=5),
    lambda store: clear_memory(store, SPACE, now=AT),
    lambda store: forget_calls(store, now=AT + 60_001, limit=5),
]


async def reference(store: Database) -> tuple[list[Any], list[Any]]:
    """What every operation gives, and what the store holds after it, when nothing fails."""
    given: list[Any] = []
    held = [await platform_contents(store)]
    for operation in OPERATIONS:
        given.append(await operation(store))
        held.append(await platform_contents(store))
    return given, held


async def with_a_failure(store: Database, fault: Fault, given: list[Any], held: list[Any]) -> int:
    """Run the scenario with an armed fault, which is over when an operation has failed; how many have."""
    failed = 0
    for number, operation in enumerate(OPERATIONS):
        try:
            outcome = await operation(store)
        except (PenstockError, OSError):
            assert fault.fired
            fault.remaining = 0
            failed += 1
            assert await platform_contents(store) == held[number]
            outcome = await operation(store)
        assert outcome == given[number]
    assert await platform_contents(store) == held[-1]
    return failed


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    """A fault that strikes at statements of connections that write, and at single rows of those with many."""
    fault = Fault()
    connect = sqlite3.connect

    def strike() -> None:
        if fault.strikes():
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            error.sqlite_errorname = "SQLITE_IOERR"
            raise error

    class FailingConnection(NotedConnection):
        def __init__(self, address: str, *arguments: Any, **options: Any) -> None:
            super().__init__(address, *arguments, **options)
            self.writes = "mode=ro" not in address

        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            if self.writes:
                strike()
            return super().execute(*arguments)

        def executemany(self, statement: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
            def failing_rows() -> Iterable[Any]:
                for row in rows:
                    strike()
                    yield row

            return super().executemany(statement, failing_rows() if self.writes else rows)

    def failing(address: str, **options: Any) -> sqlite3.Connection:
        options["factory"] = FailingConnection
        found: sqlite3.Connection = connect(address, **options)
        return found

    monkeypatch.setattr(sqlite3, "connect", failing)
    return fault


@pytest.mark.parametrize("times", [1, 3, 1_000], ids=["once", "a_few_times", "and_all_that_follow"])
def test_an_sqlite_platform_store_survives_the_failure_of_any_statement(
    fault: Fault, times: int, tmp_path: Path
) -> None:
    """A failure that passes is tried again before anybody hears of it; one that stays is reported."""
    step_size = 1 if times == 1 or IS_THOROUGH else 4

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "empty.db", synchronous="OFF"))
        await store.open()
        await store.close()
        store = RunStore(SqliteDatabase(copied(tmp_path, "reference"), synchronous="OFF"))
        await store.open()
        given, held = await reference(store.database)
        await store.close()
        number = 1 - step_size
        while number < 1 or fault.fired:
            number += step_size
            store = RunStore(SqliteDatabase(copied(tmp_path, str(number)), synchronous="OFF"))
            await store.open()
            fault.arm(number, times=times)
            failed = await with_a_failure(store.database, fault, given, held)
            assert failed == fault.fired if times == 1_000 else failed <= fault.fired
            fault.remaining = 0
            await store.close()
        assert number > 3 * len(OPERATIONS)

    run_bounded(scenario())


def sqlite_contents(path: Path) -> dict[str, list[Any]]:
    """Every row of the tables in a file."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        listed = connection.execute("SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main'")
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in listed.fetchall()}


def test_a_change_of_which_any_statement_fails_leaves_nothing_in_sqlite(fault: Fault, tmp_path: Path) -> None:
    """One statement fails, and all that follow, so that nobody tries again in time. Then the change is made."""
    changing: set[str] = set()
    alone = {name: call for name, call in CHANGES.items() if name not in SEVERAL}

    async def scenario() -> None:
        async with open_sqlite(tmp_path / "empty.db") as store:
            for call in GIVEN:
                await call(store)
        for name, call in alone.items():
            path = copied(tmp_path, name)
            async with open_sqlite(path) as store:
                before = after = sqlite_contents(path)
                for number in count(1):
                    fault.arm(number, times=1_000)
                    is_made = True
                    try:
                        await call(store)
                    except PenstockError:
                        assert fault.fired, name
                        is_made = False
                    fault.remaining = 0
                    after = sqlite_contents(path)
                    if is_made:  # what fails after the commit is tried again later
                        break
                    assert after == before, f"{name}: statement {number}"
                assert number > 1, name
                if after != before:
                    changing.add(function_of(name))

    run_bounded(scenario())
    assert changing == {function_of(name) for name in alone}


def test_a_change_of_which_any_statement_fails_leaves_nothing_in_postgresql(postgres_address: str) -> None:
    changing: set[str] = set()
    alone = {name: call for name, call in CHANGES.items() if name not in SEVERAL}

    async def scenario() -> None:
        async with open_course(postgres_address) as course:
            before = await course.alone()
            for name, call in alone.items():
                made = await course.alone(call)
                statements = (await course.reach(call)).statements
                for number in range(1, statements + 1):
                    failed = await course.failed(call, fails_at=number)
                    assert failed == Outcome(("STORE_IO_ERROR 58030",), before.rows), f"{name}: statement {number}"
                assert await course.failed(call, fails_at=statements + 1) is None, name
                assert await course.alone(call) == made, name
                if made.rows != before.rows:
                    changing.add(function_of(name))

    run_bounded(scenario())
    assert changing == {function_of(name) for name in alone}


def test_of_many_appends_in_one_commit_those_that_failed_are_not_in_the_chain(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(11)

    async def scenario() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "store.db", synchronous="OFF"))
        await store.open()
        platform = store.database
        kept = failed = 0
        monkeypatch.setattr(fault, "strikes", lambda: chance.random() < 0.1)
        for _ in range(60):
            appends = (append_audit(platform, [entry(0), entry(1)], seal=SEAL) for _ in range(8))
            outcomes = await asyncio.gather(*appends, return_exceptions=True)
            assert all(outcome is None or isinstance(outcome, PenstockError) for outcome in outcomes)
            kept += 2 * outcomes.count(None)
            failed += 8 - outcomes.count(None)
            outcome = await verified(platform)
            assert isinstance(outcome, ChainVerified)
            assert outcome.count == kept
        assert kept > 100
        assert failed > 50
        monkeypatch.setattr(fault, "strikes", lambda: False)
        await store.close()

    run_bounded(scenario())
