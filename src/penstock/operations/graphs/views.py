"""Graphs, branches, commits and changes as callers see them.

Above it: the operations on graphs. Below it: the rows of the port of graphs.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base.json import JsonObject
from penstock.graph.records import GraphRecord, write_record
from penstock.graph.schema.plan import SchemaPlan
from penstock.graph.schema.steps import step_to_json
from penstock.graph.versions.entities import EntityChange
from penstock.operations.catalogue.fields import instant
from penstock.operations.stored_queries.access import GraphId, OpenedGraph
from penstock.runtime.ports.graphs import BranchRow, CommitRow, GraphRow

__all__ = [
    "BranchView",
    "ChangeView",
    "CommitView",
    "GraphView",
    "OneGraph",
    "branch_view",
    "change_view",
    "commit_view",
    "graph_view",
    "plan_steps",
]


class OneGraph(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which graph."""

    graph_id: GraphId


class GraphView(msgspec.Struct, frozen=True, kw_only=True):
    """A graph, and how it is offered."""

    id: str
    title: str
    description: str | None
    schema_version: int
    allow_adhoc: bool
    """Whether callers may send queries and mutations of their own."""
    protected_branches: list[str]
    """Branches whose changes need approval."""
    tools_max: int
    queries: int
    """How many stored queries it has."""
    of_settings: bool
    """Whether the settings of the server declare it; callers do not change its schema and queries then."""
    quarantine: str | None
    """Why it cannot be used; null if it can."""
    created_at: str | None
    created_by: str | None


class CommitView(msgspec.Struct, frozen=True, kw_only=True):
    """A commit: a change of one branch, made at once."""

    commit_id: str
    branch: str
    kind: str
    parent_id: str | None
    merged_parent_id: str | None
    """The head of the other branch, if it is a merge."""
    actor_id: str | None
    message: str | None
    at: str | None


class BranchView(msgspec.Struct, frozen=True, kw_only=True):
    """A branch, and where it comes from."""

    name: str
    head_commit_id: str
    parent: str | None
    fork_commit_id: str | None
    created_at: str | None
    created_by: str | None
    updated_at: str | None
    protected: bool
    """Whether changes of it wait for approval."""
    loading: bool
    """Whether a load on it is in progress."""


class ChangeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node or an edge that was inserted, updated or deleted."""

    entity_kind: str
    type_name: str
    entity_id: str
    kind: Annotated[str, Meta(description="inserted, updated or deleted.")]
    before: dict[str, Any] | None
    """As a record of a load; null if it was inserted."""
    after: dict[str, Any] | None
    """As a record of a load; null if it was deleted."""


def graph_view(row: GraphRow, opened: OpenedGraph) -> GraphView:
    """Return a graph as callers see it."""
    definition = opened.definition
    return GraphView(
        id=row.ref.name,
        title=definition.title or row.ref.name,
        description=definition.description,
        schema_version=row.schema_version,
        allow_adhoc=definition.allow_adhoc,
        protected_branches=list(definition.protected_branches),
        tools_max=definition.tools_max,
        queries=len(definition.queries),
        of_settings=definition.of_settings,
        quarantine=definition.quarantine,
        created_at=instant(row.created_at),
        created_by=row.created_by,
    )


def commit_view(row: CommitRow) -> CommitView:
    """Return a commit as callers see it."""
    return CommitView(
        commit_id=row.commit_id,
        branch=row.branch,
        kind=row.kind,
        parent_id=row.parent_id,
        merged_parent_id=row.merged_parent_id,
        actor_id=row.actor,
        message=row.message,
        at=instant(row.at),
    )


def branch_view(row: BranchRow, protected: tuple[str, ...]) -> BranchView:
    """Return a branch as callers see it."""
    return BranchView(
        name=row.name,
        head_commit_id=row.head_commit_id,
        parent=row.parent,
        fork_commit_id=row.fork_commit_id,
        created_at=instant(row.created_at),
        created_by=row.created_by,
        updated_at=instant(row.updated_at),
        protected=row.name in protected,
        loading=row.loading,
    )


def change_view(change: EntityChange) -> ChangeView:
    """Return a change as callers see it."""
    return ChangeView(
        entity_kind=change.entity_kind.value,
        type_name=change.type_name,
        entity_id=change.entity_id,
        kind=change.kind.value,
        before=None if change.before is None else _record(change.before),
        after=None if change.after is None else _record(change.after),
    )


def _record(record: GraphRecord) -> JsonObject:
    found: JsonObject = msgspec.json.decode(write_record(record))
    return found


def plan_steps(plan: SchemaPlan) -> list[JsonObject]:
    """Return the steps of a plan, each with its name."""
    return [step_to_json(step) for step in plan.steps]
