"""Webhooks: addresses that start workflows, addresses that events are sent to, and how their deliveries went."""

from __future__ import annotations

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.console.pages.reading import address, part
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Redirect, Shown, Visit

__all__ = ["endpoint", "listing"]

_STATES = ("pending", "delivered", "dead")


async def listing(visit: Visit) -> Shown:
    """Show both directions."""
    cursor = visit.query.text("cursor") or None
    given = {
        "section": "webhooks",
        "triggers": await part(visit, "trigger.list"),
        "endpoints": await part(visit, "webhook.list", limit=limits.CONSOLE_ROWS, cursor=cursor),
    }
    return Page("webhooks/listing.html", given)


async def endpoint(visit: Visit) -> Shown:
    """Show where events are sent, and their deliveries; send a test, or one of them again."""
    endpoint_id = visit.path["endpoint_id"]
    here = address("webhooks", endpoint_id)
    if visit.form is not None:
        match visit.form.text("action"):
            case "test":
                await visit.call("webhook.test", endpoint_id=endpoint_id)
            case "retry":
                await visit.call("delivery.retry", delivery_id=visit.form.text("delivery_id"))
            case _:
                raise Rejected("ACTION_UNKNOWN", "the page has no such button", "open the page again")
        return Redirect(here)
    state, cursor = visit.query.text("state"), visit.query.text("cursor") or None
    if state and state not in _STATES:
        raise Rejected("STATUS_UNKNOWN", f"{state[:40]} is no choice here", f"one of: {', '.join(_STATES)}")
    shown = await visit.call("webhook.get", endpoint_id=endpoint_id)
    page = await visit.call(
        "delivery.list", endpoint_id=endpoint_id, state=state or None, cursor=cursor, limit=limits.CONSOLE_ROWS
    )
    deliveries = [{**item, "event": cut_value(item["event"])} for item in page["items"]]
    given = {"section": "webhooks", "endpoint": shown, "deliveries": deliveries, "more": page["next_cursor"]}
    return Page("webhooks/endpoint.html", {**given, "state": state, "states": _STATES})
