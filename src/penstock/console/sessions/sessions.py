"""Sessions: they begin with a sign-in, are found with every request, and end with a sign-out or by request.

The cookie is signed and names the session; whom it was begun with, and with what, is stored on the server. Every
request looks up the session and its key or token. Revoking these signs out everybody who used them, and an ended
session ends in every process. A session is renewed while it is used, up to a maximum.

The cookie is replaced from time to time: a request with an older one gets the next. The first request with the next one
makes the older ones invalid. If an invalid one arrives later, it was copied, so the session ends. A cookie that was
lost on its way to the browser does no harm.

Every sign-in begins a session with a new id; what a browser sent before is ignored.

Above it: `surface`, `sign_in`. Below it: the other modules of this package, the signer, the gate.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from starlette.types import Scope

from penstock.asgi import header, remote_of
from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.console.one_time_links import OneTimeLinks
from penstock.console.sessions.back_channel import BackChannel
from penstock.console.sessions.changes import SessionChanges
from penstock.console.sessions.cookies import cookie_text, cookie_value
from penstock.console.sessions.refreshing import Refresher, is_due
from penstock.console.sessions.revoking import Revoker
from penstock.console.sessions.user_agents import browser_in_words
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import Principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.tokens.browser_sign_ins import FinishedSignIn
from penstock.operations.permissions.console_sessions import (
    KeptSession,
    SessionRecord,
    SessionRecords,
    new_session_id,
    sessions_of,
    token_session,
)
from penstock.operations.permissions.session_tokens import SessionTokens, SessionVault
from penstock.operations.signed_texts import Signer

__all__ = ["COOKIE", "IssuerExit", "Session", "Sessions", "is_secure"]

COOKIE = "penstock_console"
_PURPOSE = b"penstock console session 2"
_FORM_PURPOSE = b"penstock console form 1"
_REUSED = "an older cookie was used again"


class _Carried(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the cookie carries."""

    session_id: str
    tenant: str
    turn: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Session:
    """The session of a request, and who is signed in, with the rights that they have now."""

    kept: KeptSession
    principal: Principal
    next_cookie: str | None = None
    """The header that replaces the cookie, if it is time for that."""


class IssuerExit(NamedTuple):
    """Where somebody signs out at their issuer."""

    address: str
    label: str
    """What people call the issuer."""


