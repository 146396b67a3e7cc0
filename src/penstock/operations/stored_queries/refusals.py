"""What callers get when a graph store did not do what they asked: one error for each of its outcomes.

Above it: the operations on graphs, stored queries. Below it: the port of graphs, `base.errors`.
"""

from __future__ import annotations

from typing import NoReturn

import msgspec

from penstock.base.errors import Conflict, LimitExceeded, NotFound, PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.graph.versions.entities import Violation
from penstock.runtime.ports import graphs as port

__all__ = ["READ_ERRORS", "WRITE_ERRORS", "graph_not_found", "refused", "violation_view"]

READ_ERRORS = ("GRAPH_NOT_FOUND", "GRAPH_QUARANTINED", "BRANCH_NOT_FOUND", "COMMIT_NOT_FOUND", "NOT_CONFIGURED")
"""What a read of a graph may be refused with."""
WRITE_ERRORS = (*READ_ERRORS, "BRANCH_BUSY", "PRECONDITION_FAILED", "GRAPH_CONSTRAINTS_VIOLATED")
"""What a change of a graph may be refused with."""
_LATER = "try again in a moment, or write to another branch and merge it"


def graph_not_found(graph_id: str) -> NotFound:
    """Return the error for a graph that the tenant does not have."""
    return NotFound("GRAPH_NOT_FOUND", f"there is no graph {graph_id[:100]}", "list them with graph.list")


def violation_view(violation: Violation) -> JsonObject:
    """Return a broken constraint as callers see it."""
    found: JsonObject = {
        "kind": violation.kind.value,
        "entity_kind": violation.entity_kind.value,
        "type_name": violation.type_name,
        "entity_id": violation.entity_id,
        "message": violation.message,
    }
    return found if violation.record is None else {**found, "record": violation.record}


def refused(graph_id: str, outcome: object) -> NoReturn:
    """Raise the error that an outcome of the graph store means."""
    raise _error(graph_id, outcome)


def _error(graph_id: str, outcome: object) -> PenstockError:  # noqa: C901  # a table, one row after another
    match outcome:
        case port.GraphNotFound():
            return graph_not_found(graph_id)
        case port.GraphExists():
            return Conflict("GRAPH_EXISTS", f"the graph {graph_id} already exists", "choose another id")
        case port.BranchNotFound(name=name):
            return NotFound(
                "BRANCH_NOT_FOUND", f"there is no branch {name[:200]}", "list them with graph.branches_list"
            )
        case port.BranchExists(name=name):
            return Conflict("BRANCH_EXISTS", f"the branch {name} already exists", "choose another name")
        case port.BranchNameRefused(name=name, clashes_with=other):
            why = "is not a name of a branch" if other is None else f"cannot be beside the branch {other}"
            return Rejected(
                "BRANCH_NAME_INVALID", f"{name[:200]} {why}", "write words separated by slashes, such as `import/march`"
            )
        case port.BranchTooDeep(name=name, depth=depth):
            message = f"the branch {name} is {depth} branches away from main, and cannot be forked again"
            return Conflict("BRANCH_TOO_DEEP", message, "fork another branch, or merge this one first")
        case port.BranchInUse(name=name, descendants=others):
            why = f"{', '.join(others)} were forked from it" if others else "every graph has it"
            return Conflict("BRANCH_IN_USE", f"the branch {name} cannot be deleted: {why}", None)
        case port.BranchBusy(name=name):
            return Conflict("BRANCH_BUSY", f"a load on the branch {name} is in progress", _LATER)
        case port.CommitNotFound(commit_id=commit_id, collected=collected):
            why = "was removed by garbage collection" if collected else "does not exist"
            hint = "list commits with graph.commits_list"
            return NotFound("COMMIT_NOT_FOUND", f"the commit {commit_id[:100]} {why}", hint, {"collected": collected})
        case port.HeadMoved(expected=expected, actual=actual):
            details: JsonObject = {"precondition_failure": {"expected": expected, "actual": actual}}
            message = f"the branch is at {actual}, not at {expected}"
            return Conflict("PRECONDITION_FAILED", message, "look at the changes, and send the call again", details)
        case port.ChangeGap(oldest_commit_id=oldest):
            message = "commits after the cursor were removed by garbage collection"
            hint = "export the graph at that commit, and follow from there"
            return Conflict("CHANGE_FEED_GAP", message, hint, {"change_feed_gap": {"oldest_commit_id": oldest}})
        case _:
            return _error_of_change(graph_id, outcome)


def _error_of_change(graph_id: str, outcome: object) -> PenstockError:
    match outcome:
        case port.ConstraintsViolated(violations=violations) | port.LoadRefused(violations=violations):
            listed: list[JsonValue] = [violation_view(item) for item in violations]
            message = "; ".join(item.message for item in violations[:3]) or "constraints of the schema do not hold"
            return Rejected(
                "GRAPH_CONSTRAINTS_VIOLATED",
                message,
                "correct the nodes and edges that `violations` lists",
                {"violations": listed},
            )
        case port.QueryNotSupported(code=code, message=message):
            return Rejected("QUERY_NOT_SUPPORTED", message, None, {"reason": code})
        case port.ReadStopped(limit=limit, value=value):
            message = f"the query reached its limit {limit} ({value:g})"
            return LimitExceeded("QUERY_LIMITED", message, "filter more, or add a `limit`", {"limit": limit})
        case port.LoadNotFound():
            return Conflict("BRANCH_BUSY", "the load was ended before it could be published", "load it again")
        case port.MergeConflicts(conflicts=conflicts, total=total):
            details: JsonObject = {"merge_conflicts": msgspec.to_builtins(conflicts), "total": total}
            message = f"{total} entities conflict; nothing was merged"
            return Conflict("MERGE_CONFLICTS", message, "resolve them on the source branch, and merge again", details)
        case _:
            raise TypeError(f"{graph_id}: no error for {type(outcome).__name__}")
