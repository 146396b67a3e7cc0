"""Several runs at once: cancel, retry or fork them, after a page that shows what would happen to which.

Each run is a call of its own through the gate, and has an audit record of its own. A refusal does not stop the others;
the page shows each outcome.

Above it: `pages`. Below it: `visits`.
"""

from __future__ import annotations

from typing import Any

from penstock.base import limits
from penstock.base.errors import PenstockError, Rejected
from penstock.console.visits import Page, Shown, Visit

__all__ = ["bulk"]

# What a button does, and the statuses of runs that it can be done to; None: any that has not ended.
_ACTIONS: dict[str, tuple[str, str]] = {
    "cancel": ("execution.cancel", "Cancel"),
    "retry": ("execution.retry", "Retry"),
    "fork": ("execution.fork", "Fork at the end of the completed work"),
}
_ENDED = ("completed", "failed", "cancelled")


async def bulk(visit: Visit) -> Shown:
    """Show what would happen to the chosen runs; do it when the form on that page is sent."""
    given = visit.form if visit.form is not None else visit.query
    action = given.text("action")
    if action not in _ACTIONS:
        raise Rejected("ACTION_UNKNOWN", "no action is selected", f"one of: {', '.join(_ACTIONS)}")
    chosen = list(dict.fromkeys(item.strip() for item in given.get("run", []) if item.strip()))
    if not chosen:
        raise Rejected("NOTHING_CHOSEN", "no run is selected", "go back and select runs")
    if len(chosen) > limits.CONSOLE_BULK_MAX:
        raise Rejected("TOO_MANY_CHOSEN", f"at most {limits.CONSOLE_BULK_MAX} runs can be changed at once")
    rows = [await _row(visit, action, run_id) for run_id in chosen]
    is_done = visit.form is not None and visit.form.text("confirmed") == "yes"
    if is_done:
        reason = given.text("reason") or None
        rows = [await _done(visit, action, row, reason) for row in rows]
    return Page(
        "runs/bulk.html",
        {
            "section": "runs",
            "action": action,
            "words": _ACTIONS[action][1],
            "rows": rows,
            "possible": sum(row["problem"] is None for row in rows),
            "is_done": is_done,
        },
    )


async def _row(visit: Visit, action: str, run_id: str) -> dict[str, Any]:
    try:
        run = await visit.call("execution.status", execution_id=run_id)
    except PenstockError as error:
        return {"id": run_id, "workflow": "", "status": "", "sequence": 0, "problem": error.message, "became": None}
    status, problem = run["status"], None
    if action == "cancel" and status in _ENDED:
        problem = "the run has ended"
    elif action == "retry" and status not in ("failed", "waiting_decision"):
        problem = "nothing failed, and no outcome is unknown"
    return {
        "id": run["execution_id"],
        "workflow": run["workflow_id"],
        "status": status,
        "sequence": run["sequence"],
        "problem": problem,
        "became": None,
    }


async def _done(visit: Visit, action: str, row: dict[str, Any], reason: str | None) -> dict[str, Any]:
    if row["problem"] is not None:
        return row
    arguments: dict[str, Any] = {"execution_id": row["id"]}
    if action == "cancel":
        arguments["reason"] = reason
    if action == "fork":
        arguments["at_sequence"] = row["sequence"]
    try:
        became = await visit.call(_ACTIONS[action][0], **arguments)
    except PenstockError as error:
        return {**row, "problem": error.message}
    return {**row, "became": became["execution_id"], "status": became["status"]}
