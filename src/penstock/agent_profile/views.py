"""What the agent profile shows of our things: tools, apps, keys, audit events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.agent_profile.codes import profile_code
from penstock.base.errors import Denied, NotFound, PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.profile_names import profile_metadata
from penstock.operations.catalogue.reasons import REASONS
from penstock.operations.permissions.apps import app_id_of

__all__ = ["apps_of_keys", "event_view", "key_view", "kind_of", "risk_of", "tool_view"]

_RISKS = {"critical": "high"}
_STATUS = {"refused": "denied", "failed": "failed"}
_READ_PATHS = {"ledger.list": "/ledgers", "transaction.list": "/transactions"}
_ACTIONS = {
    "app.policy_update": "agent_app.policy.update",
    "app.auto_execute_update": "agent_app.auto_execute.update",
    "preflight.run": "agent.action.preflight",
    "draft.approve": "agent.draft.approve",
    "draft.reject": "agent.draft.reject",
}
_PREFIXES = {"app.": "agent_app.", "key.": "agent_key."}


def risk_of(capability: Capability) -> str:
    """Return the risk in the profile's three words."""
    return _RISKS.get(capability.governance.risk, capability.governance.risk)


def tool_view(capability: Capability, base: str) -> JsonObject:
    """Return a tool as the manifest lists it."""
    reads = capability.annotations.read_only
    path = _READ_PATHS.get(capability.name)
    http: JsonObject = {"method": "GET", "path": base + path} if path else {"method": "POST", "path": f"{base}/actions"}
    return {
        "name": capability.name,
        "title": capability.title,
        "description": capability.description,
        **profile_metadata(capability),
        "risk": risk_of(capability),
        "requiresConfirmation": not reads,
        "http": http,
        "inputSchema": capability.input_schema,
        "outputSchema": capability.output_schema or {"type": "object"},
    }


def key_view(key: Mapping[str, Any]) -> JsonObject:
    """Return a key without anything of its secret."""
    return {
        "id": key["id"],
        "app_id": app_id_of(key.get("groups") or ()),
        "name": key["name"],
        "token_prefix": key["prefix"],
        "last_used_at": key.get("last_used_at"),
        "expires_at": key.get("expires_at"),
        "revoked_at": key.get("revoked_at"),
        "created_at": key.get("created_at"),
    }


def event_view(record: Mapping[str, Any], apps: Mapping[str, str], *, strangers: bool = False) -> JsonObject:
    """Return an audit record as an event of the profile; `apps` are the apps of keys, by key id."""
    operation, subject, code = str(record["operation"]), record.get("subject"), record.get("code")
    key_id = record.get("credential")
    about = subject if isinstance(subject, str) else None
    app_id = about if operation.startswith("app.") else apps.get(str(key_id)) or apps.get(about or "")
    outcome = str(record["outcome"])
    details: JsonObject = {"operation": operation, "outcome": outcome, "count": record.get("count", 1)}
    details.update({name: record[name] for name in ("trace_id", "reasons", "policy_version") if record.get(name)})
    if code is not None:
        details["reason_code"] = code
    counts = record.get("details", {}).get("codes")
    if isinstance(counts, dict):
        details["codes"] = {str(profile_code(name, kind_of(name))): number for name, number in counts.items()}
    return {
        "id": f"aud_{'x' if strangers else ''}{record['seq']}_{str(record['hash'])[:12]}",
        "app_id": app_id,
        "key_id": key_id,
        "actor_user_id": record.get("principal"),
        "performed_by_user_id": record.get("principal"),
        "action": _action(operation),
        "status": _STATUS.get(outcome, "success"),
        "code": profile_code(code, kind_of(code)),
        "request_id": record.get("request_id"),
        "draft_id": record.get("draft_id"),
        "execution_id": record.get("run_id"),
        "ip": record.get("remote"),
        "user_agent": record.get("client"),
        "details": details,
        "count": record.get("count", 1),
        "created_at": record.get("at"),
    }


def kind_of(code: JsonValue) -> type[PenstockError]:
    """Return the class of one of our codes."""
    known = REASONS.get(str(code))
    if known is not None:
        return known.kind
    return NotFound if str(code).endswith("_NOT_FOUND") else Denied if str(code).endswith("_REQUIRED") else Rejected


def _action(operation: str) -> str:
    named = _ACTIONS.get(operation)
    if named is not None:
        return named
    return next(
        (own + operation.removeprefix(prefix) for prefix, own in _PREFIXES.items() if operation.startswith(prefix)),
        f"agent.{operation}",
    )


def apps_of_keys(keys: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the apps of keys, by key id."""
    found = ((str(key["id"]), app_id_of(key.get("groups") or ())) for key in keys)
    return {key_id: app_id for key_id, app_id in found if app_id is not None}
