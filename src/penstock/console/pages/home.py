"""Home: what needs somebody, what runs, what failed, and how the last hour went; and first steps on a new server.

A list that the visitor may not read says so, instead of looking empty.

Above it: `pages`. Below it: `reading`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from statistics import median
from typing import Any

from penstock.base import limits
from penstock.console.pages.approvals import waiting_lists
from penstock.console.pages.reading import Part, part
from penstock.console.visits import Page, Shown, Visit
from penstock.operations.runs.waits import HELD_PREFIX

__all__ = ["home"]

_FEW = 8
# A run whose activity may or may not have had its effect: a person finds out.
_UNSETTLED = "waiting_decision"
_QUARANTINED = ("changed", "new")


async def home(visit: Visit) -> Shown:
    """Show what needs attention, and how things go."""
    waiting = await part(visit, "approval.list", limit=_FEW)
    unsettled = await part(visit, "execution.list", status=[_UNSETTLED], limit=_FEW)
    running = await part(visit, "execution.list", status=["running"], limit=_FEW)
    failed = await part(visit, "execution.list", status=["failed"], limit=limits.CONSOLE_ROWS)
    # A call that was declined, or that nobody decided, is no failure; Approvals has what came of it.
    failed = _only(failed, [item for item in failed.items if not _holds_call(item)])
    lists = {"waiting": waiting, "unsettled": unsettled, "running": running, "failed": failed}
    newest = await part(visit, "execution.list", limit=1)
    return Page(
        "home/home.html",
        {
            "section": "home",
            **lists,
            **waiting_lists(waiting.items),
            "schedules": await _failing_schedules(visit),
            "tools": await _quarantined_tools(visit),
            "hour": await _last_hour(visit),
            "cost": await _cost_today(visit),
            "is_new": newest.value is not None and not newest.items,
            "address": visit.address,
        },
    )


def _holds_call(run: dict[str, Any]) -> bool:
    """Whether a run only holds a call."""
    return bool(run["workflow_id"].startswith(HELD_PREFIX))


def _only(page: Part, items: list[Any]) -> Part:
    """Return a part of a page with some of its items, if it can be shown."""
    if page.value is None:
        return page
    return Part(value={"next_cursor": page.value.get("next_cursor"), "items": items[:_FEW]})


async def _failing_schedules(visit: Visit) -> Part:
    """Schedules whose last start was refused, or whose last run failed."""
    page = await part(visit, "schedule.list", limit=limits.CONSOLE_ROWS)
    failing = [
        item
        for item in page.items
        if item["refused"] is not None or (item["last_run"] is not None and item["last_run"]["status"] == "failed")
    ]
    return _only(page, failing)


async def _quarantined_tools(visit: Visit) -> Part:
    """Tools of other servers that are new or have changed, and are in the catalogue only once somebody accepts them."""
    servers = await part(visit, "upstream.list")
    found = [
        {"server": server["server"], "status": status, "count": server["tools"][status]}
        for server in servers.items
        for status in _QUARANTINED
        if server["tools"].get(status)
    ]
    return _only(servers, found)


async def _last_hour(visit: Visit) -> Part:
    """How many runs were started in the last hour, how they ended, and how long they took: of the newest ones only."""
    since = (visit.now - timedelta(hours=1)).isoformat()
    page = await part(visit, "execution.list", created_after=since, limit=limits.PAGE_LIMIT_MAX)
    if page.value is None:
        return page
    rows = page.items
    took = sorted(
        (datetime.fromisoformat(row["updated_at"]) - datetime.fromisoformat(row["created_at"])).total_seconds()
        for row in rows
        if row["status"] == "completed"
    )
    figures = {
        "started": len(rows),
        "is_cut": page.value["next_cursor"] is not None,
        "completed": len(took),
        "failed": sum(row["status"] == "failed" and not _holds_call(row) for row in rows),
        "median_seconds": median(took) if took else None,
        "slow_seconds": took[int(len(took) * 0.95)] if took else None,
    }
    return Part(value=figures)


async def _cost_today(visit: Visit) -> dict[str, Any] | None:
    """What models used today, as far as the visitor may know."""
    quota = await part(visit, "quota.get", subject="tenant")
    return None if quota.value is None else quota.value["used"]
