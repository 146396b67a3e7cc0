"""Schedules: when each starts a run next, how the last start went, and buttons to pause, resume and run it."""

from __future__ import annotations

from penstock.base import limits
from penstock.console.pages.reading import address, chosen
from penstock.console.visits import Page, Redirect, Shown, Visit

__all__ = ["schedules"]

_ACTIONS = {"pause": "schedule.pause", "resume": "schedule.resume", "run_now": "schedule.run_now"}


async def schedules(visit: Visit) -> Shown:
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
    given = {"section": "schedules", "schedules": page["items"], "more": page["next_cursor"]}
    return Page("schedules/schedules.html", {**given, "workflow_id": workflow_id})
