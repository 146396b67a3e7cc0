"""The admin plane: apps, keys, policies, grants and the audit log, with our keys and scopes.

Each action is one call of an operation, or a few: an app with its first key, an app with its keys revoked. Nothing is
decided here.

Above it: `surface`. Below it: `exchange`, `views`.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from penstock.agent_profile.decisions import approve_draft, get_draft, list_drafts, pending_drafts, reject_draft
from penstock.agent_profile.endpoint import Action
from penstock.agent_profile.exchange import Exchange
from penstock.agent_profile.views import apps_of_keys, event_view, key_view, tool_view
from penstock.base import limits
from penstock.base.errors import Conflict, Rejected
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.base.scopes import EVERYTHING, scope_allows
from penstock.operations.agent_profile.records import AppPolicy, tenant_of
from penstock.operations.gate.context import Principal
from penstock.operations.keys.bounds import SUBJECT_SCOPE
from penstock.operations.permissions.apps import app_group

__all__ = ["ADMIN_ACTIONS"]

_AGENT_PATH = "/api/agent/v1"
_AGENT_SCOPES = ("draft:read", "preflight:run")
"""What every key of an app may do beside the app's own scopes: look at its drafts, and before it acts."""
_TOOLSET = "all"


def _belongs(key: JsonObject, app_id: str) -> bool:
    groups = key.get("groups")
    return isinstance(groups, list) and app_group(app_id) in groups


async def _apps(exchange: Exchange) -> Any:
    query = exchange.query("org_id")
    page = await exchange.call("app.list", {**query})
    keys = await exchange.pages("key.list")
    items = [{**app, "keys": [key_view(key) for key in keys if _belongs(key, app["id"])]} for app in page["items"]]
    return {"items": items}


async def _create_app(exchange: Exchange) -> Any:
    body = await exchange.body()
    app = await exchange.call("app.create", body)
    made = await _made_key(exchange, app, "Default key", None)
    return {"app": app, **made}


async def _made_key(exchange: Exchange, app: JsonObject, name: str, expires_in: str | None) -> JsonObject:
    scopes = app["scopes"] if isinstance(app["scopes"], list) else []
    arguments: JsonObject = {
        "name": name,
        "scopes": list(dict.fromkeys([*scopes, *_AGENT_SCOPES])),
        "kind": "agent",
        "groups": [app_group(str(app["id"]))],
        "tenant": app["org_id"],
        "toolset": _TOOLSET,
    }
    if expires_in is not None:
        arguments["expires_in"] = expires_in
    if scope_allows((await exchange.principal()).scopes, SUBJECT_SCOPE):
        # All keys of an app are one subject, and not their maker's. Without that right they stand for their maker.
        arguments["subject"] = f"machine:{app['id']}"
    made = await exchange.call("key.create", arguments)
    return {"key": key_view(made["key"]), "token": made["secret"]}


async def _create_key(exchange: Exchange) -> Any:
    body = await exchange.body()
    unknown = set(body) - {"name", "expiresAt"}
    name = body.get("name", "New key")
    if unknown or not isinstance(name, str) or not name.strip():
        raise Rejected("MALFORMED_REQUEST", "a key has a `name` and perhaps `expiresAt`", "send these members alone")
    app = await exchange.call("app.get", {"app_id": exchange.named("id")})
    if app["status"] != "active":
        raise Conflict("APP_REVOKED", f"the app {app['id']} was revoked", "restore it first")
    return await _made_key(
        exchange, app, name, _expires_in(body.get("expiresAt"), exchange.gate.services.clock.now_ms())
    )


