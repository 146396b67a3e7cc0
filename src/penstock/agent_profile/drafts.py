"""Drafts in the profile's form: the drafts of actions, and their status.

Above it: the planes. Below it: what the operations on drafts answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from penstock.agent_profile.codes import DENIED, profile_code
from penstock.agent_profile.views import kind_of
from penstock.base.json import JsonObject

__all__ = [
    "denied_code",
    "draft_answer",
    "draft_data",
    "draft_status",
    "executed_answer",
    "execution_id",
    "held_draft",
    "key_of",
]

_STATUS = {
    "waiting": "draft",
    "approved": "confirmed",
    "executed": "confirmed",
    "ambiguous": "confirmed",
    "rejected": "canceled",
    "canceled": "canceled",
    "expired": "canceled",
    "drifted": "failed",
    "failed": "failed",
}
_REVIEW_PATH = "/agent-admin/v1/drafts"
_DIGITS = 24


def held_draft(value: Any) -> JsonObject | None:
    """Return what an operation says about a call that waits; None if the call was made."""
    held = value.get("held") if isinstance(value, dict) and "execution_id" in value else None
    return held if isinstance(held, dict) and "draft_id" in held else None


def draft_status(status: str) -> str:
    """Return the status of a draft, in the profile's terms."""
    return _STATUS.get(status, "failed")


def key_of(requested_by: object) -> str | None:
    """Return the id of the key that proposed a draft."""
    prefix, _, key_id = str(requested_by).partition(":")
    return key_id if prefix == "key" else None


def execution_id(principal: str, action: str, key: str | None, request_id: str) -> str:
    """Return the id of an execution: the same for every repetition of a request with its key."""
    text = "\0".join((principal, action, key or "", "" if key else request_id))
    return f"exe_{sha256(text.encode()).hexdigest()[:_DIGITS]}"


def draft_data(draft: Mapping[str, Any], app_id: str | None, scopes: Sequence[str] = ()) -> JsonObject:
    """Return a draft and its execution, as the profile shows them; `scopes` are those that its action needs."""
    status, key_id = draft_status(draft["status"]), key_of(draft["requested_by"])
    votes = draft.get("votes") or []
    ended = draft.get("updated_at")
    shown: JsonObject = {
        "id": draft["id"],
        "app_id": app_id,
        "key_id": key_id,
        "actor_user_id": draft["requested_by"],
        "action_type": draft["operation"],
        "payload": draft["arguments"],
        "status": status,
        "requires_confirmation": True,
        "auto_execute_requested": draft.get("denied_code") is not None,
        "justification": draft.get("justification"),
        "preflight": draft.get("impact"),
        "preflight_hash": draft["digest"],
        "preflight_state_witness": draft.get("state_witness"),
        "policy_snapshot": {
            "risk": draft["risk"],
            "requiredScopes": [*scopes],
            "auto_execute": denied_code(draft.get("denied_code")),
            "reason": draft["reason"],
            "version": draft.get("policy_version"),
        },
        "confirmed_by_user_id": votes[-1].get("by") if votes and status == "confirmed" else None,
        "created_at": draft["created_at"],
        "updated_at": ended,
        "confirmed_at": ended if status == "confirmed" else None,
        "canceled_at": ended if status == "canceled" else None,
        "expires_at": draft["expires_at"],
        "outcome": draft["status"],
    }
    return {"draft": shown, "execution": _execution(draft, app_id)}


def _execution(draft: Mapping[str, Any], app_id: str | None) -> JsonObject | None:
    """Return the outcome of an approved draft; None for any other."""
    if draft["status"] not in ("executed", "failed", "drifted", "ambiguous"):
        return None
    error = draft.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return {
        "id": f"exe_{draft['id']}",
        "draft_id": draft["id"],
        "app_id": app_id,
        "idempotency_key": None,
        "status": "success" if draft["status"] == "executed" else "failed",
        "result": draft.get("result"),
        "error": None if code is None else profile_code(code, kind_of(code)),
        "created_at": draft.get("updated_at"),
    }


def denied_code(code: object) -> str | None:
    """Return why an action was not executed at once, in the profile's words."""
    return None if code is None else DENIED.get(str(code), "agent.auto_execute_denied")


def draft_answer(data: JsonObject, denied: object) -> JsonObject:
    """Return the answer to an action that became a draft."""
    return {
        "status": "draft",
        "draft": data["draft"],
        "autoExecuteDeniedCode": denied_code(denied),
        "review_path": _REVIEW_PATH,
    }


def executed_answer(execution: JsonObject, *, replayed: bool) -> JsonObject:
    """Return the answer to an action that was executed."""
    answer: JsonObject = {"status": "executed", "draft": None, "execution": execution}
    return {**answer, "replayed": True, "code": "agent.idempotency_replay"} if replayed else answer
