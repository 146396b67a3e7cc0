"""Text indexes of the SQLite store: when they are used, how they are built, and what makes them useless."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from penstock.base import limits
from penstock.graph import text_index
from penstock.runtime.ports.graphs import Explanation, GraphRef, SchemaApplied
from penstock.runtime.stores.sqlite.graphs.searching import indexes
from penstock.runtime.stores.sqlite.graphs.store import SqliteGraphStore
from tests.conformance.graphs.worlds import AT, World, checked, open_sqlite, schema_of
from tests.conformance.stores import run_bounded
from tests.unit.runtime.stores.sqlite.schema.test_key_subjects import without_subjects
from tests.unit.runtime.stores.sqlite.schema.test_starters import without_starters

PLAIN = "node Doc { slug: String @key  body: String?  kind: String? @index }"
SEARCHED = PLAIN.replace("body: String?", "body: String? @search")
QUERIES = """
query add($slug: String, $body: String?) { insert Doc { slug: $slug, body: $body } }
query find($q: String) { match { $d: Doc search($d.body, $q) } return { $d.slug } }
query either($q: String) { match { $d: Doc search($d.body, $q) or match_text($d.body, $q) } return { $d.slug } }
query not_found($q: String) { match { $d: Doc not search($d.body, $q) } return { $d.slug } }
query best($q: String) { match { $d: Doc } return { $d.slug } order { bm25($d.body, $q) } }
"""


async def new_world(store: SqliteGraphStore, source: str) -> World:
    schema = schema_of(source)
    world = World(store, GraphRef("acme", "docs"), schema=schema, source=source, queries=checked(QUERIES, schema))
    await world.create()
    for number, body in enumerate(["quick fox", "slow fox", None, "brown"]):
        await world.do("add", slug=f"d{number}", body=body)
    return world


async def plan_of(world: World, name: str) -> str:
    explained = await world.store.explain(await world.view(), world.queries[name], {"q": "fox"}, at=AT)
    assert isinstance(explained, Explanation)
    return f"{explained.estimated_cost}: {explained.statement}"


async def apply(world: World, source: str) -> None:
    done = await world.store.apply_schema(world.ref, schema_of(source), source=source, stamp=world.stamp())
    assert isinstance(done, SchemaApplied), done


def tables(path: Path) -> set[str]:
    with sqlite3.connect(path) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'text_%'")}


def test_a_search_of_an_indexed_text_is_a_lookup_and_of_another_one_a_scan(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_sqlite(tmp_path / "store.db") as store:
            world = await new_world(store, SEARCHED)
            for name in ("find", "either"):
                assert (await plan_of(world, name)).startswith("lookup")
            plan = await plan_of(world, "not_found")
            assert plan.startswith("scan")
            assert "MATCH" not in plan
            assert "MATCH" in await plan_of(world, "best")
            await apply(world, PLAIN)
            assert (await plan_of(world, "find")).startswith("scan")
            assert await world.rows("find", q="fox") == (("d0",), ("d1",))

    run_bounded(work())


def test_an_index_of_a_graph_with_data_is_built_and_one_that_nobody_wants_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def work() -> None:
        async with open_sqlite(path) as store:
            world = await new_world(store, PLAIN)
            assert tables(path) == set()
            await apply(world, SEARCHED)
            assert (await plan_of(world, "find")).startswith("lookup")
            assert await world.rows("find", q="fox") == (("d0",), ("d1",))
            await apply(world, PLAIN)
            assert tables(path) == set()
            await apply(world, SEARCHED)
            await store.delete_graph(world.ref)
            while (await store.sweep(limit=2)).more:
                pass
            assert tables(path) == set()

    run_bounded(work())


def test_an_unfinished_index_is_not_used_until_a_sweep_has_built_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GRAPH_TEXTS_INDEXED_AT_ONCE", 2)

    async def work() -> None:
        async with open_sqlite(tmp_path / "store.db") as store:
            world = await new_world(store, PLAIN)
            build, pieces = indexes.build_piece, 0

            def fail_in_the_middle(connection: sqlite3.Connection, limit: int) -> int:
                nonlocal pieces
                pieces += 1
                if pieces > 1:
                    raise RuntimeError("the process dies")
                return build(connection, limit)

            with monkeypatch.context() as patched:
                patched.setattr("penstock.runtime.stores.sqlite.graphs.store.build_piece", fail_in_the_middle)
                with pytest.raises(RuntimeError, match="dies"):
                    await apply(world, SEARCHED)
            assert (await plan_of(world, "find")).startswith("scan")
            await world.do("add", slug="d9", body="late fox")
            assert await world.rows("find", q="fox") == (("d0",), ("d1",), ("d9",))
            while (await store.sweep(limit=2)).more:
                pass
            assert (await plan_of(world, "find")).startswith("lookup")
            assert await world.rows("find", q="fox") == (("d0",), ("d1",), ("d9",))

    run_bounded(work())


def test_words_that_were_made_with_other_tables_of_unicode_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"

    async def work() -> None:
        async with open_sqlite(path) as store:
            world = await new_world(store, SEARCHED)
            # Another process, with another Python, writes a row.
            monkeypatch.setattr(text_index, "UNICODE", "1.1.5")
            await world.do("add", slug="d9", body="late fox")
            monkeypatch.undo()
            assert (await plan_of(world, "find")).startswith("scan")
            assert await world.rows("find", q="fox") == (("d0",), ("d1",), ("d9",))
            while (await store.sweep(limit=100)).more:
                pass
            assert (await plan_of(world, "find")).startswith("lookup")
            assert await world.rows("find", q="fox") == (("d0",), ("d1",), ("d9",))

    run_bounded(work())


def test_a_file_without_text_indexes_gets_them_by_its_migration(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def work() -> None:
        async with open_sqlite(path) as store:
            await new_world(store, PLAIN)
        with sqlite3.connect(path) as connection:
            for later in ("graph_text_indexes", "memory_text", "memory_entries", "memory_staging"):
                connection.execute(f"DROP TABLE {later}")
            without_starters(connection)
            without_subjects(connection)
            connection.execute("PRAGMA user_version = 15")
        async with open_sqlite(path) as store:
            schema = schema_of(SEARCHED)
            world = World(store, GraphRef("acme", "docs"), schema=schema, queries=checked(QUERIES, schema))
            world.numbers = iter(range(100, 200))
            await apply(world, SEARCHED)
            assert (await plan_of(world, "find")).startswith("lookup")
            assert await world.rows("find", q="fox") == (("d0",), ("d1",))

    run_bounded(work())
