"""What every graph store does: the contract of the `GraphStore` port, one fact at a time."""

from __future__ import annotations

import asyncio
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from penstock.base import limits
from penstock.base.errors import LimitExceeded, Rejected
from penstock.graph.records import GraphRecord, NodeRecord
from penstock.graph.versions.entities import ChangeKind, ConflictKind, LoadMode, MergeOutcome, ViolationKind
from penstock.runtime.ports.graphs import (
    BranchBusy,
    BranchDeleted,
    BranchesMerged,
    BranchExists,
    BranchInUse,
    BranchNameRefused,
    BranchNotFound,
    BranchTooDeep,
    ChangeGap,
    ChangePage,
    Collected,
    CommitNotFound,
    CommitPage,
    ConstraintsViolated,
    DiffPage,
    Explanation,
    Flattened,
    GarbagePolicy,
    GraphDeleted,
    GraphExists,
    GraphNotFound,
    GraphRef,
    HeadMoved,
    LoadBegun,
    LoadNotFound,
    LoadProgress,
    LoadPublished,
    LoadRefused,
    MergeConflicts,
    Mutated,
    PageWanted,
    QueryNotSupported,
    ReadLimits,
    ReadRows,
    ReadStopped,
    SchemaApplied,
    SchemaRefused,
)
from penstock.runtime.tables.listings import id_cursor, number_cursor, place_cursor
from tests.conformance.graphs.worlds import AT, SCHEMA, World, checked, on_every_graph_store, schema_of


async def names(world: World, **where: Any) -> list[str]:
    return [row[0] for row in await world.rows("people", **where)]


# --- graphs ---------------------------------------------------------------------------------------


@on_every_graph_store
async def test_a_graph_belongs_to_its_tenant(world: World) -> None:
    other = GraphRef("umbrella", world.ref.name)
    assert await world.store.graph(other) is None
    assert await world.store.resolve(other) == GraphNotFound()
    assert (await world.store.graphs("umbrella", limit=10)).rows == ()
    made = await world.store.create_graph(other, schema=world.schema, source=SCHEMA, stamp=world.stamp())
    assert made != GraphExists()
    await world.do("add", name="ada", age=1)
    theirs = World(world.store, ref=other, numbers=world.numbers, queries=world.queries)
    assert await names(theirs) == []
    again = await world.store.create_graph(world.ref, schema=world.schema, source=SCHEMA, stamp=world.stamp())
    assert again == GraphExists()


@on_every_graph_store
async def test_a_graph_has_the_schema_that_it_was_made_with(world: World) -> None:
    row = await world.store.graph(world.ref)
    assert row is not None
    assert (row.schema, row.schema_source, row.schema_version) == (world.schema, SCHEMA, 1)


@on_every_graph_store
async def test_graphs_are_listed_by_name_in_pages(world: World) -> None:
    for name in ("b", "a", "c"):
        ref = GraphRef("umbrella", name)
        await world.store.create_graph(ref, schema=world.schema, source=SCHEMA, stamp=world.stamp())
    first = await world.store.graphs("umbrella", limit=2)
    second = await world.store.graphs("umbrella", limit=2, cursor=first.next_cursor)
    assert [row.ref.name for row in (*first.rows, *second.rows)] == ["a", "b", "c"]
    assert second.next_cursor is None


@on_every_graph_store
async def test_a_deleted_graph_is_gone_and_its_name_is_free(world: World) -> None:
    await world.do("add", name="ada", age=1)
    view = await world.view()
    assert await world.store.delete_graph(world.ref) == GraphDeleted()
    assert await world.store.delete_graph(world.ref) == GraphNotFound()
    assert isinstance(await world.store.read(view, world.queries["people"], {}, at=AT), CommitNotFound)
    await world.create()
    assert await names(world) == []
    while (await world.store.sweep(limit=1)).more:
        pass
    await world.do("add", name="bob", age=1)
    assert await names(world) == ["bob"]


# --- mutations ------------------------------------------------------------------------------------


@on_every_graph_store
async def test_a_mutation_is_one_commit_with_its_counts(world: World) -> None:
    outcome = await world.run("pair", a="ada", b="bob")
    assert isinstance(outcome, Mutated)
    assert (outcome.affected_nodes, outcome.affected_edges) == (2, 1)
    assert outcome.commit is not None
    assert (outcome.commit.kind, outcome.commit.branch, outcome.commit.actor) == ("mutation", "main", "tester")
    view = await world.view()
    assert view.commit_id == outcome.commit.commit_id
    assert await world.rows("known", name="ada") == (("bob",),)


@on_every_graph_store
async def test_a_mutation_that_matches_nothing_makes_no_commit(world: World) -> None:
    before = (await world.view()).commit_id
    assert await world.run("set_age", name="nobody", age=3) == Mutated(None, 0, 0)
    assert (await world.view()).commit_id == before


@on_every_graph_store
async def test_deleting_a_node_deletes_its_edges(world: World) -> None:
    await world.do("pair", a="ada", b="bob")
    await world.do("know", a="bob", b="bob")
    outcome = await world.run("remove", name="bob")
    assert (outcome.affected_nodes, outcome.affected_edges) == (1, 2)
    assert [type(record) for record in await world.records()] == [NodeRecord]


