"""Refreshes the token of a session that was begun at an issuer, while the session is used.

A refresh token often works only once, so one request at a time uses it: those of this process share an attempt, and of
several processes on one store the first takes a lease. What the new access token says counts from then on: groups and
scopes that were withdrawn are gone. If the issuer refuses, the session ends.

Above it: `sessions`. Below it: `changes`, the flow at the issuer, the gate, which authenticates the new token.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from penstock.base import limits
from penstock.base.errors import Denied, Unavailable
from penstock.console.sessions.changes import SessionChanges
from penstock.operations.gate.context import Credentials
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.tokens.browser_sign_ins import IssuedTokens
from penstock.operations.permissions.console_sessions import (
    KeptSession,
    SessionRecord,
    SessionRecords,
    TokenSession,
    token_session,
)
from penstock.operations.permissions.session_tokens import SessionTokens, SessionVault

__all__ = ["Refresher", "is_due"]

_LOGGER = logging.getLogger("penstock.console")
# Longer than a lease lasts.
_POLLS_MAX = int(2 * limits.OAUTH_REFRESH_LEASE_MS / 1000 / limits.OAUTH_REFRESH_POLL_SECONDS)


def is_due(record: SessionRecord, now_ms: int) -> bool:
    """Whether the token of a session is about to expire, and can be refreshed."""
    token = record.token
    return token is not None and record.refreshes and token.expires_at - now_ms < limits.OAUTH_TOKEN_EARLY_MS


class Refresher:
    """Refreshes the tokens of sessions."""

    def __init__(self, gate: Gate, records: SessionRecords, changes: SessionChanges, vault: SessionVault) -> None:
        self._gate = gate
        self._records = records
        self._changes = changes
        self._vault = vault
        self._running: dict[str, asyncio.Task[KeptSession | None]] = {}
        self._away_until: dict[str, int] = {}
        """By the name of an issuer that could not be asked: until when it is left alone, while tokens still hold."""

    async def refreshed(self, session: KeptSession) -> KeptSession | None:
        """Return a session with a token that holds; None if it has ended.

        Raise `Unavailable` if the token has expired and the issuer cannot renew it now.
        """
        session_id, token = session.session_id, session.record.token
        holds = token is not None and token.expires_at > self._now()
        if token is not None and holds and self._away_until.get(token.issuer, 0) > self._elapsed():
            return session
        running = self._running.get(session_id)
        if running is None:
            running = self._running[session_id] = asyncio.create_task(self._refresh(session))
            running.add_done_callback(lambda _: self._running.pop(session_id, None))
        try:
            # Shielded: a browser that leaves must not take the attempt of its other tabs along.
            return await asyncio.shield(running)
        except Unavailable:
            if token is None or not holds:
                raise
            self._away_until[token.issuer] = self._elapsed() + limits.ISSUER_REFETCH_MS
            return session

    async def _refresh(self, session: KeptSession) -> KeptSession | None:
        for _ in range(_POLLS_MAX):
            current = await self._records.find(session.tenant, session.session_id)
            if current is None or not is_due(current.record, self._now()):
                return current  # it was signed out, or another process was faster
            leased = await self._changes.amend(current, self._lease, "refreshing")
            if leased.is_ours and leased.session is not None:
                return await self._use(leased.session)
            if current.record.token is not None and current.record.token.expires_at > self._now():
                return current  # another process is at it, and this token is good for a while
            await asyncio.sleep(limits.OAUTH_REFRESH_POLL_SECONDS)
        raise Unavailable("ISSUER_UNAVAILABLE", "another process is renewing your session", "try again in a minute")

    def _lease(self, record: SessionRecord) -> SessionRecord | None:
        now, until = self._now(), record.refreshing_until_ms
        if not is_due(record, now) or (until is not None and until > now):
            return None
        return msgspec.structs.replace(record, refreshing_until_ms=now + limits.OAUTH_REFRESH_LEASE_MS)

    async def _use(self, session: KeptSession) -> KeptSession | None:
        """Use the refresh token. Whatever happens, the lease is given back or the session has ended."""
        kept = self._vault.unseal(session.tenant, session.session_id, session.record.sealed)
        try:
            tokens = await self._asked(session, kept)
            token = await self._authenticated(session, tokens)
        except Denied as error:
            _LOGGER.warning("the session %s has ended: %s", session.session_id, error.message)
            await self._changes.close(session, f"not refreshed: {error.message}")
            return None
        except BaseException:
            await self._changes.amend(session, _given_back, "not refreshed")
            raise
        # An issuer that gives no new refresh token lets the one before go on.
        renewed = SessionTokens(refresh_token=tokens.refresh_token or kept.refresh_token, id_token=kept.id_token)
        sealed = self._vault.seal(session.tenant, session.session_id, renewed)

        def change(record: SessionRecord) -> SessionRecord:
            return msgspec.structs.replace(
                record, token=token, name=token.name or record.name, sealed=sealed, refreshing_until_ms=None
            )

        stored = await self._changes.amend(session, change, "refreshed")
        if not stored.is_ours and stored.session is not None:
            _LOGGER.warning("the new tokens of the session %s could not be stored", session.session_id)
        return stored.session

    async def _asked(self, session: KeptSession, kept: SessionTokens) -> IssuedTokens:
        token = session.record.token
        flow = None if token is None else self._gate.authenticator.code_flows.get(token.issuer)
        if flow is None or kept.refresh_token is None:
            raise Denied("SIGN_IN_REFUSED", "this way to sign in was removed", "sign in again")
        return await flow.refresh(kept.refresh_token)

    async def _authenticated(self, session: KeptSession, tokens: IssuedTokens) -> TokenSession:
        """Return what the new token says; it has to be one of the same person, in the same tenant."""
        principal = await self._gate.authenticator.authenticate(Credentials(bearer=tokens.access_token))
        token, before = token_session(principal), session.record.token
        is_same = (
            token is not None
            and before is not None
            and (token.issuer, token.subject) == (before.issuer, before.subject)
            and (principal.id, principal.tenant) == (session.record.principal, session.tenant)
        )
        if token is None or not is_same:
            raise Denied("SIGN_IN_REFUSED", "the new token belongs to another person or tenant", "sign in again")
        return token

    def _now(self) -> int:
        return self._gate.services.clock.now_ms()

    def _elapsed(self) -> int:
        return self._gate.services.clock.elapsed_ms()


def _given_back(record: SessionRecord) -> SessionRecord:
    return msgspec.structs.replace(record, refreshing_until_ms=None)
