"""Commits that are written piece by piece, in many short transactions, and become visible at once.

The commit gets its number first. Its rows are written with that number, which is above the head of the branch, so no
read sees them; versions that it ends stay valid for every commit before it. To publish it, only the head of the branch
is moved. Until then no other commit can be made on the branch, since that would move the head past it. After a crash
the rows are removed, and the versions that it ended go on.

Above it: `loading`, `merging`, `flattening`. Below it: `catalogue`, `versions`.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from penstock.base.errors import Conflict
from penstock.graph.sql.layout import OPEN
from penstock.graph.versions.entities import LoadMode
from penstock.runtime.ports.graphs import CommitKind, CommitRow, LoadPublished, Stamp
from penstock.runtime.stores.sqlite.graphs.catalogue import (
    Branch,
    Chain,
    StoredSchema,
    add_commit,
    branch_by_number,
    chain_at,
    take_seq,
)
from penstock.runtime.stores.sqlite.schema.edge_tables import forget_overrides
from penstock.runtime.tables.codec import decode_json, encode_json

__all__ = [
    "Staged",
    "begin",
    "count_records",
    "find_staged",
    "load_published",
    "publish",
    "renew",
    "require",
    "undo_piece",
]

_COUNTS = msgspec.json.Decoder(dict[str, int])


@dataclass(frozen=True, slots=True)
class Staged:
    """A commit in progress."""

    load_id: str
    graph: int
    branch: int
    seq: int
    purpose: str
    mode: str | None
    base_branch: str | None
    branch_created: bool
    records: int
    counts: dict[str, int]
    ended: bool

    def chain(self, connection: sqlite3.Connection) -> Chain:
        """The view in which the commit is the head of its branch."""
        return ((self.branch, self.seq), *chain_at(connection, self.branch, self.seq - 1)[1:])


def begin(connection: sqlite3.Connection, branch: Branch, load_id: str, stamp: Stamp, **about: Any) -> None:
    """Begin a commit on a branch that has no commit in progress."""
    seq = take_seq(connection, branch.graph)
    connection.execute(
        "INSERT INTO graph_loads (load_id, graph, branch, seq, purpose, mode, base_branch, branch_created, records,"
        " counts, touched_at) VALUES (?,?,?,?,?,?,?,?,0,?,?)",
        (
            load_id,
            branch.graph,
            branch.branch,
            seq,
            about.get("purpose", "load"),
            about.get("mode"),
            about.get("base_branch"),
            int(about.get("branch_created", False)),
            b"{}",
            stamp.at,
        ),
    )
    connection.execute("UPDATE graph_branches SET load_id = ? WHERE branch = ?", (load_id, branch.branch))


def find_staged(connection: sqlite3.Connection, load_id: str) -> Staged | None:
    """A commit that this process writes or undoes."""
    statement = (
        "SELECT load_id, graph, branch, seq, purpose, mode, base_branch, branch_created, records, counts, ended"
        " FROM graph_loads WHERE load_id = ?"
    )
    found = connection.execute(statement, (load_id,)).fetchone()
    if found is None:
        return None
    *plain, created, records, counts, ended = found
    load, graph, branch, seq, purpose, mode, base_branch = plain
    return Staged(
        load, graph, branch, seq, purpose, mode, base_branch, bool(created), records, _counts(counts), bool(ended)
    )


def _counts(stored: bytes) -> dict[str, int]:
    return decode_json(_COUNTS, stored)


def require(connection: sqlite3.Connection, staged: Staged) -> None:
    """Refuse to continue a commit that was abandoned: nobody would remove what this writes."""
    found = find_staged(connection, staged.load_id)
    if found is None or found.ended:
        message = f"another caller abandoned the load {staged.load_id}"
        raise Conflict("GRAPH_LOAD_ABANDONED", message, "load the file again from the start")


def count_records(connection: sqlite3.Connection, staged: Staged, added: dict[str, int], at: int) -> Staged:
    """Note how many records of which types the commit has."""
    counts = dict(staged.counts)
    for name, number in added.items():
        counts[name] = counts.get(name, 0) + number
    records = staged.records + sum(added.values())
    connection.execute(
        "UPDATE graph_loads SET records = ?, counts = ?, touched_at = max(touched_at, ?) WHERE load_id = ?",
        (records, encode_json(counts), at, staged.load_id),
    )
    return replace(staged, records=records, counts=counts)


def renew(connection: sqlite3.Connection, load_ids: str, at: int) -> None:
    """Renew the leases of commits, given as a JSON array."""
    statement = (
        "UPDATE graph_loads SET touched_at = max(touched_at, ?)"
        " WHERE ended = 0 AND load_id IN (SELECT value FROM json_each(?))"
    )
    connection.execute(statement, (at, load_ids))


def publish(
    connection: sqlite3.Connection, staged: Staged, kind: CommitKind, stamp: Stamp, *, merged_seq: int | None = None
) -> CommitRow:
    """Make a commit visible."""
    require(connection, staged)
    branch = branch_by_number(connection, staged.branch)
    connection.execute("UPDATE graph_branches SET load_id = NULL WHERE branch = ?", (staged.branch,))
    connection.execute("DELETE FROM graph_loads WHERE load_id = ?", (staged.load_id,))
    return add_commit(connection, branch, kind, stamp, seq=staged.seq, merged_seq=merged_seq)


def undo_piece(connection: sqlite3.Connection, staged: Staged, tables: list[str], limit: int) -> int:
    """Undo a part of a commit; return how many rows that were. 0 means that nothing remains."""
    marked = connection.execute("UPDATE graph_loads SET ended = 1 WHERE load_id = ?", (staged.load_id,))
    if not marked.rowcount:
        return 0  # it was published or undone in the meantime
    undone = 0
    given = {"branch": staged.branch, "seq": staged.seq}
    for table in tables:
        if undone >= limit:
            return undone
        begun = f"SELECT rid FROM {table} WHERE br = :branch AND c_from = :seq LIMIT :most"
        given["most"] = limit - undone
        undone += connection.execute(f"DELETE FROM {table} WHERE rid IN ({begun})", given).rowcount
        ended = f"SELECT rid FROM {table} WHERE br = :branch AND c_to = :seq AND c_to < {OPEN} LIMIT :most"
        given["most"] = max(limit - undone, 0)
        undone += connection.execute(f"UPDATE {table} SET c_to = {OPEN} WHERE rid IN ({ended})", given).rowcount
        undone += forget_overrides(connection, table, staged.branch, staged.seq, limit - undone)
    if undone == 0:
        _forget(connection, staged)
    return undone


def _forget(connection: sqlite3.Connection, staged: Staged) -> None:
    connection.execute("UPDATE graph_branches SET load_id = NULL WHERE branch = ?", (staged.branch,))
    connection.execute("DELETE FROM graph_loads WHERE load_id = ?", (staged.load_id,))
    if staged.branch_created:
        connection.execute("UPDATE graph_branches SET deleted = 1 WHERE branch = ?", (staged.branch,))


def load_published(stored: StoredSchema, staged: Staged, branch: Branch, commit: CommitRow | None) -> LoadPublished:
    """Return the result of a load."""
    nodes, edges = stored.schema.node_types, stored.schema.edge_types
    return LoadPublished(
        commit=commit,
        branch=branch.name,
        base_branch=staged.base_branch,
        branch_created=staged.branch_created,
        mode=LoadMode(staged.mode or LoadMode.MERGE),
        nodes={name: number for name, number in staged.counts.items() if name in nodes},
        edges={name: number for name, number in staged.counts.items() if name in edges},
    )
