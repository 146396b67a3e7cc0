"""What was granted to us at other MCP servers, as it is stored: one encrypted row for each server.

A row has the grant, the sign-in that somebody has begun, and the lease of the process that renews the grant now:
refresh tokens often work only once, and several processes may share a store. Every change of a row names the version
that it was based on. Rows are cached only while the store reports no change.

Grants belong to the operator, like the headers in the settings. Every tenant that may use a server uses its grant.

Above it: `bearers`, `sign_ins`; what they store passes the gate. Below it: `vault`, the platform port.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from penstock.base.clock import Clock
from penstock.base.encoding import encode_bytes
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord, ResourceChanged, ResourceRow, body_etag
from penstock.runtime.ports.topics import Mark, Topic
from penstock.runtime.tables.resources import delete_resource, put_resource, read_resource
from penstock.runtime.upstreams.oauth.model import Grant, PendingSignIn
from penstock.runtime.upstreams.oauth.vault import TokenVault

__all__ = ["KEEP_GRANT", "Act", "GrantStore", "KeptGrant"]

KEEP_GRANT: Final = "upstream.keep_grant"
Act: TypeAlias = Callable[[str, str, JsonObject], Awaitable[Any]]
"""Makes a call of the gate in a tenant, as the part of the process that deals with other servers."""

_KIND: Final = "upstream_grant"


class KeptGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored for one server."""

    grant: Grant | None = None
    pending: PendingSignIn | None = None
    refreshing_until: int | None = None

    def __repr__(self) -> str:
        return "KeptGrant(…)"


@dataclass(frozen=True, slots=True)
class _Read:
    kept: KeptGrant
    etag: str | None
    """None if nothing is stored."""


@dataclass(slots=True, kw_only=True)
class GrantStore:
    """The rows. Without a store (in a process that only reads) it has no rows."""

    platform: Database
    clock: Clock
    vault: TokenVault
    act: Act
    _cached: dict[str, _Read] = field(default_factory=dict)
    _mark: Mark = ()
    _unsaved: dict[str, tuple[KeptGrant, str | None, str]] = field(default_factory=dict)
    _saved: set[str] = field(default_factory=set)

    async def read(self, server: str) -> KeptGrant:
        """What is stored for a server."""
        return (await self._read(server)).kept

    async def put(self, server: str, kept: KeptGrant, *, instead_of: KeptGrant, call: CallRecord) -> bool:
        """Store something in place of what was read, with the record of a call; False if that has changed."""
        found = await self._read(server)
        if found.kept != instead_of:
            return False
        return await self._put(server, kept, found.etag, call)

    async def put_through_gate(self, server: str, kept: KeptGrant, *, instead_of: KeptGrant, change: str) -> bool:
        """Do the same with a call of our own."""
        found = await self._read(server)
        if found.kept != instead_of:
            return False
        self._unsaved[server] = (kept, found.etag, change)
        self._saved.discard(server)
        await self.act(DEFAULT_TENANT, KEEP_GRANT, {"server": server})
        return server in self._saved

    async def keep(self, server: str, call: CallRecord) -> bool:
        """Store what `put_through_gate` has prepared: the handler of its call."""
        prepared = self._unsaved.pop(server, None)
        if prepared is None:
            return False
        kept, etag, change = prepared
        call.about(None, change=change)
        done = await self._put(server, kept, etag, call)
        if done:
            self._saved.add(server)
        return done

    async def delete(self, server: str, call: CallRecord) -> None:
        """Forget everything about a server."""
        found = await self._read(server)
        self._cached.pop(server, None)
        if found.etag is not None:
            await delete_resource(self.platform, DEFAULT_TENANT, _KIND, server, expected_etag=found.etag, call=call)

    async def _read(self, server: str) -> _Read:
        mark = self.platform.changed(Topic.GRANTS)
        if mark != self._mark:
            self._mark = mark
            self._cached.clear()
        known = self._cached.get(server)
        if known is not None:
            return known
        row = await read_resource(self.platform, DEFAULT_TENANT, _KIND, server)
        found = _Read(self._opened(server, row), None if row is None else row.etag)
        if mark == self._mark:
            self._cached[server] = found
        return found

    def _opened(self, server: str, row: ResourceRow | None) -> KeptGrant:
        content = None if row is None else self.vault.unseal(DEFAULT_TENANT, server, row.body.get("sealed"))
        if content is None:
            return KeptGrant()  # nobody has signed in, or with another secret of this server
        try:
            return msgspec.json.decode(content, type=KeptGrant)
        except msgspec.MsgspecError:
            return KeptGrant()  # of a version that keeps something else

    async def _put(self, server: str, kept: KeptGrant, etag: str | None, call: CallRecord) -> bool:
        body: JsonObject = {"sealed": self.vault.seal(DEFAULT_TENANT, server, encode_bytes(kept))}
        now = self.clock.now_ms()
        row = ResourceRow(
            tenant=DEFAULT_TENANT,
            kind=_KIND,
            resource_id=server,
            body=body,
            etag=body_etag(body),
            created_at=now,
            updated_at=now,
            updated_by=None,
        )
        outcome = await put_resource(self.platform, row, expected_etag=etag, call=call)
        self._cached.pop(server, None)
        return not isinstance(outcome, ResourceChanged)
