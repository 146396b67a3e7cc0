"""Home: what needs somebody, what runs, and what failed lately."""

from __future__ import annotations

from typing import Any

from penstock.base.errors import Denied
from penstock.console.visits import Page, Visit

__all__ = ["home"]

_FEW = 8
_NEEDS_PEOPLE = ("waiting_input", "waiting_approval", "waiting_decision")


async def home(visit: Visit) -> Page:
    """Show what needs attention. A list that the visitor may not read is said to be closed, not shown as empty."""
    waiting = await _allowed(visit, "execution.list", status=list(_NEEDS_PEOPLE), limit=_FEW)
    drafts = await _allowed(visit, "draft.list", status="open", limit=_FEW)
    running = await _allowed(visit, "execution.list", status=["running"], limit=_FEW)
    failed = await _allowed(visit, "execution.list", status=["failed"], limit=_FEW)
    lists = {"waiting": waiting, "drafts": drafts, "running": running, "failed": failed}
    return Page("home.html", {"section": "home", **lists})


async def _allowed(visit: Visit, operation: str, **arguments: Any) -> dict[str, Any]:
    try:
        page: dict[str, Any] = await visit.call(operation, **arguments)
    except Denied as error:
        return {"items": [], "next_cursor": None, "refused": error.message}
    return {**page, "refused": None}
