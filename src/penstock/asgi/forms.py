"""What a browser sent: the query of an address, the fields of a form, and whether a page of this server sent it.

Above it: the console, the page on which a question is answered. Below it: ASGI.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from starlette.types import Receive, Scope

from penstock.asgi import header
from penstock.base import limits
from penstock.base.errors import Denied, Rejected

__all__ = ["Fields", "query_of", "read_form", "refuse_foreign_form"]

_OWN_SITES = ("same-origin", "none")
_FORM = "application/x-www-form-urlencoded"


class Fields(dict[str, list[str]]):
    """The values of fields by name."""

    def text(self, name: str) -> str:
        """Return the first value of a field without white space around it; nothing if it is not there."""
        return self.get(name, [""])[0].strip()


def refuse_foreign_form(scope: Scope, *, from_browser: bool = True) -> None:
    """Refuse a form that a page of another site sent: browsers say where a request comes from.

    With `from_browser`, a request that says nothing is refused too: no browser of today leaves both headers out.
    """
    site, origin = header(scope, b"sec-fetch-site"), header(scope, b"origin")
    is_foreign = site is not None and site not in _OWN_SITES
    # A page without a referrer sends `null` even to its own site; then the other header decides.
    if origin is not None and not (origin == "null" and site is not None):
        is_foreign |= urlsplit(origin).netloc.lower() != (header(scope, b"host") or "").lower()
    elif site is None:
        is_foreign = from_browser
    if is_foreign:
        message = "the form was not sent by a page of this server"
        raise Denied("FOREIGN_FORM", message, "open the page again and send it there")


def query_of(scope: Scope) -> Fields:
    """Return the fields of the address."""
    return _parsed(scope.get("query_string", b""), strict=False)


async def read_form(scope: Scope, receive: Receive, bytes_max: int = limits.FORM_BYTES_MAX) -> Fields:
    """Return the fields of a form that was sent; raise `Rejected` if it is not a form, too large, or truncated."""
    kind = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise Rejected("UNSUPPORTED_MEDIA_TYPE", "the page accepts only forms", "open it with a browser")
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Rejected("MALFORMED_REQUEST", "the form did not arrive completely", "send it again")
        body += message.get("body", b"")
        if len(body) > bytes_max:
            raise Rejected("BODY_TOO_LARGE", f"a form has at most {bytes_max} bytes", "write less")
        if not message.get("more_body", False):
            return _parsed(bytes(body), strict=bool(body))


def _parsed(data: bytes, *, strict: bool) -> Fields:
    try:
        found = parse_qs(
            data.decode(), keep_blank_values=True, strict_parsing=strict, max_num_fields=limits.FORM_FIELDS_MAX
        )
    except ValueError:
        raise Rejected("MALFORMED_REQUEST", "the fields cannot be read", "open the page again") from None
    return Fields(found)
