"""Graphs, their schemas, branches and commits: the rows that say what the row versions mean.

A commit has a number (`seq`) that grows with every commit of its graph, on any branch. A branch has a head, and a
lineage: from which branch it was forked, and at which commit. Flattening adds a row to the lineage that has no parent,
so that older snapshots still find theirs.

Above it: every other module of the package. Below it: sqlite3, `codec`.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.graph.schema.model import Schema
from penstock.graph.schema.stored import schema_from_json, schema_to_json
from penstock.graph.sql.layout import Layout, layout_from_json, layout_to_json
from penstock.runtime.ports.graphs import (
    BranchNotFound,
    BranchRow,
    CommitKind,
    CommitRow,
    GraphNotFound,
    GraphRef,
    GraphRow,
    Stamp,
    View,
)
from penstock.runtime.tables.checksums import checked_columns, row_checksum
from penstock.runtime.tables.codec import decode_json, encode_json

__all__ = [
    "Branch",
    "Catalogue",
    "Chain",
    "Graph",
    "Head",
    "StoredSchema",
    "add_commit",
    "branch_by_number",
    "branch_named",
    "branch_row",
    "chain_at",
    "commit_by_id",
    "commit_id_at",
    "find_graph",
    "find_head",
    "history_chain",
    "insert_schema",
    "live_branches",
    "read_commits",
    "take_seq",
]

Chain = tuple[tuple[int, int], ...]
_OBJECT: msgspec.json.Decoder[Any] = msgspec.json.Decoder(dict[str, Any])
_BRANCH_COLUMNS = "branch, graph, name, head_seq, oldest_seq, load_id, created_at, created_by, updated_at, deleted"
_GRAPH_COLUMNS = "graph, next_seq, schema_version, oldest_schema, created_at, created_by"
_HEAD = (
    f"SELECT {', '.join(f'g.{each}' for each in _GRAPH_COLUMNS.split(', '))},"
    f" {', '.join(f'b.{each}' for each in _BRANCH_COLUMNS.split(', '))}, c.commit_id"
    " FROM graphs AS g CROSS JOIN graph_branches AS b CROSS JOIN graph_commits AS c"
    " WHERE g.tenant = ? AND g.name = ? AND g.deleted = 0 AND b.graph = g.graph AND b.name = ? AND b.deleted = 0"
    " AND c.graph = b.graph AND c.seq = b.head_seq"
)
_COMMIT = (
    "SELECT c.commit_id, c.seq, b.name, c.kind, p.commit_id, m.commit_id, c.actor, c.message, c.at, c.branch"
    " FROM graph_commits AS c JOIN graph_branches AS b ON b.branch = c.branch"
    " LEFT JOIN graph_commits AS p ON p.graph = c.graph AND p.seq = c.parent_seq"
    " LEFT JOIN graph_commits AS m ON m.graph = c.graph AND m.seq = c.merged_seq"
    " WHERE c.graph = ?"
)


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A schema of a graph and where it is stored."""

    version: int
    seq: int
    source: str
    schema: Schema
    layout: Layout


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch as it is stored."""

    branch: int
    graph: int
    name: str
    head_seq: int
    oldest_seq: int
    load_id: str | None
    created_at: int
    created_by: str | None
    updated_at: int
    deleted: int


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph as it is stored."""

    graph: int
    next_seq: int
    schema_version: int
    oldest_schema: int
    created_at: int
    created_by: str | None


@dataclass(frozen=True, slots=True)
class Head:
    """A branch, its graph, and the id of its last commit."""

    graph: Graph
    branch: Branch
    commit_id: str


