"""Merges: what changed on each side since the common ancestor, and what of it goes into the target.

Both sides are compared on a reader; the writer only applies what was decided, if both heads are still the same.

Above it: `store`. Below it: `differences`, `penstock.graph.versions`, `versions`, `constraints`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.base import limits
from penstock.base.errors import Conflict
from penstock.graph.schema.model import EdgeType, EntityType
from penstock.graph.versions.ancestry import common_ancestor
from penstock.graph.versions.checking import kind_of
from penstock.graph.versions.entities import ConflictKind, MergeConflict, MergeOutcome, Violation, ViolationKind
from penstock.graph.versions.merging import Changed, EntityKey, merge_changes
from penstock.runtime.ports.graphs import (
    BranchBusy,
    BranchesMerged,
    BranchNotFound,
    GraphNotFound,
    GraphRef,
    HeadMoved,
    MergeConflicts,
    MergeTried,
    Refused,
    Stamp,
)
from penstock.runtime.stores.sqlite.graphs.catalogue import (
    Branch,
    Catalogue,
    Chain,
    Graph,
    StoredSchema,
    add_commit,
    branch_by_number,
    branch_named,
    chain_at,
    commit_id_at,
    find_graph,
    take_seq,
)
from penstock.runtime.stores.sqlite.graphs.constraints import check_commit
from penstock.runtime.stores.sqlite.graphs.differences import changed_rows
from penstock.runtime.stores.sqlite.graphs.garbage import has_base
from penstock.runtime.stores.sqlite.graphs.mutating import undone_unless
from penstock.runtime.stores.sqlite.graphs.versions import StoredRow, VersionWriter

__all__ = ["MergePlan", "MergeWrite", "apply_merge", "as_conflicts", "is_current", "merge_now", "plan_merge", "trying"]


@dataclass(frozen=True, slots=True)
class MergeWrite:
    """One entity that the target gets; `row` is `None` if it is deleted."""

    type_name: str
    entity_id: str
    row: StoredRow | None


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What a merge will do."""

    graph: Graph
    stored: StoredSchema
    source: Branch
    target: Branch
    outcome: MergeOutcome
    writes: tuple[MergeWrite, ...]
    base_seq: int
    """The last commit that both branches have."""


def plan_merge(
    connection: sqlite3.Connection,
    catalogue: Catalogue,
    ref: GraphRef,
    names: tuple[str, str],
    expected: tuple[str | None, str | None],
) -> MergePlan | MergeConflicts | Refused:
    """Compare two branches. The connection is in a transaction, so that both are seen at one moment.

    `expected` are the heads that the target and the source must have, if any. The plan is carried out only if neither
    head has moved since, so what is expected holds for the merge, too.
    """
    graph = find_graph(connection, ref)
    if graph is None:
        return GraphNotFound()
    source, target = (branch_named(connection, graph.graph, name) for name in names)
    if source is None or target is None:
        return BranchNotFound(names[0] if source is None else names[1])
    for branch in (target, source):
        if branch.load_id is not None:
            return BranchBusy(branch.name, branch.load_id)
    for branch, wanted_head in zip((target, source), expected, strict=True):
        actual = commit_id_at(connection, graph.graph, branch.head_seq)
        if wanted_head not in (None, actual):
            return HeadMoved(wanted_head or "", actual)
    stored = catalogue.schema(connection, graph.graph, graph.schema_version)
    base = common_ancestor(source.head_seq, target.head_seq, lambda seq: _parents(connection, graph.graph, seq))
    assert base is not None, "all branches of a graph come from its first commit"
    if base == source.head_seq:
        return MergePlan(graph, stored, source, target, MergeOutcome.ALREADY_UP_TO_DATE, (), base)
    base_chain = _chain_of_commit(connection, graph.graph, base)
    if not has_base(connection, graph.graph, base_chain):
        message = f"the last common commit of {source.name} and {target.name} was removed by garbage collection"
        hint = f"make a branch of {target.name}, and repeat the changes of {source.name} there"
        raise Conflict("GRAPH_MERGE_BASE_COLLECTED", message, hint)
    source_changes = _changes(connection, stored, base_chain, _head(connection, source))
    is_forward = base == target.head_seq
    target_changes = {} if is_forward else _changes(connection, stored, base_chain, _head(connection, target))
    wanted, conflicts = merge_changes(source_changes, target_changes)
    if conflicts:
        return MergeConflicts(tuple(conflicts[: limits.GRAPH_CONFLICTS_MAX]), len(conflicts))
    writes = tuple(MergeWrite(name, entity_id, change.after) for (_, name, entity_id), change in wanted.items())
    outcome = MergeOutcome.FAST_FORWARD if is_forward else MergeOutcome.MERGED
    return MergePlan(graph, stored, source, target, outcome, writes, base)


