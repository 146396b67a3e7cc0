"""Operations on session, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.session import SessionDetail, SessionPage, SessionView

__all__ = ["AsyncSessions"]


class AsyncSessions:
    """Operations on session."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> SessionPage:
        """List your sessions.

        Conversations with agents that you began, by id; nobody else sees them here.
        """
        return await self._caller.invoke("session.list", {"limit": limit, "cursor": cursor}, SessionPage)

    async def list_all(self, *, limit: int | None = None) -> AsyncIterator[SessionView]:
        """List your sessions: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages("session.list", {"limit": limit}, SessionPage):
            for item in page.items:
                yield item

    async def get(self, session_id: str, *, before: int | None = None, limit: int | None = None) -> SessionDetail:
        """Read a session of yours.

        What was said in it, oldest first: each message with the answer, or how the execution that answers it
        stands.
        """
        return await self._caller.invoke(
            "session.get", {"session_id": session_id, "before": before, "limit": limit}, SessionDetail
        )

    async def end(self, session_id: str, *, idempotency_key: str | None = None) -> SessionView:
        """End a session of yours.

        No further message is accepted; it can be read as long as its executions are kept. Refused while a message
        is not answered.
        """
        return await self._caller.invoke(
            "session.end", {"session_id": session_id}, SessionView, idempotency_key=idempotency_key
        )
