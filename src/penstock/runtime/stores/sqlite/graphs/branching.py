"""Making and deleting graphs and branches.

Above it: `store`, `loading`. Below it: `catalogue`, `type_tables`.
"""

from __future__ import annotations

import re
import sqlite3

from penstock.base import limits
from penstock.graph.schema.model import Schema
from penstock.graph.sql.layout import new_layout
from penstock.runtime.ports.graphs import (
    MAIN,
    BranchBusy,
    BranchCreated,
    BranchDeleted,
    BranchExists,
    BranchInUse,
    BranchNameRefused,
    BranchNotFound,
    BranchRow,
    BranchTooDeep,
    CommitNotFound,
    GraphCreated,
    GraphDeleted,
    GraphExists,
    GraphNotFound,
    GraphRef,
    Lost,
    Stamp,
)
from penstock.runtime.stores.sqlite.graphs.catalogue import (
    Branch,
    StoredSchema,
    add_commit,
    branch_by_number,
    branch_named,
    chain_at,
    commit_by_id,
    find_graph,
    find_head,
    insert_schema,
)
from penstock.runtime.stores.sqlite.graphs.type_tables import create_tables
from penstock.runtime.tables.checksums import checked_columns, row_checksum

__all__ = ["create_branch", "create_graph", "delete_branch", "delete_graph", "fork", "refused_name"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")


def create_graph(
    connection: sqlite3.Connection, ref: GraphRef, schema: Schema, source: str, stamp: Stamp
) -> GraphCreated | GraphExists:
    """Make an empty graph."""
    if find_graph(connection, ref) is not None:
        return GraphExists()
    statement = (
        f"INSERT INTO graphs ({checked_columns('graphs')}, checksum, next_seq, schema_version) VALUES (?,?,?,?,?,2,1)"
    )
    given = (ref.tenant, ref.name, stamp.at, stamp.actor)
    graph = connection.execute(statement, (*given, row_checksum(given))).lastrowid
    assert graph is not None
    layout = new_layout(f"g{graph}", schema)
    insert_schema(connection, graph, StoredSchema(1, 1, source, schema, layout))
    create_tables(connection, layout, schema)
    main = _insert_branch(connection, graph, MAIN, 0, stamp)
    return GraphCreated(add_commit(connection, main, "create", stamp, seq=1))


def _insert_branch(connection: sqlite3.Connection, graph: int, name: str, head_seq: int, stamp: Stamp) -> Branch:
    statement = (
        f"INSERT INTO graph_branches ({checked_columns('graph_branches')}, checksum, head_seq, updated_at)"
        " VALUES (?,?,?,?,?,?,?)"
    )
    given = (graph, name, stamp.at, stamp.actor)
    number = connection.execute(statement, (*given, row_checksum(given), head_seq, stamp.at)).lastrowid
    assert number is not None
    return Branch(
        branch=number,
        graph=graph,
        name=name,
        head_seq=head_seq,
        oldest_seq=0,
        load_id=None,
        created_at=stamp.at,
        created_by=stamp.actor,
        updated_at=stamp.at,
        deleted=0,
    )


def delete_graph(connection: sqlite3.Connection, ref: GraphRef) -> GraphDeleted | GraphNotFound:
    """Take a graph out of sight; `garbage.sweep` removes its rows."""
    graph = find_graph(connection, ref)
    if graph is None:
        return GraphNotFound()
    connection.execute("UPDATE graphs SET deleted = 1 WHERE graph = ?", (graph.graph,))
    return GraphDeleted()


def refused_name(connection: sqlite3.Connection, graph: int, name: str) -> BranchExists | BranchNameRefused | None:
    """Why a branch cannot have a name."""
    if len(name) > limits.GRAPH_BRANCH_NAME_CHARACTERS_MAX or not _NAME.fullmatch(name):
        return BranchNameRefused(name, None)
    if branch_named(connection, graph, name) is not None:
        return BranchExists(name)
    parts = name.split("/")
    for length in range(1, len(parts)):
        shorter = "/".join(parts[:length])
        if branch_named(connection, graph, shorter) is not None:
            return BranchNameRefused(name, shorter)
    # Names that begin with this one and a slash lie between these two: `0` comes right after the slash.
    statement = "SELECT name FROM graph_branches WHERE graph = ? AND deleted = 0 AND name > ? AND name < ? LIMIT 1"
    longer = connection.execute(statement, (graph, f"{name}/", f"{name}0")).fetchone()
    return None if longer is None else BranchNameRefused(name, longer[0])


def create_branch(
    connection: sqlite3.Connection, ref: GraphRef, name: str, origin: tuple[str, str | None], stamp: Stamp
) -> BranchCreated | BranchExists | BranchNameRefused | BranchTooDeep | CommitNotFound | Lost:
    """Fork a branch from the head of another one, or from a commit."""
    source, snapshot = origin
    if snapshot is None:
        head = find_head(connection, ref, source)
        if isinstance(head, GraphNotFound):
            return head
        if isinstance(head, BranchNotFound):
            graph = find_graph(connection, ref)
            return (None if graph is None else refused_name(connection, graph.graph, name)) or head
        refused = refused_name(connection, head.graph.graph, name)
        return refused or fork(connection, head.branch, (head.branch.head_seq, head.commit_id), name, stamp)
    graph = find_graph(connection, ref)
    if graph is None:
        return GraphNotFound()
    refused = refused_name(connection, graph.graph, name)
    if refused is not None:
        return refused
    found = commit_by_id(connection, graph.graph, snapshot)
    if found is None:
        return CommitNotFound(snapshot)
    seq, parent = found[0].seq, branch_by_number(connection, found[1])
    if seq < parent.oldest_seq:
        return CommitNotFound(snapshot, collected=True)
    return fork(connection, parent, (seq, snapshot), name, stamp)


def fork(
    connection: sqlite3.Connection, parent: Branch, commit: tuple[int, str], name: str, stamp: Stamp
) -> BranchCreated | BranchTooDeep:
    """Make a branch that inherits what its parent has at a commit, given by number and id. It makes no commit."""
    seq, commit_id = commit
    chain = chain_at(connection, parent.branch, seq)
    if len(chain) >= limits.GRAPH_CHAIN_DEPTH_MAX:
        return BranchTooDeep(parent.name, len(chain))
    branch = _insert_branch(connection, parent.graph, name, seq, stamp)
    statement = "INSERT INTO graph_lineage (branch, from_seq, parent, fork_seq) VALUES (?, 0, ?, ?)"
    connection.execute(statement, (branch.branch, parent.branch, seq))
    return BranchCreated(
        BranchRow(
            name=name,
            head_commit_id=commit_id,
            parent=parent.name,
            fork_commit_id=commit_id,
            depth=len(chain) + 1,
            created_at=stamp.at,
            created_by=stamp.actor,
            updated_at=stamp.at,
            loading=False,
        )
    )


def delete_branch(
    connection: sqlite3.Connection, ref: GraphRef, name: str, stamp: Stamp
) -> BranchDeleted | BranchInUse | BranchBusy | Lost:
    """Take a branch out of sight; garbage collection removes its rows."""
    graph = find_graph(connection, ref)
    if graph is None:
        return GraphNotFound()
    branch = branch_named(connection, graph.graph, name)
    if branch is None:
        return BranchNotFound(name)
    if branch.load_id is not None:
        return BranchBusy(name, branch.load_id)
    statement = (
        "SELECT DISTINCT b.name FROM graph_lineage AS l JOIN graph_branches AS b ON b.branch = l.branch"
        " WHERE l.parent = ? AND b.deleted = 0 ORDER BY b.name"
    )
    descendants = tuple(found[0] for found in connection.execute(statement, (branch.branch,)).fetchall())
    if name == MAIN or descendants:
        return BranchInUse(name, descendants)
    statement = "UPDATE graph_branches SET deleted = 1, updated_at = ? WHERE branch = ?"
    connection.execute(statement, (stamp.at, branch.branch))
    return BranchDeleted()