def trying(
    catalogue: Catalogue, ref: GraphRef, names: tuple[str, str]
) -> Callable[[sqlite3.Connection], MergeTried | MergeConflicts | Refused]:
    """Return what compares two branches, and says what a merge would do."""

    def tried(connection: sqlite3.Connection) -> MergeTried | MergeConflicts | Refused:
        plan = plan_merge(connection, catalogue, ref, names, (None, None))
        if not isinstance(plan, MergePlan):
            return plan
        return MergeTried(plan.outcome, len(plan.writes), commit_id_at(connection, plan.graph.graph, plan.base_seq))

    return tried


def _head(connection: sqlite3.Connection, branch: Branch) -> Chain:
    return chain_at(connection, branch.branch, branch.head_seq)


def _parents(connection: sqlite3.Connection, graph: int, seq: int) -> list[int]:
    statement = "SELECT parent_seq, merged_seq FROM graph_commits WHERE graph = ? AND seq = ?"
    found = connection.execute(statement, (graph, seq)).fetchone()
    return [each for each in found if each is not None]


def _chain_of_commit(connection: sqlite3.Connection, graph: int, seq: int) -> Chain:
    statement = "SELECT branch FROM graph_commits WHERE graph = ? AND seq = ?"
    (branch,) = connection.execute(statement, (graph, seq)).fetchone()
    return chain_at(connection, branch, seq)


def _changes(
    connection: sqlite3.Connection, stored: StoredSchema, before: Chain, after: Chain
) -> dict[EntityKey, Changed]:
    found: dict[EntityKey, Changed] = {}
    entities: tuple[EntityType, ...] = (*stored.schema.nodes, *stored.schema.edges)
    for entity in entities:
        table = stored.layout.tables[entity.name]
        kind = kind_of(entity)
        for identifier, old, new in changed_rows(connection, table, before, after):
            ends: tuple[tuple[str, str], ...] = ()
            if isinstance(entity, EdgeType) and new is not None:
                ends = ((entity.source, new[1]), (entity.target, new[2]))
            found[kind, entity.name, identifier] = Changed(old, new, ends)
    return found


def is_current(connection: sqlite3.Connection, plan: MergePlan) -> bool:
    """Whether both branches and the schema are as they were when the plan was made."""
    branches = (plan.source, plan.target)
    statement = "SELECT schema_version FROM graphs WHERE graph = ? AND deleted = 0"
    found = connection.execute(statement, (plan.graph.graph,)).fetchone()
    return found == (plan.stored.version,) and all(
        branch_by_number(connection, each.branch) == each for each in branches
    )


def merge_now(connection: sqlite3.Connection, plan: MergePlan, stamp: Stamp) -> BranchesMerged | MergeConflicts | None:
    """Write a small merge in one transaction; None if a head moved since it was planned."""
    if not is_current(connection, plan):
        return None
    kept: list[bool] = []
    with undone_unless(connection, kept):
        seq = take_seq(connection, plan.graph.graph)
        chain = ((plan.target.branch, seq), *_head(connection, plan.target)[1:])
        apply_merge(connection, plan.stored, chain, plan.writes)
        violations = check_commit(connection, plan.stored, chain, {each.type_name for each in plan.writes})
        if violations:
            return as_conflicts(violations)
        merged_seq = plan.source.head_seq
        commit = add_commit(connection, plan.target, "merge", stamp, seq=seq, merged_seq=merged_seq)
        kept.append(True)
        return BranchesMerged(plan.outcome, commit, len(plan.writes))


def apply_merge(
    connection: sqlite3.Connection, stored: StoredSchema, chain: Chain, writes: Sequence[MergeWrite]
) -> None:
    """Write what a merge brings."""
    writer = VersionWriter(connection, chain)
    rows: dict[str, list[StoredRow]] = {}
    removed: dict[str, list[str]] = {}
    for each in writes:
        if each.row is None:
            removed.setdefault(each.type_name, []).append(each.entity_id)
        else:
            rows.setdefault(each.type_name, []).append(each.row)
    for name, listed in removed.items():
        writer.remove(stored.layout.tables[name], listed)
    for name, kept in rows.items():
        writer.put(stored.layout.tables[name], kept)


_KINDS = {
    ViolationKind.UNIQUE: ConflictKind.UNIQUE_VIOLATION,
    ViolationKind.CARDINALITY: ConflictKind.CARDINALITY_VIOLATION,
    ViolationKind.MISSING_END: ConflictKind.ORPHAN_EDGE,
}


def as_conflicts(violations: Sequence[Violation]) -> MergeConflicts:
    """What the result of a merge would break, as conflicts."""
    conflicts = tuple(
        MergeConflict(
            kind=_KINDS.get(each.kind, ConflictKind.VALUE_CONSTRAINT_VIOLATION),
            entity_kind=each.entity_kind,
            type_name=each.type_name,
            entity_id=each.entity_id,
            message=each.message,
        )
        for each in violations
    )
    return MergeConflicts(conflicts, len(conflicts))
