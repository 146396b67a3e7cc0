"""Tools of other servers: what is accepted, and the audit record of that, are one; nothing is decided past the gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from penstock.app.gate import open_gate
from penstock.app.os_users import os_user
from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.base.errors import Unavailable
from penstock.operations.gate.pipeline import AnsweredCall, Gate, RefusedCall
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.resources import list_all_resources, list_resources
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.upstreams.tool_registry import UpstreamToolRegistry
from penstock.runtime.upstreams.tools import ImportRules, UpstreamTool, tool_hash
from tests.opened_database import sqlite_of
from tests.scenarios.test_audited_changes import fail_audit
from tests.scenarios.test_repeated_calls import DyingWriter, KilledError, call, outcome
from tests.waiting import SECONDS_MAX

TOOLS = tuple(UpstreamTool(name=name, description="It works.") for name in ("pay", "search"))
CHANGED = (TOOLS[0], UpstreamTool(name="search", description="It works otherwise."))
DEFINE_CALL = "upstream.define_call"
BOTH: dict[str, Any] = {"server": "shop", "tools": ["*"]}


@dataclass
class Shop:
    """A gate whose settings import the tools of a server, which says what it is made to say."""

    gate: Gate
    store: RunStore
    board: UpstreamToolRegistry

    async def written(self, *operations: str, tenant: str = "default") -> list[tuple[str, str, str, dict[str, Any]]]:
        """The records of some operations: who, what, about what, and what else; oldest first."""
        page = await list_audit(self.gate.services.platform, AuditQuery(tenant=tenant, oldest_first=True, limit=100))
        entries = [record.entry for record in page.records if record.entry.operation in operations]
        assert {entry.outcome for entry in entries} <= {"allowed"}
        return [(entry.principal, entry.operation, entry.subject or "", entry.details) for entry in entries]

    async def pinned(self) -> dict[str, str]:
        """The hashes of the tools that are pinned, as they stand in the file."""
        rows = (await list_resources(self.gate.services.platform, "default", "upstream_tool", limit=100)).rows
        return {row.resource_id: str(row.body["hash"]) for row in rows if not row.body.get("revoked")}


@asynccontextmanager
async def shop(path: Path, accept: Literal["manual", "first"] = "manual") -> AsyncIterator[Shop]:
    async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
        board = gate.services.upstreams
        assert board is not None
        assert isinstance(penstock.store, RunStore)
        # For every tenant: of those that nobody named, none is looked at before somebody asks.
        board.rules = {"shop": ImportRules(prefix="shop", tools=("*",), accept=accept, tenants=("*",))}
        yield Shop(gate, penstock.store, board)


def in_shop(
    tmp_path: Path, test: Callable[[Shop], Awaitable[None]], *, accept: Literal["manual", "first"] = "manual"
) -> None:
    async def body() -> None:
        async with asyncio.timeout(SECONDS_MAX), shop(tmp_path / "penstock.db", accept) as opened:
            await test(opened)

    asyncio.run(body())


def test_tools_that_are_accepted_at_once_are_one_commit_with_a_record_for_each(tmp_path: Path) -> None:
    async def test(there: Shop) -> None:
        await there.board.tools_listed("shop", TOOLS)
        await there.gate.flush()
        commits = sqlite_of(there.store).writer.commits
        await call(there.gate, "upstream.accept", **BOTH)
        assert sqlite_of(there.store).writer.commits == commits + 1
        me = os_user().principal_id
        assert await there.written("upstream.accept") == [
            (me, "upstream.accept", f"shop/{tool.name}", {"hash": tool_hash(tool)}) for tool in TOOLS
        ]
        commits = sqlite_of(there.store).writer.commits
        await call(there.gate, "upstream.revoke", server="shop", tool="pay")
        assert sqlite_of(there.store).writer.commits == commits + 1
        revoked = (me, "upstream.revoke", "shop/pay", {"hash": tool_hash(TOOLS[0])})
        assert await there.written("upstream.revoke") == [revoked]
        assert await there.pinned() == {"shop/search": tool_hash(TOOLS[1])}

    in_shop(tmp_path, test)


@pytest.mark.parametrize("key", [None, "the-key"], ids=["without a key", "with a key"])
@pytest.mark.parametrize(
    ("operation", "arguments"),
    [("upstream.accept", BOTH), ("upstream.revoke", {"server": "shop", "tool": "pay"})],
    ids=["accept", "revoke"],
)
def test_nothing_is_accepted_or_revoked_whose_record_cannot_be_written(
    tmp_path: Path, operation: str, arguments: dict[str, Any], key: str | None
) -> None:
    async def test(there: Shop) -> None:
        await there.board.tools_listed("shop", TOOLS[:1])
        await call(there.gate, "upstream.accept", **BOTH)
        await there.board.tools_listed("shop", TOOLS)
        before = await there.pinned()
        fail_audit(tmp_path / "penstock.db")
        refused = await outcome(there.gate, operation, arguments, key)
        assert isinstance(refused, RefusedCall)
        assert refused.error.code == "AUDIT_UNAVAILABLE"
        fail_audit(tmp_path / "penstock.db", fails=False)
        assert await there.pinned() == before
        told = await there.written(operation)
        assert isinstance(await outcome(there.gate, operation, arguments, key), AnsweredCall)
        assert await there.pinned() != before
        assert len(await there.written(operation)) == len(told) + 1

    in_shop(tmp_path, test)


def test_an_acceptance_that_is_repeated_after_a_crash_hears_the_first_answer(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "penstock.db"
        async with shop(path) as there:
            await there.board.tools_listed("shop", TOOLS)

            async def victim() -> None:
                DyingWriter(there.store, 1)
                await outcome(there.gate, "upstream.accept", BOTH, "the-key")

            task = asyncio.create_task(victim())
            await asyncio.wait([task], timeout=SECONDS_MAX)
            assert isinstance(task.exception(), KilledError)
            assert len(await there.pinned()) == 2
            assert len(await there.written("upstream.accept")) == 2
        async with shop(path) as there:
            later = ManualClock(there.gate.services.clock.now_ms() + limits.IDEMPOTENCY_IN_FLIGHT_MS + 1)
            there.gate.services = replace(there.gate.services, clock=later)
            answer = await call(there.gate, "upstream.accept", "the-key", **BOTH)
            assert [item["name"] for item in answer["accepted"]] == ["pay", "search"]
            again = await call(there.gate, "upstream.accept", **BOTH)
            assert again["accepted"] == [], "without the key it is another call, which finds nothing to accept"

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_what_the_settings_accept_is_accepted_by_one_call_of_the_gate(tmp_path: Path) -> None:
    async def test(there: Shop) -> None:
        await there.board.tools_listed("shop", TOOLS)
        await there.gate.flush()
        commits = sqlite_of(there.store).writer.commits
        tool_reviews = await asyncio.gather(*(there.board.tool_reviews("default") for _ in range(5)))
        assert sqlite_of(there.store).writer.commits == commits + 1, "whoever looks at the same moment finds it done"
        assert all(item.status == "pinned" for found in tool_reviews for item in found)
        expected = [
            ("system:upstream", "upstream.accept_first", f"shop/{tool.name}", {"hash": tool_hash(tool)})
            for tool in TOOLS
        ]
        assert await there.written("upstream.accept", "upstream.accept_first") == expected
        items = (await call(there.gate, "upstream.tools", server="shop"))["items"]
        assert {item["accepted_by"] for item in items} == {"system:upstream"}
        await there.board.tools_listed("shop", CHANGED)
        assert (await there.board.tool_reviews("default"))[1].status == "changed", "only what is new, not what changed"

    in_shop(tmp_path, test, accept="first")


def test_the_settings_accept_nothing_while_no_record_can_be_written(tmp_path: Path) -> None:
    async def test(there: Shop) -> None:
        await there.board.tools_listed("shop", TOOLS)
        fail_audit(tmp_path / "penstock.db")
        with pytest.raises(Unavailable):
            await there.board.tool_reviews("default")
        fail_audit(tmp_path / "penstock.db", fails=False)
        assert await there.pinned() == {}
        assert [item.status for item in await there.board.tool_reviews("default")] == ["pinned", "pinned"]
        assert len(await there.written("upstream.accept_first")) == 2

    in_shop(tmp_path, test, accept="first")


def test_what_a_server_lists_is_kept_in_one_commit_with_its_record(tmp_path: Path) -> None:
    async def test(there: Shop) -> None:
        commits = sqlite_of(there.store).writer.commits
        for tools in (TOOLS, TOOLS, CHANGED, CHANGED[:1]):
            await there.board.tools_listed("shop", tools)
        assert sqlite_of(there.store).writer.commits == commits + 3, "what is the same as before is not kept again"
        kept = ("system:upstream", "upstream.keep_listing", "shop")
        assert await there.written("upstream.keep_listing") == [
            (*kept, {"tools": 2, "new": 2, "changed": 0, "gone": 0}),
            (*kept, {"tools": 2, "new": 0, "changed": 1, "gone": 0}),
            (*kept, {"tools": 1, "new": 0, "changed": 0, "gone": 1}),
        ]

    in_shop(tmp_path, test)


def test_what_a_server_lists_is_not_kept_while_no_record_can_be_written(tmp_path: Path) -> None:
    async def test(there: Shop) -> None:
        fail_audit(tmp_path / "penstock.db")
        with pytest.raises(Unavailable):
            await there.board.tools_listed("shop", TOOLS)
        assert await list_all_resources(there.gate.services.platform, "upstream_listing") == ()
        fail_audit(tmp_path / "penstock.db", fails=False)
        await there.board.tools_listed("shop", TOOLS)
        assert len(await list_all_resources(there.gate.services.platform, "upstream_listing")) == 1
        assert len(await there.written("upstream.keep_listing")) == 1

    in_shop(tmp_path, test)


def test_the_workflow_of_a_tool_is_stored_once_in_one_commit_with_its_record(tmp_path: Path) -> None:
    async def test(there: Shop) -> None:
        await there.board.tools_listed("shop", TOOLS)
        await call(there.gate, "upstream.accept", **BOTH)
        for _ in range(2):
            await call(there.gate, "upstream.call", server="shop", tool="pay")
        stored = await there.gate.services.store.definitions.find_named("upstream:shop.pay", tenant="-upstream")
        assert stored is not None
        assert stored.created_by == "system:upstream"
        defined = ("system:upstream", DEFINE_CALL, "shop/pay", {"hash": stored.hash})
        assert await there.written(DEFINE_CALL) == [defined]
        assert [subject for _, _, subject, _ in await there.written("upstream.call")] == ["shop/pay"] * 2
        act = there.board.act
        assert act is not None
        commits = sqlite_of(there.store).writer.commits
        await act("default", DEFINE_CALL, {"server": "shop", "tool": "search"})
        assert sqlite_of(there.store).writer.commits == commits + 1

    in_shop(tmp_path, test)


def test_no_tool_is_called_whose_workflow_cannot_be_put_on_record(tmp_path: Path) -> None:
    async def test(there: Shop) -> None:
        await there.board.tools_listed("shop", TOOLS)
        await call(there.gate, "upstream.accept", **BOTH)
        fail_audit(tmp_path / "penstock.db")
        refused = await outcome(there.gate, "upstream.call", {"server": "shop", "tool": "pay"})
        assert isinstance(refused, RefusedCall)
        assert refused.error.code == "AUDIT_UNAVAILABLE"
        fail_audit(tmp_path / "penstock.db", fails=False)
        assert await there.gate.services.store.definitions.find_named("upstream:shop.pay", tenant="-upstream") is None
        assert (await call(there.gate, "execution.list"))["items"] == []

    in_shop(tmp_path, test)
