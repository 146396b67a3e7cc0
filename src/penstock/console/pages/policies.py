"""Policies: which there are, what would happen to a call and why, and what other policies would have decided.

Whatever the pages say is said by `policy.list`, `policy.get`, `policy.explain` and `policy.replay`. Nothing is stored
or called from here.
"""

from __future__ import annotations

from typing import Any

from penstock.asgi.forms import Fields
from penstock.base import limits
from penstock.base.errors import PenstockError, Rejected
from penstock.console.pages.reading import json_object
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Shown, Visit

__all__ = ["document", "explain", "listing", "replay"]

_SURFACES = ("mcp", "rest", "cli", "sdk", "console", "webhook", "schedule", "run")
_KINDS = ("person", "agent", "service", "local", "schedule", "webhook")
_FIELDS = ("action", "arguments", "who", "key", "id", "kind", "scopes", "groups", "acting_for", "surface", "remote")
_LAST = 1_000
# What a decision is called, and how it looks.
_VERDICTS = {
    "permitted": ("It would be permitted", "good"),
    "forbidden": ("It would be refused", "bad"),
    "approval": ("It would wait for approval", "wait"),
    "held": ("It would wait for approval", "wait"),
    "scope_missing": ("It would be refused: a scope is missing", "bad"),
    "arguments_unfit": ("It would be refused: policies cannot read these arguments", "bad"),
}


async def listing(visit: Visit) -> Shown:
    """Show the policies of the server, and the documents of the tenant."""
    found = await visit.call("policy.list")
    watched = [
        {**item, "document": None if document is None else document["id"]}
        for document, items in [(None, found["server"]), *((each, each["policies"]) for each in found["items"])]
        for item in items
        if item["mode"] != "enforce"
    ]
    return Page("policies/list.html", {"section": "policies", "found": found, "watched": watched})


async def document(visit: Visit) -> Shown:
    """Show a document with its text."""
    shown = await visit.call("policy.get", policy_id=visit.path["policy_id"])
    return Page("policies/document.html", {"section": "policies", "document": shown, "text": cut_value(shown["text"])})


async def explain(visit: Visit) -> Shown:
    """Say what would happen to a call. The call is in the address, so that it can be sent to somebody."""
    given = {name: visit.query.text(name) for name in _FIELDS}
    explained, mistake = None, None
    if given["action"]:
        try:
            explained = await visit.call("policy.explain", **_call_of(given))
        except PenstockError as error:
            mistake = error
    return Page(
        "policies/explain.html",
        {
            "section": "policies",
            "given": given,
            "surfaces": _SURFACES,
            "kinds": _KINDS,
            "explained": explained,
            "verdict": None if explained is None else _VERDICTS[explained["call"]],
            "verdicts": _VERDICTS,
            "mistake": mistake,
        },
        200 if mistake is None else 422,
    )


def _call_of(given: dict[str, str]) -> dict[str, Any]:
    call: dict[str, Any] = {"action": given["action"], "surface": given["surface"] or "mcp"}
    if given["arguments"]:
        call["arguments"] = json_object(given["arguments"], "the arguments")
    if given["remote"]:
        call["remote"] = given["remote"]
    if given["who"] == "key":
        call["key"] = given["key"]
    elif given["who"] == "somebody":
        call["principal"] = {
            "id": given["id"] or "somebody",
            "kind": given["kind"] or "agent",
            "scopes": _words(given["scopes"]) or ["*"],
            "groups": _words(given["groups"]),
            "acting_for": _words(given["acting_for"]),
        }
    return call


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


async def replay(visit: Visit) -> Shown:
    """Decide recorded calls again with other policies."""
    form = visit.form or Fields({})
    text, last = form.text("text"), form.text("last") or str(_LAST)
    result, mistake = None, None
    if visit.form is not None:
        try:
            if not (last.isascii() and last.isdecimal()):
                raise Rejected(
                    "FORM_UNREADABLE", "the number of records must be a whole number", f"write a number such as {_LAST}"
                )
            result = await visit.call("policy.replay", text=text, last=int(last[:9]))
        except PenstockError as error:
            mistake = error
    errors = [] if mistake is None else mistake.details.get("errors", [])
    return Page(
        "policies/replay.html",
        {
            "section": "policies",
            "text": text,
            "last": last,
            "most": limits.POLICY_REPLAYED_MAX,
            "result": result,
            "mistake": mistake,
            "errors": errors,
        },
        200 if mistake is None else 422,
    )
