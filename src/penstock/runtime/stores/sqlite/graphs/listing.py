"""Pages: graphs, commits, differences, and what commits changed.

Above it: `store`. Below it: `catalogue`, `differences`.
"""

from __future__ import annotations

import sqlite3

from penstock.base import limits
from penstock.graph.versions.entities import EntityChange
from penstock.runtime.ports.graphs import (
    BranchNotFound,
    ChangeGap,
    ChangePage,
    CommitNotFound,
    CommitPage,
    CommitRow,
    DiffPage,
    GraphNotFound,
    GraphPage,
    GraphRef,
    Lost,
    View,
)
from penstock.runtime.stores.sqlite.graphs.catalogue import (
    Branch,
    Catalogue,
    Chain,
    Graph,
    StoredSchema,
    branch_by_number,
    branch_named,
    chain_at,
    commit_by_id,
    find_graph,
    history_chain,
    read_commits,
)
from penstock.runtime.stores.sqlite.graphs.differences import entity_changes
from penstock.runtime.stores.sqlite.graphs.reading import is_gone, snapshot
from penstock.runtime.tables.listings import (
    cut_page,
    id_cursor,
    id_position,
    number_cursor,
    number_position,
    place_cursor,
    place_position,
)

__all__ = ["read_changes", "read_commit_page", "read_diff", "read_graphs"]


def _size(limit: int) -> int:
    return max(1, min(limit, limits.GRAPH_PAGE_MAX))


def read_graphs(
    connection: sqlite3.Connection, catalogue: Catalogue, tenant: str, limit: int, cursor: str | None
) -> GraphPage:
    """Graphs of a tenant, by name."""
    size, after = _size(limit), id_position(cursor)
    statement = "SELECT name FROM graphs WHERE tenant = ? AND deleted = 0 AND name > ? ORDER BY name LIMIT ?"
    names = connection.execute(statement, (tenant, after or "", size + 1)).fetchall()
    rows = []
    for (name,) in names:
        ref = GraphRef(tenant, name)
        graph = find_graph(connection, ref)
        if graph is not None:
            rows.append(catalogue.graph_row(connection, ref, graph))
    page, following = cut_page(rows, size, lambda row: id_cursor(row.ref.name))
    return GraphPage(tuple(page), following)


def read_commit_page(
    connection: sqlite3.Connection, ref: GraphRef, branch_name: str | None, limit: int, cursor: str | None
) -> CommitPage | Lost:
    """Commits of a branch and of what it was forked from, or of the graph, newest first."""
    graph = find_graph(connection, ref)
    if graph is None:
        return GraphNotFound()
    size, before = _size(limit), number_position(cursor)
    condition, parameters = "1 = 1", []
    if branch_name is not None:
        branch = branch_named(connection, graph.graph, branch_name)
        if branch is None:
            return BranchNotFound(branch_name)
        chain = history_chain(connection, branch.branch, branch.head_seq)
        condition = " OR ".join("(c.branch = ? AND c.seq <= ?)" for _ in chain)
        parameters = [number for level in chain for number in level]
    if before is not None:
        parameters.append(before)
    older = "" if before is None else " AND c.seq < ?"
    tail = f"({condition}){older} ORDER BY c.seq DESC LIMIT ?"
    rows = read_commits(connection, graph.graph, tail, (*parameters, size + 1))
    page, following = cut_page(rows, size, lambda row: number_cursor(row.seq))
    return CommitPage(tuple(page), following)


def read_diff(
    connection: sqlite3.Connection, catalogue: Catalogue, views: tuple[View, View], limit: int, cursor: str | None
) -> DiffPage | CommitNotFound:
    """Entities that differ between two views, in the schema of the second."""
    before, after = views
    size, start = _size(limit), place_position(cursor) or (0, "")
    with snapshot(connection):
        for view in views:
            if is_gone(connection, view):
                return CommitNotFound(view.commit_id, collected=True)
        stored = catalogue.schema(connection, after.graph, after.schema_version)
        found: list[EntityChange] = []
        place = start
        for at, change in entity_changes(connection, stored, before.chain, after.chain, start=start):
            if len(found) == size:
                return DiffPage(tuple(found), place_cursor(*place))
            found.append(change)
            place = at
    return DiffPage(tuple(found), None)


