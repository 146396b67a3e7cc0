"""The names of tools on the endpoint of a graph: the operations on graphs, as the published graph profile names them.

A stored query is a tool beside these, so none may have one of their names.

Above it: `mcp_surface`, the checks of stored queries. Below it: nothing.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.base import limits

__all__ = [
    "ADHOC",
    "GRAPH_TOOLS",
    "OTHER_SPELLINGS",
    "PAIR",
    "RENAMED_ARGUMENTS",
    "is_tool_name",
    "reserved_tool_names",
]

GRAPH_TOOLS: Final[dict[str, str]] = {
    "graph.health": "health",
    "graph.list": "graphs_list",
    "graph.snapshot": "snapshot",
    "graph.schema_get": "schema_get",
    "graph.schema_apply": "schema_apply",
    "graph.branches_list": "branches_list",
    "graph.branches_create": "branches_create",
    "graph.branches_delete": "branches_delete",
    "graph.branches_merge": "branches_merge",
    "graph.diff": "branches_diff",
    "graph.commits_list": "commits_list",
    "graph.commits_get": "commits_get",
    "graph.commits_changes": "commits_changes",
    "graph.changes_poll": "changes_poll",
    "graph.query": "query",
    "graph.mutate": "mutate",
    "graph.load": "load",
    "graph.queries_list": "queries_list",
    "graph.query_run": "query_run",
}
"""Operations that are tools on the endpoint of a graph, and their names there."""
OTHER_SPELLINGS: Final[dict[str, str]] = {"read": "graph.query", "change": "graph.mutate", "ingest": "graph.load"}
"""Earlier names of the profile, which are still understood."""
RENAMED_ARGUMENTS: Final[dict[str, str]] = {
    "querySource": "query",
    "queryName": "name",
    "commitId": "commit_id",
    "schemaSource": "schema",
    "ifGraphCommit": "if_graph_commit",
    "from": "source",
}
"""Arguments of the profile that are spelt otherwise here; both spellings are understood on the endpoint of a graph."""
PAIR: Final = frozenset({"graph.queries_list", "graph.query_run"})
"""The two tools that take the place of one for each query if there are many."""
ADHOC: Final = frozenset({"graph.query", "graph.mutate"})
"""The operations that take a query from the caller; only graphs that allow it have them."""
_TOOL_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.QUERY_NAME_CHARACTERS_MAX}}}")


def is_tool_name(text: str) -> bool:
    """Whether clients accept a name."""
    return _TOOL_NAME.fullmatch(text) is not None


def reserved_tool_names() -> frozenset[str]:
    """Return the names that no stored query may have as a tool."""
    return frozenset((*GRAPH_TOOLS.values(), *OTHER_SPELLINGS))
