"""Holds: which calls wait for a person before they are made.

Three presets say how much a server asks for. `open` leaves everything to scopes and policies. `careful` holds risky
calls that an agent makes on its own, and calls that ask for confirmation. `strict` makes every change by an agent a
draft, unless a grant lets the agent act alone for a limited time.

A policy that asks for an approval holds a call under every preset.

Above it: the gate. Below it: nothing but data. Whether a grant covers a call is looked up by the caller.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, assert_never, get_args

import msgspec

__all__ = [
    "DEFAULT_APPROVERS",
    "PRESETS",
    "Approval",
    "CallFacts",
    "Escalation",
    "Grant",
    "Hold",
    "HoldReason",
    "Preset",
    "WriteProof",
    "auto_execution_denied",
    "hold_of",
]

Preset: TypeAlias = Literal["open", "careful", "strict"]
PRESETS: tuple[Preset, ...] = get_args(Preset)
Risk: TypeAlias = Literal["low", "medium", "high", "critical"]
HoldReason: TypeAlias = Literal["policy", "draft", "confirm", "risk", "agent_write", "authorship", "requested"]
"""Why a call waits: a policy or its document asks for it (`draft`, `confirm`); it could do harm; an agent changes
something; it stores what takes effect later and its author must propose that; or its caller wants a draft.
"""
DEFAULT_APPROVERS = "approvers"
"""The group that decides about held calls unless a document or a policy names another."""
_DANGEROUS = frozenset({"high", "critical"})


class Escalation(msgspec.Struct, frozen=True, kw_only=True):
    """Who else may decide if there is no decision in time."""

    after_ms: int
    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    instead: bool = False
    """Whether the first approvers may no longer decide from then on."""


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """Who must approve: a number of members of any of the groups, or of the users."""

    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    count: int = 1
    not_requester: bool = True
    """Whether to exclude the caller, the creator of its key and the person it acts for."""
    services: bool = False
    """Whether services may approve as well as people."""
    escalation: Escalation | None = None


class CallFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a call when it is decided whether it waits."""

    changes: bool
    """Whether it changes something. What only reads is never held."""
    by_agent: bool
    """Whether an agent makes it, or a model over MCP."""
    risk: Risk = "low"
    confirm: bool = False
    draft: Literal["never", "always", "on_risk"] = "never"
    by_owner: bool = False
    """Whether the owner of the file makes it, at the command line."""
    approval: Approval | None = None
    """Who approves, if the document says so."""
    wants_draft: bool = False
    """Whether the caller asked for a draft."""
    caller: str = ""
    """The principal that calls."""
    proposes: bool = False
    """Whether it stores something that takes effect later, and a person has to accept what its author writes."""


class WriteProof(msgspec.Struct, frozen=True, kw_only=True):
    """What came with a call that is to be made at once under `strict`."""

    preflight: Literal["none", "mismatch", "matches"] = "none"
    """Whether it names a preflight, and whether that is of exactly this call."""
    has_idempotency_key: bool = False
    has_justification: bool = False


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Lets an agent change things alone for a while. An empty list of capabilities allows nothing."""

    capabilities: frozenset[str]
    expires_at: int
    high_risk: bool = False
    """Whether it covers what could do harm."""
    low_risk: bool = True
    """Whether it covers everything else."""
    needs_preflight: bool = True
    needs_idempotency_key: bool = True
    """What a call that could do harm has to bring, beside a justification."""


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """A call waits: why, and for whom."""

    reason: HoldReason
    approvals: tuple[Approval, ...]
    """Who has to agree, one after the other."""
    denied_code: str | None = None
    """Why it was not made at once, although the preset would have allowed it."""


def hold_of(
    preset: Preset,
    facts: CallFacts,
    *,
    policy: tuple[Approval, ...] = (),
    default: Approval | None = None,
    denied_code: str | None = None,
) -> Hold | None:
    """Return why a call waits; None if it is made at once.

    `policy` is what a policy asks for, `default` who approves if nothing else says so. `denied_code` is the result of
    `auto_execution_denied`; it decides about changes by agents under `strict`, and about what has to be proposed.
    """
    approvals = (facts.approval or default or Approval(groups=(DEFAULT_APPROVERS,)),)
    if policy:
        return Hold(reason="policy", approvals=policy)
    if not facts.changes:
        return None
    held = _held(preset, facts, approvals, denied_code)
    if held is None and facts.wants_draft:
        # Only the caller asked for approval: a person or a service, never an agent. So the caller may decide, too.
        own = Approval(groups=approvals[0].groups, users=(facts.caller,), not_requester=False, services=True)
        return Hold(reason="requested", approvals=(own,))
    return held


def _held(preset: Preset, facts: CallFacts, approvals: tuple[Approval, ...], denied_code: str | None) -> Hold | None:
    """Return why a change waits by the preset."""
    if preset == "open" or facts.by_owner:
        return None
    dangerous = facts.risk in _DANGEROUS
    if facts.draft == "always" or (facts.draft == "on_risk" and dangerous):
        return Hold(reason="draft", approvals=approvals)
    if facts.proposes and denied_code is not None:
        return Hold(reason="authorship", approvals=approvals, denied_code=denied_code)
    if not facts.by_agent:
        return None  # a person's own call counts as confirmation
    if preset == "strict":
        if denied_code is None:
            return None
        return Hold(reason="risk" if dangerous else "agent_write", approvals=approvals, denied_code=denied_code)
    if facts.confirm:
        return Hold(reason="confirm", approvals=approvals)
    return Hold(reason="risk", approvals=approvals) if dangerous else None


def auto_execution_denied(
    capability: str, risk: Risk, grants: tuple[Grant, ...], proof: WriteProof, now: int
) -> str | None:
    """Return the code that says why an agent may not change something by itself; None if it may.

    For what could do harm the caller also has to bring a justification and, unless the grant does without, a preflight
    and an idempotency key. A preflight of another call is never taken.
    """
    dangerous = risk in _DANGEROUS
    useful = [grant for grant in grants if (grant.high_risk if dangerous else grant.low_risk)]
    if not useful:
        return "AUTO_EXECUTE_DISABLED"
    named = [grant for grant in useful if capability in grant.capabilities]
    if not named:
        return "AUTO_EXECUTE_DENIED"
    valid = [grant for grant in named if grant.expires_at > now]
    if not valid:
        return "AUTO_EXECUTE_EXPIRED"
    if not dangerous:
        return "PREFLIGHT_MISMATCH" if proof.preflight == "mismatch" else None
    if not proof.has_justification:
        return "JUSTIFICATION_REQUIRED"
    missing = [_missing(grant, proof) for grant in valid]
    return None if None in missing else missing[0]


def _missing(grant: Grant, proof: WriteProof) -> str | None:
    """Return the code for what a grant needs and a call that could do harm does not bring."""
    if grant.needs_idempotency_key and not proof.has_idempotency_key:
        return "IDEMPOTENCY_KEY_REQUIRED"
    match proof.preflight:
        case "matches":
            return None
        case "mismatch":
            return "PREFLIGHT_MISMATCH"
        case "none":
            return "PREFLIGHT_REQUIRED" if grant.needs_preflight else None
        case _:
            assert_never(proof.preflight)
