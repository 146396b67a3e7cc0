"""The form of a webhook that is sent, to make one or to change it. Its secret is shown once, on the page that made it.

Above it: the table of pages, `endpoint`. Below it: the operations on webhooks.
"""

from __future__ import annotations

from typing import Any

from penstock.asgi.forms import Fields
from penstock.base.errors import PenstockError
from penstock.console.mistakes import told_at
from penstock.console.pages.reading import address, held
from penstock.console.visits import Page, Shown, Visit
from penstock.operations.webhooks.views import ENDINGS, EVENT_TYPES

__all__ = ["arguments_of", "new", "secret_page", "sheet", "wrong_of"]

_OWN_MISTAKES = ("INVALID_ARGUMENTS", "WEBHOOK_URL_INVALID", "WEBHOOKS_LIMITED", "PRECONDITION_FAILED")
_NAMES = ("url", "events", "workflows", "description")


async def new(visit: Visit) -> Shown:
    """Make a webhook that events are sent to."""
    if visit.form is None:
        return _page(sheet({"events": list(ENDINGS), "enabled": True}))
    try:
        made = await visit.call("webhook.create", **arguments_of(visit.form))
    except PenstockError as error:
        return _page(sheet(arguments_of(visit.form)), wrong_of(error))
    return held(made) or secret_page(made)


def _page(written: dict[str, Any], wrong: dict[str, list[str]] | None = None) -> Page:
    return Page("webhooks/new.html", {"section": "webhooks", **written, "wrong": wrong or {}}, 422 if wrong else 200)


def secret_page(made: dict[str, Any]) -> Page:
    """Show a new secret, this once."""
    place = address("webhooks", made["webhook"]["id"])
    return Page("webhooks/secret.html", {"section": "webhooks", "made": made, "place": place})


def arguments_of(form: Fields) -> dict[str, Any]:
    """Return what a form says about a webhook."""
    return {
        "url": form.text("url"),
        "events": form.get("events", []),
        "workflows": form.text("workflows").replace(",", " ").split(),
        "description": form.text("description") or None,
        "include_output": bool(form.text("include_output")),
        "enabled": bool(form.text("enabled")),
    }


def sheet(known: dict[str, Any]) -> dict[str, Any]:
    """Return what the form shows of a webhook."""
    written = {"url": "", "description": None, "workflows": [], "include_output": False, **known}
    return {"written": {**written, "workflows": " ".join(written["workflows"])}, "event_types": EVENT_TYPES}


def wrong_of(error: PenstockError) -> dict[str, list[str]]:
    """Return what is wrong with what was written, by the field; other refusals are raised."""
    if error.code not in _OWN_MISTAKES:
        raise error
    if error.code == "WEBHOOK_URL_INVALID":
        return {"url": [error.message]}
    return told_at(error, _NAMES)
