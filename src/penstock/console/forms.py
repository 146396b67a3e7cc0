"""What a browser sent: the query of the address, the fields of a form, and whether a page of ours sent it.

Above it: `surface`, the pages. Below it: ASGI.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from starlette.types import Receive, Scope

from penstock.asgi import header
from penstock.base import limits
from penstock.base.errors import Denied, Rejected

__all__ = ["Fields", "query_of", "read_form", "refuse_foreign_form"]

_FORM = "application/x-www-form-urlencoded"
_OWN_SITES = ("same-origin", "none")


class Fields(dict[str, list[str]]):
    """The values of fields by name."""

    def text(self, name: str) -> str:
        """Return the first value of a field without white space around it; nothing if it is not there."""
        return self.get(name, [""])[0].strip()


def query_of(scope: Scope) -> Fields:
    """Return the fields of the address."""
    return Fields(_parsed(scope.get("query_string", b"")))


async def read_form(scope: Scope, receive: Receive) -> Fields:
    """Return the fields of a form that was sent."""
    kind = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise Rejected("UNSUPPORTED_MEDIA_TYPE", "the page takes forms only", "send it with a browser")
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message["type"] == "http.request" and message.get("more_body", False)
        if len(body) > limits.CONSOLE_FORM_BYTES_MAX:
            raise Rejected("BODY_TOO_LARGE", f"a form has at most {limits.CONSOLE_FORM_BYTES_MAX} bytes")
    return Fields(_parsed(bytes(body)))


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


def _parsed(data: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(data.decode(), keep_blank_values=True, max_num_fields=limits.CONSOLE_FIELDS_MAX)
    except ValueError:
        raise Rejected("FORM_UNREADABLE", "the fields cannot be read", "open the page again") from None