@on_every_graph_store
async def test_constraints_are_enforced_and_nothing_is_left_of_a_refused_mutation(world: World) -> None:
    await world.do("add_full", name="ada", email="a@x", mood=None, code=None, age=1)
    before = (await world.view()).commit_id
    plain = {"email": None, "mood": None, "code": None, "age": None}
    refused: list[tuple[str, dict[str, Any], ViolationKind]] = [
        ("add", {"name": "ada", "age": 2}, ViolationKind.KEY_CONFLICT),
        ("add", {"name": "bob", "age": 151}, ViolationKind.RANGE),
        ("add_full", {**plain, "name": "bob", "email": "a@x"}, ViolationKind.UNIQUE),
        ("add_full", {**plain, "name": "bob", "mood": "wild"}, ViolationKind.ENUM),
        ("add_full", {**plain, "name": "bob", "code": "A1"}, ViolationKind.CHECK),
        ("add_full", {**plain, "name": "b\0b"}, ViolationKind.VALUE),
        ("know", {"a": "ada", "b": "nobody"}, ViolationKind.MISSING_END),
        ("pair", {"a": "bob", "b": "bob"}, ViolationKind.KEY_CONFLICT),
    ]
    for query, parameters, kind in refused:
        outcome = await world.run(query, **parameters)
        assert isinstance(outcome, ConstraintsViolated), (query, parameters, outcome)
        assert {each.kind for each in outcome.violations} == {kind}
    assert (await world.view()).commit_id == before
    assert await names(world) == ["ada"]


@on_every_graph_store
async def test_cardinality_is_enforced(world: World) -> None:
    await world.do("add", name="ada", age=1)
    for slug in ("red", "blue", "green"):
        await world.do("team", slug=slug)
    await world.do("join", a="ada", t="red")
    await world.do("join", a="ada", t="blue")
    outcome = await world.run("join", a="ada", t="green")
    assert isinstance(outcome, ConstraintsViolated)
    assert [each.kind for each in outcome.violations] == [ViolationKind.CARDINALITY]


@on_every_graph_store
async def test_only_the_expected_head_is_replaced(world: World) -> None:
    first = await world.do("add", name="ada", age=1)
    second = await world.do("add", name="bob", age=1)
    outcome = await world.run("add", stamp=world.stamp(if_graph_commit=first.commit_id), name="cyd", age=1)
    assert outcome == HeadMoved(first.commit_id, second.commit_id)
    made = await world.run("add", stamp=world.stamp(if_graph_commit=second.commit_id), name="cyd", age=1)
    assert isinstance(made, Mutated)


@on_every_graph_store
async def test_of_concurrent_mutations_with_one_expected_head_one_succeeds(world: World) -> None:
    head = (await world.view()).commit_id
    outcomes = await asyncio.gather(
        *(world.run("add", stamp=world.stamp(if_graph_commit=head), name=f"p{number}", age=1) for number in range(8))
    )
    assert sum(isinstance(each, Mutated) for each in outcomes) == 1
    assert len(await names(world)) == 1


@on_every_graph_store
async def test_a_query_for_an_older_schema_is_refused(world: World) -> None:
    smaller = schema_of("node Team { slug: String @key  title: String }")
    await world.store.apply_schema(world.ref, smaller, source="", stamp=world.stamp())
    view = await world.view()
    assert isinstance(await world.store.read(view, world.queries["people"], {}, at=AT), QueryNotSupported)
    assert isinstance(await world.run("add", name="ada", age=1), QueryNotSupported)


# --- reading --------------------------------------------------------------------------------------


@on_every_graph_store
async def test_pages_of_a_read_fit_together(world: World) -> None:
    await world.loaded([world.person(f"p{number}") for number in range(7)])
    view = await world.view()
    found: list[Any] = []
    while True:
        page = PageWanted(first=len(found), size=3)
        rows = await world.store.read(view, world.queries["people"], {}, at=AT, page=page)
        assert isinstance(rows, ReadRows)
        found += rows.rows
        if not rows.more:
            break
    assert [row[0] for row in found] == [f"p{number}" for number in range(7)]


@on_every_graph_store
async def test_limits_end_a_query_by_name(world: World) -> None:
    await world.loaded([world.person(f"p{number}", bio="x" * 100) for number in range(60)])
    queries = checked("query r() { match { $a: Person } return { $a.bio } }", world.schema)
    view = await world.view()
    stopped = await world.store.read(view, queries["r"], {}, at=AT, limits=ReadLimits(result_bytes=1_000))
    assert stopped == ReadStopped("GRAPH_RESULT_BYTES_MAX", 1_000)
    few = await world.store.read(view, queries["r"], {}, at=AT, limits=ReadLimits(rows=5))
    assert isinstance(few, ReadRows)
    assert (len(few.rows), few.more) == (5, True)


@on_every_graph_store
async def test_a_query_that_takes_too_long_is_ended(world: World) -> None:
    people = [world.person(f"p{number}") for number in range(120)]
    links = [world.edge("Knows", f"p{one}", f"p{(one * 7 + step) % 120}") for one in range(120) for step in range(40)]
    await world.loaded([*people, *links])
    queries = checked(
        "query q() { match { $a: Person $a knows $b $b knows $c $c knows $d $d knows $e } return { count($a) as n } }",
        world.schema,
    )
    view = await world.view()
    stopped = await world.store.read(view, queries["q"], {}, at=AT, limits=ReadLimits(seconds=0.05))
    assert stopped == ReadStopped("GRAPH_QUERY_SECONDS", 0.05)
    assert len(await names(world)) == 120


@on_every_graph_store
async def test_a_search_that_takes_too_long_is_ended(world: World) -> None:
    text = " ".join(f"word{number}" for number in range(20_000))
    await world.loaded([world.person(f"p{number}", bio=f"{text} {number}") for number in range(60)])
    queries = checked('query q() { match { $a: Person fuzzy($a.bio, "wurd", 2) } return { $a.name } }', world.schema)
    view = await world.view()
    stopped = await world.store.read(view, queries["q"], {}, at=AT, limits=ReadLimits(seconds=0.02))
    assert stopped == ReadStopped("GRAPH_QUERY_SECONDS", 0.02)


