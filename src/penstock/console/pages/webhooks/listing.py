"""The webhooks of both directions: addresses that start or signal workflows, and addresses that events are sent to."""

from __future__ import annotations

from penstock.base import limits
from penstock.console.pages.reading import part
from penstock.console.visits import Page, Shown, Visit

__all__ = ["listing"]


async def listing(visit: Visit) -> Shown:
    """Show both directions."""
    cursor = visit.query.text("cursor") or None
    given = {
        "section": "webhooks",
        "triggers": await part(visit, "trigger.list"),
        "endpoints": await part(visit, "webhook.list", limit=limits.CONSOLE_ROWS, cursor=cursor),
    }
    return Page("webhooks/listing.html", given)
