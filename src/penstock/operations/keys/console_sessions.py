"""Sessions of the console: who lists and ends them; and the internal calls that begin, renew and close them.

Everybody sees and ends their own. Those of others in the tenant need the scopes that keys of others need. The console
itself begins sessions, replaces their cookies and refreshes their tokens, and closes those that were signed out, that
somebody else uses too, or that the issuer refuses. Retention forgets those that are over.

Above it: the catalogue, the console, `app.retention`. Below it: `permissions.console_sessions`, the platform port.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Denied, NotFound, PenstockError
from penstock.base.json import JsonObject
from penstock.base.scopes import scope_allows
from penstock.operations.catalogue.capability import Capability, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Deleted, Limit, instant
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.gate.tokens.revocations import Revocations
from penstock.operations.permissions.console_sessions import (
    LOGOUT_KIND,
    SESSION_KIND,
    KeptSession,
    SessionRecord,
    SessionRecords,
    record_of,
    session_row,
    sessions_of,
    sessions_prefix,
)
from penstock.runtime.ports.platform import ANY_ETAG, ResourceChanged, ResourcePut, ResourceRow, body_etag
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.tables.resources import (
    delete_resource,
    list_all_resources,
    list_resources,
    put_resource,
    read_resource,
    write_deletions,
    write_resource,
)

__all__ = [
    "BEGIN_SESSION",
    "CLOSE_SESSION",
    "FORGET_SESSIONS",
    "NOTE_LOGOUT",
    "OPERATIONS",
    "RENEW_SESSION",
    "ForgottenSessions",
    "LogoutNoted",
    "SessionRenewed",
]

BEGIN_SESSION: Final = "console_session.begin"
RENEW_SESSION: Final = "console_session.renew"
CLOSE_SESSION: Final = "console_session.close"
FORGET_SESSIONS: Final = "console_session.forget"
NOTE_LOGOUT: Final = "console_session.note_logout"
_READ_OTHERS = "key:read"
_END_OTHERS = "key:write"


class ConsoleSession(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that is signed in."""

    id: str
    principal: str
    name: str
    signed_in_with: Literal["key", "issuer", "link"]
    issuer: str | None
    key_id: str | None
    browser: str | None
    remote: str | None
    began_at: str | None
    last_used_at: str | None
    """To a quarter of an hour."""
    ends_at: str | None
    """When the session expires if it is not used."""


class ConsoleSessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions. More pages may follow a page with fewer sessions than requested."""

    items: list[ConsoleSession]
    next_cursor: str | None


class ListConsoleSessions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose, and which page."""

    everybody: Annotated[bool, Meta(description=f"Those of everybody in the tenant; needs `{_READ_OTHERS}`.")] = False
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class OneConsoleSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which session."""

    console_session_id: Annotated[
        str, Meta(description="The id of the session, as listed.", min_length=1, max_length=64)
    ]


def _view(session_id: str, record: SessionRecord) -> ConsoleSession:
    token = record.token
    return ConsoleSession(
        id=session_id,
        principal=record.principal,
        name=record.name,
        signed_in_with="issuer" if token is not None else "key" if record.key_id is not None else "link",
        issuer=None if token is None else token.issuer,
        key_id=record.key_id,
        browser=record.browser,
        remote=record.remote,
        began_at=instant(record.began_ms),
        last_used_at=instant(record.used_ms),
        ends_at=instant(record.until_ms),
    )


async def _counts(kept: KeptSession, now_ms: int, revocations: Revocations) -> bool:
    """Whether somebody who comes with the session would be let in, as far as the store knows."""
    record, key = kept.record, kept.key
    if kept.has_ended(now_ms):
        return False
    if record.token is not None:
        return not await revocations.is_revoked(record.token.reference(kept.tenant))
    if record.key_id is None:
        return True
    return key is not None and key.revoked_at is None and (key.expires_at is None or key.expires_at > now_ms)


@operation(
    "console_session.list",
    route=Route(method="GET", path="/console-sessions", query=("everybody", "limit", "cursor")),
    scopes=(),
    reads=True,
    bucket="admin",
    errors=("INVALID_LIST_CURSOR", "SCOPE_REQUIRED"),
)
async def console_session_list(context: Context, given: ListConsoleSessions) -> ConsoleSessionPage:
    """List your sessions of the console.

    These are the browsers in which you are signed in: when and how you signed in, and when and from where the session
    was last used. With `key:read`, it lists the sessions of everybody in the tenant.
    """
    if given.everybody and not scope_allows(context.principal.scopes, _READ_OTHERS):
        message = f"the sessions of others need the scope {_READ_OTHERS}"
        details: JsonObject = {"scope": _READ_OTHERS, "scopes": [_READ_OTHERS]}
        raise Denied("SCOPE_REQUIRED", message, context.principal.scope_hint, details)
    platform, own = context.services.platform, context.principal.id
    prefix = None if given.everybody else sessions_prefix(own)
    page = await list_resources(
        platform, context.tenant, SESSION_KIND, limit=given.limit, cursor=given.cursor, prefix=prefix
    )
    records, revocations, now = SessionRecords(platform), Revocations(platform), context.now_ms()
    kept = [found for row in page.rows if (found := await records.kept(row)) is not None]
    items = [
        _view(item.session_id, item.record)
        for item in kept
        if (given.everybody or item.record.principal == own) and await _counts(item, now, revocations)
    ]
    return ConsoleSessionPage(items=items, next_cursor=page.next_cursor)


async def _find_session(context: Context, given: OneConsoleSession) -> ResourceRow:
    """Find the session that a call names, if the caller may end it."""
    row = await read_resource(context.services.platform, context.tenant, SESSION_KIND, given.console_session_id)
    record = None if row is None else record_of(row.body)
    is_theirs = record is not None and record.principal == context.principal.id
    if row is None or not (is_theirs or scope_allows(context.principal.scopes, _END_OTHERS)):
        message = f"you have no session {given.console_session_id}"
        hint = f"list them with console_session.list; those of others need the scope {_END_OTHERS}"
        raise NotFound("CONSOLE_SESSION_NOT_FOUND", message, hint)
    return row


@operation(
    "console_session.end",
    route=Route(method="DELETE", path="/console-sessions/{console_session_id}"),
    scopes=(),
    destructive=True,
    risk="high",
    bucket="admin",
    subject="console_session_id",
    find=_find_session,
    errors=("CONSOLE_SESSION_NOT_FOUND",),
)
async def console_session_end(context: Context, given: OneConsoleSession) -> Deleted:
    """End a session of the console.

    The browser is signed out with its next request. You can end your own sessions, and with `key:write` any session of
    the tenant. Keys and tokens stay valid.
    """
    row = await _find_session(context, given)
    answer = Deleted(id=given.console_session_id)
    await _delete(context, row, "ended", Reply(value=answer))
    return answer


async def _delete(context: Context, row: ResourceRow, reason: str, reply: Reply[Any]) -> None:
    record = record_of(row.body)
    context.call.about(row.resource_id, reason=reason, session_of=None if record is None else record.principal)
    await delete_resource(
        context.services.platform,
        row.tenant,
        SESSION_KIND,
        row.resource_id,
        expected_etag=ANY_ETAG,
        call=idempotency.answered(context, reply),
    )
    context.services.keys_changed()


# --- calls of the console itself -------------------------------------------------------------------------------------


class BeginSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new session."""

    session_id: str
    record: SessionRecord


class RenewSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session as it should be, and the version that this was made from."""

    session_id: str
    etag: str
    record: SessionRecord
    change: Literal["cookie replaced", "refreshing", "refreshed", "not refreshed"]


class SessionRenewed(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it is stored: not if the session was changed or ended in between."""

    stored: bool


class CloseSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which session, and why."""

    session_id: str
    reason: str


class ForgetSessions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sessions that are over."""

    session_ids: list[str]


class ForgottenSessions(msgspec.Struct, frozen=True, kw_only=True):
    """How many were deleted."""

    count: int


class NoteLogout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A logout token that was used: a digest of its id, who sent it, and how many sessions ended."""

    logout_id: str
    issuer: str
    ended: int


class LogoutNoted(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it was used for the first time."""

    is_new: bool