@on_every_graph_store
async def test_an_answer_that_is_too_large_is_ended_at_the_row_that_is_too_much(world: World) -> None:
    await world.loaded([world.person(f"p{number}", bio="x" * 100_000) for number in range(12)])
    columns = ", ".join(f"$a.bio as c{number}" for number in range(100))
    queries = checked(f"query r() {{ match {{ $a: Person }} return {{ {columns} }} }}", world.schema)
    view = await world.view()
    tracemalloc.start()
    try:
        stopped = await world.store.read(view, queries["r"], {}, at=AT, limits=ReadLimits(result_bytes=25_000_000))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stopped == ReadStopped("GRAPH_RESULT_BYTES_MAX", 25_000_000)
    assert most < 60_000_000  # all rows have 120 MB


@on_every_graph_store
async def test_a_read_is_explained_with_and_without_running_it(world: World) -> None:
    await world.do("pair", a="ada", b="bob")
    view = await world.view()
    explained = await world.store.explain(view, world.queries["known"], {"name": "ada"}, at=AT)
    assert isinstance(explained, Explanation)
    assert (explained.estimated_cost, explained.rows) == ("lookup", None)
    assert all(step.access != "scan" for step in explained.steps)
    scanned = await world.store.explain(view, world.queries["people"], {}, at=AT, run=True)
    assert isinstance(scanned, Explanation)
    assert (scanned.estimated_cost, scanned.rows) == ("scan", 2)
    assert scanned.milliseconds is not None


@on_every_graph_store
async def test_every_type_of_value_comes_back_as_it_was(world: World) -> None:
    values = {
        "age": 30,
        "mood": "glad",
        "tags": ("a", "ä\N{GRINNING FACE}", ""),
        "bio": "'; DROP TABLE x; --",
        "score": 0.1,
        "born": "2000-02-29",
        "seen": -1,
        "active": False,
        "place": (0.5, -0.25),
        "email": "a@x",
        "code": "abc1",
    }
    await world.loaded([world.person("ada", **values)])
    (record,) = await world.records()
    assert record.properties == {"name": "ada", **values}


# --- branches -------------------------------------------------------------------------------------


@on_every_graph_store
async def test_a_branch_sees_what_its_parent_had_and_hides_its_own_changes(world: World) -> None:
    await world.do("pair", a="ada", b="bob")
    await world.fork("draft")
    await world.do("add", name="eve", age=1)
    await world.do("remove", branch="draft", name="bob")
    await world.do("set_age", branch="draft", name="ada", age=9)
    assert await world.rows("people", branch="draft") == (("ada", 9),)
    assert await world.rows("people") == (("ada", None), ("bob", None), ("eve", 1))
    assert await world.rows("known", branch="draft", name="ada") == ()
    assert await world.rows("known", name="ada") == (("bob",),)


@on_every_graph_store
async def test_what_was_deleted_on_a_branch_can_come_back_there(world: World) -> None:
    await world.do("add", name="ada", age=1)
    await world.fork("draft")
    await world.do("remove", branch="draft", name="ada")
    gone = await world.do("team", branch="draft", slug="red")
    await world.do("add", branch="draft", name="ada", age=2)
    await world.do("remove", branch="draft", name="ada")
    await world.do("add", branch="draft", name="ada", age=3)
    assert await world.rows("people", branch="draft") == (("ada", 3),)
    assert await world.rows("people", snapshot=gone.commit_id) == ()
    assert await world.rows("people") == (("ada", 1),)


@on_every_graph_store
async def test_branch_names_obey_their_rules(world: World) -> None:
    await world.fork("a/b")

    async def made(name: str, source: str = "main") -> Any:
        return await world.store.create_branch(world.ref, name, source=source, stamp=world.stamp())

    assert await made("main") == BranchExists("main")
    assert await made("a/b") == BranchExists("a/b")
    assert await made("a") == BranchNameRefused("a", "a/b")
    assert await made("a/b/c") == BranchNameRefused("a/b/c", "a/b")
    for name in ("", "/", "a//b", "with space", "-x", "x" * (limits.GRAPH_BRANCH_NAME_CHARACTERS_MAX + 1)):
        assert await made(name) == BranchNameRefused(name, None)
    assert await made("x", "nowhere") == BranchNotFound("nowhere")


@on_every_graph_store
async def test_only_a_branch_without_descendants_is_deleted(world: World) -> None:
    await world.fork("one")
    await world.fork("two", "one")

    async def deleted(name: str) -> Any:
        return await world.store.delete_branch(world.ref, name, stamp=world.stamp())

    assert await deleted("main") == BranchInUse("main", ("one",))
    assert await deleted("one") == BranchInUse("one", ("two",))
    assert await deleted("two") == BranchDeleted()
    assert await deleted("two") == BranchNotFound("two")
    assert await deleted("one") == BranchDeleted()
    rows = await world.store.branches(world.ref)
    assert not isinstance(rows, GraphNotFound)
    assert [row.name for row in rows] == ["main"]
    await world.fork("one")


@on_every_graph_store
async def test_a_branch_may_be_forked_from_a_commit(world: World) -> None:
    first = await world.do("add", name="ada", age=1)
    await world.do("add", name="bob", age=1)
    store, ref = world.store, world.ref
    await store.create_branch(ref, "old", snapshot=first.commit_id, stamp=world.stamp())
    assert await names(world, branch="old") == ["ada"]
    refused = await store.create_branch(ref, "older", snapshot="nothing", stamp=world.stamp())
    assert refused == CommitNotFound("nothing")


