"""A change and its audit record are one: both are there or neither is, whatever fails, and one commit stores both."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.operations.gate.pipeline import AnsweredCall, Gate, RefusedCall
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.runs.store import RunStore
from tests.opened_database import sqlite_of
from tests.scenarios.test_repeated_calls import CASES, Case, call, listed, outcome, prepared, written
from tests.waiting import SECONDS_MAX

NAMES = [case.name or case.operation for case in CASES]


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[Gate, RunStore]]:
    async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
        assert isinstance(penstock.store, RunStore)
        yield gate, penstock.store


def fail_audit(path: Path, *, fails: bool = True) -> None:
    """Let no audit record be inserted, or let them be inserted again."""
    statement = "CREATE TRIGGER no_audit BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no audit'); END"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement if fails else "DROP TRIGGER no_audit")


@pytest.mark.parametrize("key", [None, "the-key"], ids=["without a key", "with a key"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_nothing_happens_whose_audit_record_cannot_be_written(tmp_path: Path, case: Case, key: str | None) -> None:
    async def test() -> None:
        path = tmp_path / "penstock.db"
        async with opened(path) as (gate, _):
            arguments = await prepared(gate, case)
            before = await listed(gate, case)
            fail_audit(path)
            refused = await outcome(gate, case.operation, arguments, key)
            assert isinstance(refused, RefusedCall), refused
            assert refused.error.code == "AUDIT_UNAVAILABLE"
            fail_audit(path, fails=False)
            assert await listed(gate, case) == before
            assert await written(gate, case) == 0
            # It was as if it had never been made: the same call can be made again, with the same key.
            made = await outcome(gate, case.operation, arguments, key)
            assert isinstance(made, AnsweredCall), made
            assert len(await listed(gate, case)) == len(before) + case.more
            assert await written(gate, case) == 1

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_call_without_a_key_that_changes_something_is_one_commit(tmp_path: Path, case: Case) -> None:
    async def test() -> None:
        async with opened(tmp_path / "penstock.db") as (gate, store):
            arguments = await prepared(gate, case)
            await gate.flush()
            commits = sqlite_of(store).writer.commits
            made = await outcome(gate, case.operation, arguments)
            assert isinstance(made, AnsweredCall), made
            assert sqlite_of(store).writer.commits == commits + 1
            assert await written(gate, case) == 1

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_while_no_record_can_be_written_no_read_is_answered_either(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "penstock.db"
        async with opened(path) as (gate, _):
            await call(gate, "workflow.list")
            fail_audit(path)
            refused = await outcome(gate, "key.create", {"name": "a", "scopes": ["*"]})
            assert isinstance(refused, RefusedCall)
            for operation in ("workflow.list", "audit.verify", "key.list"):
                found = await outcome(gate, operation, {})
                assert isinstance(found, RefusedCall), operation
                assert found.error.code == "AUDIT_UNAVAILABLE"
            fail_audit(path, fails=False)
            assert (await call(gate, "audit.verify"))["intact"]
            assert (await call(gate, "key.list"))["items"] == []
            await gate.flush()
            query = AuditQuery(tenant="default", operation="workflow.list")
            reads = (await list_audit(gate.services.platform, query)).records
            assert sum(record.entry.count for record in reads) == 2, "what was gathered before is not lost"

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
