"""Drafts on the admin plane: what waits, and what people decide.

Who may decide is decided where all approvals are; nothing of it is here.

Above it: `admin_plane`. Below it: `exchange`, `drafts`.
"""

from __future__ import annotations

from typing import Any

from penstock.agent_profile.codes import profile_code
from penstock.agent_profile.drafts import draft_data, draft_status, key_of
from penstock.agent_profile.exchange import Exchange
from penstock.agent_profile.views import apps_of_keys, kind_of
from penstock.base.choices import refuse_choice
from penstock.base.errors import Conflict, Rejected
from penstock.base.json import JsonObject

__all__ = ["approve_draft", "get_draft", "list_drafts", "pending_drafts", "reject_draft"]

_STATUSES = ("draft", "confirmed", "canceled", "failed")
_LISTED = (
    "id",
    "app_id",
    "action_type",
    "status",
    "requires_confirmation",
    "auto_execute_requested",
    "created_at",
    "updated_at",
    "confirmed_at",
    "canceled_at",
    "expires_at",
)


async def _shown(exchange: Exchange, drafts: list[Any]) -> list[JsonObject]:
    """Return drafts with the apps that proposed them."""
    apps = apps_of_keys(await exchange.pages("key.list"))
    return [
        draft_data(draft, apps.get(key_of(draft["requested_by"]) or ""), await exchange.scopes_of(draft["operation"]))
        for draft in drafts
    ]


async def list_drafts(exchange: Exchange) -> JsonObject:
    """List drafts, of one app and in one state if the query says so."""
    query = exchange.query("appId", "status")
    wanted = query.get("status")
    if wanted is not None and wanted not in _STATUSES:
        message = f"status: {refuse_choice(wanted, _STATUSES)}"
        raise Rejected("UNKNOWN_PARAMETER", message, f"use one of {', '.join(_STATUSES)}")
    arguments: JsonObject = {} if wanted is None else {"status": "open" if wanted == "draft" else "ended"}
    drafts = await exchange.pages("draft.list", arguments)
    found = []
    for item in await _shown(exchange, drafts):
        draft = item["draft"]
        if not isinstance(draft, dict) or (wanted is not None and draft["status"] != wanted):
            continue
        if query.get("appId") in (None, draft["app_id"]):
            found.append({**{name: draft[name] for name in _LISTED}, "execution": item["execution"]})
    return {"items": [*found]}


async def pending_drafts(exchange: Exchange, app_id: str) -> bool:
    """Whether a draft of an app still waits."""
    drafts = await exchange.pages("draft.list", {"status": "open"})
    waiting = [draft for draft in drafts if draft_status(draft["status"]) == "draft"]
    shown = [item["draft"] for item in await _shown(exchange, waiting)]
    return any(isinstance(draft, dict) and draft["app_id"] == app_id for draft in shown)


async def get_draft(exchange: Exchange) -> JsonObject:
    """Read a draft."""
    draft = await exchange.call("draft.get", {"draft_id": exchange.named("id")})
    return (await _shown(exchange, [draft]))[0]


async def approve_draft(exchange: Exchange) -> JsonObject:
    """Approve a draft and return the outcome."""
    draft = await _decided(exchange, "draft.approve")
    if draft["status"] == "failed":
        error = draft.get("error") or {}
        code = str(error.get("code"))
        message = f"the draft was approved, but its action failed: {error.get('message')}"
        details: JsonObject = {"error": profile_code(code, kind_of(code)), "draft_id": draft["id"]}
        raise Conflict("DRAFT_FAILED", message, "propose it again", details)
    shown = (await _shown(exchange, [draft]))[0]
    return {"status": "executed" if draft["status"] == "executed" else "confirmed", **shown}


async def reject_draft(exchange: Exchange) -> JsonObject:
    """Reject a draft."""
    draft = await _decided(exchange, "draft.reject")
    return {"ok": True, "draft": (await _shown(exchange, [draft]))[0]["draft"]}


async def _decided(exchange: Exchange, operation: str) -> Any:
    body = await exchange.body(required=False)
    unknown = set(body) - {"note"}
    if unknown:
        raise Rejected("MALFORMED_REQUEST", "a decision has a `note` or nothing", "send that member alone")
    return await exchange.call(operation, {**body, "draft_id": exchange.named("id")})