class Sessions:
    """Begins, finds and ends sessions."""

    def __init__(self, gate: Gate, links: OneTimeLinks | None = None) -> None:
        self._gate = gate
        self._links = links
        pepper = gate.services.pepper
        self._signer = Signer(pepper, _PURPOSE, _Carried)
        self._form_key = hmac.digest(pepper, _FORM_PURPOSE, "sha256")
        self._vault = SessionVault(pepper)
        self._records = SessionRecords(gate.services.platform)
        self._changes = SessionChanges(gate, self._records)
        self._refresher = Refresher(gate, self._records, self._changes, self._vault)
        self._revoker = Revoker(gate, self._vault)
        self.back_channel = BackChannel(gate, self._records, self._changes)

    # --- signing in --------------------------------------------------------------------------------------------------

    async def begin(
        self,
        scope: Scope,
        principal: Principal,
        *,
        process: str | None = None,
        finished: FinishedSignIn | None = None,
    ) -> str | None:
        """Begin a session with a new id; return its cookie. None if the credential cannot carry a session.

        `finished` is what the issuer gave, if somebody signed in there.
        """
        token = token_session(principal)
        if principal.key_id is None and token is None and process is None:
            return None
        await self._end_before(scope)
        now, session_id = self._now(), new_session_id(principal.id)
        record = SessionRecord(
            principal=principal.id,
            name=principal.name,
            began_ms=now,
            used_ms=now,
            key_id=principal.key_id,
            token=token,
            process=process,
            browser=browser_in_words(header(scope, b"user-agent")),
            remote=remote_of(scope),
            sealed=None if finished is None else self._sealed(principal.tenant, session_id, finished),
            id_subject=None if finished is None else finished.id_subject,
            sid=None if finished is None else finished.session,
            refreshes=finished is not None and finished.tokens.refresh_token is not None,
        )
        await self._changes.begin(scope, principal, session_id, record)
        return self._cookie(scope, principal.tenant, session_id, record, now)

    def _sealed(self, tenant: str, session_id: str, finished: FinishedSignIn) -> str:
        tokens = SessionTokens(refresh_token=finished.tokens.refresh_token, id_token=finished.id_token)
        return self._vault.seal(tenant, session_id, tokens)

    async def _end_before(self, scope: Scope) -> None:
        """End the session that the browser has until now: its cookie is about to be replaced."""
        carried = self._carried(scope)
        before = None if carried is None else await self._records.find(carried.tenant, carried.session_id)
        if before is not None:
            await self._changes.close(before, "signed in again", scope=scope)
            self._revoker.revoke(before)

    # --- with every request ------------------------------------------------------------------------------------------

    def is_carried(self, scope: Scope) -> bool:
        """Whether a browser brings a cookie that was good until a session ended."""
        return self._carried(scope) is not None

    async def find(self, scope: Scope) -> Session | None:
        """Return the session of a request; None if it has no session, or if the session has ended.

        Raise `Unavailable` if its token has expired, and the issuer cannot be asked to refresh it.
        """
        carried, now = self._carried(scope), self._now()
        kept = None if carried is None else await self._records.find(carried.tenant, carried.session_id)
        if carried is None or kept is None or kept.has_ended(now):
            return None
        behind = kept.record.turn - carried.turn
        if behind > 1 or (behind == 1 and now - kept.record.used_ms > limits.CONSOLE_SESSION_GRACE_MS):
            await self._changes.close(kept, _REUSED, scope=scope)
            self._revoker.revoke(kept)
            return None
        session = None if behind < -1 else await self._current(kept, now)
        if session is None or behind > 0:
            return session
        if behind < 0:
            return await self._turned(session, carried.turn, now)
        if now - kept.record.used_ms < limits.CONSOLE_SESSION_RENEWED_MS:
            return session
        offered = msgspec.structs.replace(session.kept.record, turn=carried.turn + 1, used_ms=now)
        cookie = self._cookie(scope, carried.tenant, carried.session_id, offered, now)
        return Session(session.kept, session.principal, cookie)

    async def goes_on(self, opened: Session) -> Session | None:
        """Return the current session of an open stream; None if it has ended."""
        kept = await self._records.find(opened.kept.tenant, opened.kept.session_id)
        now = self._now()
        return None if kept is None or kept.has_ended(now) else await self._current(kept, now)

    async def _turned(self, session: Session, turn: int, now: int) -> Session | None:
        """Store that the next cookie has arrived."""

        def change(record: SessionRecord) -> SessionRecord | None:
            return msgspec.structs.replace(record, turn=turn, used_ms=now) if record.turn < turn else None

        turned = await self._changes.amend(session.kept, change, "cookie replaced")
        return None if turned.session is None else Session(turned.session, session.principal)

    async def _current(self, kept: KeptSession, now: int) -> Session | None:
        """Return a session with the rights that its holder has now; None if they have none any more."""
        token, authenticator = kept.record.token, self._gate.authenticator
        if token is not None and is_due(kept.record, now):
            # A principal that was revoked here does not get back in with a new token.
            if await authenticator.is_token_revoked(token.reference(kept.tenant)):
                return None
            refreshed = await self._refresher.refreshed(kept)
            if refreshed is None:
                return None
            kept = refreshed
        principal = self._bound(kept)
        if principal is None or not await authenticator.still_valid(principal):
            return None
        return Session(kept, principal)

    def _bound(self, kept: KeptSession) -> Principal | None:
        record = kept.record
        if record.token is not None:
            return record.token.principal(kept.tenant)
        if record.process is not None:
            is_ours = self._links is not None and record.process == self._links.process
            return self._links.principal if self._links is not None and is_ours else None
        return None if kept.key is None else principal_of(kept.key)

    # --- signing out -------------------------------------------------------------------------------------------------

    async def end(self, scope: Scope, session: Session) -> None:
        """End the session of a browser that signs out, which invalidates every copy of its cookie."""
        await self._changes.close(session.kept, "signed out", scope=scope, by=session.principal)
        self._revoker.revoke(session.kept)

    async def all_of(self, principal: Principal) -> list[KeptSession]:
        """Return all sessions of a principal."""
        rows = await sessions_of(self._gate.services.platform, principal.tenant, principal.id)
        return [kept for row in rows if (kept := await self._records.kept(row)) is not None]

    def have_ended(self, sessions: Sequence[KeptSession]) -> None:
        """Take the refresh tokens of sessions back that ended together."""
        for session in sessions:
            self._revoker.revoke(session)

    async def is_over(self, session: Session) -> bool:
        """Whether a session that a request came with has ended since."""
        kept = await self._records.find(session.kept.tenant, session.kept.session_id)
        return kept is None or kept.has_ended(self._now())

    async def issuer_exit(self, session: Session) -> IssuerExit | None:
        """Return where somebody signs out at their issuer; None if there is no such place."""
        record = session.kept.record
        flow = None if record.token is None else self._gate.authenticator.code_flows.get(record.token.issuer)
        tokens = self._vault.unseal(session.kept.tenant, session.kept.session_id, record.sealed)
        if flow is None or tokens.id_token is None:
            return None
        try:
            address = await flow.sign_out_address(tokens.id_token)
        except Unavailable:
            return None  # signing out here does not wait for anybody
        return None if address is None else IssuerExit(address, flow.label)

    # --- cookies and forms -------------------------------------------------------------------------------------------

    def _carried(self, scope: Scope) -> _Carried | None:
        found = cookie_value(header(scope, b"cookie"), COOKIE)
        return None if found is None else self._signer.verify(found, now_ms=self._now())

    def _cookie(self, scope: Scope, tenant: str, session_id: str, record: SessionRecord, now: int) -> str:
        carried = _Carried(session_id=session_id, tenant=tenant, turn=record.turn, until_ms=record.until_ms)
        seconds = (record.until_ms - now) // 1000
        return cookie_text(COOKIE, self._signer.sign(carried), secure=is_secure(scope), seconds=seconds)

    def no_cookie(self, scope: Scope) -> str:
        """Return the header that removes the cookie."""
        return cookie_text(COOKIE, "", secure=is_secure(scope), seconds=0)

    def form_token(self, session: Session) -> str:
        """Return what every form of a session carries, and no other site knows. It stays when the cookie changes."""
        return hmac.new(self._form_key, session.kept.session_id.encode(), "sha256").hexdigest()

    def is_form_token(self, session: Session, given: str) -> bool:
        """Whether a form was made for this session."""
        return hmac.compare_digest(self.form_token(session).encode(), given.encode())

    def _now(self) -> int:
        return self._gate.services.clock.now_ms()


def is_secure(scope: Scope) -> bool:
    """Whether the browser reached us over TLS, as the server or a trusted proxy says."""
    return bool(scope.get("scheme") == "https")