@operation(BEGIN_SESSION, route=None, scopes=(), subject="session_id")
async def console_session_begin(context: Context, given: BeginSession) -> SessionRenewed:
    """Begin a session of the console. A person with too many loses the one that was unused for longest."""
    record, platform = given.record, context.services.platform
    row = session_row(context.tenant, given.session_id, record, context.principal.id)
    kept = await sessions_of(platform, context.tenant, record.principal)
    context.call.about(None, browser=record.browser, issuer=None if record.token is None else record.token.issuer)
    kept.sort(key=lambda item: item.updated_at, reverse=True)
    unused = [old.resource_id for old in kept[limits.CONSOLE_SESSIONS_PER_PRINCIPAL_MAX - 1 :]]
    return SessionRenewed(stored=await _store_new(context, row, instead_of=unused))


@operation(RENEW_SESSION, route=None, scopes=("key:write",), subject="session_id")
async def console_session_renew(context: Context, given: RenewSession) -> SessionRenewed:
    """Store that the cookie of a session was replaced, or that its token is or was refreshed."""
    row = session_row(context.tenant, given.session_id, given.record, context.principal.id)
    context.call.about(None, change=given.change, session_of=given.record.principal)
    outcome = await put_resource(context.services.platform, row, expected_etag=given.etag, call=context.call)
    return SessionRenewed(stored=not isinstance(outcome, ResourceChanged))


@operation(CLOSE_SESSION, route=None, scopes=(), destructive=True, subject="session_id")
async def console_session_close(context: Context, given: CloseSession) -> Deleted:
    """Close a session of the console: signed out, used by somebody else too, or refused by its issuer."""
    answer = Deleted(id=given.session_id)
    row = await read_resource(context.services.platform, context.tenant, SESSION_KIND, given.session_id)
    if row is not None:
        await _delete(context, row, given.reason, Reply(value=answer))
    return answer


@operation(FORGET_SESSIONS, route=None, scopes=("key:write",), destructive=True)
async def console_session_forget(context: Context, given: ForgetSessions) -> ForgottenSessions:
    """Delete sessions of the console that are over. One that cannot be deleted holds up no other."""
    platform, now, count = context.services.platform, context.now_ms(), 0
    failed: PenstockError | None = None
    records = SessionRecords(platform)
    context.call.about(None, count=len(given.session_ids))
    for session_id in given.session_ids:
        row = await read_resource(platform, context.tenant, SESSION_KIND, session_id)
        kept = None if row is None else await records.kept(row)
        if row is None or (kept is not None and not kept.has_ended(now)):
            continue
        try:
            outcome = await delete_resource(
                platform, context.tenant, SESSION_KIND, session_id, expected_etag=row.etag, call=context.call
            )
        except PenstockError as error:
            failed = error
        else:
            count += not isinstance(outcome, ResourceChanged)
    if failed is not None:
        raise failed
    return ForgottenSessions(count=count)


@operation(NOTE_LOGOUT, route=None, scopes=("key:write",), subject="logout_id")
async def console_session_note_logout(context: Context, given: NoteLogout) -> LogoutNoted:
    """Note that an issuer ended sessions with a logout token, which counts once.

    Tokens that are too old to be taken again are forgotten.
    """
    platform, now = context.services.platform, context.now_ms()
    body: JsonObject = {"issuer": given.issuer}
    row = ResourceRow(
        tenant=context.tenant,
        kind=LOGOUT_KIND,
        resource_id=given.logout_id,
        body=body,
        etag=body_etag(body),
        created_at=now,
        updated_at=now,
        updated_by=context.principal.id,
    )
    context.call.about(None, issuer=given.issuer, ended=given.ended)
    every, before = await list_all_resources(platform, LOGOUT_KIND), now - limits.LOGOUT_NOTED_MS
    old = [noted.resource_id for noted in every if noted.tenant == row.tenant and noted.created_at < before]
    return LogoutNoted(is_new=await _store_new(context, row, instead_of=old))


async def _store_new(context: Context, row: ResourceRow, *, instead_of: list[str]) -> bool:
    """Store a resource that is not there yet and delete others of its kind, with the record of the call.

    Return whether it was not there.
    """

    def change(transaction: Transaction) -> ResourcePut | ResourceChanged:
        outcome = write_resource(transaction, row, None)
        if isinstance(outcome, ResourcePut):
            write_deletions(transaction, row.tenant, row.kind, instead_of)
        return outcome

    return isinstance(await context.services.platform.write(change, call=context.call), ResourcePut)


OPERATIONS: tuple[Capability, ...] = (
    console_session_list,
    console_session_end,
    console_session_begin,
    console_session_renew,
    console_session_close,
    console_session_forget,
    console_session_note_logout,
)
