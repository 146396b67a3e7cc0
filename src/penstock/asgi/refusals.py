"""Refusals on pages for people: their status, and the note for the middleware.

Above it: the console, the page on which a question is answered. Below it: the table of errors on every wire. Problem
documents for programs are made by `rest.problems`, from the same table.
"""

from __future__ import annotations

from starlette.types import Scope

from penstock.asgi import AUDITED, CODE
from penstock.base.errors import PenstockError
from penstock.operations.catalogue.errors import mapping_of

__all__ = ["note_refusal", "page_status", "page_title"]

_UNAUTHENTICATED = 401
_FORBIDDEN = 403


def page_status(error: PenstockError) -> int:
    """Return the HTTP status of a page that says what was refused.

    A page asks for a key with a form. It has no challenge for the browser, which status 401 would need (RFC 9110).
    """
    status = mapping_of(error).status
    return _FORBIDDEN if status == _UNAUTHENTICATED else status


def page_title(error: PenstockError) -> str:
    """Return what kind of refusal it is, in a few words."""
    return mapping_of(error).title


def note_refusal(scope: Scope, error: PenstockError) -> None:
    """Tell the middleware why a request was refused, and whether the audit log has it already."""
    state = scope.setdefault("state", {})
    state[CODE] = error.code
    if error.on_record:
        state[AUDITED] = True
