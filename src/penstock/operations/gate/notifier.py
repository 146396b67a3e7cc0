"""A list of callbacks that exists before both its senders and its listeners.

So neither side needs a reference to the other, and nothing has to be assigned after construction.

Above it: `context.Services` has some; the gate and the dispatcher of webhooks listen. Below it: nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

__all__ = ["Notifier"]

P = ParamSpec("P")


class Notifier(Generic[P]):
    """Calls every listener, in the order in which they registered."""

    def __init__(self) -> None:
        self._listening: dict[Callable[P, None], None] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every listener."""
        for callback in tuple(self._listening):
            callback(*args, **kwargs)

    def listen(self, callback: Callable[P, None]) -> None:
        """Register a callback, until `leave`."""
        self._listening[callback] = None

    def leave(self, callback: Callable[P, None]) -> None:
        """Remove a callback."""
        self._listening.pop(callback, None)
