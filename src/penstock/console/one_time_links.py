"""One-time links: the user who starts a server on this machine is signed in by the browser that it opens.

A link works once, for two minutes, and only at an address of this machine. Only its digest is kept, in memory. The
session that it begins acts for the user who started the process, and ends with the process.

Above it: `penstock dev` makes one, `sign_in` takes it. Below it: nothing.
"""

from __future__ import annotations

from hashlib import sha256
from secrets import token_urlsafe

from penstock.base import limits
from penstock.operations.gate.context import Principal

__all__ = ["LINK_PATH", "OneTimeLinks"]

LINK_PATH = "/console/sign-in/link"


class OneTimeLinks:
    """The links of one process."""

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        """The principal that the links sign in."""
        self.process = token_urlsafe(18)
        """The name of this process in sessions; another process has another."""
        self._open: dict[bytes, int] = {}

    def path(self, now_ms: int) -> str:
        """Return the path of a new link. It is a credential: show it to the user, and log it nowhere."""
        token = token_urlsafe(32)
        self._open = {digest: until for digest, until in self._open.items() if until > now_ms}
        self._open[sha256(token.encode()).digest()] = now_ms + limits.CONSOLE_LINK_MS
        return f"{LINK_PATH}/{token}"

    def redeem(self, token: str, now_ms: int) -> bool:
        """Whether a link is valid. It is not valid a second time."""
        until = self._open.pop(sha256(token.encode("utf-8", "surrogatepass")).digest(), None)
        return until is not None and until > now_ms
