"""Operations on console_session, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.console_session import ConsoleSession, ConsoleSessionPage
from penstock.client.generated.views.shared import Deleted

__all__ = ["AsyncConsoleSessions"]


class AsyncConsoleSessions:
    """Operations on console_session."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def list(
        self, *, everybody: bool | None = None, limit: int | None = None, cursor: str | None = None
    ) -> ConsoleSessionPage:
        """List your sessions of the console.

        These are the browsers in which you are signed in: when and how you signed in, and when and from where the
        session was last used. With `key:read`, it lists the sessions of everybody in the tenant.
        """
        return await self._caller.invoke(
            "console_session.list", {"everybody": everybody, "limit": limit, "cursor": cursor}, ConsoleSessionPage
        )

    async def list_all(
        self, *, everybody: bool | None = None, limit: int | None = None
    ) -> AsyncIterator[ConsoleSession]:
        """List your sessions of the console: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages(
            "console_session.list", {"everybody": everybody, "limit": limit}, ConsoleSessionPage
        ):
            for item in page.items:
                yield item

    async def end(self, console_session_id: str, *, idempotency_key: str | None = None) -> Deleted:
        """End a session of the console.

        The browser is signed out with its next request. You can end your own sessions, and with `key:write` any
        session of the tenant. Keys and tokens stay valid.
        """
        return await self._caller.invoke(
            "console_session.end", {"console_session_id": console_session_id}, Deleted, idempotency_key=idempotency_key
        )
