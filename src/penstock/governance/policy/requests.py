"""What a policy decides about: who calls, what, on which resource, and under which circumstances.

The context has only the parts that some policy reads. So the same call gives the same text, and decisions can be kept;
and a value that no policy looks at refuses nothing.

Above it: `sets`, the gate. Below it: `schema`, `shapes`, `reads`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv6Address, ip_address
from typing import Any

from penstock.base.json import JsonObject, JsonValue
from penstock.governance.policy.reads import Reads
from penstock.governance.policy.schema import PRINCIPAL_TYPES, ActionShape
from penstock.governance.principals import Principal

__all__ = ["Circumstances", "PolicyRequest", "PrincipalEntity", "context_text", "principal_entity"]

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """How and when a call is made."""

    surface: str
    by_model: bool
    """Whether a model chose the call: the principal is an agent, or it came over MCP and not from a person's form."""
    now_ms: int
    address: str | None = None
    """The address of the peer, as the server sees it."""
    has_idempotency_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalEntity:
    """A principal as an entity. `key` is equal for principals that no policy can tell apart."""

    type: str
    id: str
    tenant: str
    groups: frozenset[str]
    body: str
    """The entity in Cedar's JSON."""

    @property
    def key(self) -> str:
        """What the entity depends on, for caches."""
        return self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRequest:
    """One question to the policies."""

    principal: PrincipalEntity
    action: ActionShape
    tenant: str
    risk: str
    resource_id: str
    context: str
    """The context in Cedar's JSON."""


def principal_entity(principal: Principal) -> PrincipalEntity:
    """Return a principal as policies see it. Attributes with a single value become tags, as text."""
    kind = PRINCIPAL_TYPES[principal.kind]
    attributes: dict[str, Any] = {
        "id": principal.id,
        "tenant": principal.tenant,
        "kind": principal.kind,
        "name": principal.name,
        "scopes": sorted(principal.scopes),
        "groups": sorted(principal.groups),
        "acting_for": list(principal.acting_for),
        "subject": principal.subject_id,
    }
    entity: dict[str, Any] = {
        "uid": {"type": kind, "id": principal.id},
        "attrs": attributes,
        "parents": [{"type": "Group", "id": group} for group in sorted(principal.groups)],
        "tags": {name: _tag(value) for name, value in principal.attributes.items() if _is_single(value)},
    }
    return PrincipalEntity(
        type=kind, id=principal.id, tenant=principal.tenant, groups=principal.groups, body=_text(entity)
    )


def _is_single(value: JsonValue) -> bool:
    return isinstance(value, (str, int, float, bool))


def _tag(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def context_text(
    reads: Reads, circumstances: Circumstances, given: JsonObject | None, history: JsonObject | None
) -> str:
    """Return the context of a request: the parts that policies read, in Cedar's JSON."""
    context: dict[str, Any] = {}
    if reads.reads_input:
        context["input"] = given or {}
    if "history" in reads.context:
        context["history"] = history or {}
    if "network" in reads.context:
        context["network"] = _network(circumstances.address)
    if "time" in reads.context:
        context["time"] = _time(circumstances.now_ms, reads.time)
    for name in ("surface", "by_model", "has_idempotency_key"):
        if name in reads.context:
            context[name] = getattr(circumstances, name)
    return _text(context)


def plain_address(text: str | None) -> str | None:
    """Return an address in the one form that policies compare; None if it is not an address.

    An IPv4 address in its IPv6 form is the IPv4 address: otherwise a rule for 10.0.0.0/8 would not know it.
    """
    try:
        found = ip_address((text or "").partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def _network(text: str | None) -> JsonObject:
    address = plain_address(text)
    return {} if address is None else {"address": {"__extn": {"fn": "ip", "arg": address}}}


def _time(now_ms: int, parts: frozenset[str]) -> JsonObject:
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    whole: JsonObject = {
        "epoch_seconds": now_ms // 1000,
        "hour": moment.hour,
        "weekday": _WEEKDAYS[moment.weekday()],
    }
    return {name: value for name, value in whole.items() if name in parts}


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
