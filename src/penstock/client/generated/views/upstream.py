"""What operations on upstream answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "AcceptedTool",
    "AcceptedTools",
    "BegunSignIn",
    "SignInView",
    "UpstreamPage",
    "UpstreamToolPage",
    "UpstreamToolView",
    "UpstreamView",
]


class AcceptedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is in the catalogue now."""

    name: str
    operation: str
    hash: str
    accepted_by: str | None
    accepted_at: str | None


class AcceptedTools(msgspec.Struct, frozen=True, kw_only=True):
    """What was accepted; what was pinned as it is already is not listed again."""

    server: str
    accepted: list[AcceptedTool]


class BegunSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that has begun."""

    server: str
    authorization_url: str
    issuer: str
    scopes: list[str]
    expires_at: str | None


class SignInView(msgspec.Struct, frozen=True, kw_only=True):
    """How the sign-in to a server stands."""

    server: str
    status: str
    issuer: str | None = None
    scopes: list[str] = msgspec.field(default_factory=list)
    expires_at: str | None = None
    renews: bool = False
    signed_in_at: str | None = None
    signed_in_by: str | None = None


class UpstreamView(msgspec.Struct, frozen=True, kw_only=True):
    """A server whose tools are imported, and how many of them stand how."""

    server: str
    prefix: str
    status: str
    accept: str
    allowed: list[str]
    tools: dict[str, int]
    protocol: str | None = None
    error: str | None = None
    since: str | None = None
    changed_at: str | None = None
    sign_in: SignInView | None = None


class UpstreamPage(msgspec.Struct, frozen=True, kw_only=True):
    """All of them: they come from the settings."""

    items: list[UpstreamView]
    next_cursor: str | None = None


class UpstreamToolView(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a server: its status and its texts. What the server claims about it is shown, not believed."""

    name: str
    status: str
    description: str | None = None
    hash: str | None = None
    accepted_hash: str | None = None
    accepted_by: str | None = None
    accepted_at: str | None = None
    refused_hash: str | None = None
    refused_by: str | None = None
    refused_at: str | None = None
    refused_because: str | None = None
    difference: dict[str, Any] | None = None
    warnings: list[str] = msgspec.field(default_factory=list)
    operation: str
    title: str | None = None
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    claims: dict[str, Any] | None = None


class UpstreamToolPage(msgspec.Struct, frozen=True, kw_only=True):
    """All tools of a server, by name."""

    items: list[UpstreamToolView]
    next_cursor: str | None = None