class Catalogue:
    """Schemas that were read before: they never change."""

    def __init__(self) -> None:
        self._schemas: dict[tuple[int, int], StoredSchema] = {}

    def schema(
        self, connection: sqlite3.Connection, graph: int, version: int, *, is_writer: bool = False
    ) -> StoredSchema:
        """A schema of a graph, by its number. What a writer reads may be rolled back, so it is not kept."""
        known = self._schemas.get((graph, version))
        if known is None:
            statement = "SELECT seq, source, schema, layout FROM graph_schemas WHERE graph = ? AND version = ?"
            found = connection.execute(statement, (graph, version)).fetchone()
            seq, source, schema, layout = found
            known = StoredSchema(
                version,
                seq,
                source,
                schema_from_json(decode_json(_OBJECT, schema)),
                layout_from_json(decode_json(_OBJECT, layout)),
            )
            if not is_writer:
                self._schemas[graph, version] = known
        return known

    def schema_at(self, connection: sqlite3.Connection, graph: int, seq: int) -> StoredSchema:
        """The schema that was in force at a commit."""
        statement = "SELECT max(version) FROM graph_schemas WHERE graph = ? AND seq <= ?"
        (version,) = connection.execute(statement, (graph, seq)).fetchone()
        return self.schema(connection, graph, version)

    def graph_row(self, connection: sqlite3.Connection, ref: GraphRef, graph: Graph) -> GraphRow:
        """A graph as callers see it."""
        stored = self.schema(connection, graph.graph, graph.schema_version)
        return GraphRow(
            ref=ref,
            schema=stored.schema,
            schema_source=stored.source,
            schema_version=stored.version,
            created_at=graph.created_at,
            created_by=graph.created_by,
        )

    def view(self, connection: sqlite3.Connection, ref: GraphRef, head: Head) -> View:
        """A view of the head of a branch."""
        graph, branch = head.graph, head.branch
        stored = self.schema(connection, graph.graph, graph.schema_version)
        return View(
            ref=ref,
            commit_id=head.commit_id,
            branch=branch.name,
            schema=stored.schema,
            schema_version=stored.version,
            seq=branch.head_seq,
            chain=chain_at(connection, branch.branch, branch.head_seq),
            graph=graph.graph,
        )

    def snapshot(self, connection: sqlite3.Connection, ref: GraphRef, graph: Graph, commit_id: str) -> View | None:
        """A view of a commit, if there is one."""
        statement = "SELECT seq, branch FROM graph_commits WHERE graph = ? AND commit_id = ?"
        found = connection.execute(statement, (graph.graph, commit_id)).fetchone()
        if found is None:
            return None
        seq, branch = found
        stored = self.schema_at(connection, graph.graph, seq)
        return View(
            ref=ref,
            commit_id=commit_id,
            branch=None,
            schema=stored.schema,
            schema_version=stored.version,
            seq=seq,
            chain=chain_at(connection, branch, seq),
            graph=graph.graph,
        )


def insert_schema(connection: sqlite3.Connection, graph: int, stored: StoredSchema) -> None:
    """Store a schema."""
    columns = (
        graph,
        stored.version,
        stored.seq,
        stored.source,
        encode_json(schema_to_json(stored.schema)),
        encode_json(layout_to_json(stored.layout)),
    )
    connection.execute(
        f"INSERT INTO graph_schemas ({checked_columns('graph_schemas')}, checksum) VALUES (?,?,?,?,?,?,?)",
        (*columns, row_checksum(columns)),
    )


def find_graph(connection: sqlite3.Connection, ref: GraphRef) -> Graph | None:
    """A graph of a tenant by name."""
    statement = f"SELECT {_GRAPH_COLUMNS} FROM graphs WHERE tenant = ? AND name = ? AND deleted = 0"
    found = connection.execute(statement, (ref.tenant, ref.name)).fetchone()
    return None if found is None else Graph(*found)


def branch_named(connection: sqlite3.Connection, graph: int, name: str) -> Branch | None:
    """A branch of a graph by name."""
    statement = f"SELECT {_BRANCH_COLUMNS} FROM graph_branches WHERE graph = ? AND name = ? AND deleted = 0"
    found = connection.execute(statement, (graph, name)).fetchone()
    return None if found is None else Branch(*found)


def find_head(connection: sqlite3.Connection, ref: GraphRef, name: str) -> Head | GraphNotFound | BranchNotFound:
    """A branch of a graph of a tenant, and the id of its head."""
    found = connection.execute(_HEAD, (ref.tenant, ref.name, name)).fetchone()
    if found is not None:
        return Head(Graph(*found[:6]), Branch(*found[6:16]), found[16])
    return GraphNotFound() if find_graph(connection, ref) is None else BranchNotFound(name)


def branch_by_number(connection: sqlite3.Connection, number: int) -> Branch:
    """A branch by number, deleted or not."""
    statement = f"SELECT {_BRANCH_COLUMNS} FROM graph_branches WHERE branch = ?"
    return Branch(*connection.execute(statement, (number,)).fetchone())


def live_branches(connection: sqlite3.Connection, graph: int) -> list[Branch]:
    """The branches of a graph by name."""
    statement = f"SELECT {_BRANCH_COLUMNS} FROM graph_branches WHERE graph = ? AND deleted = 0 ORDER BY name"
    return [Branch(*found) for found in connection.execute(statement, (graph,)).fetchall()]


