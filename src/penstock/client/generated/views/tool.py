"""What operations on tool answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.client.generated.views.workflow import AuthorView, ProposalView

__all__ = ["ToolAnnotations", "ToolGovernance", "ToolPage", "ToolRequest", "ToolView"]


class ToolAnnotations(msgspec.Struct, frozen=True, kw_only=True):
    """What a call does, where the kind of the tool does not say it."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    """Whether a call with an unknown outcome may be made again; else it fails."""
    open_world: bool | None = None


class ToolGovernance(msgspec.Struct, frozen=True, kw_only=True):
    """What a call needs, as in the `governance` block of a workflow."""

    risk: str | None = None
    scopes: list[str] | None = None
    """Scopes that a caller needs beside tool:run."""
    confirm: bool | None = None
    draft: str | None = None
    """Whether a call waits for approval."""
    approvers: dict[str, Any] | None = None
    """Who approves, as in a workflow."""


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request that a call becomes, with expressions over `.input`, as in an `http` node."""

    url: str
    """A fixed host, and a path; values in the path are escaped."""
    method: str = "GET"
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    """Headers; `${secret:NAME}` stands for a secret of the tenant."""
    query: dict[str, Any] = msgspec.field(default_factory=dict)
    """What follows the `?`."""
    body: Any = None
    """The body; anything but text is sent as JSON."""
    expect_status: list[int] | None = None
    """The answers that count as success; 200 to 299 if left out."""


class ToolView(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, and since when it is as it is."""

    kind: str
    """What performs it."""
    name: str | None = None
    """What the server, the module or the graph calls it."""
    server: str | None = None
    """With `mcp`: the name of the server in the settings."""
    graph: str | None = None
    """With `query`: the graph."""
    branch: str | None = None
    """With `query`: the branch, if not main."""
    http: ToolRequest | None = None
    """With `http`: what is sent."""
    secrets: list[str] = msgspec.field(default_factory=list)
    """With `http`: secrets of the tenant that the headers name."""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    """The JSON Schema of a result; a call with another result fails."""
    result: Any = None
    """What comes back, as a template over `.call`; the body of a response, else the whole result."""
    timeout: str | None = None
    """How long a call may take."""
    annotations: ToolAnnotations | None = None
    """What a call does."""
    governance: ToolGovernance | None = None
    """What a call needs."""
    expose: bool = False
    """Whether it is also an MCP tool."""
    title: str | None = None
    """A name for people."""
    description: str | None = None
    """What it is, for people."""
    id: str
    etag: str
    created_at: str | None
    updated_at: str | None
    updated_by: str | None
    author: AuthorView | None = None


class ToolPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of tools."""

    items: list[ToolView]
    next_cursor: str | None
    proposals: list[ProposalView] = msgspec.field(default_factory=list)
