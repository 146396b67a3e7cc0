"""Codes of graphs: schemas, branches, commits, loads and queries.

Above it: `reasons`. Below it: `base.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.base.errors import Conflict, Denied, LimitExceeded, NotFound, Reason, Rejected

__all__ = ["GRAPHS"]

GRAPHS: Mapping[str, Reason] = {
    "GRAPH_NOT_FOUND": Reason(NotFound, "The graph does not exist.", "List the graphs with `graph.list`."),
    "GRAPH_EXISTS": Reason(
        Conflict, "A graph with this id exists.", "Choose another id, or change the graph with `graph.update`."
    ),
    "GRAPHS_LIMITED": Reason(
        LimitExceeded, "The tenant has as many graphs as it may have.", "Delete one with `graph.delete`."
    ),
    "GRAPH_QUARANTINED": Reason(
        Conflict,
        "The files of this configured graph have mistakes, so the graph is out of use.",
        "Correct the files that `graphs` in the settings names; the server reads them again.",
    ),
    "GRAPH_OF_SETTINGS": Reason(
        Conflict,
        "The server's settings declare this graph, so it is changed there.",
        "Change `graphs` in the settings, or the files that it names.",
    ),
    "GRAPH_FILES_INVALID": Reason(
        Rejected,
        "A file of a configured graph cannot be used.",
        "Correct the file, or remove the graph from `graphs` in the settings.",
    ),
    "GRAPH_SCHEMA_INVALID": Reason(
        Rejected,
        "The graph schema has mistakes; the answer lists all of them.",
        "Correct the lines that `problems` lists.",
    ),
    "GRAPH_SCHEMA_REFUSED": Reason(
        Conflict,
        "The new schema does not fit the stored data, or needs a step that is not supported.",
        "Change the schema in steps that the data allow; see `steps` and `violations`.",
    ),
    "GRAPH_CONSTRAINTS_VIOLATED": Reason(
        Rejected,
        "The change breaks constraints of the graph schema.",
        "Correct the nodes and edges that `violations` lists.",
    ),
    "GRAPH_RECORDS_INVALID": Reason(
        Rejected,
        "Lines of the load are malformed, or do not fit the graph schema.",
        "Correct the lines that `problems` lists, and load the file again.",
    ),
    "BRANCH_NOT_FOUND": Reason(
        NotFound, "The graph has no such branch.", "List the branches with `graph.branches_list`."
    ),
    "BRANCH_EXISTS": Reason(Conflict, "The graph has a branch with this name.", "Choose another name."),
    "BRANCH_NAME_INVALID": Reason(
        Rejected,
        "The text is not a branch name, or another branch's name is a prefix of it.",
        "Write words separated by slashes, such as `import/march`.",
    ),
    "BRANCH_IN_USE": Reason(
        Conflict,
        "The branch is `main`, or other branches were forked from it.",
        "Delete the branches that were forked from it first.",
    ),
    "BRANCH_TOO_DEEP": Reason(
        Conflict,
        "The branch would be a fork of a fork too many times over.",
        "Fork another branch, or merge this one with `graph.branches_merge` first.",
    ),
    "BRANCH_BUSY": Reason(Conflict, "A load on the branch is in progress.", "Wait until the load ends, and try again."),
    "COMMIT_NOT_FOUND": Reason(
        NotFound,
        "The graph has no such commit, or it was collected.",
        "List the commits with `graph.commits_list`.",
    ),
    "CHANGE_FEED_GAP": Reason(
        Conflict,
        "Commits after the cursor were collected.",
        "Read the graph again with `graph.snapshot`, and continue from the cursor in `details`.",
    ),
    "MERGE_CONFLICTS": Reason(
        Conflict,
        "Both branches changed the same nodes or edges differently, so nothing was merged.",
        "Resolve the conflicts on the source branch, and merge again.",
    ),
    "GRAPH_LOAD_ABANDONED": Reason(
        Conflict, "Another caller abandoned the load.", "Load the file again from the start."
    ),
    "GRAPH_LOAD_PIECE_MAX": Reason(
        LimitExceeded, "A chunk of the load has too many records.", "Split the load into smaller chunks."
    ),
    "GRAPH_MERGE_BASE_COLLECTED": Reason(
        Conflict,
        "The commits that the merge compares with were collected.",
        "Fork the branch again, and repeat its changes there.",
    ),
    "QUERY_NOT_FOUND": Reason(
        NotFound, "The graph has no such stored query.", "List the queries with `graph.queries_list`."
    ),
    "QUERY_INVALID": Reason(
        Rejected,
        "The query has mistakes or does not fit the schema; the answer lists all of them.",
        "Correct the query; `graph.queries_validate` checks it without storing it.",
    ),
    "QUERY_NOT_SUPPORTED": Reason(
        Rejected,
        "The store cannot run this query exactly as it is written.",
        "Rewrite the part of the query that the message names.",
    ),
    "QUERY_LIMITED": Reason(
        LimitExceeded,
        "The query reached a limit of time, rows or memory.",
        "Filter more, or add a `limit` to the query.",
    ),
    "ADHOC_NOT_ALLOWED": Reason(
        Denied,
        "The graph runs stored queries only.",
        "Run a stored query from `graph.queries_list`, or set `graph.allow_adhoc`.",
    ),
}
