"""Forms of the console: their fields, and whether a page of ours sent them.

Above it: `surface`, the pages. Below it: `asgi.forms`.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.types import Scope

from penstock.asgi import header
from penstock.asgi.forms import Fields, query_of, read_form
from penstock.base.errors import Denied

__all__ = ["Fields", "query_of", "read_form", "refuse_foreign_form"]

_OWN_SITES = ("same-origin", "none")


def refuse_foreign_form(scope: Scope) -> None:
    """Refuse a form that a page of another site sent: browsers say where a request comes from."""
    site = header(scope, b"sec-fetch-site")
    if site is not None and site not in _OWN_SITES:
        raise _foreign()
    origin = header(scope, b"origin")
    if origin is None and site is None:
        raise _foreign()  # no browser of today leaves both out
    if origin is not None and urlsplit(origin).netloc.lower() != (header(scope, b"host") or "").lower():
        raise _foreign()


def _foreign() -> Denied:
    return Denied(
        "FOREIGN_FORM", "the form was not sent by a page of this server", "open the page again and send it there"
    )
