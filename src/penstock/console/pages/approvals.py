"""Approvals: calls that wait for somebody, each with the exact action, who asked for it, and until when.

There is no way to approve several at once. An approval names the digest that the page showed, so what is approved is
what was seen.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Redirect, Shown, Visit

__all__ = ["draft", "queue"]

_DECISIONS = {"approve": "draft.approve", "reject": "draft.reject"}
_STATUSES = ("open", "ended")


async def queue(visit: Visit) -> Shown:
    """Show the calls that wait, or those that were decided."""
    chosen = visit.query.text("status") or "open"
    if chosen not in _STATUSES:
        raise Rejected("STATUS_UNKNOWN", f"{chosen[:40]} is no choice here", f"one of: {', '.join(_STATUSES)}")
    cursor = visit.query.text("cursor") or None
    page = await visit.call("draft.list", status=chosen, limit=limits.CONSOLE_ROWS, cursor=cursor)
    given = {"section": "approvals", "drafts": page["items"], "more": page["next_cursor"]}
    return Page("approvals.html", {**given, "status": chosen, "statuses": _STATUSES})


async def draft(visit: Visit) -> Shown:
    """Show one call; approve or decline it."""
    draft_id = visit.path["draft_id"]
    if visit.form is not None:
        operation = _DECISIONS.get(visit.form.text("decision"))
        if operation is None:
            raise Rejected("ACTION_UNKNOWN", "the page has no such button", "open the page again")
        note = visit.form.text("note") or None
        await visit.call(operation, draft_id=draft_id, digest=visit.form.text("digest"), note=note)
        return Redirect(f"/console/approvals/{draft_id}")
    shown = await visit.call("draft.get", draft_id=draft_id)
    details = {"draft": shown, "arguments": cut_value(shown["arguments"]), "result": cut_value(shown["result"])}
    witness = None if shown["state_witness"] is None else cut_value(shown["state_witness"])
    return Page("approval.html", {"section": "approvals", **details, "witness": witness})
