"""Approvals: what exactly a person approves, as a digest.

An approval is bound to one call: who makes it, for which tenant, of which capability in which version, with which
arguments, on which state, under which policy, and until when. All of these are in the digest, so the approval of one
call never covers another one. The digest is computed again directly before the effect and must be the same.

Above it: the gate holds calls and releases them, drafts show the digest. Below it: `definitions.canonical`. Who may
approve is decided by the engine when it takes an answer (`engine.approvers`).
"""

from __future__ import annotations

import hashlib

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.canonical import canonical_json

__all__ = ["DIGEST_VERSION", "CallBinding", "digest_of", "value_digest"]

DIGEST_VERSION = 1
"""Changes with the members of a binding, so that no digest of one form can equal one of another."""


class CallBinding(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an approval is bound to."""

    principal: str
    tenant: str
    capability: str
    schema_version: str
    """The version of what the capability accepts and does."""
    arguments: JsonValue
    """The arguments with their defaults filled in. Secret parts are replaced by keyed digests of them."""
    state_witness: JsonValue = None
    """What the call would change, as it was when the call was held; None if the capability gives no witness."""
    policy_version: str | None = None
    expires_at: int
    """When the approval ends, in epoch milliseconds."""

    def to_json(self) -> JsonObject:
        """Return the members that are digested, by their published names."""
        return {
            "version": DIGEST_VERSION,
            "principal": self.principal,
            "tenant": self.tenant,
            "capability": self.capability,
            "schemaVersion": self.schema_version,
            "arguments": self.arguments,
            "stateWitness": self.state_witness,
            "policyVersion": self.policy_version,
            "expiresAt": self.expires_at,
        }


def digest_of(binding: CallBinding) -> str:
    """Return the digest of a call: SHA-256 of its canonical JSON (RFC 8785), in lower-case hexadecimal."""
    return value_digest(binding.to_json())


def value_digest(value: JsonValue) -> str:
    """Return the SHA-256 of the canonical JSON of a value, in lower-case hexadecimal.

    Integers keep all their digits: two arguments that differ must not have the same digest.
    """
    return hashlib.sha256(canonical_json(value, exact_integers=True)).hexdigest()
