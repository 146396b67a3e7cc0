"""What operations on webhook answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

import msgspec

from penstock.client.generated.views.workflow import AuthorView, ProposalView

__all__ = ["EndpointPage", "EndpointView", "NewEndpoint"]


class EndpointView(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook without its secret. `old_secret_until` says how long events are signed with the secret before, too."""

    id: str
    url: str
    events: list[str]
    workflows: list[str]
    enabled: bool
    disabled_because: str | None
    include_output: bool
    description: str | None
    secret_version: int
    old_secret_until: str | None
    etag: str
    created_at: str | None
    updated_at: str | None
    updated_by: str | None
    author: AuthorView | None = None
    execution_id: str | None = None


class EndpointPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of webhooks."""

    items: list[EndpointView]
    next_cursor: str | None
    proposals: list[ProposalView] = msgspec.field(default_factory=list)


class NewEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook with a new secret: the only time that `secret` is shown."""

    secret: str
    webhook: EndpointView
