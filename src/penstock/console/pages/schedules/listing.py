"""The list of schedules: when each starts a run next, how the last start went, and buttons to pause, resume and run."""

from __future__ import annotations

from penstock.base import limits
from penstock.console.pages.reading import address, chosen, key_names
from penstock.console.visits import Page, Redirect, Shown, Visit

__all__ = ["listing"]

_ACTIONS = {"pause": "schedule.pause", "resume": "schedule.resume", "run_now": "schedule.run_now"}


async def listing(visit: Visit) -> Shown:
    """Show the schedules; do what a button says."""
    if visit.form is not None:
        operation = chosen(visit.form, _ACTIONS)
        done = await visit.call(operation, schedule_id=visit.form.text("schedule_id"))
        if operation == "schedule.run_now":
            return Redirect(address("runs", done["execution_id"]))
        return Redirect("/console/schedules")
    workflow_id, cursor = visit.query.text("workflow_id"), visit.query.text("cursor")
    page = await visit.call(
        "schedule.list", workflow_id=workflow_id or None, cursor=cursor or None, limit=limits.CONSOLE_ROWS
    )
    given = {
        "section": "schedules",
        "schedules": page["items"],
        "more": page["next_cursor"],
        "proposals": page["proposals"],
    }
    given["key_names"] = await key_names(visit, (item["made_by"] for item in page["items"]))
    return Page("schedules/listing.html", {**given, "workflow_id": workflow_id})
