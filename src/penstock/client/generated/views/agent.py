"""What operations on agent answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.client.generated.views.execution import ErrorView, HeldView, QuestionView
from penstock.client.generated.views.workflow import AuthorView, ProposalView

__all__ = [
    "AgentCardView",
    "AgentCards",
    "AgentConversationEntry",
    "AgentLimitsEntry",
    "AgentMemoryEntry",
    "AgentPage",
    "AgentToolEntry",
    "AgentView",
    "MessageResult",
]


class AgentCardView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as callers see it who may not read its document."""

    agent_id: str
    title: str
    description: str
    version: str


class AgentCards(msgspec.Struct, frozen=True, kw_only=True):
    """The agents, by id."""

    items: list[AgentCardView]


class AgentConversationEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a long conversation the agent reads."""

    characters: int | None = None
    summarize: bool | None = None
    model: str | None = None


class AgentLimitsEntry(msgspec.Struct, frozen=True, kw_only=True):
    """When the agent has to stop."""

    turns: int | None = None
    tokens: int | None = None
    cost: float | None = None
    time: str | None = None
    parallel_tools: int | None = None


class AgentMemoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent may remember beyond its run, by scope."""

    read: list[str] | None = None
    write: list[str] | None = None


class AgentToolEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, and whether a person is asked before each call."""

    tool: str
    """Its canonical name; with `*` at the end, all names with this prefix."""
    approve: bool = False
    """Ask a person before each call."""
    approvers: dict[str, Any] | None = None
    """Who approves, as in a workflow."""


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent, and since when it is as it is."""

    name: str | None = None
    """A name for people."""
    model: str | None = None
    """The name of a model; else the default."""
    instructions: str | None = None
    """What the agent is for, and how it should work."""
    workflows: list[str] = msgspec.field(default_factory=list)
    """Exposed workflows and agents that it may call."""
    tools: list[str | AgentToolEntry] = msgspec.field(default_factory=list)
    """Capabilities that it may call: names, patterns such as query:*, or {tool}."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema of its answer."""
    limits: AgentLimitsEntry | None = None
    """When the agent must stop."""
    conversation: AgentConversationEntry | None = None
    """How much of a long conversation it reads."""
    ask_user: bool | None = None
    """Whether it may ask a person."""
    memory: AgentMemoryEntry | None = None
    """What it may remember beyond its run."""
    description: str | None = None
    """What it is, for people."""
    id: str
    etag: str
    created_at: str | None
    updated_at: str | None
    updated_by: str | None
    author: AuthorView | None = None
    source: str = "registry"
    """Where the agent is declared: in the registry, or in the settings."""
    protocol: str | None = None
    """The protocol of an agent of the settings."""


class AgentPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of agents."""

    items: list[AgentView]
    next_cursor: str | None
    proposals: list[ProposalView] = msgspec.field(default_factory=list)


class MessageResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a message: the session, and the status of the run that answers it."""

    execution_id: str
    workflow_id: str
    status: str
    sequence: int
    untrusted: bool = False
    output: Any = None
    error: ErrorView | None = None
    questions: list[QuestionView] = msgspec.field(default_factory=list)
    held: HeldView | None = None
    held_calls: list[HeldView] = msgspec.field(default_factory=list)
    session_id: str
    turn: int