def _expires_in(text: object, now_ms: int) -> str | None:
    """Return how long a key is valid that ends at an instant."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        moment = None
    ends = None if moment is None or moment.tzinfo is None else int(moment.timestamp() * 1000)
    if ends is None or ends <= now_ms:
        message = f"expiresAt: {str(text)[:40]!r} is not a time in the future"
        raise Rejected("MALFORMED_REQUEST", message, "write it like 2026-12-31T09:00:00Z")
    return f"{ends - now_ms}ms"


async def _revoke_app(exchange: Exchange) -> Any:
    app = await exchange.call("app.revoke", {"app_id": exchange.named("id")})
    for key in await exchange.pages("key.list"):
        if _belongs(key, app["id"]) and key["status"] != "revoked":
            await exchange.call("key.revoke", {"key_id": key["id"]})
    return {"ok": True, "app": app}


async def _restore_app(exchange: Exchange) -> Any:
    return {"ok": True, "app": await exchange.call("app.restore", {"app_id": exchange.named("id")})}


async def _delete_app(exchange: Exchange) -> Any:
    app_id = exchange.named("id")
    app = await exchange.call("app.get", {"app_id": app_id})
    if app["status"] == "revoked" and await pending_drafts(exchange, app_id):
        raise Conflict("APP_HAS_DRAFTS", f"a draft of the app {app_id} still waits", "approve or reject it first")
    return await exchange.call("app.delete", {"app_id": app_id})


async def _revoke_key(exchange: Exchange) -> Any:
    key = await exchange.call("key.revoke", {"key_id": exchange.named("id")})
    return {"ok": True, "key": key_view(key)}


async def _policy(exchange: Exchange, *, whole: bool = False) -> Any:
    changes: JsonObject = {"policy": await exchange.body(), "whole": whole}
    app = await exchange.call("app.policy_update", {"app_id": exchange.named("id"), **changes})
    return {"ok": True, "policy": app["policy"] or AppPolicy()}


async def _auto_execute(exchange: Exchange, *, whole: bool = False) -> Any:
    changes: JsonObject = {"auto_execute": await exchange.body(), "whole": whole}
    app = await exchange.call("app.auto_execute_update", {"app_id": exchange.named("id"), **changes})
    return {"ok": True, "auto_execute": app["auto_execute"]}


async def _tools(exchange: Exchange) -> Any:
    app = await exchange.call("app.get", {"app_id": exchange.named("id")})
    agent = Principal(id=f"app:{app['id']}", tenant=tenant_of(app["id"]), kind="agent", scopes=frozenset(app["scopes"]))
    visible = await exchange.gate.visible(agent)
    return {"items": [tool_view(item, _AGENT_PATH) for item in visible if not item.annotations.read_only]}


async def _audit(exchange: Exchange) -> Any:
    exchange.query()
    apps = apps_of_keys(await exchange.pages("key.list"))
    arguments: JsonObject = {"limit": limits.PAGE_LIMIT_MAX}
    page = await exchange.call("audit.list", arguments)
    events = [event_view(record, apps) for record in page["items"]]
    if _owns_server(await exchange.principal()):
        strangers = await exchange.call("audit.list", {**arguments, "strangers": True})
        events += [event_view(record, apps, strangers=True) for record in strangers["items"]]
        events.sort(key=lambda event: str(event["created_at"]), reverse=True)
    return {"items": events}


def _owns_server(principal: Principal) -> bool:
    """Whether the operation will show attempts without a valid key. Checked first, so that no refusal is logged."""
    return principal.tenant == DEFAULT_TENANT and scope_allows(principal.scopes, EVERYTHING)


async def _verify_audit(exchange: Exchange) -> Any:
    return await exchange.call("audit.verify", {})


async def _export_audit(exchange: Exchange) -> Any:
    query = exchange.query("after_seq")
    after = query.get("after_seq")
    arguments: JsonObject = {} if after is None else {"after_seq": int(after) if after.isdecimal() else after}
    return await exchange.call("audit.export", arguments)


ADMIN_ACTIONS: dict[str, dict[str, Action]] = {
    "/apps": {"GET": _apps, "POST": _create_app},
    "/apps/{id}": {"DELETE": _delete_app},
    "/apps/{id}/keys": {"POST": _create_key},
    "/apps/{id}/revoke": {"POST": _revoke_app},
    "/apps/{id}/restore": {"POST": _restore_app},
    "/apps/{id}/policy": {"PATCH": _policy, "PUT": partial(_policy, whole=True)},
    "/apps/{id}/auto-execute": {"PATCH": _auto_execute, "PUT": partial(_auto_execute, whole=True)},
    "/apps/{id}/tools": {"GET": _tools},
    "/keys/{id}/revoke": {"POST": _revoke_key},
    "/drafts": {"GET": list_drafts},
    "/drafts/{id}": {"GET": get_draft},
    "/drafts/{id}/approve": {"POST": approve_draft},
    "/drafts/{id}/reject": {"POST": reject_draft},
    "/audit": {"GET": _audit},
    "/audit/verify": {"GET": _verify_audit},
    "/audit/export": {"GET": _export_audit},
}
