"""What the conformance suite of graph stores needs: the stores under test, a small schema, and short words for calls.

A new store takes part by an entry in `GRAPH_STORES`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock.definitions.source.findings import Severity
from penstock.graph.query.read import read_queries
from penstock.graph.records import EdgeRecord, GraphRecord, NodeRecord
from penstock.graph.schema.model import Schema
from penstock.graph.schema.read import read_schema
from penstock.graph.typing.check import check_query
from penstock.graph.typing.model import CheckedQuery
from penstock.graph.values import GraphValue
from penstock.graph.versions.entities import LoadMode
from penstock.runtime.ports.graphs import (
    MAIN,
    BranchCreated,
    CommitRow,
    ExportPage,
    GraphCreated,
    GraphRef,
    GraphStore,
    LoadBegun,
    LoadPublished,
    Mutated,
    ReadRows,
    Stamp,
    View,
)
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.graphs.store import SqliteGraphStore
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.stores import run_bounded
from tests.opened_database import sqlite_of

__all__ = [
    "AT",
    "GRAPH_STORES",
    "QUERIES",
    "SCHEMA",
    "World",
    "checked",
    "on_every_graph_store",
    "open_sqlite",
    "schema_of",
]

AT = 1_700_000_000_000
SCHEMA = """
node Person {
    name: String @key
    age: I32?
    email: String? @unique
    mood: enum(calm, glad, sad)?
    code: String?
    tags: [String]?
    bio: String?
    score: F64?
    born: Date?
    seen: DateTime?
    active: Bool?
    place: Vector(2)?
    @index(age)
    @range(age, 0..150)
    @check(code, "[a-z]+[0-9]*")
}
node Team { slug: String @key  title: String }
node Note { text: String }
edge Knows: Person -> Person { since: Date?  weight: F64? }
edge Likes: Person -> Person
edge MemberOf: Person -> Team @card(0..2)
edge LeadBy: Team -> Person { @unique(src, dst) }
edge About: Note -> Person
"""
QUERIES = """
query people() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }
query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }
query add_full($name: String, $email: String?, $mood: String?, $code: String?, $age: I32?) {
    insert Person { name: $name, email: $email, mood: $mood, code: $code, age: $age } }
query set_age($name: String, $age: I32?) { update Person set { age: $age } where name = $name }
query set_email($name: String, $email: String?) { update Person set { email: $email } where name = $name }
query remove($name: String) { delete Person where name = $name }
query know($a: String, $b: String) { insert Knows { from: $a, to: $b } }
query forget($a: String, $b: String) { delete Knows where from = $a and to = $b }
query team($slug: String) { insert Team { slug: $slug, title: $slug } }
query join($a: String, $t: String) { insert MemberOf { from: $a, to: $t } }
query known($name: String) { match { $p: Person { name: $name } $p knows $f } return { $f.name } order { $f.name } }
query known_by($name: String) { match { $p: Person { name: $name } $f knows $p } return { $f.name } order { $f.name } }
query pair($a: String, $b: String) {
    insert Person { name: $a }
    insert Person { name: $b }
    insert Knows { from: $a, to: $b } }