@on_every_graph_store
async def test_a_chain_of_branches_is_flattened_before_it_is_too_deep(world: World) -> None:
    await world.do("add", name="p0", age=0)
    parent = "main"
    for number in range(1, limits.GRAPH_CHAIN_DEPTH_MAX):
        await world.fork(f"b{number}", parent)
        parent = f"b{number}"
        await world.do("add", branch=parent, name=f"p{number}", age=number)
    await world.do("remove", branch=parent, name="p3")
    deep = await world.store.create_branch(world.ref, "more", source=parent, stamp=world.stamp())
    assert deep == BranchTooDeep(parent, limits.GRAPH_CHAIN_DEPTH_MAX)
    before, records = await names(world, branch=parent), await world.records(parent)
    assert "p3" not in before
    older = (await world.view(parent)).commit_id
    flat = await world.store.flatten(world.ref, parent, stamp=world.stamp())
    assert isinstance(flat, Flattened)
    assert flat.commit is not None
    assert await world.store.flatten(world.ref, parent, stamp=world.stamp()) == Flattened(None, 0)
    assert (await world.records(parent), await names(world, branch=parent)) == (records, before)
    assert await names(world, snapshot=older) == before
    await world.fork("more", parent)
    assert await names(world, branch="more") == before
    assert isinstance(await world.merge(parent), BranchesMerged)
    assert await names(world) == before


@on_every_graph_store
async def test_snapshots_show_what_was(world: World) -> None:
    commits = [await world.do("add", name="ada", age=1)]
    commits.append(await world.do("set_age", name="ada", age=2))
    commits.append(await world.do("remove", name="ada"))
    shown = [await world.rows("people", snapshot=each.commit_id) for each in commits]
    assert shown == [(("ada", 1),), (("ada", 2),), ()]
    assert await world.store.resolve(world.ref, snapshot="nothing") == CommitNotFound("nothing")


@on_every_graph_store
async def test_commits_are_listed_newest_first_with_their_parents(world: World) -> None:
    first = await world.do("add", name="ada", age=1)
    await world.fork("draft")
    second = await world.do("add", branch="draft", name="bob", age=1)
    third = await world.do("add", name="cyd", age=1)
    page = await world.store.commits(world.ref, branch="draft", limit=2)
    assert isinstance(page, CommitPage)
    assert [row.commit_id for row in page.rows] == [second.commit_id, first.commit_id]
    assert page.rows[0].parent_id == first.commit_id
    rest = await world.store.commits(world.ref, branch="draft", limit=2, cursor=page.next_cursor)
    assert isinstance(rest, CommitPage)
    assert [row.kind for row in rest.rows] == ["create"]
    everything = await world.store.commits(world.ref, limit=10)
    assert isinstance(everything, CommitPage)
    assert everything.rows[0] == third
    assert await world.store.commit(world.ref, second.commit_id) == second
    assert await world.store.commit(world.ref, "nothing") == CommitNotFound("nothing")


# --- differences ----------------------------------------------------------------------------------


@on_every_graph_store
async def test_a_difference_names_what_was_inserted_updated_and_deleted(world: World) -> None:
    await world.do("pair", a="ada", b="bob")
    await world.do("add", name="cyd", age=1)
    await world.fork("draft")
    await world.do("remove", branch="draft", name="bob")
    await world.do("set_age", branch="draft", name="cyd", age=2)
    await world.do("add", branch="draft", name="dan", age=1)
    main, draft = await world.view(), await world.view("draft")
    found: list[tuple[ChangeKind, str]] = []
    cursor = None
    while True:
        page = await world.store.diff(main, draft, limit=2, cursor=cursor)
        assert isinstance(page, DiffPage)
        found += [(each.kind, each.type_name) for each in page.changes]
        cursor = page.next_cursor
        if cursor is None:
            break
    for invented in ("x", id_cursor("one:two"), id_cursor("-1:x"), place_cursor(-1, "x"), number_cursor(3)):
        with pytest.raises(Rejected, match="cursor"):
            await world.store.diff(main, draft, limit=2, cursor=invented)
    assert found == [
        (ChangeKind.DELETED, "Person"),
        (ChangeKind.UPDATED, "Person"),
        (ChangeKind.INSERTED, "Person"),
        (ChangeKind.DELETED, "Knows"),
    ]
    back = await world.store.diff(draft, main, limit=10)
    assert isinstance(back, DiffPage)
    assert sorted(each.kind.value for each in back.changes) == ["deleted", "inserted", "inserted", "updated"]
    same = await world.store.diff(main, main, limit=10)
    assert same == DiffPage((), None)


@on_every_graph_store
async def test_the_change_feed_goes_on_from_a_commit(world: World) -> None:
    await world.do("add", name="ada", age=1)
    await world.fork("draft")
    await world.do("set_age", branch="draft", name="ada", age=2)
    whole = await world.store.changes(world.ref, branch="draft", limit=100)
    assert isinstance(whole, ChangePage)
    shape = [[(each.kind.value, each.entity_id) for each in changes] for _, changes in whole.commits]
    assert shape == [[], [("inserted", "ada")], [("updated", "ada")]]
    later = await world.store.changes(world.ref, branch="draft", after=whole.cursor, limit=100)
    assert later == ChangePage((), whole.cursor, more=False)
    first = await world.store.changes(world.ref, branch="draft", limit=1)
    assert isinstance(first, ChangePage)
    rest = await world.store.changes(world.ref, branch="draft", after=first.cursor, limit=100)
    assert isinstance(rest, ChangePage)
    assert (*first.commits, *rest.commits) == whole.commits
    assert await world.store.changes(world.ref, after="nothing", limit=1) == CommitNotFound("nothing")


# --- merges ---------------------------------------------------------------------------------------


@on_every_graph_store
async def test_a_merge_brings_everything_and_knows_when_there_is_nothing(world: World) -> None:
    await world.do("add", name="ada", age=1)
    await world.fork("draft")
    await world.do("add", branch="draft", name="bob", age=1)
    merged = await world.merge("draft")
    assert isinstance(merged, BranchesMerged)
    assert (merged.outcome, merged.changes) == (MergeOutcome.FAST_FORWARD, 1)
    assert merged.commit is not None
    assert merged.commit.merged_parent_id == (await world.view("draft")).commit_id
    again = await world.merge("draft")
    assert (again.outcome, again.commit) == (MergeOutcome.ALREADY_UP_TO_DATE, None)
    await world.do("add", name="cyd", age=1)
    await world.do("set_age", branch="draft", name="bob", age=2)
    third = await world.merge("draft")
    assert (third.outcome, third.changes) == (MergeOutcome.MERGED, 1)
    assert await world.rows("people") == (("ada", 1), ("bob", 2), ("cyd", 1))
    back = await world.merge("main", "draft")
    assert (back.outcome, back.changes) == (MergeOutcome.FAST_FORWARD, 1)
    assert await world.rows("people", branch="draft") == await world.rows("people")


