"""Resources of other MCP servers whose changes somebody wants to hear of, and who.

A change is a level: something is different now, read it again. After a lost connection every followed resource counts
as changed, because servers do not repeat what nobody heard.

Above it: surfaces follow resources; executors subscribe to them at the servers and report changes. Below it: nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.base import limits
from penstock.base.errors import LimitExceeded

__all__ = ["FollowedResources"]

_Heard: TypeAlias = Callable[[], None]


@dataclass(slots=True)
class FollowedResources:
    """Who follows which resource, by server and address."""

    _followers: dict[str, dict[str, list[_Heard]]] = field(default_factory=dict)
    _moved: dict[str, asyncio.Event] = field(default_factory=dict)

    def follow(self, server: str, uri: str, heard: _Heard) -> None:
        """Call `heard` when a resource changes. Raises `LimitExceeded` if too many of the server are followed."""
        followed = self._followers.setdefault(server, {})
        if uri not in followed:
            if len(followed) >= limits.UPSTREAM_FOLLOWED_MAX:
                message = f"{limits.UPSTREAM_FOLLOWED_MAX} resources of {server} are followed already"
                raise LimitExceeded("STREAMS_LIMITED", message, "try again later", {})
            self._event(server).set()
        followed.setdefault(uri, []).append(heard)

    def leave(self, server: str, uri: str, heard: _Heard) -> None:
        """Stop calling `heard`."""
        followed = self._followers.get(server, {})
        if heard in followed.get(uri, ()):
            followed[uri].remove(heard)
            if not followed[uri]:
                del followed[uri]
                self._event(server).set()

    def wanted(self, server: str) -> frozenset[str]:
        """The addresses of a server that are followed now."""
        return frozenset(self._followers.get(server, ()))

    async def moved(self, server: str) -> None:
        """Wait until other resources of a server are wanted than when this was last called."""
        event = self._event(server)
        await event.wait()
        event.clear()

    def updated(self, server: str, uri: str) -> None:
        """Report that a resource changed. What nobody follows is ignored."""
        for heard in tuple(self._followers.get(server, {}).get(uri, ())):
            heard()

    def lost(self, server: str) -> None:
        """Report that changes may have been missed."""
        for uri in self.wanted(server):
            self.updated(server, uri)

    def _event(self, server: str) -> asyncio.Event:
        return self._moved.setdefault(server, asyncio.Event())
