"""What every client for Python is made to do, and the form in which it tells what it got.

Clients run in environments of their own, in which nothing of this project is: this imports the standard library only.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable
from typing import Any, NamedTuple, Protocol

__all__ = ["Answer", "Client", "answer_of", "headers", "observe"]

# How long a call is waited for that is then left.
_LEFT_AFTER_SECONDS = 0.3


class Answer(NamedTuple):
    """What a caller has of a call that raised nothing."""

    is_error: bool
    text: str


class Client(Protocol):
    """What a driver makes of its client."""

    def server(self) -> Any:
        """Name and version of the server; None if the client does not say."""

    async def names(self) -> list[str]:
        """The names of the tools."""

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        """Call a tool."""


def headers() -> dict[str, str]:
    """The key, as it is sent."""
    return {"Authorization": f"Bearer {os.environ['PENSTOCK_API_KEY']}"}


def answer_of(result: Any) -> Answer:
    """A result of the protocol, whatever its members are called in this version of a library."""
    is_error = getattr(result, "is_error", None) or getattr(result, "isError", None) or False
    return Answer(is_error, "\n".join(block.text for block in result.content if block.type == "text"))


async def _outcome(call: Awaitable[Answer]) -> dict[str, Any]:
    try:
        answer = await call
    except Exception as error:
        return {"raised": True, "is_error": True, "text": str(error), "type": type(error).__name__}
    return {"raised": False, "is_error": bool(answer.is_error), "text": answer.text}


async def _cancelled(client: Client) -> dict[str, Any]:
    left = asyncio.wait_for(client.call("nap", {}), _LEFT_AFTER_SECONDS)
    return {"ended": await _outcome(left), "after": await _outcome(client.call("greet", {"name": "Ada"}))}


_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "right": ("greet", {"name": "Ada"}),
    "wrong": ("greet", {"name": "Ada", "tone": "rude", "more": 1}),
    "unknown": ("nothing", {}),
    "failing": ("stumble", {}),
    "waiting": ("refund_order", {"order": "A-1"}),
    "large": ("big", {}),
}


async def observe(mode: str, client: Client, *, without: frozenset[str] = frozenset()) -> None:
    """Do all of it and print it; with `hang`, call something long instead until somebody ends the process."""
    if mode == "hang":
        await client.call("nap", {})
        return
    seen: dict[str, Any] = {"connect": client.server(), "list": await client.names()}
    for check, (name, arguments) in _CALLS.items():
        if check not in without:
            seen[check] = await _outcome(client.call(name, arguments))
    if "cancel" not in without:
        seen["cancel"] = await _cancelled(client)
    print(json.dumps(seen), flush=True)
