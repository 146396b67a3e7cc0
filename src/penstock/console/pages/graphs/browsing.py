"""The graphs of a tenant, one of them with its schema and branches, and its commits.

Above it: the handlers of `/graphs`. Below it: `schema_picture`, the operations on graphs.
"""

from __future__ import annotations

from urllib.parse import urlencode

from penstock.base import limits
from penstock.console.graph_changes import change_rows
from penstock.console.pages.reading import key_names, part
from penstock.console.rendering import cut_value
from penstock.console.schema_picture import schema_picture
from penstock.console.visits import Page, Shown, Visit

__all__ = ["commit", "commits", "graph", "listing"]

_FEW = 10


async def listing(visit: Visit) -> Shown:
    """Show the graphs by name."""
    found = await visit.call("graph.list")
    return Page("graphs/list.html", {"section": "graphs", "graphs": found["graphs"]})


async def graph(visit: Visit) -> Shown:
    """Show one graph. What cannot be read now, or not by the visitor, says so in its place."""
    graph_id = visit.path["graph_id"]
    shown = await visit.call("graph.get", graph_id=graph_id)
    parts = {
        "schema": await part(visit, "graph.schema_get", graph_id=graph_id),
        "branches": await part(visit, "graph.branches_list", graph_id=graph_id),
        "commits": await part(visit, "graph.commits_list", graph_id=graph_id, limit=_FEW),
        "queries": await part(visit, "graph.queries_list", graph_id=graph_id),
        "health": await part(visit, "graph.health", graph_id=graph_id),
    }
    schema, branches = parts["schema"].value, parts["branches"].value or {"branches": ()}
    text = None if schema is None else cut_value(schema["schema"])
    picture = None if schema is None else schema_picture(schema["types"])
    given = {"section": "graphs", "graph": shown, "picture": picture, "text": text, **parts}
    given["key_names"] = await key_names(visit, (item["created_by"] for item in branches["branches"]))
    return Page("graphs/graph.html", given)


async def commits(visit: Visit) -> Shown:
    """Show the commits of a graph or a branch, newest first."""
    graph_id, branch = visit.path["graph_id"], visit.query.text("branch")
    page = await visit.call(
        "graph.commits_list",
        graph_id=graph_id,
        branch=branch or None,
        cursor=visit.query.text("cursor") or None,
        limit=limits.CONSOLE_ROWS,
    )
    cursor = page["next_cursor"]
    more = urlencode({"branch": branch, "cursor": cursor} if branch else {"cursor": cursor}) if cursor else None
    given = {"graph_id": graph_id, "commits": page["commits"], "branch": branch, "more": more}
    return Page("graphs/commits.html", {"section": "graphs", **given})


async def commit(visit: Visit) -> Shown:
    """Show what a commit changed."""
    graph_id = visit.path["graph_id"]
    page = await visit.call(
        "graph.commits_changes",
        graph_id=graph_id,
        commit_id=visit.path["commit_id"],
        cursor=visit.query.text("cursor") or None,
        limit=limits.CONSOLE_ROWS,
    )
    given = {"graph_id": graph_id, "commit": page["commit"], "rows": change_rows(page["changes"])}
    return Page("graphs/commit.html", {"section": "graphs", **given, "more": page["next_cursor"]})