@on_every_graph_store
async def test_a_branch_whose_edits_cancel_out_still_merges(world: World) -> None:
    await world.do("add", name="ada", age=1)
    await world.fork("draft")
    await world.do("set_age", branch="draft", name="ada", age=2)
    await world.do("set_age", branch="draft", name="ada", age=1)
    merged = await world.merge("draft")
    assert (merged.outcome, merged.changes) == (MergeOutcome.FAST_FORWARD, 0)


@on_every_graph_store
async def test_every_conflict_of_a_merge_is_reported_and_nothing_is_merged(world: World) -> None:
    for name in ("ada", "bob", "cyd"):
        await world.do("add", name=name, age=1)
    await world.fork("draft")
    for branch, age in (("main", 2), ("draft", 3)):
        await world.do("set_age", branch=branch, name="ada", age=age)
        await world.do("add", branch=branch, name="new", age=age)
    await world.do("remove", name="bob")
    await world.do("set_age", branch="draft", name="bob", age=4)
    await world.do("remove", name="cyd")
    await world.do("know", branch="draft", a="ada", b="cyd")
    before = (await world.view()).commit_id
    refused = await world.merge("draft")
    assert isinstance(refused, MergeConflicts)
    assert {(each.kind, each.type_name) for each in refused.conflicts} == {
        (ConflictKind.DIVERGENT_UPDATE, "Person"),
        (ConflictKind.DIVERGENT_INSERT, "Person"),
        (ConflictKind.DELETE_VS_UPDATE, "Person"),
        (ConflictKind.ORPHAN_EDGE, "Knows"),
    }
    assert refused.total == 4
    assert (await world.view()).commit_id == before


@on_every_graph_store
async def test_a_merge_that_would_break_a_constraint_is_a_conflict(world: World) -> None:
    await world.do("add", name="ada", age=1)
    await world.do("add", name="bob", age=1)
    for slug in ("red", "blue", "green"):
        await world.do("team", slug=slug)
    await world.do("join", a="ada", t="red")
    await world.fork("draft")
    await world.do("set_email", name="ada", email="x@x")
    await world.do("set_email", branch="draft", name="bob", email="x@x")
    refused = await world.merge("draft")
    assert isinstance(refused, MergeConflicts)
    assert {each.kind for each in refused.conflicts} == {ConflictKind.UNIQUE_VIOLATION}
    await world.do("set_email", name="ada", email=None)
    await world.do("join", a="ada", t="blue")
    await world.do("join", branch="draft", a="ada", t="green")
    refused = await world.merge("draft")
    assert isinstance(refused, MergeConflicts)
    assert {each.kind for each in refused.conflicts} == {ConflictKind.CARDINALITY_VIOLATION}


@on_every_graph_store
async def test_the_same_change_on_both_sides_is_no_conflict(world: World) -> None:
    await world.do("add", name="ada", age=1)
    await world.do("add", name="bob", age=1)
    await world.fork("draft")
    for branch in ("main", "draft"):
        await world.do("set_age", branch=branch, name="ada", age=2)
        await world.do("remove", branch=branch, name="bob")
        await world.do("add", branch=branch, name="cyd", age=3)
        await world.do("know", branch=branch, a="ada", b="cyd")
    merged = await world.merge("draft")
    assert (merged.outcome, merged.changes) == (MergeOutcome.MERGED, 1)
    assert len([record for record in await world.records() if not isinstance(record, NodeRecord)]) == 2


@on_every_graph_store
async def test_a_large_merge_is_written_in_pieces_and_appears_at_once(world: World) -> None:
    many = limits.GRAPH_MERGE_ROWS_AT_ONCE * 2 + 10
    await world.do("add", name="ada", age=1)
    await world.fork("draft")
    await world.loaded([world.person(f"p{number:05d}", age=1) for number in range(many)], branch="draft")
    await world.do("remove", branch="draft", name="ada")
    await world.do("add", name="bob", age=1)
    merged = await world.merge("draft")
    assert (merged.outcome, merged.changes) == (MergeOutcome.MERGED, many + 1)
    assert len(await names(world)) == many + 1
    await world.fork("clash")
    await world.loaded(
        [world.person(f"q{number:05d}", email="same" if number < 2 else None) for number in range(1)], branch="clash"
    )
    await world.loaded([world.person(f"r{number:05d}") for number in range(many)], branch="clash")
    await world.do("add_full", name="zed", email="same", mood=None, code=None, age=1)
    before = (await world.view()).commit_id
    refused = await world.merge("clash")
    assert isinstance(refused, MergeConflicts)
    assert {each.kind for each in refused.conflicts} == {ConflictKind.UNIQUE_VIOLATION}
    assert (await world.view()).commit_id == before
    await world.do("add", name="later", age=1)
    assert "r00000" not in await names(world)


# --- loads ----------------------------------------------------------------------------------------


