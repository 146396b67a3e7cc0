"""An import is one change: all of its documents are stored, each with an audit record, with one answer; or none is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.app.gate import open_gate
from penstock.app.os_users import os_user
from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.operations.gate.pipeline import AnsweredCall, Gate, RefusedCall
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.runs.store import RunStore
from tests.opened_database import sqlite_of
from tests.scenarios.test_audited_changes import fail_audit, opened
from tests.scenarios.test_repeated_calls import DyingWriter, KilledError, call, outcome
from tests.waiting import SECONDS_MAX, until

NIGHTLY = [{"id": "nightly", "schedule": {"cron": "0 3 * * *"}}]


def document(name: str, **more: Any) -> dict[str, Any]:
    return {"penstock": "v1", "name": name, "nodes": [{"id": "done", "type": "end"}], **more}


ALL = [document("one"), document("two", triggers=NIGHTLY), document("three")]
IMPORTED = {"imported": ["one", "two", "three"], "overwritten": [], "skipped": []}


def in_store(tmp_path: Path, test: Callable[[Gate, RunStore], Awaitable[None]]) -> None:
    async def body() -> None:
        async with asyncio.timeout(SECONDS_MAX), opened(tmp_path / "penstock.db") as (gate, store):
            await test(gate, store)

    asyncio.run(body())


async def stored(gate: Gate) -> dict[str, str]:
    return {item["id"]: item["hash"] for item in (await call(gate, "workflow.list"))["items"]}


async def written(gate: Gate) -> list[tuple[str, str | None, dict[str, Any]]]:
    """The records of imports, oldest first."""
    query = AuditQuery(tenant="default", operation="workflow.import", oldest_first=True)
    entries = [record.entry for record in (await list_audit(gate.services.platform, query)).records]
    return [(entry.outcome, entry.subject, entry.details) for entry in entries]


def test_every_document_of_an_import_has_its_record_and_all_are_one_commit(tmp_path: Path) -> None:
    async def test(gate: Gate, store: RunStore) -> None:
        commits = sqlite_of(store).writer.commits
        assert await call(gate, "workflow.import", workflows=[ALL[0], ALL[2]]) == {
            "imported": ["one", "three"],
            "overwritten": [],
            "skipped": [],
        }
        assert sqlite_of(store).writer.commits == commits + 1
        before = await stored(gate)
        assert await written(gate) == [("allowed", name, {"hash": before[name]}) for name in ("one", "three")]
        changed = [document("one", title="Another one"), ALL[2], document("four")]
        answer = await call(gate, "workflow.import", workflows=changed, overwrite=True)
        assert answer == {"imported": ["four"], "overwritten": ["one"], "skipped": ["three"]}
        now = await stored(gate)
        assert (await written(gate))[2:] == [
            ("allowed", "one", {"hash": now["one"], "replaces": before["one"]}),
            ("allowed", "four", {"hash": now["four"]}),
        ]
        row = await gate.services.store.definitions.find_named("four")
        assert row is not None
        assert row.created_by == os_user().principal_id

    in_store(tmp_path, test)


@pytest.mark.parametrize("key", [None, "the-key"], ids=["without a key", "with a key"])
def test_nothing_is_imported_whose_records_cannot_be_written(tmp_path: Path, key: str | None) -> None:
    async def test(gate: Gate, store: RunStore) -> None:
        fail_audit(tmp_path / "penstock.db")
        refused = await outcome(gate, "workflow.import", {"workflows": ALL}, key)
        assert isinstance(refused, RefusedCall)
        assert refused.error.code == "AUDIT_UNAVAILABLE"
        fail_audit(tmp_path / "penstock.db", fails=False)
        assert await stored(gate) == {}
        assert isinstance(await outcome(gate, "workflow.import", {"workflows": ALL}, key), AnsweredCall)
        assert len(await written(gate)) == len(await stored(gate)) == 3
        assert len((await call(gate, "schedule.list"))["items"]) == 1

    in_store(tmp_path, test)


def test_one_document_that_cannot_be_stored_keeps_all_of_them_out(tmp_path: Path) -> None:
    async def test(gate: Gate, store: RunStore) -> None:
        exposed = {"expose": {"tool": {"name": "same"}}}
        await call(gate, "workflow.create", document=document("owner", **exposed))
        bundle = [document("one"), document("thief", **exposed)]
        refused = await outcome(gate, "workflow.import", {"workflows": bundle})
        assert isinstance(refused, RefusedCall)
        assert (refused.error.code, refused.error.details["workflow_id"]) == ("NAME_TAKEN", "owner")
        assert set(await stored(gate)) == {"owner"}
        assert await written(gate) == [("refused", "one,thief", {})]

    in_store(tmp_path, test)


def test_a_name_that_comes_twice_is_stored_in_order(tmp_path: Path) -> None:
    async def test(gate: Gate, store: RunStore) -> None:
        twice = [document("one"), document("one", title="The second")]
        answer = await call(gate, "workflow.import", workflows=twice)
        assert answer == {"imported": ["one"], "overwritten": [], "skipped": ["one"]}
        answer = await call(gate, "workflow.import", workflows=[document("two"), *twice[1:], twice[0]], overwrite=True)
        assert answer == {"imported": ["two"], "overwritten": ["one", "one"], "skipped": []}
        assert (await call(gate, "workflow.get", workflow_id="one"))["title"] is None
        assert len((await call(gate, "workflow.versions", workflow_id="one"))["items"]) == 3

    in_store(tmp_path, test)


def test_whoever_imports_triggers_must_be_able_to_start_the_children_that_come_with_them(tmp_path: Path) -> None:
    async def test(gate: Gate, store: RunStore) -> None:
        made = await call(gate, "key.create", name="author", scopes=["workflow:*"])
        calls_child = [{"id": "child", "type": "subworkflow", "workflow": "child"}, {"id": "done", "type": "end"}]
        parent = {**document("parent", triggers=NIGHTLY), "nodes": calls_child}
        child = document("child", governance={"scopes": ["shop:refund"]})
        for bundle in ([parent, child], [child, parent]):
            refused = await outcome(gate, "workflow.import", {"workflows": bundle}, bearer=made["secret"])
            assert isinstance(refused, RefusedCall)
            assert (refused.error.code, refused.error.details["scope"]) == ("SCOPE_REQUIRED", "shop:refund")
        assert await stored(gate) == {}

    in_store(tmp_path, test)


async def has_schedules(gate: Gate) -> bool:
    return bool((await call(gate, "schedule.list"))["items"])


def test_an_import_that_is_killed_after_any_commit_is_whole_and_hears_the_same_answer(tmp_path: Path) -> None:
    async def killed_after(lives: int) -> bool:
        path = tmp_path / f"{lives}.db"
        async with opened(path) as (gate, store):

            async def victim() -> None:
                DyingWriter(store, lives)
                await outcome(gate, "workflow.import", {"workflows": ALL}, "the-key")

            task = asyncio.create_task(victim())
            await asyncio.wait([task], timeout=SECONDS_MAX)
            if not isinstance(task.exception(), KilledError):
                return False
            assert len(await stored(gate)) == len(await written(gate)) == 3
        async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
            later = ManualClock(gate.services.clock.now_ms() + limits.IDEMPOTENCY_IN_FLIGHT_MS + 1)
            gate.services = replace(gate.services, clock=later)
            assert await call(gate, "workflow.import", "the-key", workflows=ALL) == IMPORTED
            # A process that starts makes up for the schedules.
            await until(partial(has_schedules, gate))
            assert [told for told in await written(gate) if "replayed" not in told[2]] == (await written(gate))[:3]
        return True

    async def test() -> None:
        lives = 0
        while await killed_after(lives + 1):
            lives += 1
        assert lives >= 1

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
