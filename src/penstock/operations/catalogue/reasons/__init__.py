"""Reason codes: every code that a person or program may see, whose fault it is, what it means, and what to do.

The reference, the OpenAPI document and the hints of all surfaces come from these tables. Tests check that every code
in the source is here. Read `requests` first: the other modules have the codes of other resources in the same form.

Above it: surfaces, documentation. Below it: the tables of this package, `base.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.base.errors import PenstockError, Reason
from penstock.operations.catalogue.errors import INTERNAL_ERROR, OUT_OF_MEMORY, mapping_of
from penstock.operations.catalogue.reasons.graphs import GRAPHS
from penstock.operations.catalogue.reasons.local import COMMANDS, CONSOLE, IMPORTS, STARTING, STEPS
from penstock.operations.catalogue.reasons.requests import ACCESS, CAPACITY, KEYS, POLICIES, REQUESTS
from penstock.operations.catalogue.reasons.resources import (
    AGENTS,
    MEMORY,
    PROFILE,
    REGISTRIES,
    UPSTREAMS,
    WEBHOOKS,
)
from penstock.operations.catalogue.reasons.runs import ACTIVITIES, CONTROL_PLANE, HISTORIES, QUESTIONS, RUNS
from penstock.operations.catalogue.reasons.store import AUDIT, BACKUPS, DAMAGE, STORE
from penstock.operations.catalogue.reasons.workflows import APPROVALS, SCHEDULES, WORKFLOWS

if TYPE_CHECKING:  # a command that explains an error needs nothing of the catalogue
    from penstock.operations.catalogue.capability import Capability

__all__ = [
    "LOCAL_FAMILIES",
    "LOCAL_REASONS",
    "REASONS",
    "REASON_FAMILIES",
    "SIGNATURE_ERRORS",
    "hint_of",
    "reasons_of",
    "status_of",
]

SIGNATURE_ERRORS = ("SIGNATURE_REQUIRED", "SIGNATURE_INVALID", "SIGNER_NOT_TRUSTED", "VERSION_PROPOSED")
"""Why a workflow is neither stored nor started: where workflows have to be signed, and if it is only proposed."""

REASON_FAMILIES: Final[Mapping[str, Mapping[str, Reason]]] = {
    "Authentication and permissions": ACCESS,
    "Requests": REQUESTS,
    "Limits and quotas": CAPACITY,
    "Workflows and tasks": WORKFLOWS,
    "Approvals": APPROVALS,
    "Runs": RUNS,
    "Questions": QUESTIONS,
    "Activities": ACTIVITIES,
    "Schedules": SCHEDULES,
    "Keys, tokens and sessions of the console": KEYS,
    "Policies": POLICIES,
    "Graphs and queries": GRAPHS,
    "Schemas, models and tools": REGISTRIES,
    "Agents and conversations": AGENTS,
    "Memory": MEMORY,
    "Other MCP servers and APIs": UPSTREAMS,
    "Webhooks and notifications": WEBHOOKS,
    "The agent profile": PROFILE,
    "The control plane and OpenWOP": CONTROL_PLANE,
    "The audit trail": AUDIT,
    "The store": STORE,
    "Damage": DAMAGE,
    "Histories": HISTORIES,
    "Backups": BACKUPS,
}
"""Every code that an operation or a surface may refuse a call with, by what it is about."""
LOCAL_FAMILIES: Final[Mapping[str, Mapping[str, Reason]]] = {
    "Starting a process": STARTING,
    "Steps in Python": STEPS,
    "Commands": COMMANDS,
    "Importing APIs": IMPORTS,
    "The console": CONSOLE,
}
"""Codes that only a process that starts, a command or a page of the console uses."""
REASONS: Final[Mapping[str, Reason]] = {
    code: reason for family in REASON_FAMILIES.values() for code, reason in family.items()
}
LOCAL_REASONS: Final[Mapping[str, Reason]] = {
    code: reason for family in LOCAL_FAMILIES.values() for code, reason in family.items()
}

_EVERY_CALL = (
    "UNAUTHENTICATED",
    "KEY_EXPIRED",
    "KEY_REVOKED",
    "POLICY_DENIED",
    "APPROVAL_REQUIRED",
    "INVALID_ARGUMENTS",
    "ARGUMENTS_TOO_DEEP",
    "RATE_LIMITED",
    "CONCURRENCY_LIMITED",
    "TOO_MANY_REQUESTS_IN_FLIGHT",
    OUT_OF_MEMORY,
    INTERNAL_ERROR,
)
_ROUTED = (
    "UNKNOWN_PARAMETER",
    "REPEATED_PARAMETER",
    "MALFORMED_REQUEST",
    "REQUEST_TIMEOUT",
    "TARGET_TOO_LONG",
    "HEADERS_TOO_LARGE",
)
_WITH_BODY = ("MALFORMED_JSON", "UNSUPPORTED_MEDIA_TYPE", "BODY_TOO_LARGE")
_WRITES = ("IDEMPOTENCY_KEY_INVALID", "IDEMPOTENCY_KEY_REUSED", "IDEMPOTENCY_IN_FLIGHT")
# Of a call that says more about a change than its arguments do.
_INTENDED = (
    "PREFLIGHT_NOT_FOUND",
    "PREFLIGHT_MISMATCH",
    "REACH_TOO_LARGE",
    "WITNESS_MISMATCH",
    "WITNESS_UNSUPPORTED",
)


def reasons_of(capability: Capability) -> tuple[str, ...]:
    """Return every code that a call of a capability may be refused with, its own codes first."""
    found = [*capability.errors, *_EVERY_CALL]
    if capability.governance.scopes:
        found.append("SCOPE_REQUIRED")
    if not capability.annotations.read_only:
        found.extend(_WRITES)
        if capability.governance.holdable:
            found.extend(_INTENDED)
    route = capability.route
    if route is not None:
        found.extend(_ROUTED)
        if route.method in ("POST", "PUT", "PATCH"):
            found.extend(_WITH_BODY)
    return tuple(dict.fromkeys(found))


def status_of(code: str) -> int:
    """Return the HTTP status of a code."""
    return mapping_of(REASONS[code].kind(code, "")).status


def hint_of(error: PenstockError) -> str | None:
    """Return what to do about an error: its own hint, or else the remedy of its code."""
    if error.hint:
        return error.hint
    known = REASONS.get(error.code) or LOCAL_REASONS.get(error.code)
    return None if known is None else known.hint
