"""Which reads of graphs run on the event loop, and what becomes of those that take longer than a moment."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.base import limits
from penstock.runtime.ports.graphs import GraphRef, ReadLimits, ReadRows, ReadStopped
from penstock.runtime.stores.sqlite.graphs import reading
from penstock.runtime.stores.sqlite.graphs import store as graph_store
from penstock.runtime.stores.sqlite.graphs.store import SqliteGraphStore
from tests.conformance.graphs.worlds import AT, World, checked, open_sqlite, schema_of
from tests.conformance.stores import run_bounded

SCHEMA = "node Doc { slug: String @key  body: String? }"
QUERIES = """
query add($slug: String, $body: String?) { insert Doc { slug: $slug, body: $body } }
query one($slug: String) { match { $d: Doc { slug: $slug } } return { $d.slug } }
query find($q: String) { match { $d: Doc search($d.body, $q) } return { $d.slug } }
query product() { match { $a: Doc $b: Doc $c: Doc $d: Doc } return { count($a) as rows } }
"""


async def new_world(store: SqliteGraphStore) -> World:
    schema = schema_of(SCHEMA)
    world = World(store, GraphRef("acme", "docs"), schema=schema, source=SCHEMA, queries=checked(QUERIES, schema))
    await world.create()
    for number in range(14):
        await world.do("add", slug=f"d{number}", body="quick fox")
    return world


async def read(world: World, name: str, read_limits: ReadLimits | None = None, **given: Any) -> Any:
    return await world.store.read(
        await world.view(), world.queries[name], given, at=AT, limits=read_limits or ReadLimits()
    )


@pytest.fixture
def on_loop(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each run of a statement, whether it was on the event loop's thread."""
    places: list[bool] = []
    run_read = reading.run_read

    def noted(*given: Any) -> Any:
        places.append(threading.current_thread() is threading.main_thread())
        return run_read(*given)

    monkeypatch.setattr(graph_store, "run_read", noted)
    return places


def test_a_short_read_needs_no_thread(tmp_path: Path, on_loop: list[bool]) -> None:
    async def work() -> None:
        async with open_sqlite(tmp_path / "store.db") as store:
            world = await new_world(store)
            # A busy machine may stop this thread for longer than a moment, so one of many is enough.
            for _ in range(3 * limits.GRAPH_SHORT_READ_MISSES_MAX):
                found = await read(world, "one", slug="d3")
                assert isinstance(found, ReadRows)
                assert found.rows == (("d3",),)
            assert True in on_loop

    run_bounded(work())


def test_a_long_read_begins_anew_on_a_thread_and_is_tried_again_ever_more_seldom(
    tmp_path: Path, on_loop: list[bool]
) -> None:
    async def work() -> None:
        async with open_sqlite(tmp_path / "store.db") as store:
            world = await new_world(store)
            pauses = [1, 2, 4, 8, 16, limits.GRAPH_SHORT_READ_MISSES_MAX]
            for _ in range(sum(pauses) + len(pauses)):
                found = await read(world, "product")
                assert isinstance(found, ReadRows)
                assert found.rows == ((14**4,),)
            tried_twice = [True, False]
            assert on_loop == [place for pause in pauses for place in tried_twice + [False] * pause]

    run_bounded(work())


def test_a_search_never_runs_on_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    time_limit = reading.time_limit

    def noted(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return time_limit(*given)

    async def work() -> None:
        async with open_sqlite(tmp_path / "store.db") as store:
            world = await new_world(store)
            monkeypatch.setattr(reading, "time_limit", noted)
            for _ in range(2):
                found = await read(world, "find", q="fox")
                assert isinstance(found, ReadRows)
                assert len(found.rows) == 14
            assert len(threads) == 2
            assert threading.main_thread() not in threads

    run_bounded(work())


def test_a_limit_that_is_shorter_than_a_moment_is_the_one_that_is_told(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_sqlite(tmp_path / "store.db") as store:
            world = await new_world(store)
            stopped = await read(world, "product", ReadLimits(seconds=0.0))
            assert stopped == ReadStopped("GRAPH_QUERY_SECONDS", 0.0)

    run_bounded(work())
