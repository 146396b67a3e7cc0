"""How a browser stays signed in: a signed cookie that names the key it was signed in with.

The key itself is not in the cookie, and nothing is stored: with every request the key is looked up, so a key that was
revoked or has expired signs everybody out who used it. A session is renewed while it is used, up to a maximum.

Above it: `surface`. Below it: the signer, the keys.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from secrets import token_urlsafe

import msgspec

from penstock.base import limits
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import Principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.signed_texts import Signer

__all__ = ["COOKIE", "Session", "Sessions"]

COOKIE = "penstock_console"
_PURPOSE = b"penstock console session 1"
_FORM_PURPOSE = b"penstock console form 1"


class Session(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the cookie carries."""

    session_id: str
    key_id: str
    tenant: str
    began_ms: int
    renewed_ms: int
    until_ms: int


class Sessions:
    """Begins, finds and renews sessions."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        pepper = gate.services.pepper
        self._signer = Signer(pepper, _PURPOSE, Session)
        self._form_key = hmac.digest(pepper, _FORM_PURPOSE, "sha256")

    def begin(self, principal: Principal, now_ms: int) -> Session | None:
        """Begin a session; None if the principal has no key that it could be bound to."""
        if principal.key_id is None:
            return None
        return Session(
            session_id=token_urlsafe(18),
            key_id=principal.key_id,
            tenant=principal.tenant,
            began_ms=now_ms,
            renewed_ms=now_ms,
            until_ms=now_ms + limits.CONSOLE_SESSION_IDLE_MS,
        )

    def read(self, cookie_header: str | None, now_ms: int) -> Session | None:
        """Return the session of a request; None if there is none, or it has expired."""
        if cookie_header is None:
            return None
        try:
            found = SimpleCookie(cookie_header).get(COOKIE)
        except CookieError:
            return None
        return None if found is None else self._signer.verify(found.value, now_ms=now_ms)

    def renewed(self, session: Session, now_ms: int) -> Session | None:
        """Return a session with a later end, if it is time for that."""
        if now_ms - session.renewed_ms < limits.CONSOLE_SESSION_RENEWED_MS:
            return None
        until = min(now_ms + limits.CONSOLE_SESSION_IDLE_MS, session.began_ms + limits.CONSOLE_SESSION_MAX_MS)
        return msgspec.structs.replace(session, renewed_ms=now_ms, until_ms=until) if until > session.until_ms else None

    async def principal(self, session: Session) -> Principal | None:
        """Return who is signed in, with the rights that the key has now; None if it is no longer valid."""
        key = await self._gate.services.platform.key(session.key_id)
        if key is None or key.tenant != session.tenant:
            return None
        principal = principal_of(key)
        return principal if await self._gate.authenticator.still_valid(principal) else None

    def cookie(self, session: Session, *, secure: bool) -> str:
        """Return the header that sets the cookie."""
        return _cookie(
            self._signer.sign(session), secure=secure, seconds=(session.until_ms - session.renewed_ms) // 1000
        )

    def no_cookie(self, *, secure: bool) -> str:
        """Return the header that removes the cookie."""
        return _cookie("", secure=secure, seconds=0)

    def form_token(self, session: Session) -> str:
        """Return what every form of a session carries, and no other site knows."""
        return hmac.new(self._form_key, session.session_id.encode(), "sha256").hexdigest()

    def is_form_token(self, session: Session, given: str) -> bool:
        """Whether a form was made for this session."""
        return hmac.compare_digest(self.form_token(session).encode(), given.encode())


def _cookie(value: str, *, secure: bool, seconds: int) -> str:
    return (
        f"{COOKIE}={value}; Path=/console; HttpOnly; SameSite=Strict; Max-Age={seconds}{'; Secure' if secure else ''}"
    )
