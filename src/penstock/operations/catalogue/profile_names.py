"""The governance of a capability in the words of the agent profile: the one table from our names to its names.

Above it: lists of tools, the manifest of the agent profile, drafts. Below it: `capability`.
"""

from __future__ import annotations

from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability, Governance

__all__ = ["PROFILE_NAMES", "profile_metadata", "short_metadata"]

PROFILE_NAMES = {
    "risk": "risk",
    "scopes": "requiredScopes",
    "confirm": "requiresConfirmation",
    "draft": "draftPolicy",
    "bucket": "rateLimitHints",
}
"""Our name for each member of the governance, and the profile's."""


def profile_metadata(capability: Capability) -> JsonObject:
    """Return the governance of a capability by the profile's names."""
    governance = capability.governance
    found: JsonObject = {
        "risk": governance.risk,
        "scopes": list(governance.scopes),
        "confirm": governance.confirm,
        "draft": _draft_policy(governance),
        "bucket": {"bucket": governance.bucket},
    }
    return {PROFILE_NAMES[name]: value for name, value in found.items()}


def short_metadata(capability: Capability) -> JsonObject:
    """Return the governance by the profile's names without what is usual, for lists that a model has to read.

    Usual are a low risk, no confirmation, no draft, and the rate of reads or of writes, as the capability does either.
    """
    bucket = "read" if capability.annotations.read_only else "write"
    usual: JsonObject = {
        "risk": "low",
        "scopes": [],
        "confirm": False,
        "draft": {"mode": "never"},
        "bucket": {"bucket": bucket},
    }
    unsaid = {PROFILE_NAMES[name]: value for name, value in usual.items()}
    return {name: value for name, value in profile_metadata(capability).items() if value != unsaid[name]}


def _draft_policy(governance: Governance) -> JsonObject:
    policy: JsonObject = {"mode": governance.draft}
    if governance.approval is not None:
        policy["approvers"] = [*governance.approval.groups, *governance.approval.users]
        policy["quorum"] = governance.approval.count
    return policy
