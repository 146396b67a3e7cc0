"""Actions of the agent plane: look at what one would do, propose it, ask for its execution, read its draft.

An action is a call of a capability with the agent's own key. Whether it is made, held or refused is decided by the
gate; here it is put into the profile's words.

Above it: `agent_plane`. Below it: `exchange`, `drafts`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.agent_profile.drafts import (
    denied_code,
    draft_answer,
    draft_data,
    executed_answer,
    execution_id,
    held_draft,
)
from penstock.agent_profile.exchange import Exchange
from penstock.base import limits
from penstock.base.errors import NotFound, Rejected
from penstock.base.json import JsonObject
from penstock.operations.gate.context import WriteIntent
from penstock.operations.gate.pipeline import RefusedCall
from penstock.operations.permissions.apps import app_id_of

__all__ = ["act", "look_at_draft", "preflight"]

_UNKNOWN = "agent.action"
"""The name under which calls of unknown actions are recorded: what a caller made up does not go into the log."""
_SCOPE = "agent.actions"
"""What an idempotency key of the profile is for: one action, whichever it is."""
_DRAFT_ID = re.compile(r"[A-Za-z0-9_:.-]{1,80}")

Name = Annotated[str, Meta(min_length=1, max_length=300)]
Hash = Annotated[str, Meta(min_length=1, max_length=200)]
Key = Annotated[str, Meta(min_length=1, max_length=limits.IDEMPOTENCY_KEY_CHARACTERS_MAX)]


class ActionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of an action."""

    action: Name
    payload: dict[str, Any] | None = None
    preflightId: Hash | None = None  # noqa: N815  # the profile's names
    execute: bool = False
    forceDraft: bool = False  # noqa: N815
    requestId: str | None = None  # noqa: N815
    idempotencyKey: Key | None = None  # noqa: N815
    justification: Annotated[str, Meta(max_length=limits.APP_JUSTIFICATION_CHARACTERS_MAX)] | None = None
    preflightHash: Hash | None = None  # noqa: N815
    stateWitnessHash: Hash | None = None  # noqa: N815


class PreflightRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a preflight."""

    action: Name
    payload: dict[str, Any]
    requestId: str | None = None  # noqa: N815  # the profile's name


def read_body(body: JsonObject, kind: Any) -> Any:
    """Return a body as what it has to be; refuse it with what is wrong first."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise Rejected("MALFORMED_REQUEST", f"the body does not fit: {error}", "see the guide to the profile") from None


async def known_action(exchange: Exchange, action: str) -> str:
    """Return the name of the capability that an action names; one that is not there for an unknown one."""
    gate, tenant = exchange.gate, (await exchange.principal()).tenant
    found = gate.catalogue.get(action) or await gate.exposed.find(tenant, action)
    return _UNKNOWN if found is None else found.name


async def act(exchange: Exchange) -> JsonObject:
    """Propose an action, or ask for its execution."""
    given: ActionRequest = read_body(await exchange.body(), ActionRequest)
    exchange.identified(given.requestId)
    executes = given.execute and not given.forceDraft
    operation = await known_action(exchange, given.action)
    handle, payload = await _preflighted(exchange, operation, given)
    outcome = await exchange.outcome(
        operation,
        payload,
        idempotency_key=given.idempotencyKey if executes else None,
        idempotency_scope=_SCOPE,
        intent=WriteIntent(
            wants_draft=not executes,
            preflight_id=handle,
            justification=given.justification,
            state_witness_hash=given.stateWitnessHash,
        ),
    )
    if isinstance(outcome, RefusedCall):
        raise outcome.error
    value = exchange.value_of(outcome)
    held = held_draft(value)
    if held is not None:
        return draft_answer(await _draft(exchange, str(held["draft_id"])), held.get("denied_code"))
    principal = await exchange.principal()
    made: JsonObject = {
        "id": execution_id(principal.id, operation, given.idempotencyKey, exchange.request_id),
        "draft_id": None,
        "app_id": app_id_of(principal.groups),
        "idempotency_key": given.idempotencyKey,
        "status": "success",
        "result": value,
        "error": None,
    }
    return executed_answer(made, replayed=outcome.replayed)


async def _preflighted(exchange: Exchange, operation: str, given: ActionRequest) -> tuple[str | None, JsonObject]:
    """Return the handle of the preflight that an action names, and its payload."""
    handle, payload = None, given.payload
    if given.preflightId is not None or given.preflightHash is not None:
        wanted: JsonObject = {"operation": operation}
        if given.preflightId is not None:
            wanted["preflight_id"] = given.preflightId
        else:
            wanted["digest"] = given.preflightHash
        found = await exchange.call("action.handle", wanted)
        handle = str(found["preflight_id"])
        payload = found["arguments"] if payload is None else payload
    if payload is None:
        raise Rejected("MALFORMED_REQUEST", "`payload` is missing: the arguments of the action", "send an object")
    return handle, payload


async def preflight(exchange: Exchange) -> JsonObject:
    """Look at what an action would do."""
    given: PreflightRequest = read_body(await exchange.body(), PreflightRequest)
    exchange.identified(given.requestId)
    operation = await known_action(exchange, given.action)
    seen = await exchange.call("preflight.run", {"operation": operation, "arguments": given.payload})
    return {
        "action": given.action,
        "risk": "high" if seen["risk"] == "critical" else seen["risk"],
        "requiresConfirmation": True,
        "impact": seen["impact"],
        "impactHash": seen["digest"],
        "stateWitness": seen["state_witness"],
        "stateWitnessHash": seen["state_witness_hash"],
        "preflightId": seen["preflight_id"],
        "expiresAt": seen["expires_at"],
        "autoExecuteDeniedCode": denied_code(seen["denied_code"]),
    }


async def _draft(exchange: Exchange, draft_id: str) -> JsonObject:
    principal = await exchange.principal()
    draft = await exchange.call("draft.get", {"draft_id": draft_id})
    return draft_data(draft, app_id_of(principal.groups), await exchange.scopes_of(draft["operation"]))


async def look_at_draft(exchange: Exchange) -> JsonObject:
    """Read a draft of the caller's app."""
    draft_id = exchange.named("id")
    await exchange.principal("draft.get")
    if not _DRAFT_ID.fullmatch(draft_id):
        raise NotFound("DRAFT_NOT_FOUND", f"there is no draft {draft_id[:80]}", "look at its id")
    return await _draft(exchange, draft_id)
