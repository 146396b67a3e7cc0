"""Takes the refresh tokens of sessions that end back at their issuer (RFC 7009).

The session has ended by then, whatever the issuer says: nobody waits for it, and a failure is a line in the log.

Above it: `sessions`. Below it: the flow at the issuer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from penstock.base.errors import PenstockError
from penstock.operations.gate.pipeline import Gate
from penstock.operations.permissions.console_sessions import KeptSession
from penstock.operations.permissions.session_tokens import SessionVault

__all__ = ["Revoker"]

_LOGGER = logging.getLogger("penstock.console")


class Revoker:
    """Revokes refresh tokens in the background."""

    def __init__(self, gate: Gate, vault: SessionVault) -> None:
        self._gate = gate
        self._vault = vault
        self._running: set[asyncio.Task[None]] = set()

    def revoke(self, session: KeptSession) -> None:
        """Begin to revoke the refresh token of a session that has ended; nothing if it has none."""
        token = session.record.token
        kept = self._vault.unseal(session.tenant, session.session_id, session.record.sealed)
        flow = None if token is None else self._gate.authenticator.code_flows.get(token.issuer)
        if flow is None or kept.refresh_token is None:
            return
        # Bounded by the client that asks issuers.
        running = asyncio.create_task(self._revoke(session.session_id, flow.revoke(kept.refresh_token)))
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def _revoke(self, session_id: str, revoking: Awaitable[str | None]) -> None:
        try:
            problem = await revoking
        except PenstockError as error:
            problem = error.message
        if problem is not None:
            _LOGGER.warning("the refresh token of the session %s was not revoked: %s", session_id, problem)
