"""One webhook that is sent: where its events go, how its deliveries went, and everything that can be done with it.

Above it: the table of pages. Below it: `making`, the operations on webhooks.
"""

from __future__ import annotations

from typing import Any

from penstock.asgi.forms import Fields
from penstock.base import limits
from penstock.base.errors import PenstockError, Rejected
from penstock.console.pages.reading import address, chosen, held, key_names
from penstock.console.pages.webhooks.making import arguments_of, secret_page, sheet, wrong_of
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Redirect, Shown, Visit

__all__ = ["endpoint"]

_STATES = ("pending", "delivered", "dead")
_BUTTONS = {
    "save": "webhook.update",
    "rotate": "webhook.rotate",
    "test": "webhook.test",
    "delete": "webhook.delete",
    "retry": "delivery.retry",
}
_OVERLAP = "24h"


async def endpoint(visit: Visit) -> Shown:
    """Show a webhook and its deliveries; do what a button says."""
    if visit.form is None:
        return await _page(visit)
    endpoint_id, operation = visit.path["endpoint_id"], chosen(visit.form, _BUTTONS)
    match operation:
        case "webhook.update":
            return await _changed(visit, visit.form)
        case "webhook.rotate":
            return await _rotated(visit, visit.form)
        case "delivery.retry":
            await visit.call(operation, delivery_id=visit.form.text("delivery_id"))
        case _:
            done = await visit.call(operation, endpoint_id=endpoint_id)
            if waits := held(done):
                return waits
    return Redirect(address("webhooks") if operation == "webhook.delete" else address("webhooks", endpoint_id))


async def _changed(visit: Visit, form: Fields) -> Shown:
    endpoint_id, written = visit.path["endpoint_id"], arguments_of(form)
    try:
        # Saved only if it is still as the page showed it.
        etag = form.text("etag") or None
        done = await visit.call("webhook.update", endpoint_id=endpoint_id, if_match=etag, **written)
    except PenstockError as error:
        return await _page(visit, written=written, wrong=wrong_of(error))
    return held(done) or Redirect(address("webhooks", endpoint_id))


async def _rotated(visit: Visit, form: Fields) -> Shown:
    overlap = form.text("overlap")
    try:
        made = await visit.call("webhook.rotate", endpoint_id=visit.path["endpoint_id"], overlap=overlap or None)
    except PenstockError as error:
        if error.code not in ("DURATION_INVALID", "INVALID_ARGUMENTS"):
            raise
        return await _page(visit, wrong={"overlap": [error.message]}, overlap=overlap)
    return held(made) or secret_page(made)


async def _page(
    visit: Visit,
    *,
    written: dict[str, Any] | None = None,
    wrong: dict[str, list[str]] | None = None,
    overlap: str = _OVERLAP,
) -> Page:
    endpoint_id = visit.path["endpoint_id"]
    state, cursor = visit.query.text("state"), visit.query.text("cursor") or None
    if state and state not in _STATES:
        raise Rejected(
            "STATUS_UNKNOWN", f"{state[:40]} is not one of the choices", f"choose one of {', '.join(_STATES)}"
        )
    shown = await visit.call("webhook.get", endpoint_id=endpoint_id)
    page = await visit.call(
        "delivery.list", endpoint_id=endpoint_id, state=state or None, cursor=cursor, limit=limits.CONSOLE_ROWS
    )
    deliveries = [{**item, "event": cut_value(item["event"])} for item in page["items"]]
    given = {"section": "webhooks", "endpoint": shown, "deliveries": deliveries, "more": page["next_cursor"]}
    given |= {"state": state, "states": _STATES, "overlap": overlap, "wrong": wrong or {}}
    given["key_names"] = await key_names(visit, [shown["updated_by"]])
    return Page("webhooks/endpoint.html", {**given, **sheet(written or shown)}, 422 if wrong else 200)
