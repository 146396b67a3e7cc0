"""Whatever fails, and whenever: an operation of a platform store happened or it did not, and the store goes on.

As for stores of runs: one scenario of many operations is run again and again, and each time another call fails.
"""

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import PenstockError
from penstock.governance.audit.chain import ChainVerified
from penstock.runtime.ports.platform import ANY_ETAG, PlatformStore
from penstock.runtime.stores.memory.platform_store import MemoryPlatformStore
from penstock.runtime.stores.sqlite.platform.store import SqlitePlatformStore
from penstock.runtime.stores.sqlite.runs.store import SqliteRunStore
from penstock.runtime.stores.sqlite.schema.log_notes import NotedConnection
from tests.conformance.platform_stores import (
    AT,
    SEAL,
    claim,
    claimed,
    completed,
    delivery,
    entry,
    key_row,
    platform_contents,
    resource,
    run_bounded,
    told,
    verified,
)
from tests.conformance.test_store_failures import Fault, copied
from tests.thorough import IS_THOROUGH

OTHER = claim("other", digest="digest-2")

Operation = Callable[[PlatformStore], Awaitable[object]]
OPERATIONS: list[Operation] = [
    lambda store: store.put_key(key_row()),
    lambda store: store.put_key(key_row("bbbbbbbbbbbb", created_at=AT + 1)),
    lambda store: store.replace_key(
        key_row("bbbbbbbbbbbb", created_at=AT + 1, revoked_at=AT + 2),
        key_row("cccccccccccc", created_at=AT + 2, replaces="bbbbbbbbbbbb"),
    ),
    lambda store: store.replace_key(key_row("bbbbbbbbbbbb"), key_row("dddddddddddd")),  # replaced already
    lambda store: store.touch_keys({"aaaaaaaaaaaa": AT + 1, "bbbbbbbbbbbb": AT + 2}),
    lambda store: store.put_key(key_row(revoked_at=AT + 3)),
    lambda store: claimed(store, claim()),
    lambda store: claimed(store, claim(digest="digest-3")),  # in flight
    lambda store: claimed(store, OTHER),
    lambda store: completed(store, claim(), {"status": 200}),
    lambda store: claimed(store, claim(digest="digest-3")),  # finished
    lambda store: store.release_call(OTHER),
    lambda store: claimed(store, OTHER),
    lambda store: store.put_resource(resource("third"), expected_etag=None, call=told(OTHER, {})),
    lambda store: store.append_audit([entry(0), entry(1, tenant="other"), entry(2)], seal=SEAL),
    lambda store: store.append_audit([entry(3, outcome="refused")], seal=SEAL),
    lambda store: store.forget_audit(tenant="acme", before_seq=2, seal=SEAL),
    lambda store: store.put_resource(resource(), expected_etag=None),
    lambda store: store.put_resource(resource(etag="etag-2"), expected_etag="etag-1"),
    lambda store: store.put_resource(resource(etag="etag-3"), expected_etag="etag-1"),  # changed
    lambda store: store.put_resource(resource("second"), expected_etag=ANY_ETAG),
    lambda store: store.put_resources([resource("second", etag="etag-2"), resource("fourth")]),
    lambda store: store.delete_resource("acme", "schema", "refund", expected_etag="etag-2"),
    lambda store: store.add_deliveries([delivery(0), delivery(1), delivery(0), delivery(2, state="dead")]),
    lambda store: store.save_delivery(delivery(0, state="delivered", next_at=None, attempts=1)),
    lambda store: store.forget_deliveries(before=AT + 1, limit=1),
    lambda store: store.set_mark("place", {"seq": 1}),
    lambda store: store.set_mark("place", {"seq": 2}),
    lambda store: store.forget_calls(now=AT + 60_001, limit=5),
]


async def reference(store: PlatformStore) -> tuple[list[Any], list[Any]]:
    """What every operation gives, and what the store holds after it, when nothing fails."""
    given: list[Any] = []
    held = [await platform_contents(store)]
    for operation in OPERATIONS:
        given.append(await operation(store))
        held.append(await platform_contents(store))
    return given, held


async def with_a_failure(store: PlatformStore, fault: Fault, given: list[Any], held: list[Any]) -> int:
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


def test_a_memory_platform_store_survives_the_failure_of_any_write() -> None:
    async def scenario() -> None:
        given, held = await reference(MemoryPlatformStore())
        fault = Fault()

        def before_write(operation: str) -> None:
            if fault.strikes():
                raise OSError(operation)

        for number in range(1, len(OPERATIONS) + 1):
            fault.arm(number)
            store = MemoryPlatformStore(before_write=before_write)
            assert await with_a_failure(store, fault, given, held) == 1

    run_bounded(scenario())


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
        store = SqliteRunStore(tmp_path / "empty.db", synchronous="OFF")
        await store.open()
        await store.close()
        store = SqliteRunStore(copied(tmp_path, "reference"), synchronous="OFF")
        await store.open()
        given, held = await reference(SqlitePlatformStore(store.database))
        await store.close()
        number = 1 - step_size
        while number < 1 or fault.fired:
            number += step_size
            store = SqliteRunStore(copied(tmp_path, str(number)), synchronous="OFF")
            await store.open()
            fault.arm(number, times=times)
            failed = await with_a_failure(SqlitePlatformStore(store.database), fault, given, held)
            assert failed == fault.fired if times == 1_000 else failed <= fault.fired
            fault.remaining = 0
            await store.close()
        assert number > 3 * len(OPERATIONS)

    run_bounded(scenario())


def test_of_many_appends_in_one_commit_those_that_failed_are_not_in_the_chain(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(11)

    async def scenario() -> None:
        store = SqliteRunStore(tmp_path / "store.db", synchronous="OFF")
        await store.open()
        platform = SqlitePlatformStore(store.database)
        kept = failed = 0
        monkeypatch.setattr(fault, "strikes", lambda: chance.random() < 0.1)
        for _ in range(60):
            appends = (platform.append_audit([entry(0), entry(1)], seal=SEAL) for _ in range(8))
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
