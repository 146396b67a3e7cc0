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

        Returns the conversations with agents that you started, by id; nobody else sees them here.
        """
        return await self._caller.invoke("session.list", {"limit": limit, "cursor": cursor}, SessionPage)

    async def list_all(self, *, limit: int | None = None) -> AsyncIterator[SessionView]:
        """List your sessions: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages("session.list", {"limit": limit}, SessionPage):
            for item in page.items:
                yield item

    async def get(self, session_id: str, *, before: int | None = None, limit: int | None = None) -> SessionDetail:
        """Read one of your sessions.

        Returns its messages, oldest first: each with the answer, or with the status of the run that answers it.
        """
        return await self._caller.invoke(
            "session.get", {"session_id": session_id, "before": before, "limit": limit}, SessionDetail
        )

    async def end(self, session_id: str, *, idempotency_key: str | None = None) -> SessionView:
        """End one of your sessions.

        It accepts no further messages, and stays readable as long as its runs are kept. Refused while a message has
        no answer.
        """
        return await self._caller.invoke(
            "session.end", {"session_id": session_id}, SessionView, idempotency_key=idempotency_key
        )
