"""Texts with `@search` are searched and ranked exactly as texts without it: on main, on branches, at snapshots.

Two graphs get the same history; only the schema of one asks for text indexes. Every query has to give the same rows in
the same order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from penstock.base import limits
from penstock.graph.records import EdgeRecord, GraphRecord, NodeRecord
from penstock.graph.versions.entities import LoadMode
from penstock.runtime.ports.graphs import (
    MAIN,
    BranchDeleted,
    BranchesMerged,
    Flattened,
    GarbagePolicy,
    GraphRef,
    GraphStore,
    LoadBegun,
    LoadProgress,
    MergeConflicts,
    SchemaApplied,
)
from tests.conformance.graphs.worlds import GRAPH_STORES, World, checked, schema_of

PLAIN = """
node Doc { slug: String @key  title: String  body: String?  state: enum(open, done)?  @index(state) }
node Person { name: String @key }
edge Wrote: Person -> Doc
"""
INDEXED = PLAIN.replace("title: String ", "title: String @search ").replace("String?", "String? @search")
ONE_INDEX = PLAIN.replace("title: String ", "title: String @search ")
QUERIES = """
query search_body($q: String?) { match { $d: Doc search($d.body, $q) } return { $d.slug, $d.body } }
query search_title($q: String?) { match { $d: Doc search($d.title, $q) } return { $d.slug } order { $d.title desc } }
query phrase($q: String?) { match { $d: Doc match_text($d.body, $q) } return { $d.slug } }
query fuzzy_one($q: String?) { match { $d: Doc fuzzy($d.body, $q, 1) } return { $d.slug } }
query fuzzy_two($q: String?) { match { $d: Doc fuzzy($d.title, $q, 2) } return { $d.slug } }
query either($q: String?) { match { $d: Doc search($d.title, $q) or match_text($d.body, $q) } return { $d.slug } }
query both($q: String?) {
    match { $d: Doc { state: "open" } search($d.title, $q) and fuzzy($d.body, $q, 1) } return { $d.slug } }
query neither($q: String?) { match { $d: Doc not (search($d.title, $q) or search($d.body, $q)) } return { $d.slug } }
query counted($q: String?) { match { $d: Doc search($d.body, $q) } return { $d.state, count($d) as n } }
query by_score($q: String?) { match { $d: Doc } return { $d.slug } order { bm25($d.body, $q) } }
query scored($q: String?) {
    match { $d: Doc search($d.body, $q) } return { $d.slug } order { bm25($d.title, $q), $d.slug } limit 4 }
query fused($q: String?) {
    match { $d: Doc } return { $d.slug } order { rrf(bm25($d.title, $q), bm25($d.body, $q)) } limit 6 }
query written($q: String?) { match { $p: Person $p wrote $d search($d.body, $q) } return { $p.name, $d.slug } }
query two($q: String?) {
    match { $d: Doc $e: Doc search($d.body, $q) search($e.title, $q) } return { $d.slug, $e.slug } }
query writers($q: String?) { match { $p: Person exists { $p wrote $d search($d.title, $q) } } return { $p.name } }
query prolific($q: String?) {
    match { $p: Person count { $p wrote $d fuzzy($d.title, $q, 1) } >= 1 } return { $p.name } }
"""
CHANGES = """
query put($slug: String, $title: String, $body: String?) {
    insert Doc { slug: $slug, title: $title, body: $body, state: "open" } }
