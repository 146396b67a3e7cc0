"""The list of runs: filters in the address, newest first, paged by key.

What is shown is anchored at its newest row: while a page is open, its rows change in place, and runs that were started
since are counted above them instead of moving everything. A view is an address, so it is saved as a bookmark; some are
offered.

Above it: `pages`. Below it: `visits`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from penstock.base import limits
from penstock.base.errors import PenstockError, Rejected
from penstock.console.pages.reading import address
from penstock.console.visits import Page, Redirect, Shown, Visit
from penstock.operations.runs.fields import RUN_STATUSES

__all__ = ["listing"]

_FILTERS = (
    "text",
    "status",
    "workflow_id",
    "started_by",
    "label",
    "parent_id",
    "period",
    "created_after",
    "created_before",
)
# "The last hour" moves on: the address has the words, not the times.
_PERIODS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}
_VIEWS: tuple[tuple[str, dict[str, str]], ...] = (
    ("All", {}),
    ("Waiting for people", {"status": "waiting"}),
    ("Running", {"status": "running"}),
    ("Failed today", {"status": "failed", "period": "day"}),
)
_GROUPS = {
    "waiting": [name for name in RUN_STATUSES if name in ("waiting_input", "waiting_approval", "waiting_decision")]
}


async def listing(visit: Visit) -> Shown:
    """Show runs. A bare id in the search leads to its run."""
    given = {name: visit.query.text(name) for name in _FILTERS}
    cursor, until = visit.query.text("cursor"), visit.query.text("until")
    text = given["text"]
    if text.startswith("r_") and " " not in text and not cursor:
        try:
            found = await visit.call("execution.status", execution_id=text)
        except PenstockError:
            pass  # not a run, or not the visitor's: it is searched like any text
        else:
            return Redirect(address("runs", found["execution_id"]))
    filters = {name: chosen for name, chosen in given.items() if chosen}
    asked = _asked(visit, given)
    page = await visit.call(
        "execution.list",
        **{**asked, "created_before": _just_after(until) if until else asked["created_before"]},
        cursor=cursor or None,
        limit=limits.CONSOLE_ROWS,
    )
    if text and not cursor and any(item["execution_id"] == text for item in page["items"]):
        return Redirect(address("runs", text))
    newest = until or (page["items"][0]["created_at"] if page["items"] and not cursor else "")
    fresh = await _fresh(visit, asked, newest) if until and not given["created_before"] else None
    plain = f"/console/runs?{urlencode(filters)}"
    return Page(
        "runs/list.html",
        {
            "section": "runs",
            "runs": page["items"],
            "more": urlencode({**filters, "cursor": page["next_cursor"]}) if page["next_cursor"] else None,
            "filters": given,
            "is_filtered": bool(filters),
            "statuses": [*_GROUPS, *RUN_STATUSES],
            "periods": tuple(_PERIODS),
            "views": [
                (words, urlencode(view), view == filters)
                for words, view in (*_VIEWS, ("Started by me", {"started_by": visit.principal.id}))
            ],
            "plain": plain,
            "anchored": f"{plain}&{urlencode({'until': newest})}" if newest else plain,
            "fresh": fresh,
            "first_page": not cursor,
        },
    )


def _asked(visit: Visit, given: dict[str, str]) -> dict[str, Any]:
    """Return the arguments of the operation."""
    period = given["period"]
    if period and period not in _PERIODS:
        raise Rejected(
            "PERIOD_UNKNOWN", f"{period[:40]} is not one of the choices", f"choose one of {', '.join(_PERIODS)}"
        )
    since = (visit.now - _PERIODS[period]).isoformat() if period else _instant(given["created_after"])
    status = given["status"]
    return {
        "text": given["text"] or None,
        "status": _GROUPS.get(status, [status]) if status else None,
        "workflow_id": given["workflow_id"] or None,
        "started_by": given["started_by"] or None,
        "label": given["label"] or None,
        "parent_id": given["parent_id"] or None,
        "created_after": since,
        "created_before": _instant(given["created_before"]),
    }


def _instant(text: str) -> str | None:
    """A time as a field for dates gives it is one in UTC."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Rejected("TIME_UNREADABLE", f"{text[:40]} is not a time", "write it like 2026-01-31T09:00") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _just_after(text: str) -> str:
    return (datetime.fromisoformat(_instant(text) or "") + timedelta(milliseconds=1)).isoformat()


async def _fresh(visit: Visit, asked: dict[str, Any], newest: str) -> str:
    """Return how many runs were started since, as text; empty if no run was."""
    page = await visit.call("execution.list", **{**asked, "created_after": newest}, limit=limits.CONSOLE_ROWS)
    count = len(page["items"])
    return "" if not count else f"{count}+" if page["next_cursor"] else str(count)
