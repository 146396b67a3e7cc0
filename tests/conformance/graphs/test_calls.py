"""A commit and the record of its call are stored together, or neither is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import Conflict
from penstock.base.json import JsonObject
from penstock.graph.values import GraphValue
from penstock.graph.versions.entities import LoadMode
from penstock.runtime.ports.graphs import (
    BranchesMerged,
    ConstraintsViolated,
    GraphCall,
    GraphCreated,
    GraphDeleted,
    GraphExists,
    GraphRef,
    HeadMoved,
    LoadPublished,
    Mutated,
)
from penstock.runtime.ports.platform import AuditQuery, CallRecord, Finished, ResourceRow, body_etag
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.graphs.store import SqliteGraphStore
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.call_records import find_call
from penstock.runtime.tables.resources import read_resource
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.graphs.worlds import World
from tests.conformance.platform_stores import SEAL, claim, entry, run_bounded
from tests.opened_database import sqlite_of
from tests.waiting import SECONDS_MAX, until


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[World, SqliteDatabase]]:
    store = RunStore(SqliteDatabase(path, synchronous="OFF"))
    await store.open()
    try:
        world = await World(SqliteGraphStore(sqlite_of(store))).create()
        yield world, sqlite_of(store)
    finally:
        await store.close()


def graph_call(key: str) -> GraphCall:
    """A call with an audit entry and an idempotency key, whose answer is made from the outcome."""
    record = CallRecord(entry=entry(1), seal=SEAL, claim=claim(key))

    def complete(outcome: Any) -> None:
        record.answer = {"commit": outcome.commit.commit_id}
        record.about("graph:people", commit=outcome.commit.commit_id)

    return GraphCall(record, complete)


async def mutate(world: World, name: str, call: GraphCall) -> Any:
    given: dict[str, GraphValue | None] = {"name": name, "age": 1}
    return await world.store.mutate(world.ref, world.queries["add"], given, stamp=world.stamp(), call=call)


async def audited(platform: SqliteDatabase) -> list[Any]:
    page = await list_audit(platform, AuditQuery(tenant="acme", limit=100))
    return [record.entry.details for record in page.records]


def test_a_commit_has_its_audit_record_and_its_answer_in_one_transaction(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "store.db") as (world, platform):
            call = graph_call("k1")
            outcome = await mutate(world, "ada", call)
            assert isinstance(outcome, Mutated)
            assert outcome.commit is not None
            assert call.record.stored
            assert (await audited(platform))[0]["commit"] == outcome.commit.commit_id
            stored = await find_call(platform, claim("k1"))
            assert isinstance(stored, Finished)
            assert stored.answer == {"commit": outcome.commit.commit_id}

    run_bounded(scenario())


def test_a_refused_change_leaves_no_record_and_a_lost_key_leaves_no_change(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "store.db") as (world, platform):
            await mutate(world, "ada", graph_call("k1"))
            refused = graph_call("k2")
            assert isinstance(await mutate(world, "ada", refused), ConstraintsViolated)
            assert not refused.record.stored
            assert await find_call(platform, claim("k2")) is None
            head = (await world.view()).commit_id
            with pytest.raises(Conflict) as lost:
                await mutate(world, "bob", graph_call("k1"))
            assert lost.value.code == "IDEMPOTENCY_IN_FLIGHT"
            assert (await world.view()).commit_id == head
            assert await world.rows("people") == (("ada", 1),)
            assert len(await audited(platform)) == 1

    run_bounded(scenario())


def test_loads_and_merges_are_recorded_with_what_they_publish(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "store.db") as (world, platform):
            await world.fork("draft")
            store = world.store
            await store.begin_load(world.ref, branch="draft", mode=LoadMode.MERGE, load_id="L", stamp=world.stamp())
            await store.add_to_load("L", [world.person("ada")], stamp=world.stamp())
            assert await audited(platform) == []
            loaded = await store.publish_load("L", stamp=world.stamp(), call=graph_call("k1"))
            assert isinstance(loaded, LoadPublished)
            merged = await store.merge(world.ref, "draft", stamp=world.stamp(), call=graph_call("k2"))
            assert isinstance(merged, BranchesMerged)
            assert merged.commit is not None
            assert loaded.commit is not None
            shown = {details["commit"] for details in await audited(platform)}
            assert shown == {loaded.commit.commit_id, merged.commit.commit_id}

    run_bounded(scenario())


def offered(world: World, name: str = "people") -> ResourceRow:
    body: JsonObject = {"title": "People"}
    tenant = world.ref.tenant
    return ResourceRow(
        tenant=tenant, kind="graph", resource_id=name, body=body, etag=body_etag(body), created_at=1, updated_at=1
    )


def test_a_graph_how_it_is_offered_and_the_record_of_the_call_are_one_transaction(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "store.db") as (world, platform):
            store, other = world.store, GraphRef("acme", "other")
            await mutate(world, "ada", graph_call("taken"))

            async def create(ref: GraphRef, key: str) -> Any:
                call = replace(graph_call(key), complete=None, puts=offered(world, ref.name))
                return await store.create_graph(
                    ref, schema=world.schema, source=world.source, stamp=world.stamp(), call=call
                )

            # Whatever keeps one of them from being stored keeps the others from it, too.
            with pytest.raises(Conflict):
                await create(other, "taken")
            assert isinstance(await create(world.ref, "k1"), GraphExists)
            assert await store.graph(other) is None
            assert [await read_resource(platform, "acme", "graph", name) for name in ("people", "other")] == [
                None,
                None,
            ]
            assert isinstance(await create(other, "k2"), GraphCreated)
            assert await read_resource(platform, "acme", "graph", "other") == offered(world, "other")
            gone = replace(graph_call("taken"), complete=None, deletes=("acme", "graph", "other"))
            with pytest.raises(Conflict):
                await store.delete_graph(other, call=gone)
            assert await store.graph(other) is not None
            assert await read_resource(platform, "acme", "graph", "other") is not None
            gone = replace(graph_call("k3"), complete=None, deletes=("acme", "graph", "other"))
            assert isinstance(await store.delete_graph(other, call=gone), GraphDeleted)
            assert await read_resource(platform, "acme", "graph", "other") is None
            assert len(await audited(platform)) == 3

    run_bounded(scenario())


def test_a_commit_on_the_source_while_a_merge_waits_for_the_writer_refuses_the_merge(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "store.db"
        runs = RunStore(SqliteDatabase(path, synchronous="OFF"))
        await runs.open()
        try:
            world = await World(SqliteGraphStore(sqlite_of(runs))).create()
            await world.fork("draft")
            seen = await world.do("add", branch="draft", name="ada", age=1)
            writer, may_go_on = sqlite_of(runs).writer, threading.Event()
            writer.submit(lambda connection: may_go_on.wait(SECONDS_MAX), is_long=True)
            # The merge is planned with the head that was seen; the commit is made first.
            added = asyncio.ensure_future(world.run("add", branch="draft", name="bob", age=2))
            await until(lambda: len(writer._waiting) == 1)
            stamp = world.stamp(if_source_commit=seen.commit_id)
            merging = asyncio.ensure_future(world.store.merge(world.ref, "draft", stamp=stamp))
            await until(lambda: len(writer._waiting) == 2)
            may_go_on.set()
            committed = await added
            refused = await merging
            assert isinstance(refused, HeadMoved)
            assert (refused.expected, refused.actual) == (seen.commit_id, committed.commit.commit_id)
            assert await world.rows("people") == ()
            merged = await world.store.merge(
                world.ref, "draft", stamp=world.stamp(if_source_commit=committed.commit.commit_id)
            )
            assert isinstance(merged, BranchesMerged)
            assert await world.rows("people") == (("ada", 1), ("bob", 2))
        finally:
            await runs.close()

    run_bounded(scenario())
