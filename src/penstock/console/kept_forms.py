"""A form that arrived after its session ended or was replaced. Its input is kept.

The page shows every field with its input, and a button that sends the form again. After signing in again in another
tab, the visitor can send it. Secrets stay in the form and are not shown.

Above it: `surface`. Below it: `visits`.
"""

from __future__ import annotations

from starlette.types import Scope

from penstock.asgi.forms import Fields
from penstock.base.errors import Denied, PenstockError
from penstock.console.visits import Page
from penstock.html_form.form import EDIT, SECRET_FIELD
from penstock.operations.catalogue.reasons import hint_of

__all__ = ["OutdatedForm", "kept_form"]

_OURS = ("form_token", EDIT)
# What a form says besides what somebody wrote: it is sent again, and not shown.
_MARKS = ("action", "digest", "interrupt_id", "decline", SECRET_FIELD)
_MARKS_OF_LISTS = ("items.", "variant.")


class OutdatedForm(Denied):
    """A form that was made for another session."""

    def __init__(self, form: Fields) -> None:
        super().__init__("FORM_OUTDATED", "the form was made for another session", "look at it, and send it again")
        self.form = form


def kept_form(scope: Scope, form: Fields, problem: PenstockError | None = None) -> Page:
    """Return the page with what was written; `problem` says why it was not sent, if nobody has to sign in again."""
    query = scope.get("query_string", b"").decode("latin-1")
    secrets = frozenset(form.get(SECRET_FIELD, ()))
    fields = [
        {"name": name, "label": name.removeprefix("field."), "value": value, "kind": _kind(name, secrets)}
        for name, values in form.items()
        if name not in _OURS
        for value in values
    ]
    address = scope["path"] + (f"?{query}" if query else "")
    said = None if problem is None else {"message": problem.message, "hint": hint_of(problem)}
    return Page("kept_form.html", {"address": address, "fields": fields, "problem": said}, 403)


def _kind(name: str, secrets: frozenset[str]) -> str:
    if name in _MARKS or name.startswith(_MARKS_OF_LISTS):
        return "hidden"
    return "password" if name in secrets else "text"
