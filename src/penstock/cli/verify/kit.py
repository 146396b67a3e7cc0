"""What the checks work with: apps with keys of their own, transactions of the demo ledger, drafts, and the audit log.

Every check makes what it needs, under names that nobody else uses, so that checks do not depend on each other and a
server may be in use meanwhile.

Above it: the profiles. Below it: `target`, `mcp`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from secrets import token_hex
from typing import Any, TypeVar

import httpx2

from penstock.cli.verify.checks import CheckFailed, NotApplicable, expect
from penstock.cli.verify.mcp import McpClient
from penstock.cli.verify.target import Answer, Json, Plane, Target, Traffic, expect_data
from penstock.runtime.system import SystemClock

__all__ = [
    "ALL_SCOPES",
    "API",
    "LEDGER",
    "TRANSACTION",
    "App",
    "Kit",
    "created_id",
    "digest_of",
    "executed",
    "high_risk_enabled",
    "moment",
    "writes_enabled",
]

API = "/api/v0"
"""Where a server of ours has its operations."""
LEDGER = "ledger_main"
TRANSACTION = "txn_1"
ALL_SCOPES = ("ledger.read", "transaction.read", "transaction.write", "transaction.delete", "transaction.export")
_AUDIT_SECONDS_MAX = 20.0
_AUDIT_PAUSE_SECONDS = 0.25
_AUDIT_PAUSE_SECONDS_MAX = 2.0
# How long something holds that a check sees end, and how much later than here it may end on the server's clock.
_END_SECONDS = 2.0
_END_SECONDS_MAX = 120.0
_CLOCKS_APART_SECONDS_MAX = 5.0
_UNREACHED = "no admin key was given, so no app and no key can be made for it; pass --admin-key"
_EXPENSE_DATE = "2026-02-13T00:00:00.000Z"

T = TypeVar("T")


def moment(seconds_from_now: float) -> str:
    """Return an instant in RFC 3339."""
    found = datetime.fromtimestamp(SystemClock().now_ms() / 1000 + seconds_from_now, UTC)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def digest_of(value: Any) -> str:
    """Return the SHA-256 of the canonical form (RFC 8785) of a value of texts, whole numbers, booleans and null."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()


def executed(answer: Answer) -> Json:
    """Return the execution of an action that must have been executed."""
    data = expect_data(answer)
    found = data.get("execution")
    if data.get("status") != "executed" or not isinstance(found, dict):
        raise CheckFailed("status `executed` with an execution", answer)
    expect(found.get("status") == "success", "an execution that succeeded", answer)
    return found


