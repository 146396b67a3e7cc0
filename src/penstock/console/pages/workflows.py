"""Workflows: the list, and one of them with its document, its versions and its newest runs."""

from __future__ import annotations

from penstock.base import limits
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Shown, Visit

__all__ = ["listing", "workflow"]

_FEW = 10


async def listing(visit: Visit) -> Shown:
    """Show the workflows by name."""
    prefix, cursor = visit.query.text("prefix"), visit.query.text("cursor")
    page = await visit.call("workflow.list", prefix=prefix or None, cursor=cursor or None, limit=limits.CONSOLE_ROWS)
    given = {"section": "workflows", "workflows": page["items"], "more": page["next_cursor"], "prefix": prefix}
    return Page("workflows.html", given)


async def workflow(visit: Visit) -> Shown:
    """Show one workflow."""
    workflow_id = visit.path["workflow_id"]
    shown = await visit.call("workflow.get", workflow_id=workflow_id, hash=visit.query.text("hash") or None)
    versions = await visit.call("workflow.versions", workflow_id=workflow_id, limit=_FEW)
    runs = await visit.call("workflow.executions", workflow_id=workflow_id, limit=_FEW)
    lists = {"versions": versions["items"], "runs": runs["items"]}
    return Page(
        "workflow.html", {"section": "workflows", "workflow": shown, "document": cut_value(shown["document"]), **lists}
    )
