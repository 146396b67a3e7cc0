"""Sessions of the console as they are stored: what somebody signed in with, from where, and since when.

A session that was begun with a key has the rights of the key. Of a token there is nothing to look up later: the session
keeps what the token said, and ends with it, unless the issuer gave something to refresh it with. A person who signs out
everywhere ends all sessions that were begun before.

Above it: the console, the operations on sessions. Below it: the platform port.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from secrets import token_hex
from typing import Any

import msgspec

from penstock.base import limits
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.base.lru_cache import CurrentValues
from penstock.governance.principals import KeyKind, Principal, TokenReference
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import KeyRow, ResourceRow, body_etag
from penstock.runtime.ports.topics import Topic
from penstock.runtime.tables.api_keys import read_key
from penstock.runtime.tables.resources import list_all_resources, list_resources, read_resource

__all__ = [
    "LOGOUT_KIND",
    "SESSION_KIND",
    "SIGN_OUT_KIND",
    "KeptSession",
    "SessionRecord",
    "SessionRecords",
    "TokenSession",
    "ended_before_ms",
    "new_session_id",
    "record_of",
    "session_row",
    "sessions_of",
    "sessions_prefix",
    "sign_out_id",
    "token_session",
]

SIGN_OUT_KIND = "console_sign_out"
SESSION_KIND = "console_session"
LOGOUT_KIND = "console_logout"
"""Logout tokens of issuers that were used."""


class TokenSession(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What an access token said when somebody signed in with it."""

    principal_id: str
    kind: KeyKind
    scopes: list[str]
    groups: list[str]
    name: str
    attributes: dict[str, Any]
    issuer: str
    subject: str
    expires_at: int
    token_id: str | None

    def reference(self, tenant: str) -> TokenReference:
        """Return the token, by what is known of it."""
        return TokenReference(
            issuer=self.issuer,
            subject=self.subject,
            tenant=tenant,
            expires_at=self.expires_at,
            token_id=self.token_id,
        )

    def principal(self, tenant: str) -> Principal:
        """Return the principal that the token stood for."""
        token = self.reference(tenant)
        return Principal(
            id=self.principal_id,
            tenant=tenant,
            kind=self.kind,
            scopes=frozenset(self.scopes),
            groups=frozenset(self.groups),
            name=self.name,
            attributes=self.attributes,
            credential=token.name,
            token=token,
        )


