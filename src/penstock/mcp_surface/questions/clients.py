"""What the client of a request can do, and what it answers to a question.

`eras.clients` finds this out from what a client declared to the SDK; everything else reads it here. This module does
not know the SDK.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.base.json import JsonObject
from penstock.mcp_surface.questions.client_questions import Action, ClientQuestion, Kind

__all__ = ["ALREADY_ANSWERED", "Client", "ClientAnswer"]

ALREADY_ANSWERED = ("ALREADY_ANSWERED", "NO_OPEN_QUESTION")
"""Codes of refusals of an answer that came too late: somebody else was faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAnswer:
    """What came back for a question: what a person did, or what the client itself says."""

    action: Action = "accept"
    content: JsonObject = field(default_factory=dict)
    kind: Literal["elicitation", "sampling", "roots"] = "elicitation"
    result: JsonObject = field(default_factory=dict)
    """Of sampling and roots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What the client can do on this request."""

    report: Callable[[float, str, JsonObject], Awaitable[None]] | None = None
    """Tell it how far the call is, with what the metadata says of the words."""
    log: Callable[[int, JsonObject], Awaitable[None]] | None = None
    """Tell it what a step wrote into its log, and how important that is (in the numbers of the standard library)."""
    kinds: frozenset[Kind] = frozenset()
    """What it can be asked."""
    ask: Callable[[ClientQuestion], Awaitable[ClientAnswer | None]] | None = None
    """Ask now; None comes back when that was not possible."""
    settled: Callable[[ClientQuestion], Awaitable[None]] | None = None
    """Tell it that a page has answered a question."""
    tasks: bool = False
    """Whether it comes back for what takes longer."""
    completes: bool = False
    """Whether it answers questions by calling again."""
    answers: Mapping[str, ClientAnswer] = field(default_factory=dict)
    state: str | None = None
    """With `filled`: what it was given with the questions that it answers now."""
    idempotency_key: str | None = None
    cancelled: Callable[[], bool] = lambda: False
    """Whether it said that it does not want this request any more; to hang up says nothing."""
    strict: bool = False
    """Whether arguments that do not fit are a fault of the protocol, as some profiles want it."""
