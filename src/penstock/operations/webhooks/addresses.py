"""Which addresses events may be sent to, as far as the address itself shows it.

Above it: `endpoints`. Below it: `runtime.address_guard`. What a name resolves to is checked when something is sent, for
every connection.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from penstock.base.errors import Rejected
from penstock.runtime.address_guard import AddressDenied, AddressGuard, literal_address

__all__ = ["checked_url"]


def checked_url(url: str, *, allow_private: bool) -> str:
    """Return the address; raise `Rejected` if events cannot or may not be sent there."""
    problem = _problem(url, allow_private)
    if problem is not None:
        raise Rejected("WEBHOOK_URL_INVALID", f"url: {problem}", "use a public https address")
    return url


def _problem(url: str, allow_private: bool) -> str | None:
    if not url.isascii() or not url.isprintable() or " " in url:
        return "it has characters that no address has; write others as %XX"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it is not an address"
    if parts.scheme != "https" and not (allow_private and parts.scheme == "http"):
        return "events are sent over https only"
    if not host:
        return "it names no host"
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        return "it must not hold a name or password; events are signed instead"
    if parts.fragment:
        return "the part after # is never sent; leave it out"
    try:
        address = literal_address(host)
        if address is not None:
            AddressGuard(allow_private).check(host, [address])
    except AddressDenied as error:
        return str(error)
    return None
