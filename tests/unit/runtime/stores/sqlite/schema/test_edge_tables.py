"""Edges are found by their ends, in tables that follow every change of the edges, in files of any age."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from penstock.graph.query.read import read_queries
from penstock.graph.schema.model import Schema
from penstock.graph.schema.read import read_schema
from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.layout import OPEN, new_layout
from penstock.graph.sql.mutations import compile_target
from penstock.graph.sql.reads import compile_read
from penstock.graph.sql.statement import Statement, bind
from penstock.graph.typing.check import check_query
from penstock.graph.typing.model import CheckedMutation, CheckedRead, DeleteEdges
from penstock.runtime.stores.sqlite.graphs.type_tables import create_tables
from penstock.runtime.stores.sqlite.schema.edge_tables import empty_hop_tables, forget_overrides
from penstock.runtime.stores.sqlite.schema.files import connect, open_for_writing
from penstock.runtime.stores.sqlite.schema.migrations import SCHEMA_VERSION
from tests.unit.runtime.stores.sqlite.schema.test_key_subjects import without_subjects
from tests.unit.runtime.stores.sqlite.schema.test_starters import without_starters

SOURCE = """
node Person { name: String @key }
edge Knows: Person -> Person { since: I32 }
"""


def _schema() -> Schema:
    found = read_schema(SOURCE).schema
    assert found is not None
    return found


SCHEMA = _schema()
LAYOUT = new_layout("g1", SCHEMA)
EDGES = LAYOUT.tables["Knows"].name
ROWS = [("e1", "ada", "bob"), ("e2", "bob", "cyd"), ("e3", "ada", "cyd")]


def opened(path: Path) -> sqlite3.Connection:
    connection = open_for_writing(str(path))
    create_tables(connection, LAYOUT, SCHEMA)
    return connection


def insert(connection: sqlite3.Connection, rows: list[tuple[str, str, str]], later: int = 0) -> None:
    statement = f"INSERT INTO {EDGES} (id, src, dst, later, br, c_from, c_to, dead) VALUES (?,?,?,?,1,1,{OPEN},0)"
    connection.executemany(statement, [(*row, later) for row in rows])


def hops(connection: sqlite3.Connection, suffix: str) -> list[tuple[object, ...]]:
    columns = "src, dst, br, c_from, rid, c_to, dead"
    return sorted(connection.execute(f"SELECT {columns} FROM {EDGES}_{suffix}").fetchall())


def edges(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    return sorted(connection.execute(f"SELECT src, dst, br, c_from, rid, c_to, dead FROM {EDGES}").fetchall())


def test_the_tables_follow_every_change_of_the_edges(tmp_path: Path) -> None:
    connection = opened(tmp_path / "store.db")
    insert(connection, ROWS)
    assert hops(connection, "out") == hops(connection, "in") == edges(connection)
    for change in (
        f"UPDATE {EDGES} SET c_to = 7 WHERE id = 'e1'",
        f"UPDATE {EDGES} SET dead = 1 WHERE id = 'e2'",
        f"UPDATE {EDGES} SET src = 'dan', dst = 'ada', dead = 0 WHERE id = 'e2'",
        f"DELETE FROM {EDGES} WHERE id = 'e3'",
    ):
        connection.execute(change)
        assert hops(connection, "out") == hops(connection, "in") == edges(connection), change
    connection.close()


def test_edges_that_are_to_be_found_later_are_removed_like_others(tmp_path: Path) -> None:
    connection = opened(tmp_path / "store.db")
    insert(connection, ROWS, later=1)
    assert hops(connection, "out") == hops(connection, "in") == []
    connection.execute(f"UPDATE {EDGES} SET c_to = 7 WHERE id = 'e1'")
    connection.execute(f"DELETE FROM {EDGES}")
    assert hops(connection, "out") == hops(connection, "in") == []
    connection.close()


def test_tables_of_edges_that_nobody_reads_are_emptied_some_rows_at_a_time(tmp_path: Path) -> None:
    connection = opened(tmp_path / "store.db")
    insert(connection, ROWS)
    assert [empty_hop_tables(connection, EDGES, 2) for _ in range(5)] == [2, 1, 2, 1, 0]
    assert hops(connection, "out") == hops(connection, "in") == []
    connection.execute(f"DELETE FROM {EDGES}")
    assert empty_hop_tables(connection, LAYOUT.tables["Person"].name, 2) == 0
    connection.close()


def test_a_file_with_indexes_instead_gets_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = opened(path)
    insert(connection, ROWS)
    wanted = edges(connection)
    for name in ("added", "moved", "ended", "removed"):
        connection.execute(f"DROP TRIGGER {EDGES}_hops_{name}")
    for near, far, suffix in (("src", "dst", "out"), ("dst", "src", "in")):
        connection.execute(f"DROP TABLE {EDGES}_{suffix}")
        connection.execute(f"CREATE INDEX {EDGES}_{suffix} ON {EDGES} ({near}, br, c_from, c_to, dead, {far})")
    connection.execute(f"ALTER TABLE {EDGES} DROP COLUMN later")
    without_starters(connection)
    connection.execute(f"DROP TABLE {EDGES}_over")
    for later in ("graph_text_indexes", "memory_text", "memory_entries", "memory_staging"):
        connection.execute(f"DROP TABLE {later}")
    without_subjects(connection)
    connection.execute("PRAGMA user_version = 15")
    connection.close()
    connection = open_for_writing(str(path))
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    assert hops(connection, "out") == hops(connection, "in") == edges(connection) == wanted
    connection.execute(f"DELETE FROM {EDGES} WHERE id = 'e1'")
    assert hops(connection, "out") == hops(connection, "in") == edges(connection)
    connection.close()


def test_a_file_without_it_gets_the_table_of_what_branches_override(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = opened(path)
    # Branch 2 was forked from main at commit 4, and 3 from that at 7; 2 was flattened at 9.
    forks = [(2, 0, 1, 4), (3, 0, 2, 7), (2, 9, None, None)]
    connection.executemany("INSERT INTO graph_lineage (branch, from_seq, parent, fork_seq) VALUES (?,?,?,?)", forks)
    versions = [
        # row, identifier, branch, first commit, end, dead
        (1, "e1", 1, 1, OPEN, 0),
        (2, "e2", 1, 1, 3, 0),  # ended before the fork
        (3, "e3", 1, 6, OPEN, 0),  # begun after it
        (4, "e4", 1, 1, 6, 0),  # ended after it
        (11, "e1", 2, 5, 6, 0),
        (12, "e1", 2, 6, OPEN, 0),
        (13, "e2", 2, 5, OPEN, 0),
        (14, "e3", 2, 5, OPEN, 0),
        (15, "e4", 2, 8, OPEN, 1),  # after the fork of 3
        (21, "e1", 3, 8, OPEN, 1),
        (22, "e4", 3, 10, OPEN, 0),
    ]
    statement = f"INSERT INTO {EDGES} (rid, id, br, c_from, c_to, dead, src, dst) VALUES (?,?,?,?,?,?,'ada','bob')"
    connection.executemany(statement, versions)
    connection.execute(f"DROP TABLE {EDGES}_over")
    without_starters(connection)
    without_subjects(connection)
    connection.execute("PRAGMA user_version = 18")
    connection.close()
    connection = open_for_writing(str(path))
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    found = connection.execute(f"SELECT rid, br, c_from FROM {EDGES}_over ORDER BY rid, br").fetchall()
    assert found == [(1, 2, 5), (1, 3, 8), (4, 2, 8), (4, 3, 10), (12, 3, 8)]
    connection.close()


def test_what_a_branch_overrides_is_forgotten_some_rows_at_a_time(tmp_path: Path) -> None:
    connection = opened(tmp_path / "store.db")
    rows = [(1, 2, 5), (2, 2, 5), (3, 2, 6), (1, 3, 5)]
    connection.executemany(f"INSERT INTO {EDGES}_over (rid, br, c_from) VALUES (?,?,?)", rows)
    assert [forget_overrides(connection, EDGES, 2, 5, limit) for limit in (0, 1, 5, 5)] == [0, 1, 1, 0]
    assert forget_overrides(connection, EDGES, 2, None, 5) == 1
    assert connection.execute(f"SELECT rid, br, c_from FROM {EDGES}_over").fetchall() == [(1, 3, 5)]
    assert forget_overrides(connection, LAYOUT.tables["Person"].name, 3, None, 5) == 0
    connection.close()


def statement_of(text: str, depth: int) -> Statement:
    checking = check_query(read_queries(f"query q($h: String) {{ {text} }}").queries[0], SCHEMA)
    assert checking.query is not None, checking.findings
    body = checking.query.body
    if isinstance(body, CheckedRead):
        return compile_read(SQLITE, LAYOUT, body, depth=depth)
    assert isinstance(body, CheckedMutation)
    (step,) = body.steps
    assert isinstance(step, DeleteEdges)
    return compile_target(SQLITE, LAYOUT, step, depth=depth)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(
    "text",
    [
        "match { $a: Person { name: $h } $a knows $b } return { $b.name }",
        "match { $a: Person { name: $h } $b knows $a } return { $b.name }",
        "match { $a: Person { name: $h } $a <knows> $b } return { $b.name }",
        "match { $a: Person { name: $h } $a knows{1,3} $b } return { $b.name }",
        "delete Knows where from = $h",
        "delete Knows where to = $h and since = 1",
    ],
)
def test_no_query_from_a_node_reads_all_edges(text: str, depth: int, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    opened(path).close()
    connection = connect(str(path), mode="ro")
    statement = statement_of(text, depth)
    view = {f"{letter}{level}": level for letter in "bs" for level in range(depth)}
    given = {**bind(statement, {"h": "x"}, 0), **view, "row_limit": 5, "row_offset": 0}
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", given).fetchall()]
    connection.close()
    aliases = dict((alias, name) for name, alias in re.findall(r"\b(g\d+_\d+\w*) AS (\w+)", statement.text))
    steps = [
        (aliases.get(line.split()[1], line.split()[1]), line) for line in plan if line.startswith(("SCAN", "SEARCH"))
    ]
    found = [(name, line) for name, line in steps if name.startswith(EDGES)]
    assert any(name != EDGES for name, _ in found), plan
    for name, line in found:
        wanted = (
            ("INTEGER PRIMARY KEY", f"{EDGES}_by_id (id=?")
            if name == EDGES
            else ("PRIMARY KEY (rid=?",)
            if name.endswith("_over")
            else ("PRIMARY KEY (src=?", "PRIMARY KEY (dst=?")
        )
        assert line.startswith("SEARCH"), plan
        assert any(each in line for each in wanted), plan