query edit($slug: String, $body: String?) { update Doc set { body: $body } where slug = $slug }
query close($slug: String) { update Doc set { state: "done" } where slug = $slug }
query drop($slug: String) { delete Doc where slug = $slug }
"""
NAMES = tuple(checked(QUERIES, schema_of(PLAIN)))
LONG = "x" * (limits.GRAPH_SEARCH_WORD_CHARACTERS_MAX + 5)
WORDS = ["quick", "quack", "brown", "fox", "Fox", "für", "naïve", "日本", "straße", "ﬁne", "a", "1st", LONG, LONG + "y"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
SEARCHED = st.one_of(
    st.none(),
    st.just("... _ !"),
    st.lists(st.sampled_from([*WORDS, "quik", "fur", "strasse", "fine", "missing"]), min_size=1, max_size=3).map(
        " ".join
    ),
)
SLUGS = st.sampled_from(["d1", "d2", "d3", "d4", "d5"])
BRANCHES = st.sampled_from([MAIN, "work", "deep"])
ACTIONS = st.one_of(
    st.tuples(st.just("put"), BRANCHES, SLUGS, TEXTS, st.none() | TEXTS),
    st.tuples(st.just("edit"), BRANCHES, SLUGS, st.none() | TEXTS),
    st.tuples(st.just("close"), BRANCHES, SLUGS),
    st.tuples(st.just("drop"), BRANCHES, SLUGS),
    st.tuples(st.just("load"), BRANCHES, st.sampled_from(LoadMode), st.lists(st.tuples(SLUGS, TEXTS), max_size=4)),
    st.tuples(st.just("abandon"), BRANCHES, st.lists(st.tuples(SLUGS, TEXTS), max_size=4)),
    st.tuples(st.just("merge"), BRANCHES, BRANCHES),
    st.tuples(st.just("flatten"), BRANCHES),
    st.tuples(st.just("collect")),
    st.tuples(st.just("schema"), st.sampled_from([INDEXED, ONE_INDEX])),
)


@dataclass
class Pair:
    """The graph with text indexes and the one without."""

    indexed: World
    plain: World

    async def both(self, work: Callable[[World], Coroutine[Any, Any, Any]]) -> Any:
        """Do the same to both, and compare the outcomes."""
        outcomes = [await work(world) for world in (self.indexed, self.plain)]
        assert type(outcomes[0]) is type(outcomes[1]), outcomes
        return outcomes[0]

    async def compare(self, searched: str | None, **at: str | None) -> None:
        for name in NAMES:
            found, expected = [await world.rows(name, q=searched, **at) for world in (self.indexed, self.plain)]
            assert found == expected, (name, searched, at)


async def open_pair(store: GraphStore, number: int) -> Pair:
    worlds = []
    for kind, source in (("indexed", INDEXED), ("plain", PLAIN)):
        schema = schema_of(source)
        queries = checked(QUERIES + CHANGES, schema)
        world = World(store, GraphRef("acme", f"{kind}-{number}"), schema=schema, source=source, queries=queries)
        worlds.append(await world.create())
    return Pair(*worlds)


def records(world: World, docs: list[tuple[str, str]]) -> list[GraphRecord]:
    found: list[GraphRecord] = []
    person = NodeRecord(world.schema.node_types["Person"], {"name": "ada"})
    for slug, text in dict(docs).items():
        doc = {"slug": slug, "title": text, "body": f"{text} brown fox", "state": "open"}
        found.append(NodeRecord(world.schema.node_types["Doc"], doc))
    edges = [EdgeRecord(world.schema.edge_types["Wrote"], "ada", slug, {}) for slug in dict(docs)]
    return [person, *found, *edges]


async def act(world: World, action: tuple[Any, ...]) -> Any:
    name, *given_values = action
    match name:
        case "put" | "edit" | "close" | "drop":
            branch, slug, *texts = given_values
            keys = {"put": ("title", "body"), "edit": ("body",)}.get(name, ())
            return await world.run(name, branch=branch, slug=slug, **dict(zip(keys, texts, strict=True)))
        case "load":
            branch, mode, docs = given_values
            return await world.load(records(world, docs), mode=mode, branch=branch)
        case "abandon":
            branch, docs = given_values
            load_id = world.new_id()
            mode, stamp = LoadMode.MERGE, world.stamp()
            begun = await world.store.begin_load(world.ref, branch=branch, mode=mode, load_id=load_id, stamp=stamp)
            assert isinstance(begun, LoadBegun)
            added = await world.store.add_to_load(load_id, records(world, docs), stamp=world.stamp())
            assert isinstance(added, LoadProgress)
            assert await world.store.abandon_load(load_id)
            return None
        case "merge":
            outcome = await world.merge(*given_values)
            assert isinstance(outcome, BranchesMerged | MergeConflicts), outcome
            return outcome
        case "flatten":
            outcome = await world.store.flatten(world.ref, given_values[0], stamp=world.stamp())
            assert isinstance(outcome, Flattened), outcome
            return outcome
        case "collect":
            return await world.store.collect(world.ref, GarbagePolicy(keep_since=0))
        case _:
            raise AssertionError(name)


@pytest.fixture(scope="module", params=GRAPH_STORES)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A store that all examples share, each with two graphs of its own, and the loop that it runs on."""
    folder: Path = tmp_path_factory.mktemp("searches")
    loop = asyncio.new_event_loop()
    stack = AsyncExitStack()
    store: GraphStore = loop.run_until_complete(stack.enter_async_context(GRAPH_STORES[request.param](folder)))
    numbers = iter(range(1_000_000))

    def run(work: Callable[[Pair], Coroutine[Any, Any, None]]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(120):
                pair = await open_pair(store, next(numbers))
                try:
                    await work(pair)
                finally:
                    for world in (pair.indexed, pair.plain):
                        await store.delete_graph(world.ref)
                    while (await store.sweep(limit=1_000)).more:
                        pass

        loop.run_until_complete(bounded())

    yield run
    loop.run_until_complete(stack.aclose())
    loop.close()


@given(actions=st.lists(ACTIONS, min_size=4, max_size=14), searched=st.lists(SEARCHED, min_size=2, max_size=2))
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_index_changes_no_answer(running: Any, actions: list[tuple[Any, ...]], searched: list[str | None]) -> None:
    async def work(pair: Pair) -> None:
        first = [(f"d{number}", f"quick {WORDS[number]}") for number in range(1, 5)]
        await pair.both(lambda world: world.loaded(records(world, first)))
        await pair.both(lambda world: world.fork("work"))
        snapshots = [((await pair.indexed.view()).commit_id, (await pair.plain.view()).commit_id)]
        await pair.both(lambda world: world.run("edit", branch="work", slug="d1", body="naive brown"))
        await pair.both(lambda world: world.fork("deep", "work"))
        for action in actions:
            note(str(action))
            if action[0] == "schema":
                await change_schema(pair.indexed, action[1])
                continue
            await pair.both(partial(act, action=action))
            # Totals are carried from one commit to the next, so they are asked for at each.
            ranked = [await world.rows("by_score", q="quick brown") for world in (pair.indexed, pair.plain)]
            assert ranked[0] == ranked[1]
            if action[0] != "collect":
                snapshots.append(((await pair.indexed.view()).commit_id, (await pair.plain.view()).commit_id))
        for text in searched:
            for branch in (MAIN, "work", "deep"):
                await pair.compare(text, branch=branch)
            await compare_snapshots(pair, text, snapshots[len(snapshots) // 2])

    running(work)


async def change_schema(world: World, source: str) -> None:
    applied = await world.store.apply_schema(world.ref, schema_of(source), source=source, stamp=world.stamp())
    assert isinstance(applied, SchemaApplied), applied


async def compare_snapshots(pair: Pair, text: str | None, commits: tuple[str, str]) -> None:
    for name in NAMES:
        found = await pair.indexed.rows(name, q=text, snapshot=commits[0])
        assert found == await pair.plain.rows(name, q=text, snapshot=commits[1]), (name, text)


def test_a_deleted_branch_and_collected_versions_leave_nothing_in_an_index(running: Any) -> None:
    async def work(pair: Pair) -> None:
        await pair.both(lambda world: world.loaded(records(world, [("d1", "quick"), ("d2", "brown")])))
        await pair.both(lambda world: world.fork("gone"))
        await pair.both(lambda world: world.run("edit", branch="gone", slug="d1", body="quick quack"))
        await pair.both(lambda world: world.run("edit", slug="d2", body="quack"))
        deleted = await pair.both(lambda world: world.store.delete_branch(world.ref, "gone", stamp=world.stamp()))
        assert isinstance(deleted, BranchDeleted)
        collected = await pair.both(lambda world: world.store.collect(world.ref, GarbagePolicy(keep_since=1 << 60)))
        assert collected.rows == 2
        assert await pair.indexed.rows("search_body", q="quack") == (("d2", "quack"),)
        await pair.compare("quack")
        await pair.compare("quick")

    running(work)