"""


def schema_of(text: str) -> Schema:
    """A schema that has no findings."""
    reading = read_schema(text)
    assert reading.schema is not None, reading.findings
    return reading.schema


def checked(text: str, schema: Schema) -> dict[str, CheckedQuery]:
    """Queries that fit a schema, by name."""
    reading = read_queries(text)
    assert not reading.findings, reading.findings
    found = {}
    for query in reading.queries:
        checking = check_query(query, schema)
        assert checking.query is not None, checking.findings
        assert all(each.severity is not Severity.ERROR for each in checking.findings), checking.findings
        found[query.name] = checking.query
    return found


@dataclass(slots=True)
class World:
    """A graph in a store, and short words for what tests do with it."""

    store: GraphStore
    ref: GraphRef = field(default_factory=lambda: GraphRef("acme", "people"))
    schema: Schema = field(default_factory=lambda: schema_of(SCHEMA))
    source: str = SCHEMA
    queries: dict[str, CheckedQuery] = field(default_factory=dict)
    numbers: Any = field(default_factory=lambda: count(1))

    async def create(self) -> World:
        """Make the graph."""
        self.queries = self.queries or checked(QUERIES, self.schema)
        made = await self.store.create_graph(self.ref, schema=self.schema, source=self.source, stamp=self.stamp())
        assert isinstance(made, GraphCreated), made
        return self

    def new_id(self) -> str:
        return f"i{next(self.numbers):06d}"

    def stamp(self, **given: Any) -> Stamp:
        number = next(self.numbers)
        about = {"commit_id": f"c{number:06d}", "at": AT + number, "new_id": self.new_id, "actor": "tester", **given}
        return Stamp(**about)

    async def view(self, branch: str | None = None, snapshot: str | None = None) -> View:
        found = await self.store.resolve(self.ref, branch=branch, snapshot=snapshot)
        assert isinstance(found, View), found
        return found

    async def rows(
        self, query: str, /, *, branch: str | None = None, snapshot: str | None = None, **parameters: GraphValue | None
    ) -> tuple[Any, ...]:
        """The rows of a read."""
        view = await self.view(branch, snapshot)
        found = await self.store.read(view, self.queries[query], parameters, at=AT)
        assert isinstance(found, ReadRows), found
        return found.rows

    async def run(self, query: str, /, *, branch: str = MAIN, stamp: Stamp | None = None, **parameters: Any) -> Any:
        """The outcome of a mutation, whatever it is."""
        given = stamp or self.stamp()
        return await self.store.mutate(self.ref, self.queries[query], parameters, branch=branch, stamp=given)

    async def do(self, query: str, /, *, branch: str = MAIN, **parameters: Any) -> CommitRow:
        """The commit of a mutation that succeeds."""
        outcome = await self.run(query, branch=branch, **parameters)
        assert isinstance(outcome, Mutated), outcome
        assert outcome.commit is not None
        return outcome.commit

    async def fork(self, name: str, source: str = MAIN) -> None:
        made = await self.store.create_branch(self.ref, name, source=source, stamp=self.stamp())
        assert isinstance(made, BranchCreated), made

    async def merge(self, source: str, target: str = MAIN) -> Any:
        return await self.store.merge(self.ref, source, target, stamp=self.stamp())

    async def load(self, records: Sequence[GraphRecord], *, mode: LoadMode = LoadMode.MERGE, branch: str = MAIN) -> Any:
        """The outcome of a whole load."""
        load_id = self.new_id()
        begun = await self.store.begin_load(self.ref, branch=branch, mode=mode, load_id=load_id, stamp=self.stamp())
        if not isinstance(begun, LoadBegun):
            return begun
        added = await self.store.add_to_load(load_id, records, stamp=self.stamp())
        if type(added).__name__ != "LoadProgress":
            return added
        return await self.store.publish_load(load_id, stamp=self.stamp())

    async def loaded(self, records: Sequence[GraphRecord], **given: Any) -> LoadPublished:
        outcome = await self.load(records, **given)
        assert isinstance(outcome, LoadPublished), outcome
        return outcome

    def person(self, name: str, **properties: Any) -> NodeRecord:
        return NodeRecord(self.schema.node_types["Person"], {"name": name, **properties})

    def edge(self, type_name: str, source: str, target: str, id_: str | None = None, **properties: Any) -> EdgeRecord:
        return EdgeRecord(self.schema.edge_types[type_name], source, target, properties, id_)

    async def records(self, branch: str | None = None, snapshot: str | None = None) -> list[GraphRecord]:
        """Everything in a view."""
        view = await self.view(branch, snapshot)
        found: list[GraphRecord] = []
        cursor: str | None = None
        while True:
            page = await self.store.export(view, limit=3, cursor=cursor)
            assert isinstance(page, ExportPage), page
            found += page.records
            cursor = page.next_cursor
            if cursor is None:
                return found


@asynccontextmanager
async def open_sqlite(path: Path) -> AsyncIterator[SqliteGraphStore]:
    """A graph store in an SQLite file."""
    store = RunStore(SqliteDatabase(path, synchronous="OFF"))
    await store.open()
    try:
        yield SqliteGraphStore(sqlite_of(store))
    finally:
        await store.close()


GRAPH_STORES: dict[str, Callable[[Path], AbstractAsyncContextManager[GraphStore]]] = {
    "sqlite": lambda folder: open_sqlite(folder / "store.db"),
}

Scenario = Callable[[World], Coroutine[Any, Any, None]]


def on_every_graph_store(scenario: Scenario) -> Callable[..., None]:
    """Make a test of an async function that takes a world with an empty graph: it runs once on each store."""

    @pytest.mark.parametrize("kind", GRAPH_STORES)
    def test(kind: str, tmp_path: Path) -> None:
        async def with_store() -> None:
            async with GRAPH_STORES[kind](tmp_path) as store:
                await scenario(await World(store).create())

        run_bounded(with_store())

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test