@on_every_graph_store
async def test_a_load_is_invisible_until_it_is_published_and_then_one_commit(world: World) -> None:
    before = (await world.view()).commit_id
    begun = await world.store.begin_load(
        world.ref, branch="main", mode=LoadMode.APPEND, load_id="L", stamp=world.stamp()
    )
    assert begun == LoadBegun("L", branch_created=False)
    edge_first: list[GraphRecord] = [world.edge("Knows", "ada", "bob"), world.person("ada"), world.person("bob")]
    assert await world.store.add_to_load("L", edge_first, stamp=world.stamp()) == LoadProgress("L", 3)
    assert await names(world) == []
    assert await world.run("add", name="eve", age=1) == BranchBusy("main", "L")
    assert (await world.view()).commit_id == before
    await world.fork("aside")
    assert isinstance(await world.run("add", branch="aside", name="eve", age=1), Mutated)
    published = await world.store.publish_load("L", stamp=world.stamp())
    assert isinstance(published, LoadPublished)
    assert (published.nodes, published.edges) == ({"Person": 2}, {"Knows": 1})
    assert await world.rows("known", name="ada") == (("bob",),)
    assert await names(world, branch="aside") == ["eve"]
    assert await world.store.publish_load("L", stamp=world.stamp()) == LoadNotFound("L")


@on_every_graph_store
async def test_the_modes_of_a_load_differ_in_what_exists(world: World) -> None:
    await world.loaded([world.person("ada", age=1), world.person("bob", age=1)])
    refused = await world.load([world.person("cyd"), world.person("ada")], mode=LoadMode.APPEND)
    assert isinstance(refused, LoadRefused)
    assert [(each.kind, each.record) for each in refused.violations] == [(ViolationKind.KEY_CONFLICT, 2)]
    await world.loaded([world.person("ada", age=2), world.person("cyd", age=3)], mode=LoadMode.MERGE)
    assert await world.rows("people") == (("ada", 2), ("bob", 1), ("cyd", 3))
    await world.do("team", slug="red")
    await world.loaded([world.person("bob", age=9)], mode=LoadMode.OVERWRITE)
    assert await world.rows("people") == (("bob", 9),)
    assert len(await world.records()) == 2


@on_every_graph_store
async def test_a_refused_load_leaves_nothing(world: World) -> None:
    await world.do("add", name="ada", age=1)
    before = (await world.view()).commit_id
    cases: list[tuple[list[Any], LoadMode, ViolationKind]] = [
        ([world.person("x", age=999)], LoadMode.MERGE, ViolationKind.RANGE),
        ([world.edge("Knows", "ada", "nobody")], LoadMode.MERGE, ViolationKind.MISSING_END),
        ([world.person("x", email="e"), world.person("y", email="e")], LoadMode.MERGE, ViolationKind.UNIQUE),
        ([world.person("x"), world.person("x")], LoadMode.APPEND, ViolationKind.KEY_CONFLICT),
        ([NodeRecord(replace_name(world), {})], LoadMode.MERGE, ViolationKind.UNKNOWN_TYPE),
    ]
    for records, mode, kind in cases:
        refused = await world.load(records, mode=mode)
        assert isinstance(refused, LoadRefused), refused
        assert {each.kind for each in refused.violations} == {kind}
        assert (await world.view()).commit_id == before
        assert await world.rows("people") == (("ada", 1),)
    await world.do("add", name="bob", age=1)
    assert await names(world) == ["ada", "bob"]


def replace_name(world: World) -> Any:
    return replace(world.schema.node_types["Note"], name="Unknown")


@on_every_graph_store
async def test_an_abandoned_load_leaves_nothing_and_frees_its_branch(world: World) -> None:
    await world.loaded([world.person(f"p{number:04d}", age=1) for number in range(30)])
    start = world.stamp()
    await world.store.begin_load(
        world.ref, branch="fresh", mode=LoadMode.MERGE, source="main", load_id="L", stamp=start
    )
    changed = [world.person(f"p{number:04d}", age=2) for number in range(30)]
    await world.store.add_to_load("L", [*changed, world.person("new")], stamp=start)
    assert await world.store.abandon_loads(before=start.at) == 0
    assert await world.store.abandon_loads(before=start.at + 1) == 1
    assert await world.store.abandon_load("L") is False
    assert await world.store.resolve(world.ref, branch="fresh") == BranchNotFound("fresh")
    await world.store.begin_load(world.ref, branch="main", mode=LoadMode.MERGE, load_id="M", stamp=start)
    await world.store.add_to_load("M", [*changed, world.person("new")], stamp=start)
    assert await world.store.abandon_load("M") is True
    await world.do("set_age", name="p0000", age=5)
    rows = await world.rows("people")
    assert (len(rows), rows[0], rows[1]) == (30, ("p0000", 5), ("p0001", 1))


@on_every_graph_store
async def test_a_load_on_which_somebody_works_keeps_its_lease_and_others_lose_theirs(world: World) -> None:
    start = world.stamp()
    for branch in ("idle", "busy"):
        await world.store.begin_load(
            world.ref, branch=branch, mode=LoadMode.MERGE, source="main", load_id=branch, stamp=start
        )
    records = [world.person(f"p{number:04d}") for number in range(3_000)]
    adding = asyncio.ensure_future(world.store.add_to_load("busy", records, stamp=start))
    await asyncio.sleep(0)
    await world.store.keep_loads(at=start.at + 60_000)
    assert await world.store.abandon_loads(before=start.at + 60_000) == 1
    assert await adding == LoadProgress("busy", 3_000)
    assert await world.store.add_to_load("idle", records, stamp=start) == LoadNotFound("idle")
    assert isinstance(await world.store.publish_load("busy", stamp=world.stamp()), LoadPublished)
    await world.store.keep_loads(at=start.at + 90_000)
    assert await world.store.abandon_loads(before=start.at + 90_000) == 0


