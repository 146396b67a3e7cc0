"""What is right of what a client observed: the same for every client, whoever wrote it.

Above it: `run`, the tests that run one client. Below it: nothing but data.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.live.mcp.workflows import ALL

__all__ = ["CHECKS", "judged"]

Seen = dict[str, Any]

_TOOLS = {"greet", "refund_order", "nap", "stumble", "big"}
assert len(_TOOLS) == len(ALL)


def _is_answer(outcome: Seen, *words: str) -> bool:
    """Whether a call was answered, with some words in what the caller has."""
    return not outcome["raised"] and not outcome["is_error"] and _says(outcome, *words)


def _is_refused(outcome: Seen, *words: str) -> bool:
    """Whether a call went wrong in a way that the caller is told of in words: as a result, or as an exception."""
    return bool(outcome["is_error"]) and _says(outcome, *words)


def _says(outcome: Seen, *words: str) -> bool:
    return all(word in outcome["text"] for word in words)


def _connected(seen: Seen) -> bool:
    server = seen["connect"]
    return server is None or server["name"] == "penstock"


def _cancelled(seen: Seen) -> bool:
    """The call has ended without an answer, and the connection is good for another one."""
    cancel = seen["cancel"]
    return cancel["ended"]["raised"] and _is_answer(cancel["after"], "Hello, Ada")


CHECKS: dict[str, Callable[[Seen], bool]] = {
    "connect": _connected,
    "list": lambda seen: set(seen["list"]) >= _TOOLS,
    "hang_up": lambda seen: seen["hang_up"]["server"] == "ok" and seen["hang_up"]["status"] == "waiting_timer",
    "right": lambda seen: _is_answer(seen["right"], "Hello, Ada"),
    "wrong": lambda seen: _is_refused(seen["wrong"], "INVALID_ARGUMENTS", "/tone", "unknown member `more`"),
    "unknown": lambda seen: _is_refused(seen["unknown"], "nothing"),
    "failing": lambda seen: _is_refused(seen["failing"], "FELL", "it fell over"),
    "waiting": lambda seen: _is_answer(seen["waiting"], "waiting_input", "May I refund this order?"),
    "answered": lambda seen: _is_answer(seen["answered"], "answered elsewhere"),
    "large": lambda seen: _is_answer(seen["large"], '{"items":[0,1,', "shown in part", "penstock://executions/"),
    "cancel": _cancelled,
}
"""By name: whether a client saw what it should."""


def judged(seen: Seen) -> dict[str, str | None]:
    """For each thing that a client observed: None if it is right, else what it saw."""
    found: dict[str, str | None] = {}
    for name in seen:
        try:
            is_right = CHECKS[name](seen)
        except (KeyError, TypeError):
            is_right = False
        found[name] = None if is_right else json.dumps(seen[name])[:600]
    return found