def token_session(principal: Principal) -> TokenSession | None:
    """Return what the token of a principal said; None if it has none."""
    token, kind = principal.token, principal.kind
    if token is None or kind not in ("person", "agent", "service"):
        return None
    return TokenSession(
        principal_id=principal.id,
        kind=kind,
        scopes=sorted(principal.scopes),
        groups=sorted(principal.groups),
        name=principal.name,
        attributes=dict(principal.attributes),
        issuer=token.issuer,
        subject=token.subject,
        expires_at=token.expires_at,
        token_id=token.token_id,
    )


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is stored of a session. Times are epoch milliseconds."""

    principal: str
    name: str
    began_ms: int
    used_ms: int
    """When it was last used, as far as that is stored: when the server last replaced its cookie."""
    turn: int = 0
    """How often the server replaced its cookie; each cookie says which one it is."""
    key_id: str | None = None
    token: TokenSession | None = None
    process: str | None = None
    """The process whose one-time link was used; the session ends with it."""
    browser: str | None = None
    remote: str | None = None
    sealed: str | None = None
    """The tokens that the issuer gave for the session, encrypted."""
    id_subject: str | None = None
    """Who signed in, as the ID token calls them (`sub`); logout tokens use the same name."""
    sid: str | None = None
    """The sign-in at the issuer, as the ID token calls it."""
    refreshes: bool = False
    """Whether one of them is a refresh token."""
    refreshing_until_ms: int | None = None
    """Until when one process has the sole right to use it."""

    @property
    def ends_at_ms(self) -> int:
        """When it ends at the latest, however much it is used."""
        longest = self.began_ms + limits.CONSOLE_SESSION_MAX_MS
        return longest if self.token is None or self.refreshes else min(longest, self.token.expires_at)

    @property
    def until_ms(self) -> int:
        """When it ends unless it is used."""
        return min(self.used_ms + limits.CONSOLE_SESSION_IDLE_MS, self.ends_at_ms)


def record_of(body: JsonObject) -> SessionRecord | None:
    """Return the session in a stored body; None if another version stored something else there."""
    try:
        return msgspec.convert(body, SessionRecord)
    except msgspec.ValidationError:
        return None


def session_row(tenant: str, session_id: str, record: SessionRecord, by: str) -> ResourceRow:
    """Return a session as the store takes it."""
    body: JsonObject = msgspec.to_builtins(record)
    return ResourceRow(
        tenant=tenant,
        kind=SESSION_KIND,
        resource_id=session_id,
        body=body,
        etag=body_etag(body),
        created_at=record.began_ms,
        updated_at=record.used_ms,
        updated_by=by,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSession:
    """A session as it was read, with what else decides whether it counts."""

    tenant: str
    session_id: str
    record: SessionRecord
    etag: str
    signed_out_ms: int | None
    """When its principal last signed out everywhere."""
    key: KeyRow | None
    """The key that it was begun with."""

    def has_ended(self, now_ms: int) -> bool:
        """Whether it is over, by its own time or because its principal signed out everywhere."""
        record = self.record
        return record.until_ms <= now_ms or (self.signed_out_ms is not None and record.began_ms <= self.signed_out_ms)


class SessionRecords:
    """Looks sessions up: again after any process changed a session or a key."""

    def __init__(self, platform: Database) -> None:
        self._platform = platform
        self._known: CurrentValues[tuple[str, str], KeptSession] = CurrentValues(
            partial(platform.changed, Topic.SESSIONS, Topic.KEYS), limits.CONSOLE_SESSIONS_CACHED
        )

    async def find(self, tenant: str, session_id: str) -> KeptSession | None:
        """Return a session; None if it does not exist: it has ended, or never was."""
        known = self._known.at_hand()
        found = known.get((tenant, session_id))
        if found is None:
            row = await read_resource(self._platform, tenant, SESSION_KIND, session_id)
            found = None if row is None else await self.kept(row)
            if found is not None:
                known.put((tenant, session_id), found)
        return found

    async def list_all(self) -> list[KeptSession]:
        """Return every session of every tenant that can be read."""
        rows = await list_all_resources(self._platform, SESSION_KIND)
        return [kept for row in rows if (kept := await self.kept(row)) is not None]

    async def knows_logout(self, logout_id: str) -> bool:
        """Whether a logout token was used before."""
        return await read_resource(self._platform, DEFAULT_TENANT, LOGOUT_KIND, logout_id) is not None

    async def kept(self, row: ResourceRow) -> KeptSession | None:
        """Return a session with what decides whether it counts."""
        record = record_of(row.body)
        if record is None:
            return None
        key = None if record.key_id is None else await read_key(self._platform, record.key_id)
        return KeptSession(
            tenant=row.tenant,
            session_id=row.resource_id,
            record=record,
            etag=row.etag,
            signed_out_ms=await ended_before_ms(self._platform, row.tenant, record.principal),
            key=key if key is not None and key.tenant == row.tenant else None,
        )


async def sessions_of(platform: Database, tenant: str, principal_id: str) -> list[ResourceRow]:
    """Return all sessions of a principal."""
    found: list[ResourceRow] = []
    cursor: str | None = None
    while True:
        page = await list_resources(
            platform,
            tenant,
            SESSION_KIND,
            limit=limits.PAGE_LIMIT_MAX,
            cursor=cursor,
            prefix=sessions_prefix(principal_id),
        )
        found.extend(row for row in page.rows if row.body.get("principal") == principal_id)
        cursor = page.next_cursor
        if cursor is None:
            return found


def new_session_id(principal_id: str) -> str:
    """Return the id of a new session. It does not have to be secret, because the server signs the cookie."""
    return f"{sessions_prefix(principal_id)}{token_hex(12)}"


def sessions_prefix(principal_id: str) -> str:
    """Return how the ids of a principal's sessions begin, so that they are found together."""
    return f"{sign_out_id(principal_id)[:12]}-"


def sign_out_id(principal_id: str) -> str:
    """Return the id under which it is stored that a principal signed out everywhere."""
    return sha256(principal_id.encode()).hexdigest()[:32]


async def ended_before_ms(platform: Database, tenant: str, principal_id: str) -> int | None:
    """Return when a principal last signed out everywhere: sessions that were begun before have ended.

    If the stored time cannot be read, every session has ended.
    """
    row = await read_resource(platform, tenant, SIGN_OUT_KIND, sign_out_id(principal_id))
    if row is None:
        return None
    found = row.body.get("before_ms")
    return found if isinstance(found, int) and not isinstance(found, bool) else sys.maxsize