@on_every_graph_store
async def test_edges_of_a_load_are_found_by_both_ends_whatever_their_order(world: World) -> None:
    people = [world.person(f"p{number:03d}") for number in range(200)]
    wanted = {(f"k{number}", f"p{number * 7 % 200:03d}", f"p{number * 13 % 200:03d}") for number in range(1_500)}
    edges = [world.edge("Knows", source, target, id_) for id_, source, target in sorted(wanted)]
    moved = [world.edge("Knows", "p000", "p000", f"k{number}") for number in range(0, 1_500, 3)]
    load_id = world.new_id()
    await world.store.begin_load(world.ref, branch="main", mode=LoadMode.MERGE, load_id=load_id, stamp=world.stamp())
    for piece in ([*moved, *edges[:700]], people, edges[700:]):
        added = await world.store.add_to_load(load_id, piece, stamp=world.stamp())
        assert isinstance(added, LoadProgress), added
    published = await world.store.publish_load(load_id, stamp=world.stamp())
    assert isinstance(published, LoadPublished), published
    for name in ("p000", "p007", "p199"):
        out = sorted({target for _, source, target in wanted if source == name})
        back = sorted({source for _, source, target in wanted if target == name})
        assert sorted({row[0] for row in await world.rows("known", name=name)}) == out
        assert sorted({row[0] for row in await world.rows("known_by", name=name)}) == back


@on_every_graph_store
async def test_a_load_forks_its_branch_only_if_it_may(world: World) -> None:
    missing = await world.store.begin_load(
        world.ref, branch="fresh", mode=LoadMode.MERGE, load_id="L", stamp=world.stamp()
    )
    assert missing == BranchNotFound("fresh")
    begun = await world.store.begin_load(
        world.ref, branch="fresh", mode=LoadMode.MERGE, source="main", load_id="L", stamp=world.stamp()
    )
    assert begun == LoadBegun("L", branch_created=True)
    await world.store.add_to_load("L", [world.person("ada")], stamp=world.stamp())
    published = await world.store.publish_load("L", stamp=world.stamp())
    assert isinstance(published, LoadPublished)
    assert (published.branch, published.base_branch, published.branch_created) == ("fresh", "main", True)
    assert (await names(world), await names(world, branch="fresh")) == ([], ["ada"])


@on_every_graph_store
async def test_what_is_exported_can_be_loaded_again(world: World) -> None:
    await world.do("pair", a="ada", b="bob")
    await world.loaded([NodeRecord(world.schema.node_types["Note"], {"text": "x"})])
    records = await world.records()
    other = World(world.store, ref=GraphRef("acme", "copy"), numbers=world.numbers, queries=world.queries)
    await other.create()
    await other.loaded(records, mode=LoadMode.APPEND)
    assert await other.records() == records


# --- schemas --------------------------------------------------------------------------------------


@on_every_graph_store
async def test_a_schema_can_grow_and_rename_without_touching_data(world: World) -> None:
    await world.do("add", name="ada", age=1)
    older = (await world.view()).commit_id
    text = SCHEMA.replace("age: I32?", 'years: I32? @rename_from("age")\n    nick: String?').replace("(age", "(years")
    text += "\nnode Place { name: String @key }\nedge LivesIn: Person -> Place"
    applied = await world.store.apply_schema(world.ref, schema_of(text), source=text, stamp=world.stamp())
    assert isinstance(applied, SchemaApplied), applied
    assert applied.schema_version == 2
    again = await world.store.apply_schema(world.ref, schema_of(text), source=text, stamp=world.stamp())
    assert isinstance(again, SchemaApplied)
    assert again.commit is None
    grown = World(world.store, schema=schema_of(text), numbers=world.numbers)
    grown.queries = checked(
        "query years() { match { $p: Person } return { $p.years, $p.nick } }"
        ' query move($p: String) { insert Place { name: $p } insert LivesIn { from: "ada", to: $p } }',
        grown.schema,
    )
    assert await grown.rows("years") == ((1, None),)
    await grown.do("move", p="rome")
    assert await world.rows("people", snapshot=older) == (("ada", 1),)


@on_every_graph_store
async def test_a_stricter_schema_must_fit_the_data_of_every_branch(world: World) -> None:
    await world.do("add", name="ada", age=40)
    await world.fork("draft")
    await world.do("add", branch="draft", name="bob", age=40)
    unique = SCHEMA.replace("@index(age)", "@index(age)\n    @unique(age)")
    narrow = SCHEMA.replace("0..150", "0..30")
    required = SCHEMA.replace("slug: String @key", "slug: String @key  size: I32")
    for text, kind in ((unique, ViolationKind.UNIQUE), (narrow, ViolationKind.RANGE)):
        refused = await world.store.apply_schema(world.ref, schema_of(text), source=text, stamp=world.stamp())
        assert isinstance(refused, SchemaRefused), refused
        assert {each.kind for each in refused.violations} == {kind}
    assert isinstance(
        await world.store.apply_schema(world.ref, schema_of(required), source=required, stamp=world.stamp()),
        SchemaApplied,
    )
    assert await names(world) == ["ada"]


@on_every_graph_store
async def test_a_soft_drop_keeps_older_snapshots_and_a_hard_drop_ends_them(world: World) -> None:
    await world.do("add", name="ada", age=40)
    first = (await world.view()).commit_id
    soft = SCHEMA.replace("    age: I32?\n", "").replace("    @index(age)\n    @range(age, 0..150)\n", "")
    applied = await world.store.apply_schema(world.ref, schema_of(soft), source=soft, stamp=world.stamp())
    assert isinstance(applied, SchemaApplied), applied
    assert await world.rows("people", snapshot=first) == (("ada", 40),)
    hard = soft.replace("    bio: String?\n", "")
    await world.store.apply_schema(world.ref, schema_of(hard), source=hard, allow_data_loss=True, stamp=world.stamp())
    gone = await world.store.resolve(world.ref, snapshot=first)
    assert gone == CommitNotFound(first, collected=True)
    while (await world.store.sweep(limit=1)).more:
        pass
    assert len(await world.records()) == 1


@on_every_graph_store
async def test_a_change_that_no_plan_can_make_is_refused(world: World) -> None:
    text = SCHEMA.replace("age: I32?", "age: String?").replace("    @range(age, 0..150)\n", "")
    refused = await world.store.apply_schema(world.ref, schema_of(text), source=text, stamp=world.stamp())
    assert isinstance(refused, SchemaRefused)
    assert not refused.plan.supported


