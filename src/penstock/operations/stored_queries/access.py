"""Reaching a graph of the caller's tenant: finding it, choosing a branch or snapshot, and stamping what is written.

Above it: the operations on graphs, `running`. Below it: the port of graphs, `definitions`, `refusals`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, Unavailable
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context, Services
from penstock.operations.stored_queries.definitions import GraphDefinition, stored_definition
from penstock.operations.stored_queries.refusals import graph_not_found, refused
from penstock.runtime.ports.graphs import MAIN, GraphCall, GraphRef, GraphRow, GraphStore, Stamp, View
from penstock.runtime.ports.platform import ResourceRow

__all__ = [
    "Branch",
    "BranchOrMain",
    "GraphId",
    "IfGraphCommit",
    "OpenedGraph",
    "Snapshot",
    "answered_with",
    "finder",
    "graph_store",
    "opened_graph",
    "stamp_of",
    "view_at",
    "view_of",
]

GraphId = Annotated[
    str,
    Meta(
        description="The graph.",
        pattern=rf"^[A-Za-z0-9][A-Za-z0-9_-]{{0,{limits.GRAPH_ID_CHARACTERS_MAX - 1}}}$",
        examples=["crm"],
    ),
]
Branch = Annotated[
    str,
    Meta(description="A branch.", min_length=1, max_length=limits.GRAPH_BRANCH_NAME_CHARACTERS_MAX, examples=["main"]),
]
BranchOrMain = Annotated[
    str,
    Meta(description="The branch.", min_length=1, max_length=limits.GRAPH_BRANCH_NAME_CHARACTERS_MAX),
]
Snapshot = Annotated[str, Meta(description="A commit: read the graph as it was then.", max_length=100)] | None
IfGraphCommit = (
    Annotated[
        str,
        Meta(description="The commit that you saw; refused if the branch has moved on since.", max_length=100),
    ]
    | None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedGraph:
    """A graph of the caller's tenant, and how it is offered."""

    store: GraphStore
    row: GraphRow
    definition: GraphDefinition
    etag: str

    @property
    def ref(self) -> GraphRef:
        """Which graph it is."""
        return self.row.ref

    @property
    def graph_id(self) -> str:
        """Its id."""
        return self.row.ref.name


def graph_store(services: Services) -> GraphStore:
    """Return the store of graphs; refuse if this process has none."""
    if services.graphs is None:
        raise Unavailable("NOT_CONFIGURED", "this server keeps no graphs", "open it on a store in a file")
    return services.graphs


async def opened_graph(context: Context, graph_id: str) -> OpenedGraph:
    """Return a graph of the caller's tenant; raise if it does not exist, or if it is quarantined."""
    store = graph_store(context.services)
    row = await store.graph(GraphRef(context.tenant, graph_id))
    if row is None:
        raise graph_not_found(graph_id)
    definition, etag = await stored_definition(context.services, context.tenant, graph_id)
    if definition.quarantine is not None:
        message = f"the graph {graph_id} is quarantined: {definition.quarantine}"
        raise Conflict(
            "GRAPH_QUARANTINED", message, "correct the files that the settings name; the server reloads them"
        )
    return OpenedGraph(store=store, row=row, definition=definition, etag=etag)


def finder(*branches: str) -> Callable[[Context, Any], Awaitable[None]]:
    """Return the function that finds the graph of a call, and the branches that these members of its input name."""

    async def find(context: Context, given: Any) -> None:
        graph = await opened_graph(context, given.graph_id)
        for member in branches:
            await view_of(graph, getattr(given, member), None)

    return find


async def view_of(graph: OpenedGraph, branch: str | None, snapshot: str | None) -> View:
    """Return the graph at the head of a branch, or at a commit; refuse if it does not exist."""
    return await view_at(graph.store, graph.ref, branch, snapshot)


async def view_at(store: GraphStore, ref: GraphRef, branch: str | None, snapshot: str | None) -> View:
    """Return a graph at the head of a branch (`main` if neither is given), or at a commit, or refuse."""
    chosen = None if snapshot is not None else branch or MAIN
    found = await store.resolve(ref, branch=chosen, snapshot=snapshot)
    return found if isinstance(found, View) else refused(ref.name, found)


def stamp_of(
    context: Context,
    *,
    if_graph_commit: str | None = None,
    if_source_commit: str | None = None,
    message: str | None = None,
) -> Stamp:
    """Return what a write of this call needs from outside."""
    services = context.services
    return Stamp(
        commit_id=f"c_{services.new_id().removeprefix('r_')}",
        at=context.now_ms(),
        new_id=services.new_id,
        actor=context.principal.id,
        message=message,
        if_graph_commit=if_graph_commit,
        if_source_commit=if_source_commit,
    )


def answered_with(
    context: Context,
    view: Callable[[Any], Any],
    *,
    puts: ResourceRow | None = None,
    deletes: tuple[str, str, str] | None = None,
) -> GraphCall:
    """Return the record of the call for the store, with the answer that `view` makes of the store's outcome.

    `puts` and `deletes` are resources that change with the graph, in the same transaction.
    """

    def complete(outcome: Any) -> None:
        idempotency.answered(context, Reply(value=view(outcome)))

    return GraphCall(context.call, complete, puts=puts, deletes=deletes)
