"""Garbage: row versions that nothing can show any more, tables of deleted graphs, columns that were dropped for good.

A version is kept if a view that callers may still read can show it. Callers may read the heads of branches, commits
since a time, and held commits with everything after them. The points where branches were forked count too, and the
commits that a later merge will take as its common ancestor.

Above it: `store`. Below it: `catalogue`, sqlite3.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from penstock.graph.sql.layout import OPEN
from penstock.runtime.ports.graphs import Collected, GarbagePolicy, GraphNotFound, GraphRef
from penstock.runtime.ports.set_aside import SetAside
from penstock.runtime.stores.sqlite.graph_checksums import renew_checksums
from penstock.runtime.stores.sqlite.graphs.catalogue import Chain, find_graph
from penstock.runtime.stores.sqlite.graphs.searching.indexes import build_piece
from penstock.runtime.stores.sqlite.graphs.type_tables import drop_table
from penstock.runtime.stores.sqlite.schema.edge_tables import empty_hop_tables, forget_overrides
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction

__all__ = ["collect", "graph_tables", "has_base", "sweep"]

_KIND = "graphs"


@dataclass(slots=True)
class _Kept:
    """What is kept of one branch: everything from a commit on (None: nothing), and single commits before it."""

    horizon: int | None = None
    points: set[int] = field(default_factory=set)


def graph_tables(connection: sqlite3.Connection, graph: int) -> list[str]:
    """The tables of types that a graph has or had."""
    statement = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB ? AND name NOT GLOB ? ORDER BY name"
    given = f"g{graph}_[0-9]*", f"g{graph}_[0-9]*_*"
    return [name for (name,) in connection.execute(statement, given).fetchall()]


def collect(connection: sqlite3.Connection, ref: GraphRef, policy: GarbagePolicy) -> Collected | GraphNotFound:
    """Remove some of the versions that are not kept."""
    graph = find_graph(connection, ref)
    if graph is None:
        return GraphNotFound()
    kept = _kept(connection, graph.graph, policy)
    for branch, each in kept.items():
        oldest = OPEN if each.horizon is None else each.horizon
        statement = "UPDATE graph_branches SET oldest_seq = max(oldest_seq, ?) WHERE branch = ?"
        connection.execute(statement, (oldest, branch))
    removed = 0
    for table in graph_tables(connection, graph.graph):
        for branch, each in kept.items():
            if removed >= policy.limit:
                return Collected(removed, more=True)
            removed += _remove(connection, table, branch, each, policy.limit - removed)
            if not any(_inherited(connection, branch, each)):
                removed += forget_overrides(connection, table, branch, None, policy.limit - removed)
    return Collected(removed, more=removed >= policy.limit)


def _remove(connection: sqlite3.Connection, table: str, branch: int, kept: _Kept, limit: int) -> int:
    ended = "" if kept.horizon is None else f" AND c_to <= :horizon AND c_to < {OPEN}"
    shown = "EXISTS (SELECT 1 FROM json_each(:points) WHERE value >= c_from AND value < c_to)"
    chosen = f"SELECT rid FROM {table} WHERE br = :branch{ended} AND NOT {shown} LIMIT :most"
    given = {
        "branch": branch,
        "horizon": kept.horizon,
        "points": json.dumps(sorted(kept.points)),
        "most": limit,
    }
    return connection.execute(f"DELETE FROM {table} WHERE rid IN ({chosen})", given).rowcount


def _kept(connection: sqlite3.Connection, graph: int, policy: GarbagePolicy) -> dict[int, _Kept]:
    statement = (
        "SELECT b.branch, CASE WHEN b.deleted = 0 THEN b.head_seq END,"
        " (SELECT min(c.seq) FROM graph_commits AS c WHERE c.branch = b.branch AND (c.at >= :since"
        " OR c.commit_id IN (SELECT value FROM json_each(:held))))"
        " FROM graph_branches AS b WHERE b.graph = :graph"
    )
    given = {"graph": graph, "since": policy.keep_since, "held": json.dumps(list(policy.held_commits))}
    kept: dict[int, _Kept] = {}
    for branch, head, first in connection.execute(statement, given).fetchall():
        wanted = [seq for seq in (head, first) if seq is not None]
        kept[branch] = _Kept(min(wanted, default=None))
    _keep_merge_bases(connection, graph, kept)
    _keep_forks(connection, kept)
    return kept


def _keep_merge_bases(connection: sqlite3.Connection, graph: int, kept: dict[int, _Kept]) -> None:
    """Keep what merges took: a later merge may begin there.

    If the branch is gone since and only one branch took from it, no later merge does.
    """
    statement = (
        "SELECT s.branch, m.merged_seq, m.branch FROM graph_commits AS m"
        " JOIN graph_commits AS s ON s.graph = m.graph AND s.seq = m.merged_seq"
        " JOIN graph_branches AS b ON b.branch = m.branch"
        " WHERE m.graph = ? AND m.merged_seq IS NOT NULL AND b.deleted = 0"
    )
    merges = connection.execute(statement, (graph,)).fetchall()
    takers: dict[int, set[int]] = {}
    for branch, _, taker in merges:
        takers.setdefault(branch, set()).add(taker)
    for branch, seq, _ in merges:
        if kept[branch].horizon is not None or len(takers[branch]) > 1:
            kept[branch].points.add(seq)


def has_base(connection: sqlite3.Connection, graph: int, chain: Chain) -> bool:
    """Whether the versions that a merge compares with are still there."""
    always = _kept(connection, graph, GarbagePolicy(keep_since=OPEN))
    for branch, seq in chain:
        statement = "SELECT oldest_seq FROM graph_branches WHERE branch = ?"
        (oldest,) = connection.execute(statement, (branch,)).fetchone()
        if seq < oldest and seq not in always[branch].points:
            return False
    return True


def _keep_forks(connection: sqlite3.Connection, kept: dict[int, _Kept]) -> None:
    """Keep what branches inherit at the commits that are kept of them, and what those inherit in turn."""
    waiting = list(kept)
    while waiting:
        branch = waiting.pop()
        for parent, fork_seq in _inherited(connection, branch, kept[branch]):
            if fork_seq not in kept[parent].points:
                kept[parent].points.add(fork_seq)
                waiting.append(parent)


def _inherited(connection: sqlite3.Connection, branch: int, own: _Kept) -> Iterator[tuple[int, int]]:
    """What a branch inherits at the commits that are kept of it: a branch and the last commit of it that is seen."""
    statement = "SELECT from_seq, parent, fork_seq FROM graph_lineage WHERE branch = ? ORDER BY from_seq"
    lineage = connection.execute(statement, (branch,)).fetchall()
    for number, (from_seq, parent, fork_seq) in enumerate(lineage, 1):
        end = lineage[number][0] if number < len(lineage) else OPEN
        is_used = (own.horizon is not None and own.horizon < end) or any(
            from_seq <= point < end for point in own.points
        )
        if parent is not None and is_used:
            yield parent, fork_seq


def sweep(connection: sqlite3.Connection, set_aside: SetAside, limit: int) -> Collected:
    """Remove some rows of deleted graphs and some values that were dropped for good, and go on with text indexes."""
    removed = 0

    def attempt(name: str, remove: Callable[[], int]) -> int:
        return (
            0 if set_aside.has(_KIND, name) else set_aside.attempt(SqliteTransaction(connection), _KIND, name, remove)
        )

    for table, column in connection.execute("SELECT table_name, column_name FROM graph_garbage").fetchall():
        if removed >= limit:
            return Collected(removed, more=True)
        left = limit - removed
        removed += attempt(f"{table}.{column}", partial(_sweep_one, connection, table, column, left))
    for (graph,) in connection.execute("SELECT graph FROM graphs WHERE deleted = 1").fetchall():
        for table in graph_tables(connection, graph):
            if removed >= limit:
                return Collected(removed, more=True)
            removed += attempt(table, partial(_empty, connection, table, limit - removed))
        if removed < limit and not graph_tables(connection, graph):
            _forget_graph(connection, graph)
    indexed = build_piece(connection, limit - removed) if removed < limit else 0
    return Collected(removed + indexed, more=indexed > 0 or removed >= limit)


def _sweep_one(connection: sqlite3.Connection, table: str, column: str, limit: int) -> int:
    if not column:
        removed = _empty(connection, table, limit)
    else:
        chosen = f"SELECT rid FROM {table} WHERE {column} IS NOT NULL LIMIT ?"
        rids = [rid for (rid,) in connection.execute(chosen, (limit,)).fetchall()]
        connection.executemany(f"UPDATE {table} SET {column} = NULL WHERE rid = ?", [(rid,) for rid in rids])
        renew_checksums(connection, table, rids)
        removed = len(rids)
    if removed < limit:
        statement = "DELETE FROM graph_garbage WHERE table_name = ? AND column_name = ?"
        connection.execute(statement, (table, column))
    return removed


def _empty(connection: sqlite3.Connection, table: str, limit: int) -> int:
    """Remove some rows of a table, and the table when nothing is left in it."""
    emptied = empty_hop_tables(connection, table, limit)
    if emptied:
        return emptied
    chosen = f"SELECT rid FROM {table} LIMIT ?"
    removed = connection.execute(f"DELETE FROM {table} WHERE rid IN ({chosen})", (limit,)).rowcount
    if removed < limit:
        drop_table(connection, table)
    return removed


def _forget_graph(connection: sqlite3.Connection, graph: int) -> None:
    branches = "SELECT branch FROM graph_branches WHERE graph = ?"
    connection.execute(f"DELETE FROM graph_lineage WHERE branch IN ({branches})", (graph,))
    for table in ("graph_branches", "graph_commits", "graph_schemas", "graph_loads", "graphs"):
        connection.execute(f"DELETE FROM {table} WHERE graph = ?", (graph,))
