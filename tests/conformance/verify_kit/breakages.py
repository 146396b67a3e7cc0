"""Mistakes that servers have made, each as something done to a real server: a wrapper around it, or a changed part.

A mistake names the checks that must catch it. All other checks of the kit may or may not notice.

Above it: `servers`. Below it: the ASGI application and the gate of a server.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias
from unittest.mock import patch

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.engine import approvers
from penstock.engine.walk import questions
from penstock.governance.audit.leaves import PERSONAL, redact
from penstock.governance.policy.source import Policy
from penstock.operations.agent_profile import ledger
from penstock.operations.drafts import making
from penstock.operations.drafts.preflight import DraftDeskAtGate
from penstock.operations.gate import authentication
from penstock.operations.gate.context import Context, Principal
from penstock.operations.gate.holds import HoldStage
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.policy_stage import PolicyStage
from penstock.runtime.ports.platform import KeyRow

__all__ = ["BREAKAGES", "Breakage"]

Apply: TypeAlias = Callable[[ASGIApp, Gate, str], AbstractContextManager[ASGIApp]]
"""Takes a server, its gate and its owner's key, and gives the server with the mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakage:
    """A server with one mistake."""

    name: str
    about: str
    caught_by: tuple[str, ...]
    applied: Apply


# Wrappers.


@dataclass(slots=True)
class _Answer:
    """A whole response, to be changed before it is sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    def without(self, name: bytes) -> None:
        self.headers = [(key, value) for key, value in self.headers if key.lower() != name]

    def replace(self, body: bytes, status: int | None = None) -> None:
        self.body, self.status = body, status or self.status
        self.without(b"content-length")
        self.headers.append((b"content-length", str(len(body)).encode()))


async def _answered(app: ASGIApp, scope: Scope, receive: Receive) -> _Answer:
    found = _Answer(0, [], b"")

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            found.status, found.headers = message["status"], list(message["headers"])
        else:
            found.body += message.get("body", b"")

    await app(scope, receive, send)
    return found


async def _send(answer: _Answer, send: Send) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _body_of(receive: Receive) -> tuple[bytes, Receive]:
    """Read a body; give it, and a `receive` that gives it again."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    sent = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return sent.pop() if sent else await receive()

    return body, again


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key.lower() == name), None)


def _is_profile(scope: Scope) -> bool:
    path: str = scope.get("path", "")
    return scope["type"] == "http" and path.startswith("/api/agent")


Around: TypeAlias = Callable[[ASGIApp, Scope, Receive, Send], Awaitable[None]]


def _wrapped(around: Around) -> Apply:
    """Return a mistake that is a wrapper; it sees only requests of the profile."""

    @contextmanager
    def applied(app: ASGIApp, gate: Gate, key: str) -> Iterator[ASGIApp]:
        async def wrapper(scope: Scope, receive: Receive, send: Send) -> None:
            await (around(app, scope, receive, send) if _is_profile(scope) else app(scope, receive, send))

        yield wrapper

    return applied


