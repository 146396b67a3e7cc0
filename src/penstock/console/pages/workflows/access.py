"""Who may call a workflow, and why: what the gate would decide now for the visitor and for each key."""

from __future__ import annotations

from typing import Any

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.console.pages.reading import json_object, part
from penstock.console.visits import Page, Shown, Visit

__all__ = ["access"]


async def access(visit: Visit) -> Shown:
    """Show what would happen to a call of the workflow, for everybody who has a key."""
    workflow_id = visit.path["workflow_id"]
    shown = await visit.call("workflow.get", workflow_id=workflow_id)
    text, mistake = visit.query.text("arguments"), None
    arguments: dict[str, Any] = {}
    try:
        arguments = json_object(text, "the input")
    except Rejected as error:
        mistake = error.message
    given: dict[str, Any] = {"section": "workflows", "workflow": shown, "tab": "access"}
    given |= {"arguments": text, "mistake": mistake, "own": None, "keys": None, "rows": [], "more": None}
    if mistake is not None:
        return Page("workflows/access.html", given, 422)
    asked = {"action": f"workflow:{workflow_id}", "arguments": arguments}
    given["own"] = await part(visit, "policy.explain", **asked, surface="console")
    cursor = visit.query.text("cursor") or None
    if given["own"].value is not None:
        given["keys"] = await part(visit, "key.list", limit=limits.CONSOLE_EXPLAINED_KEYS, cursor=cursor)
        page = given["keys"].value or {"items": [], "next_cursor": None}
        own = [key for key in page["items"] if key["status"] == "active" and key["tenant"] == visit.principal.tenant]
        given["rows"] = [
            {"key": key, "explained": await visit.call("policy.explain", **asked, key=key["id"])} for key in own
        ]
        given["more"] = page["next_cursor"]
    return Page("workflows/access.html", given)
