"""A list of callbacks that exists before both those who notify and those who listen.

Neither has to be put into the other afterwards.

Above it: `context.Services` has some; the gate and the dispatcher of webhooks listen. Below it: nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

__all__ = ["Notifier"]

P = ParamSpec("P")


class Notifier(Generic[P]):
    """Calls everybody who listens, in the order in which they came."""

    def __init__(self) -> None:
        self._listening: dict[Callable[P, None], None] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell everybody; nobody, if nobody listens."""
        for hear in tuple(self._listening):
            hear(*args, **kwargs)

    def listen(self, hear: Callable[P, None]) -> None:
        """Call this from now on, until `leave`."""
        self._listening[hear] = None

    def leave(self, hear: Callable[P, None]) -> None:
        """Do not call this any more."""
        self._listening.pop(hear, None)
