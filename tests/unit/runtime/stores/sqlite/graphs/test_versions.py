"""Versions are looked up by identifier: neither a list of identifiers nor a page of an export reads whole branches."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import visible
from penstock.graph.sql.layout import new_layout
from penstock.runtime.stores.sqlite.graphs.type_tables import create_tables
from penstock.runtime.stores.sqlite.graphs.versions import VersionWriter, in_order
from penstock.runtime.stores.sqlite.schema.files import open_for_writing
from tests.conformance.graphs.worlds import schema_of

SCHEMA = schema_of("node Person { name: String @key }\nedge Knows: Person -> Person { since: I32? }")
LAYOUT = new_layout("g1", SCHEMA)
CHAINS = [((1, 9),), ((2, 9), (1, 5)), ((3, 9), (2, 7), (1, 5))]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = open_for_writing(str(tmp_path / "store.db"))
    create_tables(opened, LAYOUT, SCHEMA)
    yield opened
    opened.close()


def plan(connection: sqlite3.Connection, statement: str) -> list[str]:
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()]


@pytest.mark.parametrize("chain", CHAINS, ids=len)
def test_a_list_of_entities_is_looked_up_by_identifier(
    connection: sqlite3.Connection, chain: tuple[tuple[int, int], ...]
) -> None:
    table = LAYOUT.tables["Knows"]
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    VersionWriter(connection, chain).put(table, [("e1", "ada", "bob", None), ("e2", "bob", "ada", None)])
    VersionWriter(connection, chain).visible_ids(table, ["e1", "e2"])
    connection.set_trace_callback(None)
    looked_up = [each for each in statements if f"FROM {table.name} AS n" in each]
    assert len(looked_up) == min(len(chain), 2)  # on a branch also what it overrides
    for statement in looked_up:
        steps = [step for step in plan(connection, statement) if step.startswith(("SEARCH n ", "SCAN n"))]
        assert steps, statement
        assert all(f"{table.name}_by_id (id=?" in step for step in steps), steps


@pytest.mark.parametrize("chain", CHAINS, ids=len)
def test_a_page_in_the_order_of_identifiers_is_not_sorted(
    connection: sqlite3.Connection, chain: tuple[tuple[int, int], ...]
) -> None:
    table = LAYOUT.tables["Knows"]
    condition = visible(SQLITE, "n", table, len(chain))
    statement = (
        f"SELECT n.id FROM {table.name} AS n {in_order(table)} WHERE n.id > 'e' AND {condition} ORDER BY n.id LIMIT 9"
    )
    for level, (branch, seq) in enumerate(chain):
        statement = statement.replace(f":b{level}", str(branch)).replace(f":s{level}", str(seq))
    steps = plan(connection, statement)
    assert f"{table.name}_by_id (id>?" in steps[0], steps
    assert not any("TEMP B-TREE" in step for step in steps), steps
