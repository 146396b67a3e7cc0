"""What the client of a request can do, and its answer to a question.

`eras.clients` derives this from what a client declared to the SDK; everything else reads it here. This module does not
import the SDK.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.base.json import JsonObject
from penstock.mcp_surface.questions.client_questions import Action, ClientQuestion, Kind

__all__ = ["ALREADY_ANSWERED", "Client", "ClientAnswer"]

ALREADY_ANSWERED = ("ALREADY_ANSWERED", "NO_OPEN_QUESTION")
"""Reason codes of an answer that came too late because somebody else was faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAnswer:
    """The answer to a question: what a person did with a form, or what the client itself answered."""

    action: Action = "accept"
    content: JsonObject = field(default_factory=dict)
    kind: Literal["elicitation", "sampling", "roots"] = "elicitation"
    result: JsonObject = field(default_factory=dict)
    """The answer to sampling and roots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What the client can do during this request."""

    report: Callable[[float, str, JsonObject], Awaitable[None]] | None = None
    """Report progress, with metadata about the message."""
    log: Callable[[int, JsonObject], Awaitable[None]] | None = None
    """Send a log line of a step, with its level as a number of the standard library."""
    kinds: frozenset[Kind] = frozenset()
    """The kinds of questions that it supports."""
    ask: Callable[[ClientQuestion], Awaitable[ClientAnswer | None]] | None = None
    """Ask now; returns None when that was not possible."""
    settled: Callable[[ClientQuestion], Awaitable[None]] | None = None
    """Notify it that a page has answered a question."""
    tasks: bool = False
    """Whether it supports tasks."""
    apps: bool = False
    """Whether it shows pages beside results of tools."""
    completes: bool = False
    """Whether it answers questions by calling again."""
    answers: Mapping[str, ClientAnswer] = field(default_factory=dict)
    state: str | None = None
    """With `answers`: the request state that it received with the questions."""
    idempotency_key: str | None = None
    said: Mapping[str, object] = field(default_factory=dict)
    """What it says about a change beside its arguments, by the names of `INTENT_NAMES`."""
    cancelled: Callable[[], bool] = lambda: False
    """Whether it cancelled this request; disconnecting is not cancelling."""
    strict: bool = False
    """Whether invalid arguments are a protocol error, as some profiles require."""