# --- garbage --------------------------------------------------------------------------------------

NEVER = 1 << 60


async def collected(world: World, **policy: Any) -> int:
    removed = 0
    while True:
        done = await world.store.collect(world.ref, GarbagePolicy(**{"keep_since": NEVER, "limit": 3, **policy}))
        assert isinstance(done, Collected)
        removed += done.rows
        if not done.more:
            return removed


@on_every_graph_store
async def test_garbage_collection_keeps_what_heads_and_forks_show(world: World) -> None:
    await world.do("pair", a="ada", b="bob")
    await world.fork("draft")
    first = (await world.view()).commit_id
    for age in range(5):
        await world.do("set_age", name="ada", age=age)
    await world.do("remove", name="bob")
    draft, main = await world.records("draft"), await world.records()
    assert await collected(world) > 0
    assert (await world.records("draft"), await world.records()) == (draft, main)
    assert await world.store.resolve(world.ref, snapshot=first) == CommitNotFound(first, collected=True)
    assert await collected(world) == 0
    await world.do("set_age", branch="draft", name="ada", age=77)
    refused = await world.merge("draft")
    assert isinstance(refused, MergeConflicts)


@on_every_graph_store
async def test_garbage_collection_keeps_held_and_recent_commits(world: World) -> None:
    await world.do("add", name="ada", age=0)
    held = await world.do("set_age", name="ada", age=1)
    later = await world.do("set_age", name="ada", age=2)
    await world.do("set_age", name="ada", age=3)
    assert await collected(world, held_commits=(held.commit_id,)) == 1
    assert await world.rows("people", snapshot=held.commit_id) == (("ada", 1),)
    assert await collected(world, keep_since=later.at) == 1
    assert await world.rows("people", snapshot=later.commit_id) == (("ada", 2),)
    gap = await world.store.changes(world.ref, after=held.commit_id, limit=10)
    assert gap == ChangeGap(later.commit_id)
    assert isinstance(await world.store.changes(world.ref, after=later.commit_id, limit=10), ChangePage)


@on_every_graph_store
async def test_a_deleted_branch_is_collected_and_a_merge_after_it_still_has_its_base(world: World) -> None:
    await world.do("add", name="ada", age=0)
    await world.fork("draft")
    await world.do("add", branch="draft", name="bob", age=1)
    await world.merge("draft")
    await world.do("add", branch="draft", name="cyd", age=1)
    await collected(world)
    merged = await world.merge("draft")
    assert (merged.outcome, merged.changes) == (MergeOutcome.MERGED, 1)
    await world.store.delete_branch(world.ref, "draft", stamp=world.stamp())
    assert await collected(world) >= 2
    assert await names(world) == ["ada", "bob", "cyd"]


# --- text and vectors -----------------------------------------------------------------------------

TEXTS = """
query searched($q: String) { match { $p: Person search($p.bio, $q) } return { $p.name } order { $p.name } }
query phrase($q: String) { match { $p: Person match_text($p.bio, $q) } return { $p.name } order { $p.name } }
query near_word($q: String) { match { $p: Person fuzzy($p.bio, $q, 1) } return { $p.name } order { $p.name } }
query ranked($q: String) { match { $p: Person } return { $p.name } order { bm25($p.bio, $q) } limit 3 }
query nearest_to() { match { $p: Person } return { $p.name } order { nearest($p.place, [0, 0]) } limit 3 }
query fused($q: String) {
    match { $p: Person } return { $p.name } order { rrf(nearest($p.place, [0, 0]), bm25($p.bio, $q)) } limit 2 }
"""


@on_every_graph_store
async def test_text_and_vectors_are_searched_as_each_branch_and_snapshot_has_them(world: World) -> None:
    world.queries |= checked(TEXTS, world.schema)
    assert all(world.store.unsupported(query, world.schema) is None for query in world.queries.values())
    first = await world.loaded(
        [
            world.person("ada", bio="Tensor algebra, tensor calculus", place=(3.0, 4.0)),
            world.person("bob", bio="a tensor", place=(1.0, 0.0)),
            world.person("cyd", bio="nothing of that kind"),
        ]
    )
    await world.fork("draft")
    await world.loaded([world.person("bob", bio="calculus of tensors", place=(9.0, 0.0))], branch="draft")
    assert await world.rows("searched", q="tensor CALCULUS") == (("ada",),)
    assert await world.rows("searched", q="calculus", branch="draft") == (("ada",), ("bob",))
    assert await world.rows("phrase", q="tensor calculus") == (("ada",),)
    assert await world.rows("near_word", q="tensr") == (("ada",), ("bob",))
    assert await world.rows("ranked", q="calculus") == (("ada",), ("bob",), ("cyd",))
    assert await world.rows("ranked", q="calculus", branch="draft") == (("bob",), ("ada",), ("cyd",))
    assert await world.rows("nearest_to") == (("bob",), ("ada",), ("cyd",))
    assert await world.rows("nearest_to", branch="draft") == (("ada",), ("bob",), ("cyd",))
    assert await world.rows("fused", q="calculus") == (("ada",), ("bob",))
    await world.do("remove", name="bob")
    assert first.commit is not None
    assert await world.rows("nearest_to", snapshot=first.commit.commit_id) == (("bob",), ("ada",), ("cyd",))


@on_every_graph_store
async def test_too_many_records_at_once_are_refused(world: World) -> None:
    await world.store.begin_load(world.ref, branch="main", mode=LoadMode.MERGE, load_id="L", stamp=world.stamp())
    with pytest.raises(LimitExceeded):
        await world.store.add_to_load(
            "L", [world.person("ada")] * (limits.GRAPH_LOAD_PIECE_MAX + 1), stamp=world.stamp()
        )