def chain_at(connection: sqlite3.Connection, branch: int, seq: int) -> Chain:
    """The branches that a read of a branch looks at, the nearest first, each with the last commit that is seen."""
    chain = [(branch, seq)]
    statement = (
        "SELECT parent, fork_seq FROM graph_lineage WHERE branch = ? AND from_seq <= ? ORDER BY from_seq DESC LIMIT 1"
    )
    while (found := connection.execute(statement, chain[-1]).fetchone()) is not None and found[0] is not None:
        chain.append((found[0], found[1]))
    return tuple(chain)


def history_chain(connection: sqlite3.Connection, branch: int, seq: int) -> Chain:
    """The branches whose commits led to a commit, whether or not a branch was flattened since."""
    chain = [(branch, seq)]
    statement = "SELECT parent, fork_seq FROM graph_lineage WHERE branch = ? ORDER BY from_seq LIMIT 1"
    while (found := connection.execute(statement, chain[-1][:1]).fetchone()) is not None and found[0] is not None:
        chain.append((found[0], found[1]))
    return tuple(chain)


def branch_row(connection: sqlite3.Connection, branch: Branch) -> BranchRow:
    """A branch as callers see it."""
    lineage = history_chain(connection, branch.branch, branch.head_seq)
    parent = branch_by_number(connection, lineage[1][0]).name if len(lineage) > 1 else None
    return BranchRow(
        name=branch.name,
        head_commit_id=commit_id_at(connection, branch.graph, branch.head_seq),
        parent=parent,
        fork_commit_id=commit_id_at(connection, branch.graph, lineage[1][1]) if len(lineage) > 1 else None,
        depth=len(chain_at(connection, branch.branch, branch.head_seq)),
        created_at=branch.created_at,
        created_by=branch.created_by,
        updated_at=branch.updated_at,
        loading=branch.load_id is not None,
    )


def commit_id_at(connection: sqlite3.Connection, graph: int, seq: int) -> str:
    """The id of a commit."""
    statement = "SELECT commit_id FROM graph_commits WHERE graph = ? AND seq = ?"
    (found,) = connection.execute(statement, (graph, seq)).fetchone()
    return str(found)


def commit_by_id(connection: sqlite3.Connection, graph: int, commit_id: str) -> tuple[CommitRow, int] | None:
    """A commit by id, and the number of its branch."""
    found = connection.execute(f"{_COMMIT} AND c.commit_id = ?", (graph, commit_id)).fetchone()
    return None if found is None else (_commit_of(found), found[9])


def read_commits(
    connection: sqlite3.Connection, graph: int, condition: str, parameters: tuple[Any, ...]
) -> list[CommitRow]:
    """Commits of a graph that satisfy a condition."""
    return [_commit_of(found) for found in connection.execute(f"{_COMMIT} AND {condition}", (graph, *parameters))]


def _commit_of(found: tuple[Any, ...]) -> CommitRow:
    return CommitRow(
        commit_id=found[0],
        seq=found[1],
        branch=found[2],
        kind=found[3],
        parent_id=found[4],
        merged_parent_id=found[5],
        actor=found[6],
        message=found[7],
        at=found[8],
    )


def add_commit(
    connection: sqlite3.Connection,
    branch: Branch,
    kind: CommitKind,
    stamp: Stamp,
    *,
    seq: int,
    merged_seq: int | None = None,
) -> CommitRow:
    """Store a commit as the new head of a branch."""
    columns = (
        branch.graph,
        seq,
        stamp.commit_id,
        branch.branch,
        kind,
        branch.head_seq or None,
        merged_seq,
        stamp.actor,
        stamp.message,
        stamp.at,
    )
    connection.execute(
        f"INSERT INTO graph_commits ({checked_columns('graph_commits')}, checksum) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
        (*columns, row_checksum(columns)),
    )
    connection.execute(
        "UPDATE graph_branches SET head_seq = ?, updated_at = ? WHERE branch = ?", (seq, stamp.at, branch.branch)
    )
    return CommitRow(
        commit_id=stamp.commit_id,
        seq=seq,
        branch=branch.name,
        kind=kind,
        parent_id=commit_id_at(connection, branch.graph, branch.head_seq) if branch.head_seq else None,
        merged_parent_id=None if merged_seq is None else commit_id_at(connection, branch.graph, merged_seq),
        actor=stamp.actor,
        message=stamp.message,
        at=stamp.at,
    )


def take_seq(connection: sqlite3.Connection, graph: int) -> int:
    """The number of the next commit of a graph, which no other commit gets."""
    statement = "UPDATE graphs SET next_seq = next_seq + 1 WHERE graph = ? RETURNING next_seq - 1"
    ((seq,),) = connection.execute(statement, (graph,)).fetchall()
    return int(seq)
