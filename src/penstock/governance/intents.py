"""What a request says about a change beside its arguments, and the operator's rules for changes that wait.

Above it: the gate and the surfaces. Below it: `holds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.governance.authorship import AuthorshipRules
from penstock.governance.holds import DEFAULT_APPROVERS, Approval, Preset

__all__ = ["INTENT_NAMES", "ApprovalVote", "ApprovedCall", "HoldChoices", "WriteIntent", "intent_of"]

INTENT_NAMES: dict[str, str] = {
    "draft": "`true` makes the call wait for approval, even if it could be made at once.",
    "preflight": "The handle of a preflight of exactly this call.",
    "justification": "The reason for the call, which approvers see.",
    "state_witness": "The hash of the state that you saw; refused if the state has changed.",
}
"""What a caller may say about a change beside its arguments, by the name that surfaces use."""


class WriteIntent(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller says about a change that it wants to make, beside its arguments."""

    wants_draft: bool = False
    """Whether the call is to wait for approval, even if it could be made at once."""
    preflight_id: str | None = None
    """The handle of a preflight of exactly this call."""
    justification: str | None = None
    state_witness_hash: str | None = None
    """The hash of the state that the caller saw; the call is refused if the state has changed."""
    only_look: bool = False
    """Whether the caller only wants to know what the call would do. No surface sets this: `preflight.run` does."""


def intent_of(given: Mapping[str, object]) -> WriteIntent | None:
    """Return what a caller says about a change, by the names of `INTENT_NAMES`; None if it says nothing."""
    said = {name: value for name in INTENT_NAMES if (value := given.get(name)) not in (None, "", False)}
    if not said:
        return None
    for name, value in said.items():
        if name == "draft" and value not in (True, "true", "false"):
            raise Rejected(
                "INVALID_ARGUMENTS", "draft: write true or false", "send `draft: true` or leave the field out"
            )
        if name != "draft" and not (isinstance(value, str) and len(value) <= limits.JUSTIFICATION_CHARACTERS_MAX):
            message = f"{name}: a text of up to {limits.JUSTIFICATION_CHARACTERS_MAX} characters is needed"
            raise Rejected("INVALID_ARGUMENTS", message, "shorten it")
    texts = {name: str(value) for name, value in said.items() if name != "draft"}
    return WriteIntent(
        wants_draft=said.get("draft") in (True, "true"),
        preflight_id=texts.get("preflight"),
        justification=texts.get("justification"),
        state_witness_hash=texts.get("state_witness"),
    )


class ApprovalVote(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody's approval of a held call."""

    principal: str
    person: str
    """Whom it counts for: votes of one person, with whatever keys, have the same."""
    groups: frozenset[str] = frozenset()
    """The groups for which it counts."""


class ApprovedCall(msgspec.Struct, frozen=True, kw_only=True):
    """The proof that a held call was approved. Only the process itself makes one, from the history of its run."""

    draft_id: str
    approval_id: str
    """The question that was answered, with the draft that asked it."""
    digest: str
    """The digest of the call that was approved."""
    expires_at: int
    votes: tuple[ApprovalVote, ...]
    """Who approved it, in the order of their votes."""
    reach: JsonObject | None = None
    """What it may reach, by name and version, as it was when the call was held; None if it reaches nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldChoices:
    """Which calls wait for a person, and for whom, as the operator configured it."""

    preset: Preset = "careful"
    approval: Approval = field(default_factory=lambda: Approval(groups=(DEFAULT_APPROVERS,), not_requester=False))
    """Who approves a held call, unless a document or a policy says otherwise."""
    services_propose: bool = False
    """Whether what services store waits until a person accepts it, too."""
    draft_ms: int = limits.DRAFT_MS
    """How long a held call waits."""
    preflight_ms: int = limits.PREFLIGHT_MS
    """How long a preflight is valid."""

    @property
    def authorship(self) -> AuthorshipRules:
        """Whose definitions have to be accepted."""
        return AuthorshipRules(enforced=self.preset != "open", services_propose=self.services_propose)