def read_changes(
    connection: sqlite3.Connection,
    catalogue: Catalogue,
    where: tuple[GraphRef, str, str | None],
    limit: int,
) -> ChangePage | ChangeGap | CommitNotFound | Lost:
    """What the commits of a branch changed, after one of them."""
    ref, branch_name, after = where
    with snapshot(connection):
        graph = find_graph(connection, ref)
        if graph is None:
            return GraphNotFound()
        branch = branch_named(connection, graph.graph, branch_name)
        if branch is None:
            return BranchNotFound(branch_name)
        chain = history_chain(connection, branch.branch, branch.head_seq)
        position = _position(connection, graph, chain, after)
        if position is None:
            return CommitNotFound(after or "")
        gap = _gap(connection, graph, chain, position)
        if gap is not None:
            return gap
        return _change_page(connection, catalogue, graph, chain, position, limit)


def _position(connection: sqlite3.Connection, graph: Graph, chain: Chain, after: str | None) -> int | None:
    """The number of the commit after which the page begins; None if the branch does not have it."""
    if after is None:
        return 0
    found = commit_by_id(connection, graph.graph, after)
    if found is None or not any(branch == found[1] and found[0].seq <= seq for branch, seq in chain):
        return None
    return found[0].seq


def _gap(connection: sqlite3.Connection, graph: Graph, chain: Chain, position: int) -> ChangeGap | None:
    """Whether versions after a commit were removed: then the first commit from which changes are complete."""
    oldest = max(_oldest(branch_by_number(connection, branch), seq) for branch, seq in chain)
    if position >= oldest:
        return None
    condition = " OR ".join("(c.branch = ? AND c.seq <= ?)" for _ in chain)
    parameters = [number for level in chain for number in level]
    tail = f"({condition}) AND c.seq >= ? ORDER BY c.seq LIMIT 1"
    (row,) = read_commits(connection, graph.graph, tail, (*parameters, oldest))
    return ChangeGap(row.commit_id)


def _oldest(branch: Branch, seen_until: int) -> int:
    """The first commit of a branch whose snapshot is complete, as far as a branch forked from it is concerned."""
    return min(branch.oldest_seq, seen_until)


def _change_page(
    connection: sqlite3.Connection, catalogue: Catalogue, graph: Graph, chain: Chain, position: int, limit: int
) -> ChangePage:
    size = _size(limit)
    stored = catalogue.schema(connection, graph.graph, graph.schema_version)
    condition = " OR ".join("(c.branch = ? AND c.seq <= ?)" for _ in chain)
    parameters = [number for level in chain for number in level]
    tail = f"({condition}) AND c.seq > ? ORDER BY c.seq LIMIT ?"
    rows = read_commits(connection, graph.graph, tail, (*parameters, position, size + 1))
    page: list[tuple[CommitRow, tuple[EntityChange, ...]]] = []
    number = 0
    for row in rows[:size]:
        if page and number >= size:
            break
        changes = _commit_changes(connection, stored, graph, row)
        page.append((row, changes))
        number += len(changes)
    cursor = page[-1][0].commit_id if page else _cursor_at(connection, graph, position)
    return ChangePage(tuple(page), cursor, more=len(rows) > len(page))


def _commit_changes(
    connection: sqlite3.Connection, stored: StoredSchema, graph: Graph, row: CommitRow
) -> tuple[EntityChange, ...]:
    """What a commit changed, compared with its first parent."""
    after = chain_at(connection, _branch_of(connection, graph, row.seq), row.seq)
    before: Chain = ((after[0][0], 0),)
    if row.parent_id is not None:
        parent = commit_by_id(connection, graph.graph, row.parent_id)
        assert parent is not None
        before = chain_at(connection, parent[1], parent[0].seq)
    return tuple(change for _, change in entity_changes(connection, stored, before, after))


def _branch_of(connection: sqlite3.Connection, graph: Graph, seq: int) -> int:
    statement = "SELECT branch FROM graph_commits WHERE graph = ? AND seq = ?"
    (branch,) = connection.execute(statement, (graph.graph, seq)).fetchone()
    return int(branch)


def _cursor_at(connection: sqlite3.Connection, graph: Graph, seq: int) -> str:
    rows = read_commits(connection, graph.graph, "c.seq = ?", (seq,))
    return rows[0].commit_id if rows else ""
