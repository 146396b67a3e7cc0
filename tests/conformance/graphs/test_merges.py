"""Random edits on two branches merge as the truth table says: a model in dictionaries knows what to expect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from penstock.graph.records import EdgeRecord, NodeRecord
from penstock.graph.versions.entities import ConflictKind
from penstock.runtime.ports.graphs import BranchesMerged, GraphRef, MergeConflicts
from tests.conformance.graphs.worlds import GRAPH_STORES, World, checked, schema_of
from tests.conformance.stores import run_bounded

SCHEMA = schema_of("node Person { name: String @key  age: I32? }  edge Knows: Person -> Person { weight: I32? }")
QUERIES = """
query put() { match { $p: Person } return { $p.name } }
query remove($name: String) { delete Person where name = $name }
query forget($a: String, $b: String) { delete Knows where from = $a and to = $b }
"""
NAMES = ("ada", "bob", "cyd")
Edit = tuple[Any, ...]
EDITS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(NAMES), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("remove"), st.sampled_from(NAMES)),
    st.tuples(st.just("know"), st.sampled_from(["e1", "e2"]), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.just("forget"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
)
State = dict[tuple[str, str], Any]


def edited(state: State, edit: Edit) -> State:
    """The state after an edit; edits that cannot be made change nothing."""
    new = dict(state)
    match edit:
        case ("put", name, age):
            new["Person", name] = age or 0
        case ("remove", name):
            new.pop(("Person", name), None)
            new = {key: value for key, value in new.items() if key[0] == "Person" or name not in value}
        case ("know", edge, one, other):
            if ("Person", one) in new and ("Person", other) in new:
                new["Knows", edge] = (one, other)
        case ("forget", one, other):
            new = {key: value for key, value in new.items() if key[0] == "Person" or value != (one, other)}
        case _:
            raise AssertionError(edit)
    return new


def merged(base: State, source: State, target: State) -> tuple[State, set[tuple[ConflictKind, str, str]]]:
    """What a merge gives, by the table alone."""
    result: State = {}
    conflicts = set()
    for key in {*base, *source, *target}:
        before, theirs, ours = base.get(key), source.get(key), target.get(key)
        kept = ours
        if theirs != before and ours == before:
            kept = theirs
        elif theirs not in (before, ours):
            kind = ConflictKind.DIVERGENT_UPDATE
            if before is None:
                kind = ConflictKind.DIVERGENT_INSERT
            elif theirs is None or ours is None:
                kind = ConflictKind.DELETE_VS_UPDATE
            conflicts.add((kind, *key))
        if kept is not None:
            result[key] = kept
    return result, conflicts


def orphans(state: State) -> set[tuple[ConflictKind, str, str]]:
    """Edges without an end."""
    return {
        (ConflictKind.ORPHAN_EDGE, *key)
        for key, value in state.items()
        if key[0] == "Knows" and any(("Person", end) not in state for end in value)
    }


async def stored(world: World, branch: str) -> State:
    """What a branch holds."""
    found: State = {}
    for record in await world.records(branch):
        if isinstance(record, NodeRecord):
            found["Person", str(record.properties["name"])] = record.properties["age"] or 0
        else:
            assert isinstance(record, EdgeRecord)
            found["Knows", record.id or ""] = (record.source, record.target)
    return found


async def edit_store(world: World, edit: Edit, branch: str, state: State) -> None:
    match edit:
        case ("put", name, age):
            await world.loaded([world.person(name, age=age or 0)], branch=branch)
        case ("know", edge, one, other):
            if ("Person", one) in state and ("Person", other) in state:
                await world.loaded([world.edge("Knows", one, other, edge)], branch=branch)
        case ("remove", name):
            await world.run("remove", branch=branch, name=name)
        case ("forget", one, other):
            await world.run("forget", branch=branch, a=one, b=other)
        case _:
            raise AssertionError(edit)


SCRIPT = st.lists(EDITS, max_size=4)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@pytest.mark.parametrize("kind", GRAPH_STORES)
@given(SCRIPT, SCRIPT, SCRIPT, SCRIPT)
def test_random_edits_merge_as_the_table_says(
    kind: str,
    tmp_path_factory: pytest.TempPathFactory,
    common: list[Edit],
    on_source: list[Edit],
    on_target: list[Edit],
    later: list[Edit],
) -> None:
    async def work(folder: Path) -> None:
        async with GRAPH_STORES[kind](folder) as store:
            world = World(store, ref=GraphRef("acme", "merge"), schema=SCHEMA, source="")
            world.queries = checked(QUERIES, SCHEMA)
            await world.create()
            base: State = {}
            for edit in common:
                await edit_store(world, edit, "main", base)
                base = edited(base, edit)
            await world.fork("draft")
            target = await _edits(world, "main", base, on_target)
            source = await _edits(world, "draft", base, on_source)
            note(f"base {base} source {source} target {target}")
            result = await _merge_and_compare(world, base, source, target)
            # A second merge begins where the first one ended.
            if result is not None:
                base, source = source, await _edits(world, "draft", source, later)
                await _merge_and_compare(world, base, source, result)

    run_bounded(work(tmp_path_factory.mktemp("merge")))


async def _edits(world: World, branch: str, state: State, edits: list[Edit]) -> State:
    for edit in edits:
        await edit_store(world, edit, branch, state)
        state = edited(state, edit)
    assert await stored(world, branch) == state
    return state


async def _merge_and_compare(world: World, base: State, source: State, target: State) -> State | None:
    expected, conflicts = merged(base, source, target)
    outcome = await world.merge("draft")
    if isinstance(outcome, BranchesMerged):
        assert not conflicts
        assert not orphans(expected)
        assert await stored(world, "main") == expected
        return expected
    assert isinstance(outcome, MergeConflicts), outcome
    found = {(each.kind, each.type_name, each.entity_id or "") for each in outcome.conflicts}
    clashes = {each for each in found if each[0] is not ConflictKind.ORPHAN_EDGE}
    assert clashes == conflicts
    if not conflicts:
        assert found == orphans(expected)
    assert await stored(world, "main") == target
    return None
