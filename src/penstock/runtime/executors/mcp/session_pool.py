"""The pool of sessions with MCP servers: opened when needed, limited in number, closed when idle.

A question of an older server over an open connection need not name its call, and a process remembers what it received.
So calls of different tenants, or on behalf of different principals, never share a session or a process. Over HTTP,
servers of the newest era ask only in their answers, so one session serves everybody. A session that was opened to list
the tools, and has carried no call yet, is given to the first caller.

Above it: `executor`, `tool_listing`. Below it: `session`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from mcp.client.client import Client

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.runtime.executors.mcp.config import McpServerConfig
from penstock.runtime.executors.mcp.session import McpSession, SessionOptions, SessionOwner, ToolLister
from penstock.runtime.upstreams.lending import Lending

__all__ = ["McpSessionPool"]


class McpSessionPool:
    """Open sessions by server name and owner."""

    def __init__(
        self,
        servers: Mapping[str, McpServerConfig],
        *,
        idle_seconds: float = limits.MCP_IDLE_SECONDS_MAX,
        looks: Mapping[str, ToolLister] | None = None,
    ) -> None:
        self.servers = servers
        self.idle_seconds = idle_seconds
        self._looks = looks or {}
        self._open: dict[str, list[McpSession]] = {}
        """In order of last use, the most recent last."""
        self._alive: set[McpSession] = set()
        self._freed = asyncio.Event()

    def sessions(self, name: str) -> list[McpSession]:
        """The open sessions of a server."""
        return [connection for connection in self._open.get(name, ()) if not connection.retired]

    @asynccontextmanager
    async def borrow(self, name: str, owner: SessionOwner | None = None) -> AsyncIterator[tuple[McpSession, Client]]:
        """Return a session of a server for an owner, opening one if needed.

        Raises what the server or the library raises.

        Without an owner, any session is returned: for callers that only list the tools.
        """
        connection, client = await self._lent(name, owner)
        try:
            yield connection, client
        except BaseException:
            connection.mark_doubtful()
            raise
        finally:
            self._returned(connection)

    async def close(self) -> None:
        """Close every session; servers that were started are stopped."""
        self._open.clear()
        await asyncio.gather(*(connection.close() for connection in tuple(self._alive)))

    async def _lent(self, name: str, owner: SessionOwner | None) -> tuple[McpSession, Client]:
        while True:
            connection = self._find_usable(name, owner)
            if connection is None and await self._make_room(name, owner):
                continue
            connection = connection or self._opened(name, owner)
            connection.acquire()
            try:
                client = await connection.client()
            except BaseException:
                self._returned(connection)
                raise
            if owner is None or connection.shared or connection.owner in (None, owner):
                if owner is not None and not connection.shared:
                    connection.owner = owner
                return connection, client
            self._returned(connection)  # the server is an older one, and another owner was faster

    def _find_usable(self, name: str, owner: SessionOwner | None) -> McpSession | None:
        """An open session that an owner may use, as far as that is known by now."""
        found = [connection for connection in self.sessions(name) if connection.accepts_calls()]
        if owner is None:
            return next(iter(found), None)
        # A session declares what its server is lent, so tenants for whom that differs do not share one.
        lending = self._lending(name, owner)
        found = [connection for connection in found if connection.lending == lending]
        for connection in found:
            if connection.shared or connection.owner == owner:
                return connection
        unowned = next((connection for connection in found if connection.owner is None), None)
        if unowned is not None and unowned.config.url is None:
            unowned.owner = owner
        return unowned

    def _opened(self, name: str, owner: SessionOwner | None) -> McpSession:
        config = self.servers[name]
        # Over HTTP a session gets an owner once its server turns out to be an older one.
        session_owner = owner if config.url is None else None
        options = SessionOptions(look=self._looks.get(name), owner=session_owner, lending=self._lending(name, owner))
        connection = McpSession(name, config, self._ended, options)
        self._open[name] = [*self.sessions(name), connection]
        self._alive.add(connection)
        return connection

    def _lending(self, name: str, owner: SessionOwner | None) -> Lending | None:
        return None if owner is None else self.servers[name].lent_to(owner[0])

    async def _make_room(self, name: str, owner: SessionOwner | None) -> bool:
        """Make room for one more session. True if that took time in which others may have opened one."""
        if not self._is_full(name, owner):
            return False
        try:
            async with asyncio.timeout(limits.UPSTREAM_SESSION_WAIT_SECONDS_MAX):
                while self._is_full(name, owner):
                    idle = self._idle_session(name, owner)
                    if idle is not None:
                        idle.retire()
                        continue
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            message = f"{name}: all connections are in use"
            raise Unavailable("MCP_SERVER_BUSY", message, "try again later") from None
        return True

    def _is_full(self, name: str, owner: SessionOwner | None) -> bool:
        found = self.sessions(name)
        return len(found) >= limits.UPSTREAM_SESSIONS_MAX or self._is_at_share_limit(found, owner)

    def _is_at_share_limit(self, found: list[McpSession], owner: SessionOwner | None) -> bool:
        """True if a tenant has as many sessions as it may have."""
        return len(_of_tenant(found, owner)) >= limits.UPSTREAM_SESSIONS_PER_TENANT_MAX

    def _idle_session(self, name: str, owner: SessionOwner | None) -> McpSession | None:
        """The least recently used session that nobody uses now, to be closed."""
        found = self.sessions(name)
        candidates = _of_tenant(found, owner) if self._is_at_share_limit(found, owner) else found
        return next((connection for connection in candidates if connection.borrowed == 0), None)

    def _returned(self, connection: McpSession) -> None:
        connection.release(self.idle_seconds)
        found = self._open.get(connection.name, [])
        if connection in found:
            found.remove(connection)
            found.append(connection)
        self._freed.set()

    def _ended(self, connection: McpSession) -> None:
        self._alive.discard(connection)
        self._freed.set()


def _of_tenant(found: list[McpSession], owner: SessionOwner | None) -> list[McpSession]:
    return [item for item in found if owner is not None and item.owner is not None and item.owner[0] == owner[0]]
