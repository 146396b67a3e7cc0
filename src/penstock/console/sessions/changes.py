"""Changes of sessions, stored through the gate: they begin, change concurrently, and are closed.

Above it: `sessions`, `refreshing`. Below it: the internal calls of `operations.keys.console_sessions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from starlette.types import Scope

from penstock.asgi import HttpOrigin, remote_of, request_id_of
from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.context import Principal, Request
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate, RefusedCall
from penstock.operations.keys.console_sessions import (
    BEGIN_SESSION,
    CLOSE_SESSION,
    NOTE_LOGOUT,
    RENEW_SESSION,
    LogoutNoted,
    SessionRenewed,
)
from penstock.operations.permissions.console_sessions import KeptSession, SessionRecord, SessionRecords

__all__ = ["Amended", "SessionChanges"]


class Amended(NamedTuple):
    """The outcome of a change."""

    session: KeptSession | None
    """The session as it is now; None if it has ended."""
    is_ours: bool
    """Whether it was this change that was stored."""


class SessionChanges:
    """Changes what is stored of sessions."""

    def __init__(self, gate: Gate, records: SessionRecords) -> None:
        self._gate = gate
        self._records = records

    async def begin(self, scope: Scope, principal: Principal, session_id: str, record: SessionRecord) -> None:
        """Store a new session, on behalf of the person who signs in."""
        given: JsonObject = {"session_id": session_id, "record": msgspec.to_builtins(record)}
        await self._call(scope, principal, BEGIN_SESSION, given)

    async def amend(
        self, session: KeptSession, change: Callable[[SessionRecord], SessionRecord | None], words: str
    ) -> Amended:
        """Change a session as it is by then: others may change it at the same time. None changes nothing."""
        current: KeptSession | None = session
        for _ in range(limits.CONSOLE_SESSION_WRITES_MAX):
            current = await self._records.find(session.tenant, session.session_id)
            record = None if current is None else change(current.record)
            if current is None or record is None:
                return Amended(current, is_ours=False)
            given: JsonObject = {
                "session_id": session.session_id,
                "etag": current.etag,
                "record": msgspec.to_builtins(record),
                "change": words,
            }
            console = system_principal("console", "key:write", tenant=session.tenant)
            renewed: SessionRenewed = await internal_call(self._gate, console, RENEW_SESSION, given)
            if renewed.stored:
                return Amended(await self._records.find(session.tenant, session.session_id), is_ours=True)
        return Amended(current, is_ours=False)

    async def close(
        self, session: KeptSession, reason: str, *, scope: Scope | None = None, by: Principal | None = None
    ) -> None:
        """End a session, on behalf of the person who signs out or of the console itself."""
        closing = by or system_principal("console", tenant=session.tenant)
        given: JsonObject = {"session_id": session.session_id, "reason": reason}
        await self._call(scope, closing, CLOSE_SESSION, given)

    async def note_logout(self, scope: Scope, logout_id: str, *, issuer: str, ended: int) -> bool:
        """Store that a logout token was used; return whether it was used for the first time."""
        given: JsonObject = {"logout_id": logout_id, "issuer": issuer, "ended": ended}
        noted: LogoutNoted = await self._call(scope, system_principal("console", "key:write"), NOTE_LOGOUT, given)
        return noted.is_new

    async def _call(self, scope: Scope | None, principal: Principal, operation: str, given: JsonObject) -> Any:
        """Make an internal call that records from where it was caused; return its answer."""
        outcome = await self._gate.call(
            Request(
                operation=operation,
                arguments=given,
                principal=principal,
                surface="system",
                request_id=self._gate.services.new_id() if scope is None else request_id_of(scope),
                remote=None if scope is None else remote_of(scope),
                origin=None if scope is None else HttpOrigin(scope),
            )
        )
        if isinstance(outcome, RefusedCall):
            raise outcome.error
        assert isinstance(outcome.reply, Reply)  # none of these calls answers with a stream
        return outcome.reply.value
