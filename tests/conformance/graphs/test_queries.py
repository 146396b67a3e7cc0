"""Random queries on random graphs give the answers of the naive interpreter: on main, on branches, at snapshots."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from penstock.graph.records import EdgeRecord, GraphRecord, NodeRecord
from penstock.graph.typing.model import CheckedRead
from penstock.graph.versions.entities import LoadMode
from penstock.runtime.ports.graphs import GraphRef, ReadRows
from tests.conformance.graphs.naive import NaiveGraph, answer
from tests.conformance.graphs.random_queries import checked_or_none, queries, records
from tests.conformance.graphs.worlds import AT, GRAPH_STORES, SCHEMA, World, schema_of

PARAMETERS = st.fixed_dictionaries(
    {
        "n": st.sampled_from(["ada", "bob", "nobody"]),
        "i": st.sampled_from([None, 0, 1, 30]),
        "s": st.sampled_from([None, "a", "ada", "calm", ""]),
        "f": st.sampled_from([None, 0.1, 1.0]),
        "l": st.sampled_from([None, (), ("a", "ä")]),
        "k": st.sampled_from([(), (1, 30)]),
        "b": st.sampled_from([None, True, False]),
        "d": st.sampled_from([None, "2001-06-30"]),
    }
)


@pytest.fixture(scope="module", params=GRAPH_STORES)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A store that all examples share, each with a graph of its own, and the loop that it runs on."""
    folder: Path = tmp_path_factory.mktemp("graphs")
    loop = asyncio.new_event_loop()
    stack = AsyncExitStack()
    store = loop.run_until_complete(stack.enter_async_context(GRAPH_STORES[request.param](folder)))
    numbers = iter(range(1_000_000))

    def run(work: Callable[[World], Awaitable[None]]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(60):
                world = World(store, ref=GraphRef("acme", f"g{next(numbers)}"))
                world.schema = SHARED
                await world.create()
                try:
                    await work(world)
                finally:  # many graphs in one file would make each new one slower
                    await store.delete_graph(world.ref)
                    while (await store.sweep(limit=1_000)).more:
                        pass

        loop.run_until_complete(bounded())

    yield run
    loop.run_until_complete(stack.aclose())
    loop.close()


SHARED = schema_of(SCHEMA)


def as_records(plain: dict[str, list[tuple[Any, ...]]]) -> list[GraphRecord]:
    """Plain values as records."""
    keys = {"Person": "name", "Team": "slug"}
    found: list[GraphRecord] = []
    for name, items in plain.items():
        for item in items:
            if name in keys:
                found.append(NodeRecord(SHARED.node_types[name], {keys[name]: item[0], **item[1]}))
            else:
                found.append(EdgeRecord(SHARED.edge_types[name], item[0], item[1], item[2]))
    return found


def same(one: Any, other: Any) -> bool:
    """Whether two cells are equal; sums of floats may differ in the last digits."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


async def check(world: World, text: str, parameters: dict[str, Any], **where: str) -> None:
    query = checked_or_none(text, world.schema)
    assume(query is not None)
    assert query is not None
    assert isinstance(query.body, CheckedRead)
    graph = NaiveGraph.of(await world.records(**where))
    found = await world.store.read(await world.view(**where), query, parameters, at=AT)
    assert isinstance(found, ReadRows), found
    expected = answer(graph, query.body, parameters, AT)
    note(f"{where} {text}\n{parameters}\nfound {found.rows}\nexpected {expected}")
    assert len(found.rows) == len(expected)
    for row, wanted in zip(found.rows, expected, strict=True):
        assert all(map(same, row, wanted)), (row, wanted)


CALM = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], deadline=None)


@CALM
@given(records(), queries(), PARAMETERS)
def test_a_query_on_main_gives_the_answer_of_the_interpreter(
    running: Any, plain: dict[str, Any], text: str, parameters: dict[str, Any]
) -> None:
    async def work(world: World) -> None:
        await world.loaded(as_records(plain))
        await check(world, text, parameters)

    assume(checked_or_none(text, SHARED) is not None)
    running(work)


@CALM
@given(records(), records(), records(), queries(), PARAMETERS)
def test_a_query_on_branches_and_at_snapshots_gives_the_answer_of_the_interpreter(
    running: Any,
    first: dict[str, Any],
    second: dict[str, Any],
    third: dict[str, Any],
    text: str,
    parameters: dict[str, Any],
) -> None:
    async def work(world: World) -> None:
        start = await world.loaded(as_records(first))
        await world.fork("one")
        await world.load(as_records(second), branch="one", mode=LoadMode.OVERWRITE)
        await world.fork("one-two", "one")
        await world.run("remove", branch="one-two", name="ada")
        await world.load(as_records(third), branch="one-two", mode=LoadMode.MERGE)
        await world.run("remove", name="bob")
        for where in ({}, {"branch": "one"}, {"branch": "one-two"}):
            await check(world, text, parameters, **where)
        if start.commit is not None:
            await check(world, text, parameters, snapshot=start.commit.commit_id)

    assume(checked_or_none(text, SHARED) is not None)
    running(work)
