"""Cookies: the value that a browser sent, and the header that sets one.

Above it: `sessions`, `sign_in`. Below it: nothing.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie

__all__ = ["cookie_text", "cookie_value"]


def cookie_value(cookie_header: str | None, name: str) -> str | None:
    """Return the value of a cookie; None if it was not sent."""
    if cookie_header is None:
        return None
    try:
        found = SimpleCookie(cookie_header).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def cookie_text(
    name: str, value: str, *, secure: bool, seconds: int, path: str = "/console", site: str = "Strict"
) -> str:
    """Return the header that sets a cookie."""
    return f"{name}={value}; Path={path}; HttpOnly; SameSite={site}; Max-Age={seconds}{'; Secure' if secure else ''}"
