"""Keys: the list, a form that makes one, replacing and revoking. A new key is shown once, on the page that made it."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.asgi.forms import Fields
from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.console.pages.reading import held, no_such_button
from penstock.console.visits import Page, Redirect, Shown, Visit

__all__ = ["keys"]

_KINDS = ("person", "agent", "service")
# Mistakes are shown in the form, with its input.
_OWN_MISTAKES = ("INVALID_ARGUMENTS", "SCOPE_INVALID", "SCOPE_REQUIRED", "KEY_BEYOND_YOURS")
_WRITTEN = ("name", "scopes", "expires_in", "toolset", "kind", "groups", "subject")


async def keys(visit: Visit) -> Shown:
    """Show the keys; make one, replace one, or revoke one."""
    form = visit.form
    if form is None:
        return await _page(visit)
    if form.text("action") == "revoke":
        await visit.call("key.revoke", key_id=form.text("key_id"))
        return Redirect("/console/keys")
    if form.text("action") == "rotate":
        return await _rotated(visit, form)
    if form.text("action") != "create":
        raise no_such_button()
    try:
        made = await visit.call(
            "key.create",
            name=form.text("name"),
            scopes=form.text("scopes").replace(",", " ").split(),
            expires_in=form.text("expires_in") or None,
            toolset=form.text("toolset") or None,
            kind=form.text("kind"),
            groups=form.text("groups").replace(",", " ").split(),
            subject=form.text("subject") or None,
        )
    except PenstockError as error:
        if error.code not in _OWN_MISTAKES:
            raise
        return await _page(visit, form=form, mistake=error)
    return held(made) or _new_key(made)


def _new_key(made: dict[str, Any]) -> Page:
    return Page("tools/new_key.html", {"section": "tools", "tab": "keys", "made": made})


async def _rotated(visit: Visit, form: Fields) -> Shown:
    key_id = form.text("key_id")
    try:
        made = await visit.call("key.rotate", key_id=key_id, overlap=form.text("overlap") or None)
    except PenstockError as error:
        if error.code not in _OWN_MISTAKES:
            raise
        return await _page(visit, mistake=error, rotating=Rotating(key_id, form.text("overlap")))
    return held(made) or _new_key(made)


class Rotating(NamedTuple):
    """A key that is being replaced, and what was written about it."""

    key_id: str
    overlap: str


async def _page(
    visit: Visit,
    *,
    form: Fields | None = None,
    mistake: PenstockError | None = None,
    rotating: Rotating | None = None,
) -> Page:
    cursor = visit.query.text("cursor") or None
    page = await visit.call("key.list", limit=limits.CONSOLE_ROWS, cursor=cursor)
    written = {name: form.text(name) if form is not None else "" for name in _WRITTEN}
    given = {"section": "tools", "tab": "keys", "keys": page["items"], "more": page["next_cursor"], "kinds": _KINDS}
    return Page(
        "tools/keys.html",
        {**given, "written": written, "wrong": mistake, "rotating": rotating},
        200 if mistake is None else 422,
    )