def _rewriting(change: Callable[[Scope, _Answer], None]) -> Apply:
    """Return a mistake that changes answers."""

    async def around(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        plain = [(name, value) for name, value in scope["headers"] if name.lower() != b"accept-encoding"]
        answer = await _answered(app, {**scope, "headers": plain}, receive)
        change(scope, answer)
        await _send(answer, send)

    return _wrapped(around)


def _patched(target: Any, name: str, value: Any) -> Apply:
    """Return a mistake in a part of the server."""

    @contextmanager
    def applied(app: ASGIApp, gate: Gate, key: str) -> Iterator[ASGIApp]:
        with patch.object(target, name, value):
            yield app

    return applied


# Mistakes.


async def _believes_headers(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    claimed = _header(scope, b"x-forwarded-for")
    if claimed is not None:
        scope = {**scope, "client": (claimed.decode().partition(",")[0].strip(), 0)}
    await app(scope, receive, send)


def _says_nothing_about_waiting(scope: Scope, answer: _Answer) -> None:
    answer.without(b"retry-after")


async def _crashes_on_json(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    body, again = await _body_of(receive)
    try:
        json.loads(body or b"{}")
    except ValueError:
        answer = _Answer(500, [(b"content-type", b"application/json")], b"")
        answer.replace(b'{"ok":false,"code":"common.internal_error","message":"Unexpected token"}')
        await _send(answer, send)
        return
    await app(scope, again, send)


def _replays_anything() -> Apply:
    """Return a mistake that knows requests by their key alone."""
    kept: dict[tuple[bytes, str], _Answer] = {}

    async def around(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        body, again = await _body_of(receive)
        try:
            key = json.loads(body or b"{}").get("idempotencyKey")
        except (ValueError, AttributeError):
            key = None
        name = (_header(scope, b"authorization") or b"", str(key))
        if key is not None and name in kept:
            await _send(kept[name], send)
            return
        answer = await _answered(app, scope, again)
        if key is not None and answer.status == 200:
            kept[name] = answer
        await _send(answer, send)

    return _wrapped(around)


@contextmanager
def _trusts_admin_header(app: ASGIApp, gate: Gate, key: str) -> Iterator[ASGIApp]:
    async def wrapper(scope: Scope, receive: Receive, send: Send) -> None:
        if _is_profile(scope) and _header(scope, b"authorization") is None and _header(scope, b"x-admin-user"):
            shown = (b"authorization", f"Bearer {key}".encode())
            scope = {**scope, "headers": [*scope["headers"], shown]}
        await app(scope, receive, send)

    yield wrapper


def _leaves_envelope(scope: Scope, answer: _Answer) -> None:
    if answer.status == 404 and b"ROUTE_NOT_FOUND" in answer.body:
        answer.replace(b"<h1>Not Found</h1>")


def _shows_hash(scope: Scope, answer: _Answer) -> None:
    if scope["path"].endswith("/revoke") and answer.status == 200:
        body = json.loads(answer.body)
        if "key" in body.get("data", {}):
            body["data"]["key"]["token_hash"] = "5f4dcc3b5aa765d61d8327deb882cf99"
            answer.replace(json.dumps(body).encode())


def _remembers_last_token(show: Callable[[str, _Answer], None]) -> Apply:
    """Return a mistake that shows the bearer token of a request in what is read next."""
    last = [""]

    def change(scope: Scope, answer: _Answer) -> None:
        shown, last[0] = last[0], (_header(scope, b"authorization") or b"").decode().removeprefix("Bearer ")
        if shown and scope["path"].endswith("/audit") and answer.status == 200:
            show(shown, answer)

    return _rewriting(change)


def _shows_token_in_details(token: str, answer: _Answer) -> None:
    body = json.loads(answer.body)
    for event in body["data"]["items"][:1]:
        event["details"] = {**(event.get("details") or {}), "authorization": token}
    answer.replace(json.dumps(body).encode())


def _shows_part_in_header(token: str, answer: _Answer) -> None:
    answer.headers.append((b"x-debug", base64.b64encode(token[-20:].encode())))


def _loses_record(scope: Scope, answer: _Answer) -> None:
    if scope["path"].endswith("/audit/export") and answer.status == 200:
        body = json.loads(answer.body)
        items = body["data"]["items"]
        del items[len(items) // 2]
        answer.replace(json.dumps(body).encode())


def _made_up_redaction(record: dict[str, Any], **shown: str) -> None:
    """Write other values into a record, beside the commitments to the real ones."""
    fields = {name: value for name, value in record.items() if value is not None}
    erased = redact(fields, PERSONAL)
    assert erased is not None
    record.update({name: None for name in PERSONAL if name not in erased})
    record.update(salt=None, redacted=erased["redacted"], principal=erased["principal"])
    record.update(shown)


def _shows_values_beside_commitments(scope: Scope, answer: _Answer) -> None:
    if scope["path"].endswith("/audit/export") and answer.status == 200:
        body = json.loads(answer.body)
        _made_up_redaction(body["data"]["items"][-1], principal="key:somebody", principal_name="Somebody Else")
        answer.replace(json.dumps(body).encode())


def _erases_without_a_record(scope: Scope, answer: _Answer) -> None:
    if scope["path"].endswith("/audit/export") and answer.status == 200:
        body = json.loads(answer.body)
        _made_up_redaction(body["data"]["items"][-1])
        answer.replace(json.dumps(body).encode())


def _puts_messages_into_codes(scope: Scope, answer: _Answer) -> None:
    if scope["path"].endswith("/audit") and answer.status == 200:
        body = json.loads(answer.body)
        for event in body["data"]["items"]:
            if event["status"] != "success":
                event["code"] = "Transaction not found: it may have been deleted"
        answer.replace(json.dumps(body).encode())


@contextmanager
def _keys_never_expire(app: ASGIApp, gate: Gate, key: str) -> Iterator[ASGIApp]:
    def is_alive(key: KeyRow, now: int) -> bool:
        return key.revoked_at is None

    with patch.object(authentication, "_is_alive", is_alive), patch.object(authentication, "_check_alive", is_alive):
        yield app


def _refuses_nobody_by_ledger(view: ledger.View, ledger_id: str) -> bool:
    allowed = view.policy.allowed_ledger_ids
    return not allowed or ledger_id in allowed


def _stays_confirmed(scope: Scope, answer: _Answer) -> None:
    if "/drafts/" in scope["path"] and scope["method"] == "GET" and answer.status == 200:
        answer.replace(answer.body.replace(b'"status":"failed","requires', b'"status":"confirmed","requires'))


async def _as_it_was(authenticator: authentication.Authenticator, principal: Principal) -> Principal:
    return principal


async def _always_matches(desk: DraftDeskAtGate, context: Context) -> str:
    return "matches"


_IS_FREE = HoldStage.is_free


def _stores_at_once(stage: HoldStage, context: Context, decided: Any) -> bool:
    return context.capability.governance.stores is not None or _IS_FREE(stage, context, decided)


@contextmanager
def _looks_no_further(app: ASGIApp, gate: Gate, key: str) -> Iterator[ASGIApp]:
    with patch.object(gate.holds, "reach", None):
        yield app


async def _releases_everything(stage: HoldStage, context: Context, decided: object) -> None:
    context.call.note(outcome="executed")


def _compares_keys(one: approvers.Identity, other: approvers.Identity) -> bool:
    """Whether two credentials are the same key, or one made the other: what people do with further keys is missed."""
    return one.principal in (other.principal, other.owner) or one.owner == other.principal


async def _finds_no_stored_policy(stage: PolicyStage, tenant: str) -> tuple[Policy, ...]:
    return ()


BREAKAGES: tuple[Breakage, ...] = (
    Breakage(
        name="duties-are-separated-by-key",
        about="Approvers and requesters are compared by their keys, not as people.",
        caught_by=("writes.key-maker-does-not-approve-with-another-key",),
        applied=_patched(approvers, "is_same_person", _compares_keys),
    ),
    Breakage(
        name="unread-policies-count-as-none",
        about="Stored policies that cannot be read count as if there were none.",
        caught_by=("authz.broken-policy-keeps-the-last",),
        applied=_patched(PolicyStage, "stored", _finds_no_stored_policy),
    ),
    Breakage(
        name="services-approve",
        about="A key of a service approves like that of a person.",
        caught_by=("writes.service-does-not-approve",),
        applied=_patched(approvers, "PEOPLE", approvers.PEOPLE | {"service"}),
    ),
    Breakage(
        name="what-a-model-stores-takes-effect",
        about="A workflow that a model stores runs, though nobody has accepted it.",
        caught_by=("writes.stored-workflow-waits",),
        applied=_patched(HoldStage, "is_free", _stores_at_once),
    ),
    Breakage(
        name="forged-address-is-believed",
        about="The address that X-Forwarded-For claims counts, whoever sends it.",
        caught_by=("authz.forged-address", "audit.forged-address-is-not-recorded"),
        applied=_wrapped(_believes_headers),
    ),
    Breakage(
        name="429-without-retry-after",
        about="A limited caller is not told when to come back.",
        caught_by=("abuse.retry-after",),
        applied=_rewriting(_says_nothing_about_waiting),
    ),
    Breakage(
        name="strangers-leave-no-record",
        about="A 401 is answered and forgotten.",
        caught_by=("audit.refused-stranger",),
        applied=_patched(Gate, "_refuse_unauthenticated", lambda gate, error, request: None),
    ),
    Breakage(
        name="malformed-json-crashes",
        about="A body that is not JSON is a 500.",
        caught_by=("abuse.actions-malformed-json", "abuse.preflight-malformed-json", "abuse.malformed-json-has-code"),
        applied=_wrapped(_crashes_on_json),
    ),
    Breakage(
        name="any-request-replays",
        about="An idempotency key gives the first answer, whatever the request is.",
        caught_by=("writes.key-with-other-payload", "writes.key-with-other-action"),
        applied=_replays_anything(),
    ),
    Breakage(
        name="empty-list-allows-everything",
        about="An empty allow-list of ledgers means that there is none.",
        caught_by=("authz.no-ledger", "authz.no-ledger-is-listed", "authz.mcp-applies-policy"),
        applied=_patched(ledger.View, "_allows", _refuses_nobody_by_ledger),
    ),
    Breakage(
        name="previews-show-hidden-fields",
        about="Fields that the policy hides are shown.",
        caught_by=("authz.redacted-list", "authz.redacted-preflight"),
        applied=_patched(ledger.View, "shown", lambda view, transaction: transaction),
    ),
    Breakage(
        name="admin-header-is-a-credential",
        about="Whoever says to be an administrator is one.",
        caught_by=("authz.admin-header-is-no-credential",),
        applied=_trusts_admin_header,
    ),
    Breakage(
        name="unknown-routes-leave-the-envelope",
        about="An unknown address is answered by the framework.",
        caught_by=("abuse.unknown-agent-route", "abuse.unknown-admin-route"),
        applied=_rewriting(_leaves_envelope),
    ),
    Breakage(
        name="revocation-shows-key-material",
        about="Revoking a key answers with the hash of its secret.",
        caught_by=("authz.revoking-returns-no-secret",),
        applied=_rewriting(_shows_hash),
    ),
    Breakage(
        name="audit-shows-the-last-token",
        about="Details of an audit event have the bearer token of the last request.",
        caught_by=("audit.no-token", "audit.fields"),
        applied=_remembers_last_token(_shows_token_in_details),
    ),
    Breakage(
        name="header-shows-part-of-a-token",
        about="A header has the end of the last bearer token, in base64.",
        caught_by=("audit.no-token",),
        applied=_remembers_last_token(_shows_part_in_header),
    ),
    Breakage(
        name="record-is-deleted",
        about="A record is missing in the middle of the audit trail.",
        caught_by=("audit.records-are-a-chain",),
        applied=_rewriting(_loses_record),
    ),
    Breakage(
        name="forged-name-beside-a-commitment",
        about="A record shows another caller beside the commitment to the real one.",
        caught_by=("audit.redaction-is-on-record",),
        applied=_rewriting(_shows_values_beside_commitments),
    ),
    Breakage(
        name="redaction-without-a-record",
        about="A caller is erased from the trail, and no record says so.",
        caught_by=("audit.redaction-is-on-record",),
        applied=_rewriting(_erases_without_a_record),
    ),
    Breakage(
        name="messages-in-codes",
        about="Failures are recorded with their message as a code.",
        caught_by=("audit.stable-codes",),
        applied=_rewriting(_puts_messages_into_codes),
    ),
    Breakage(
        name="keys-never-expire",
        about="The expiry of a key is stored and not looked at.",
        caught_by=("authz.expired-key",),
        applied=_keys_never_expire,
    ),
    Breakage(
        name="revoked-keys-act-through-approvals",
        about="Approving a draft executes it with the authority that its key once had.",
        caught_by=("writes.draft-of-revoked-key", "writes.draft-of-revoked-app"),
        applied=_patched(authentication.Authenticator, "current", _as_it_was),
    ),
    Breakage(
        name="drift-is-not-noticed",
        about="An approved call is not compared with what was approved.",
        caught_by=("state-witness.drift-before-approval", "state-witness.drift-without-hash"),
        applied=_patched(HoldStage, "_release", _releases_everything),
    ),
    Breakage(
        name="approvals-stop-at-the-call",
        about="An approval covers the workflow that is called, and not what that one calls.",
        caught_by=("state-witness.changed-child-before-approval", "state-witness.changed-child-after-approval"),
        applied=_looks_no_further,
    ),
    Breakage(
        name="runs-forget-what-was-approved",
        about="What a call can reach is compared when it is approved, and not when its run gets there.",
        caught_by=("state-witness.changed-child-after-approval",),
        applied=_patched(making, "reach_in", lambda witness: None),
    ),
    Breakage(
        name="drifted-drafts-stay-confirmed",
        about="A draft that drifted is shown as confirmed, although nothing was executed.",
        caught_by=("state-witness.drifted-draft-ends",),
        applied=_rewriting(_stays_confirmed),
    ),
    Breakage(
        name="handles-work-again",
        about="The handle of a preflight is not used up.",
        caught_by=("writes.handle-works-once",),
        applied=_patched(DraftDeskAtGate, "used_preflight", _always_matches),
    ),
    Breakage(
        name="requesters-approve",
        about="Whoever can reach a draft can approve it.",
        caught_by=("writes.powerful-requester-does-not-approve", "writes.key-maker-does-not-approve"),
        applied=_patched(questions, "refuse_answer", lambda *given, **more: None),
    ),
)
