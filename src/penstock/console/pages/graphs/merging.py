"""What two branches differ in, and the review of a merge: what it would bring, its conflicts, and the button.

A merge is bound to the heads that the page showed: if either branch has moved on, nothing is merged. A merge into a
protected branch waits for approval.

Above it: the handlers of `/graphs`. Below it: the operations on branches.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from penstock.asgi.forms import Fields
from penstock.base import limits
from penstock.base.errors import Conflict, Denied, PenstockError
from penstock.console.graph_changes import change_rows
from penstock.console.visits import Page, Shown, Visit

__all__ = ["difference", "merge"]

_MAIN = "main"
_NAMES = ("source", "target", "source_snapshot", "target_snapshot")


async def difference(visit: Visit) -> Shown:
    """Show what a branch, or a commit, has differently from another one."""
    graph_id = visit.path["graph_id"]
    given = {name: visit.query.text(name) for name in _NAMES}
    given["target"] = given["target"] or _MAIN
    branches = await visit.call("graph.branches_list", graph_id=graph_id)
    shown: dict[str, Any] = {"page": None, "rows": None, "more": None, "mistake": None}
    if given["source"]:
        shown = await _compared(visit, graph_id, given)
    details = {"graph_id": graph_id, "given": given, "branches": branches["branches"], **shown}
    status = 200 if shown["mistake"] is None else 422
    return Page("graphs/diff.html", {"section": "graphs", **details}, status)


async def _compared(visit: Visit, graph_id: str, given: dict[str, str]) -> dict[str, Any]:
    wanted = {name: text for name, text in given.items() if text}
    try:
        page = await visit.call(
            "graph.diff",
            graph_id=graph_id,
            **wanted,
            cursor=visit.query.text("cursor") or None,
            limit=limits.CONSOLE_ROWS,
        )
    except Denied:
        raise
    except PenstockError as error:
        return {"page": None, "rows": None, "more": None, "mistake": error}
    more = urlencode({**wanted, "cursor": page["next_cursor"]}) if page["next_cursor"] else None
    return {"page": page, "rows": change_rows(page["changes"]), "more": more, "mistake": None}


async def merge(visit: Visit) -> Shown:
    """Show what a merge would bring; merge."""
    graph_id, form = visit.path["graph_id"], visit.form
    sent = visit.query if form is None else form
    given = {"source": sent.text("source"), "target": sent.text("target") or _MAIN, "message": sent.text("message")}
    if form is None:
        return await _merge_page(visit, graph_id, given)
    try:
        await _check_heads(visit, graph_id, form, given)
        merged = await visit.call("graph.branches_merge", graph_id=graph_id, **_arguments(form, given))
    except Denied:
        raise
    except PenstockError as error:
        return await _merge_page(visit, graph_id, given, mistake=error)
    if merged.get("held"):
        return Page("graphs/held.html", {"section": "graphs", "graph_id": graph_id, "held": merged["held"]}, 202)
    return Page("graphs/merged.html", {"section": "graphs", "graph_id": graph_id, "merged": merged})


async def _check_heads(visit: Visit, graph_id: str, form: Fields, given: dict[str, str]) -> None:
    """Refuse to merge other heads than the page showed, before anybody is asked to approve that."""
    named = {"source": given["source"], "target": given["target"]}
    now = await visit.call("graph.branches_preview", graph_id=graph_id, **named)
    if any(form.text(name) != now[name] for name in ("source_commit_id", "target_commit_id")):
        message = "a branch has changed since you opened the page; nothing was merged"
        raise Conflict("PRECONDITION_FAILED", message, "review what would be merged now")


def _arguments(form: Fields, given: dict[str, str]) -> dict[str, Any]:
    return {
        "source": given["source"],
        "target": given["target"],
        "if_source_commit": form.text("source_commit_id") or None,
        "if_graph_commit": form.text("target_commit_id") or None,
        "message": given["message"] or None,
        "delete_branch": True if form.text("delete_branch") else None,
    }


async def _merge_page(
    visit: Visit, graph_id: str, given: dict[str, str], *, mistake: PenstockError | None = None
) -> Page:
    named = {"source": given["source"], "target": given["target"]}
    preview = await visit.call("graph.branches_preview", graph_id=graph_id, **named)
    branches = await visit.call("graph.branches_list", graph_id=graph_id)
    protected = {branch["name"] for branch in branches["branches"] if branch["protected"]}
    # Without conflicts: what changed on the source since they were one, and not what else changed on the target.
    base = preview["base_commit_id"]
    compared = await _compared(visit, graph_id, {**named, "target_snapshot": base} if base else named)
    details = {
        "graph_id": graph_id,
        "given": given,
        "preview": preview,
        "is_protected": given["target"] in protected,
        "page": compared["page"],
        "rows": compared["rows"],
        "more": compared["more"],
        "mistake": mistake or compared["mistake"],
        # What breaks a constraint of the schema shows only when it is merged.
        "broken": [] if mistake is None or preview["conflicts"] else mistake.details.get("merge_conflicts", []),
    }
    return Page("graphs/merge.html", {"section": "graphs", **details}, 200 if mistake is None else 409)
