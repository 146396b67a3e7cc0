"""Graphs: schemas, branches, commits and differences (`browsing`), stored queries (`queries`), merges (`merging`).

`HANDLERS` has the handler of every path below `/graphs`. Read `browsing` first.
"""

from collections.abc import Awaitable, Callable

from penstock.console.pages.graphs import browsing, merging, queries
from penstock.console.visits import Shown, Visit

__all__ = ["HANDLERS"]

HANDLERS: dict[str, Callable[[Visit], Awaitable[Shown]]] = {
    "/graphs": browsing.listing,
    "/graphs/{graph_id}": browsing.graph,
    "/graphs/{graph_id}/commits": browsing.commits,
    "/graphs/{graph_id}/commits/{commit_id}": browsing.commit,
    "/graphs/{graph_id}/diff": merging.difference,
    "/graphs/{graph_id}/merge": merging.merge,
    "/graphs/{graph_id}/queries/{name}": queries.query,
}
