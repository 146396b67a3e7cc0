"""Reads as statements of SQLite and of PostgreSQL."""

from __future__ import annotations

import re
import sqlite3

import pytest

from penstock.graph.query.read import read_queries
from penstock.graph.schema.read import read_schema
from penstock.graph.sql.dialects import POSTGRESQL, SQLITE, Dialect
from penstock.graph.sql.emitting import NotCompilableError
from penstock.graph.sql.layout import new_layout
from penstock.graph.sql.reads import compile_read
from penstock.graph.sql.statement import Statement, bind
from penstock.graph.typing.check import check_query
from penstock.graph.typing.model import CheckedRead

READING = read_schema(
    """
    node User { handle: String @key  age: I32?  tags: [String]?  bio: String?  spot: Vector(2)?  @index(age) }
    edge Follows: User -> User { since: Date? }
    edge Blocks: User -> User { since: Date? }
    """
)
assert READING.schema is not None, READING.findings
SCHEMA = READING.schema
QUERIES = {
    "lookup": "match { $u: User { handle: $h } } return { $u.age }",
    "two hops": "match { $u: User { handle: $h } $u follows $v $v follows $w } return { $w.handle }",
    "reach": "match { $u: User { handle: $h } $u follows{1,3} $v } return { $v.handle }",
    "reach over both": "match { $u: User { handle: $h } $u (follows|blocks){1,2} $v } return { $v.handle }",
    "backwards": "match { $u: User { handle: $h } $v follows{2,3} $u } return { $v.handle }",
    "undirected": "match { $u: User { handle: $h } $u <follows> $v } return { $v.handle }",
    "edge": "match { $u: User $u $e:(follows|blocks) $v } return { $e.since, $e.@type, $v.handle }",
    "not": "match { $u: User not { $u follows{1,2} $_ } } return { $u }",
    "conditions": (
        'match { $u: User $u.age > 3 or not ($u.bio contains "%" and $u.tags contains "x") } return { $u.age }'
    ),
    "in": "match { $u: User $u.age in [1, 2] $u.bio is not null } return { $u.age }",
    "blocks": "match { $u: User count { $u follows $_ } > 1 sum($v.age) { $u follows $v } >= 2 } return { $u.age }",
    "groups": "match { $u: User $u follows $v } return { $v.bio, count($u) as n, avg($u.age) as a } order { n desc }",
    "order": "match { $u: User } return { $u.age } order { $u.age desc, $u.bio } limit 3",
}


def _compiled(text: str, dialect: Dialect, depth: int = 1) -> Statement:
    reading = read_queries(f"query q($h: String) {{ {text} }}")
    assert not reading.findings, reading.findings
    checking = check_query(reading.queries[0], SCHEMA)
    assert checking.query is not None, checking.findings
    assert isinstance(checking.query.body, CheckedRead)
    return compile_read(dialect, new_layout("g1", SCHEMA), checking.query.body, depth=depth)


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("depth", [1, 3])
def test_sqlite_accepts_the_statement_and_every_value_is_bound(name: str, depth: int) -> None:
    statement = _compiled(QUERIES[name], SQLITE, depth)
    connection = sqlite3.connect(":memory:")
    for table in new_layout("g1", SCHEMA).tables.values():
        ends = "" if table.is_node else "src, dst, "
        columns = ", ".join(table.columns.values())
        connection.execute(f"CREATE TABLE {table.name} (rid, id, {ends}br, c_from, c_to, dead, {columns})")
        for near in () if table.is_node else ("src", "dst"):
            connection.execute(f"CREATE TABLE {table.hops(near)} (src, dst, rid, br, c_from, c_to, dead)")
        if not table.is_node:
            connection.execute(f"CREATE TABLE {table.overrides} (rid, br, c_from)")
    view = {f"{letter}{level}": level for letter in "bs" for level in range(depth)}
    given = {**bind(statement, {"h": "x"}, 0), **view, "row_limit": 5, "row_offset": 0}
    assert set(re.findall(r":(\w+)", statement.text)) == set(given)
    assert isinstance(connection.execute(statement.text, given).fetchall(), list)
    connection.close()


@pytest.mark.parametrize("name", QUERIES)
def test_postgresql_gets_a_statement_of_its_own(name: str) -> None:
    statement = _compiled(QUERIES[name], POSTGRESQL, 2)
    assert not re.search(r"json_each|instr\(|NOT INDEXED|(?<![:\w]):\w", statement.text)
    wanted = {each.placeholder for each in statement.bound} | {"b0", "b1", "s0", "s1", "row_limit", "row_offset"}
    assert set(re.findall(r"%\((\w+)\)s", statement.text)) == wanted


def test_a_constant_is_never_part_of_a_statement() -> None:
    evil = "x'; DROP TABLE g1_1; --"
    statement = _compiled(f'match {{ $u: User {{ bio: "{evil}" }} }} return {{ $u.age }}', SQLITE)
    assert "DROP" not in statement.text
    assert evil in bind(statement, {"h": "x"}, 0).values()


def test_a_key_is_looked_up_and_the_rest_is_joined_in_the_order_of_the_compiler() -> None:
    statement = _compiled(QUERIES["two hops"], SQLITE)
    assert statement.scans == 0
    assert statement.text.count("CROSS JOIN") == 3
    assert "NOT INDEXED" not in statement.text


def test_a_node_whose_properties_nobody_reads_is_not_joined() -> None:
    text = _compiled("match { $u: User { handle: $h } $u follows $v $v follows $w } return { $w.@id }", SQLITE).text
    assert text.count("g1_1 AS") == 1


def test_what_postgresql_cannot_do_exactly_is_refused() -> None:
    for text in (
        "match { $u: User search($u.bio, $h) } return { $u.age }",
        "match { $u: User } return { $u.age } order { bm25($u.bio, $h) } limit 3",
    ):
        assert _compiled(text, SQLITE).text
        with pytest.raises(NotCompilableError) as refused:
            _compiled(text, POSTGRESQL)
        assert refused.value.code.startswith("GRAPH_")
