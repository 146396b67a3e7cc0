"""What operations on policy answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

import msgspec

from penstock.client.generated.views.workflow import AuthorView, ProposalView

__all__ = [
    "CheckedPolicy",
    "ExplainedCall",
    "PolicyDocument",
    "PolicyList",
    "PolicyProblemView",
    "PolicyView",
    "Replay",
    "ReplayedCall",
    "SeenTool",
    "SeenTools",
]


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """One policy."""

    id: str
    effect: str
    mode: str
    description: str | None
    approvers: list[str]
    quorum: int
    source: str
    line: int
    escalate_after: str | None = None
    escalate_to: list[str] = msgspec.field(default_factory=list)


class PolicyProblemView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong with a policy, and where."""

    severity: str
    source: str
    line: int
    policy: str | None
    message: str


class CheckedPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Whether policies can be stored."""

    ok: bool
    policies: list[PolicyView]
    problems: list[PolicyProblemView]


class ExplainedCall(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen, and why."""

    action: str
    principal: str
    listed: bool
    listed_by: list[str]
    call: str
    policies: list[str]
    reasons: list[str]
    approvers: list[str]
    quorum: int | None
    missing_scope: str | None
    scopes: list[str]
    version: str | None
    held_because: str | None = None
    shadow: str | None = None
    shadow_policies: list[str] = msgspec.field(default_factory=list)
    hidden: list[str] = msgspec.field(default_factory=list)


class PolicyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document with policies, as a tenant stored it."""

    id: str
    etag: str
    text: str
    policies: list[PolicyView]
    created_at: str | None
    updated_at: str | None
    updated_by: str | None
    author: AuthorView | None = None
    problems: list[PolicyProblemView] = msgspec.field(default_factory=list)


class PolicyList(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides in a tenant."""

    version: str | None
    server: list[PolicyView]
    items: list[PolicyDocument]
    proposals: list[ProposalView] = msgspec.field(default_factory=list)


class ReplayedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded call that would be decided differently."""

    seq: int
    at: str | None
    principal: str
    operation: str
    subject: str | None
    count: int
    before: str
    after: str
    policies: list[str]
    reasons: list[str]


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What would change."""

    calls: int
    would_be_refused: int
    would_need_approval: int
    would_be_permitted: int
    undecidable: int
    unknown: int
    changes: list[ReplayedCall]
    version: str
    problems: list[PolicyProblemView] = msgspec.field(default_factory=list)


class SeenTool(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is a tool for some callers."""

    operation: str
    kind: str
    title: str
    name: str | None
    hidden: str | None
    because: list[str]
    bytes: int


class SeenTools(msgspec.Struct, frozen=True, kw_only=True):
    """What a principal sees, and what not."""

    principal: str
    toolset: str
    listed: int
    bytes: int
    tokens: int
    bytes_per_token: int
    items: list[SeenTool]
