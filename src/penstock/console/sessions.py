"""How a browser stays signed in: a signed cookie that names what it was signed in with.

That is a key, an access token of an issuer, or the one-time link of this process. The secret is not in the cookie, and
nothing is stored: with every request the key or the token is looked up, so revoking it signs everybody out who used
it, and so does signing out everywhere. Of a token there is nothing to look up later, so the cookie keeps what the token
said, and ends with it. A session is renewed while it is used, up to a maximum.

Every sign-in begins a session with a new id; what a browser sent before counts for nothing.

Above it: `surface`, `sign_in`. Below it: the signer, the keys, the gate.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from secrets import token_urlsafe

import msgspec

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.console.one_time_links import OneTimeLinks
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import Principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.permissions.console_sessions import TokenSession, ended_before_ms, token_session
from penstock.operations.signed_texts import Signer

__all__ = ["COOKIE", "Session", "Sessions", "cookie_text", "cookie_value"]

COOKIE = "penstock_console"
_PURPOSE = b"penstock console session 1"
_FORM_PURPOSE = b"penstock console form 1"


class Session(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the cookie carries."""

    session_id: str
    key_id: str
    """Nothing if it was not signed in with a key."""
    tenant: str
    began_ms: int
    renewed_ms: int
    until_ms: int
    token: TokenSession | None = None
    process: str | None = None
    """The process whose one-time link was used; the session ends with it."""

    @property
    def ends_at_ms(self) -> int:
        """When it ends at the latest, however much it is used."""
        longest = self.began_ms + limits.CONSOLE_SESSION_MAX_MS
        return longest if self.token is None else min(longest, self.token.expires_at)


class Sessions:
    """Begins, finds and renews sessions."""

    def __init__(self, gate: Gate, links: OneTimeLinks | None = None) -> None:
        self._gate = gate
        self._links = links
        pepper = gate.services.pepper
        self._signer = Signer(pepper, _PURPOSE, Session)
        self._form_key = hmac.digest(pepper, _FORM_PURPOSE, "sha256")

    def begin(self, principal: Principal, now_ms: int, *, process: str | None = None) -> Session | None:
        """Begin a session with a new id; None if there is nothing that it could be bound to."""
        token = token_session(principal)
        if principal.key_id is None and token is None and process is None:
            return None
        begun = Session(
            session_id=token_urlsafe(18),
            key_id=principal.key_id or "",
            tenant=principal.tenant,
            began_ms=now_ms,
            renewed_ms=now_ms,
            until_ms=now_ms,
            token=token,
            process=process,
        )
        session = _used(begun, now_ms)
        if len(self._signer.sign(session)) > limits.CONSOLE_COOKIE_BYTES_MAX:
            message = "the token has more groups and scopes than a cookie can keep"
            raise Rejected(
                "TOKEN_TOO_LARGE", message, "map groups and scopes of the issuer in the settings, or use a key"
            )
        return session

    def read(self, cookie_header: str | None, now_ms: int) -> Session | None:
        """Return the session of a request; None if there is none, or it has expired."""
        found = cookie_value(cookie_header, COOKIE)
        return None if found is None else self._signer.verify(found, now_ms=now_ms)

    def renewed(self, session: Session, now_ms: int) -> Session | None:
        """Return a session with a later end, if it is time for that."""
        if now_ms - session.renewed_ms < limits.CONSOLE_SESSION_RENEWED_MS:
            return None
        later = _used(session, now_ms)
        return later if later.until_ms > session.until_ms else None

    async def principal(self, session: Session) -> Principal | None:
        """Return who is signed in, with the rights that they have now; None if the session counts for nothing."""
        principal = await self._bound(session)
        if principal is None or not await self._gate.authenticator.still_valid(principal):
            return None
        ended = await ended_before_ms(self._gate.services, principal)
        return None if ended is not None and session.began_ms <= ended else principal

    async def _bound(self, session: Session) -> Principal | None:
        if session.token is not None:
            return session.token.principal(session.tenant)
        if session.process is not None:
            is_ours = self._links is not None and session.process == self._links.process
            return self._links.principal if self._links is not None and is_ours else None
        key = await self._gate.services.platform.key(session.key_id)
        return None if key is None or key.tenant != session.tenant else principal_of(key)

    def cookie(self, session: Session, *, secure: bool) -> str:
        """Return the header that sets the cookie."""
        seconds = (session.until_ms - session.renewed_ms) // 1000
        return cookie_text(COOKIE, self._signer.sign(session), secure=secure, seconds=seconds)

    def no_cookie(self, *, secure: bool) -> str:
        """Return the header that removes the cookie."""
        return cookie_text(COOKIE, "", secure=secure, seconds=0)

    def form_token(self, session: Session) -> str:
        """Return what every form of a session carries, and no other site knows."""
        return hmac.new(self._form_key, session.session_id.encode(), "sha256").hexdigest()

    def is_form_token(self, session: Session, given: str) -> bool:
        """Whether a form was made for this session."""
        return hmac.compare_digest(self.form_token(session).encode(), given.encode())


def _used(session: Session, now_ms: int) -> Session:
    until = min(now_ms + limits.CONSOLE_SESSION_IDLE_MS, session.ends_at_ms)
    return msgspec.structs.replace(session, renewed_ms=now_ms, until_ms=until)


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