def created_id(execution: Json) -> str:
    """Return the id of the transaction that an execution made."""
    result = execution.get("result")
    made = result.get("transaction", result) if isinstance(result, dict) else None
    if not isinstance(made, dict) or not isinstance(made.get("id"), str):
        raise CheckFailed("a result with the transaction that was made", execution)
    return str(made["id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """An app on the server, and the token of one of its keys."""

    id: str
    key_id: str
    token: str
    agent: Plane

    async def manifest(self) -> list[Json]:
        """Return the tools that the app is shown."""
        tools = expect_data(await self.agent.request("GET", "/manifest")).get("tools")
        return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []

    async def preflight(self, action: str, payload: Json, **more: Any) -> Answer:
        """Ask what an action would do."""
        return await self.agent.request("POST", "/preflight", {"action": action, "payload": payload, **more})

    async def act(self, action: str, payload: Json | None, **more: Any) -> Answer:
        """Propose an action, or ask for its execution."""
        body: Json = {"action": action, **more}
        return await self.agent.request("POST", "/actions", body if payload is None else {**body, "payload": payload})

    async def draft(self, draft_id: str) -> Answer:
        """Read a draft."""
        return await self.agent.request("GET", f"/drafts/{draft_id}")

    async def proposed(self, action: str, payload: Json, **more: Any) -> str:
        """Return the id of a new draft."""
        answer = await self.act(action, payload, **more)
        data = expect_data(answer)
        draft = data.get("draft")
        if data.get("status") != "draft" or not isinstance(draft, dict) or not isinstance(draft.get("id"), str):
            raise CheckFailed("a draft", answer)
        return str(draft["id"])

    async def transactions(self, **query: str) -> Answer:
        """List transactions of the demo ledger."""
        return await self.agent.request("GET", "/transactions", query={"ledgerId": LEDGER, "pageSize": "200", **query})


@dataclass(slots=True)
class Kit:
    """A server under test."""

    target: Target
    http: httpx2.AsyncClient
    traffic: Traffic = field(default_factory=Traffic)
    _kept: dict[str, Any] = field(default_factory=dict)
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    def __post_init__(self) -> None:
        target = self.target
        for credential in (target.key, target.admin_key, target.approver_key, *target.admin_headers.values()):
            if credential is not None:
                self.traffic.credentials.add(credential)

    # Planes.

    def with_key(self, key: str | None, path: str) -> Plane:
        """Return the addresses below a path, for requests with a key."""
        return Plane(http=self.http, traffic=self.traffic, path=path, headers={"authorization": f"Bearer {key}"})

    def agent(self, token: str | None, **headers: str) -> Plane:
        """Return the agent plane with a token; None for a caller without one."""
        sent = {"authorization": f"Bearer {token}"} if token is not None else {}
        return Plane(http=self.http, traffic=self.traffic, path=self.target.agent_path, headers={**sent, **headers})

    def admin_with(self, token: str | None, **headers: str) -> Plane:
        """Return the admin plane with another credential than the kit's own."""
        sent = {"authorization": f"Bearer {token}"} if token is not None else {}
        return Plane(http=self.http, traffic=self.traffic, path=self.target.admin_path, headers={**sent, **headers})

    @property
    def admin(self) -> Plane:
        """The admin plane."""
        if self.target.admin_key is None and not self.target.admin_headers:
            raise NotApplicable(_UNREACHED)
        return Plane(
            http=self.http,
            traffic=self.traffic,
            path=self.target.admin_path,
            headers={**self.admin_with(self.target.admin_key).headers, **self.target.admin_headers},
        )

    async def token(self) -> str:
        """Return a token of the agent plane with every scope: the given one, or one of an app made for it."""
        return self.target.key or (await self.shared_app()).token

    async def once(self, name: str, make: Callable[[], Awaitable[T]]) -> T:
        """Return what several checks share, made on first use."""
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            if name not in self._kept:
                self._kept[name] = await make()
            found: T = self._kept[name]
            return found

    async def governance(self) -> Json:
        """Return what the server says about its own rules; empty if it says nothing, and must keep all of them."""

        async def ask() -> Json:
            if self.target.admin_key is None:
                return {}
            details = (await self.with_key(self.target.admin_key, API).request("GET", "/info")).body.get("details")
            found = details.get("governance") if isinstance(details, dict) else None
            return found if isinstance(found, dict) else {}

        return await self.once("governance", ask)

    async def need_separate_duties(self) -> None:
        """Leave the check out on a server whose operator lets the maker of a key approve for it."""
        if (await self.governance()).get("separate_duties") is False:
            raise NotApplicable(
                "the server's settings let the maker of a key approve for it; set `governance.approvals.separate`"
            )

    async def need_held_calls(self) -> None:
        """Leave the check out on a server whose operator lets agents do everything by themselves."""
        if (await self.governance()).get("preset") == "open":
            raise NotApplicable("the server's settings let no call wait; set `governance.preset`")

    # Apps.

    async def shared_app(self) -> App:
        """Return an app that may do everything, and execute writes at once; checks prepare things with it."""
        return await self.once("shared_app", lambda: self.app(auto_execute=writes_enabled()))

    async def app(
        self,
        *,
        scopes: tuple[str, ...] = ALL_SCOPES,
        policy: Json | None = None,
        auto_execute: Json | None = None,
        org: str | None = None,
    ) -> App:
        """Make an app with one key."""
        given: Json = {"name": f"verify {token_hex(4)}", "scope": "workspace" if org else "personal"}
        if org is not None:
            given["org_id"] = org
        made = expect_data(await self.admin.request("POST", "/apps", {**given, "scopes": list(scopes)}))
        app, key, token = made.get("app"), made.get("key"), made.get("token")
        if not (isinstance(app, dict) and isinstance(key, dict) and isinstance(token, str)):
            raise CheckFailed("an app with its first key and token", made)
        found = App(id=str(app["id"]), key_id=str(key["id"]), token=token, agent=self.agent(token))
        if policy is not None:
            await self.set_policy(found, policy)
        if auto_execute is not None:
            await self.set_auto_execute(found, auto_execute)
        return found

    async def set_policy(self, app: App, policy: Json) -> None:
        """Change what an app may touch."""
        expect_data(await self.admin.request("PATCH", f"/apps/{app.id}/policy", policy))

    async def set_auto_execute(self, app: App, grants: Json) -> Json:
        """Change what an app may execute without a person; return what the server made of it."""
        answer = await self.admin.request("PATCH", f"/apps/{app.id}/auto-execute", grants)
        found = expect_data(answer).get("auto_execute")
        return found if isinstance(found, dict) else {}

    async def new_key(self, app: App, expires_in: float | None = None) -> App:
        """Return the same app with another key."""
        body: Json = {"name": "another"}
        if expires_in is not None:
            body["expiresAt"] = moment(expires_in)
        made = expect_data(await self.admin.request("POST", f"/apps/{app.id}/keys", body))
        return App(id=app.id, key_id=str(made["key"]["id"]), token=made["token"], agent=self.agent(made["token"]))

    async def revoke_key(self, key_id: str) -> Answer:
        """Revoke a key."""
        return await self.admin.request("POST", f"/keys/{key_id}/revoke", {})

    async def revoke_app(self, app: App) -> Answer:
        """Revoke an app with all of its keys."""
        return await self.admin.request("POST", f"/apps/{app.id}/revoke", {})

    # Drafts.

    @property
    def approver(self) -> Plane:
        """The admin plane for somebody who decides about drafts."""
        if self.target.approver_key is None:
            return self.admin
        return replace(self.admin, headers={**self.admin.headers, **self.admin_with(self.target.approver_key).headers})

    async def approve(self, draft_id: str) -> Answer:
        """Approve a draft."""
        return await self.approver.request("POST", f"/drafts/{draft_id}/approve", {})

    async def reject(self, draft_id: str) -> Answer:
        """Reject a draft."""
        return await self.approver.request("POST", f"/drafts/{draft_id}/reject", {})

    async def draft(self, draft_id: str) -> Json:
        """Return a draft with its execution, as an administrator sees it."""
        return expect_data(await self.admin.request("GET", f"/drafts/{draft_id}"))

    async def draft_status(self, draft_id: str) -> str:
        """Return the status of a draft."""
        draft = (await self.draft(draft_id)).get("draft")
        return str(draft.get("status")) if isinstance(draft, dict) else ""

    # The demo ledger.

    def expense(self, title: str | None = None, **more: Any) -> Json:
        """Return the payload of a new transaction; the title is new too, unless it is given."""
        made = {"ledgerId": LEDGER, "kind": "expense", "title": title or f"verify {token_hex(8)}", "amount_home": 10}
        return {**made, "currency_home": "USD", "date": _EXPENSE_DATE, **more}

    async def transaction(self, title: str | None = None, **more: Any) -> str:
        """Make a transaction; return its id."""
        app = await self.shared_app()
        payload = self.expense(title, **more)
        return created_id(executed(await app.act("transaction.create", payload, execute=True)))

    async def change(self, transaction_id: str) -> None:
        """Change a transaction behind the back of the person who looked at it."""
        app = await self.shared_app()
        payload = {"transactionId": transaction_id, "title": f"changed {token_hex(8)}"}
        executed(await app.act("transaction.update", payload, execute=True))

    async def titled(self, title: str) -> list[Json]:
        """Return the transactions of a title, deleted ones left out."""
        app, found, page = await self.shared_app(), list[Json](), 1
        while True:
            answer = await app.transactions(page=str(page))
            found += [item for item in answer.items if item.get("title") == title]
            if not expect_data(answer).get("hasMore"):
                return found
            page += 1

    # Audit.

    async def audit(self) -> list[Json]:
        """Return the newest audit events."""
        return (await self._audit_answer()).items

    async def _audit_answer(self) -> Answer:
        answer = await self.admin.request("GET", "/audit")
        expect_data(answer)
        return answer

    async def events(
        self, holds: Callable[[Json], bool], *, count: int = 1, seconds_max: float = _AUDIT_SECONDS_MAX
    ) -> list[Json]:
        """Return the audit events that fit, as soon as there are as many as wanted; a server may write them late."""
        until = time.monotonic() + min(seconds_max, self.target.patience_seconds)
        pause = _AUDIT_PAUSE_SECONDS
        while True:
            found = [event for event in await self.audit() if holds(event)]
            if len(found) >= count or time.monotonic() > until:
                return found
            await asyncio.sleep(pause)
            # Many checks wait at once; together they must not use up what the server lets the administrator read.
            pause = min(pause * 1.5, _AUDIT_PAUSE_SECONDS_MAX)

    # Ends.

    async def after_end(
        self,
        begin: Callable[[float], Awaitable[App]],
        attempt: Callable[[App], Awaitable[Answer]],
        works: Callable[[Answer], bool],
    ) -> Answer:
        """Return the answer to an attempt after the end of something that holds only for some seconds."""
        app, ends = await self._before_end(begin, attempt, works)
        until = ends + _CLOCKS_APART_SECONDS_MAX
        await asyncio.sleep(max(0.0, ends - time.monotonic()))
        while True:
            asked_at = time.monotonic()
            answer = await attempt(app)
            if not works(answer) or asked_at >= until:
                return answer
            await asyncio.sleep(_AUDIT_PAUSE_SECONDS)

    async def _before_end(
        self,
        begin: Callable[[float], Awaitable[App]],
        attempt: Callable[[App], Awaitable[Answer]],
        works: Callable[[Answer], bool],
    ) -> tuple[App, float]:
        """Make something with which an attempt works before its end, and return it and when it ends.

        If it does not work, a later end is chosen: the server may be slow, tell the kit to wait, or have a clock that
        is ahead.
        """
        seconds = _END_SECONDS
        while True:
            ends = time.monotonic() + seconds
            try:
                app = await begin(seconds)
                answer = await attempt(app)
                expect(works(answer), f"that it works before its end, {seconds:g} s after it was made", answer)
                return app, ends
            except CheckFailed:
                if seconds >= _END_SECONDS_MAX:
                    raise
                seconds *= 2

    async def mcp(self, token: str | None) -> McpClient:
        """Return an MCP client that has introduced itself."""
        client = McpClient(http=self.http, path=self.target.mcp_path, token=token, traffic=self.traffic)
        await client.open()
        return client


def writes_enabled(seconds: float = 3_600, actions: list[str] | None = None, **more: Any) -> Json:
    """Return a grant for writes of medium and low risk."""
    writes: Json = {"enabled": True, "expires_at": moment(seconds), "allowed_actions": actions, **more}
    return {"writes": writes}


def high_risk_enabled(seconds: float = 3_600, actions: list[str] | None = None, **more: Any) -> Json:
    """Return a grant for actions of high risk, on top of one for writes."""
    high: Json = {"enabled": True, "expires_at": moment(seconds), "allowed_actions": actions, **more}
    return {**writes_enabled(seconds), "high_risk": high}
