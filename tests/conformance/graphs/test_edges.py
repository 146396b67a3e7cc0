"""Edges are found by their ends exactly as they are listed by identifier: on any branch, at any commit, after anything.

An export lists edges by their identifiers, and a query finds them by their ends. A store may decide in two ways which
version of an edge a view shows, so both are compared after random edits of edges on a chain of branches: changed ends,
deletions, edges that come back, abandoned loads, merges, flattening, garbage collection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from penstock.graph.records import EdgeRecord
from penstock.graph.versions.entities import LoadMode
from penstock.runtime.ports.graphs import (
    MAIN,
    BranchesMerged,
    CommitNotFound,
    Flattened,
    GarbagePolicy,
    GraphRef,
    GraphStore,
    LoadBegun,
    LoadProgress,
    MergeConflicts,
)
from tests.conformance.graphs.worlds import AT, GRAPH_STORES, World, checked

PEOPLE = ("ada", "bob", "cyd")
BRANCHES = (MAIN, "one", "two", "three")
QUERIES = """
query out($name: String) {
    match { $p: Person { name: $name } $p knows $f } return { $f.name } order { $f.name } }
query edges_out($name: String) {
    match { $p: Person { name: $name } $p $e: knows $f } return { $e.@id, $e.@src, $e.@dst } order { $e.@id } }
query edges_in($name: String) {
    match { $p: Person { name: $name } $f $e: knows $p } return { $e.@id, $e.@src, $e.@dst } order { $e.@id } }
query know($a: String, $b: String) { insert Knows { from: $a, to: $b } }
query forget($a: String, $b: String) { delete Knows where from = $a and to = $b }
"""
_branches = st.sampled_from(BRANCHES)
_people = st.sampled_from(PEOPLE)
_edges = st.lists(st.tuples(st.sampled_from(("e1", "e2", "e3", "e4")), _people, _people), min_size=1, max_size=3)
ACTIONS = st.one_of(
    st.tuples(st.just("load"), _branches, st.sampled_from((LoadMode.MERGE, LoadMode.OVERWRITE)), _edges),
    st.tuples(st.just("load"), _branches, st.just(LoadMode.MERGE), _edges),
    st.tuples(st.just("abandon"), _branches, _edges),
    st.tuples(st.just("forget"), _branches, _people, _people),
    st.tuples(st.just("know"), _branches, _people, _people),
    st.tuples(st.just("merge"), _branches, _branches),
    st.tuples(st.just("fork"), _branches),
    st.tuples(st.just("flatten"), st.sampled_from(BRANCHES[1:])),
    st.tuples(st.just("collect")),
)


def as_records(world: World, edges: list[tuple[str, str, str]]) -> list[Any]:
    known = {id_: world.edge("Knows", source, target, id_) for id_, source, target in edges}
    return [*(world.person(name) for name in PEOPLE), *known.values()]


async def act(world: World, action: tuple[Any, ...]) -> None:
    store = world.store
    match action:
        case ("load", branch, mode, edges):
            await world.loaded(as_records(world, edges), mode=mode, branch=branch)
        case ("abandon", branch, edges):
            load_id = world.new_id()
            begun = await store.begin_load(
                world.ref, branch=branch, mode=LoadMode.MERGE, load_id=load_id, stamp=world.stamp()
            )
            assert isinstance(begun, LoadBegun)
            added = await store.add_to_load(load_id, as_records(world, edges), stamp=world.stamp())
            assert isinstance(added, LoadProgress)
            assert await store.abandon_load(load_id)
        case (("forget" | "know") as name, branch, one, other):
            await world.run(name, branch=branch, a=one, b=other)
        case ("merge", source, target):
            if source != target:
                assert isinstance(await world.merge(source, target), BranchesMerged | MergeConflicts)
        case ("fork", source):
            await store.create_branch(world.ref, f"f{world.new_id()}", source=source, stamp=world.stamp())
        case ("flatten", branch):
            assert isinstance(await store.flatten(world.ref, branch, stamp=world.stamp()), Flattened)
        case ("collect",):
            await store.collect(world.ref, GarbagePolicy(keep_since=AT + 1_000_000))
        case _:
            raise AssertionError(action)


async def compare(world: World, **where: str) -> None:
    listed = [each for each in await world.records(**where) if isinstance(each, EdgeRecord)]
    edges = sorted((each.id or "", each.source, each.target) for each in listed)
    for name in PEOPLE:
        leaving = [each for each in edges if each[1] == name]
        assert await world.rows("edges_out", name=name, **where) == tuple(leaving), (name, where)
        entering = [each for each in edges if each[2] == name]
        assert await world.rows("edges_in", name=name, **where) == tuple(entering), (name, where)
        reached = sorted({target for _, _, target in leaving})
        assert await world.rows("out", name=name, **where) == tuple((each,) for each in reached), (name, where)


@pytest.fixture(scope="module", params=GRAPH_STORES)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A store that all examples share, each with a graph of its own, and the loop that it runs on."""
    folder: Path = tmp_path_factory.mktemp("edges")
    loop = asyncio.new_event_loop()
    stack = AsyncExitStack()
    store: GraphStore = loop.run_until_complete(stack.enter_async_context(GRAPH_STORES[request.param](folder)))
    numbers = count(1)

    def run(work: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(120):
                world = World(store, GraphRef("acme", f"edges-{next(numbers)}"))
                world.queries = checked(QUERIES, world.schema)
                try:
                    await work(await world.create())
                finally:
                    await store.delete_graph(world.ref)
                    while (await store.sweep(limit=1_000)).more:
                        pass

        loop.run_until_complete(bounded())

    yield run
    loop.run_until_complete(stack.aclose())
    loop.close()


@given(st.lists(ACTIONS, min_size=6, max_size=16))
@settings(
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_edges_are_found_by_their_ends_as_they_are_listed(running: Any, actions: list[tuple[Any, ...]]) -> None:
    async def work(world: World) -> None:
        await world.loaded(as_records(world, [("e1", "ada", "bob"), ("e2", "bob", "cyd"), ("e3", "ada", "cyd")]))
        for parent, name in pairwise(BRANCHES):
            await world.fork(name, parent)
        snapshots: list[str] = []
        for action in actions:
            note(str(action))
            await act(world, action)
            if action[0] == "collect":
                snapshots.clear()
            elif action[0] in ("load", "know", "forget"):
                snapshots.append((await world.view(action[1])).commit_id)
        branches = await world.store.branches(world.ref)
        assert isinstance(branches, tuple)
        for each in branches:
            await compare(world, branch=each.name)
        for commit_id in snapshots[-4:]:
            found = await world.store.resolve(world.ref, snapshot=commit_id)
            if isinstance(found, CommitNotFound):  # what a branch inherits may be older than what is kept
                assert found.collected
                continue
            await compare(world, snapshot=commit_id)

    running(work)
