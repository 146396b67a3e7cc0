"""The address at which an issuer says that somebody has signed out there (OpenID Connect Back-Channel Logout 1.0).

Nobody is signed in here: what counts is the signature of the logout token. It ends the sessions that were begun with
the same sign-in at the issuer, or all of that person, and does nothing else. A token that was seen before is refused,
also by another process and after a restart.

Above it: `surface`. Below it: `changes`, the flow at the issuer, the gate.
"""

from __future__ import annotations

import asyncio
import json
import logging
from hashlib import sha256

from starlette.types import Receive, Scope, Send

from penstock.asgi import remote_of, send_body
from penstock.asgi.forms import read_form
from penstock.asgi.refusals import note_refusal
from penstock.base import limits
from penstock.base.errors import Denied, LimitExceeded, NotFound, PenstockError, Rejected, Unavailable
from penstock.console.sessions.changes import SessionChanges
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.rates.sign_ins import SignInLimits
from penstock.operations.gate.tokens.browser_sign_ins import EndedSignIn
from penstock.operations.permissions.console_sessions import (
    KeptSession,
    SessionRecord,
    SessionRecords,
)

__all__ = ["BACK_CHANNEL", "BackChannel"]

_LOGGER = logging.getLogger("penstock.console")
BACK_CHANNEL = "/console/back-channel-logout"
_REASON = "signed out at the issuer"


class BackChannel:
    """Takes logout tokens, one at a time."""

    def __init__(self, gate: Gate, records: SessionRecords, changes: SessionChanges) -> None:
        self._gate = gate
        self._records = records
        self._changes = changes
        self._limits = SignInLimits(gate.services.clock)
        self._turn = asyncio.Lock()  # a token is compared with every session

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a logout token, and say whether it counted."""
        scope.setdefault("state", {})
        try:
            ended = await self._taken(scope, receive)
        except PenstockError as error:
            note_refusal(scope, error)
            if isinstance(error, Denied):
                self._limits.failed(remote_of(scope))
            _LOGGER.warning("a logout token was refused: %s", error.message)
            await _answer(send, error)
            return
        _LOGGER.info("an issuer ended %d sessions of the console", ended)
        await _answer(send, None)

    async def _taken(self, scope: Scope, receive: Receive) -> int:
        name = str(scope.get("path_params", {}).get("issuer", ""))
        flow = self._gate.authenticator.code_flows.get(name)
        if flow is None or not flow.browser.takes_logouts:
            raise NotFound("ISSUER_UNKNOWN", "no issuer signs anybody out at this address")
        if scope["method"] != "POST":
            raise Rejected("METHOD_NOT_ALLOWED", "a logout token is sent with POST")
        self._limits.check(remote_of(scope))
        form = await read_form(scope, receive, limits.LOGOUT_FORM_BYTES_MAX)
        tokens = form.get("logout_token", [])
        if len(tokens) != 1:
            raise Rejected("MALFORMED_REQUEST", "the form must have one field `logout_token`")
        logout = await flow.ended(tokens[0])
        async with self._turn:
            return await self._end(scope, name, logout)

    async def _end(self, scope: Scope, issuer: str, logout: EndedSignIn) -> int:
        seen = _seen_id(issuer, logout)
        if await self._records.knows_logout(seen):
            raise _replayed()
        matching = [kept for kept in await self._records.list_all() if _is_meant(kept, issuer, logout)]
        for kept in matching:
            await self._changes.close(kept, _REASON, scope=scope)
        # Last: if this process dies in between, the issuer may send the token again. Ending twice does no harm.
        if not await self._changes.note_logout(scope, seen, issuer=issuer, ended=len(matching)):
            raise _replayed()
        return len(matching)


def _seen_id(issuer: str, logout: EndedSignIn) -> str:
    return sha256(f"{issuer} {logout.token_id}".encode()).hexdigest()[:40]


def _is_meant(kept: KeptSession, issuer: str, logout: EndedSignIn) -> bool:
    """Whether a session was begun with the sign-in that has ended.

    A session whose ID token did not name the sign-in ends with any sign-in of the person, because it could be any of
    them.
    """
    record: SessionRecord = kept.record
    if record.token is None or record.token.issuer != issuer:
        return False
    is_theirs = logout.subject is None or record.id_subject == logout.subject
    if logout.session is None or (record.sid is None and logout.subject is not None):
        return is_theirs
    return is_theirs and record.sid == logout.session


def _replayed() -> Denied:
    return Denied("LOGOUT_TOKEN_INVALID", "the logout token was used before (`jti`)")


def _status_of(error: PenstockError) -> int:
    match error:
        case NotFound():
            return 404
        case LimitExceeded():
            return 429
        case Unavailable():
            return 503
        case _:
            return 400


async def _answer(send: Send, error: PenstockError | None) -> None:
    """Answer as the standard has it: 200 with nothing, or an error of OAuth. Nothing of the token is repeated."""
    status, body = 200, b""
    headers = [(b"cache-control", b"no-store"), (b"content-type", b"application/json")]
    if error is not None:
        status = _status_of(error)
        body = json.dumps({"error": "invalid_request", "error_description": error.message}).encode()
        seconds = (error.details or {}).get("retry_after_seconds")
        if isinstance(seconds, int):
            headers.append((b"retry-after", str(seconds).encode()))
    await send_body(send, status, [*headers, (b"content-length", str(len(body)).encode())], body)
