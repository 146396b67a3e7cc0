"""Ends the calls and streams of a key or token that is revoked or expires.

A credential that this process revokes is checked immediately. Changes by another process on the same file show in a
number that the store changes with every write; it is read a few times a second. Credentials are looked up again only
after such a change, and once a second because they may expire; and only those with something open.

Above it: `pipeline` registers calls here, `app` runs it. Below it: `authentication`, `open_streams`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.operations.gate.authentication import Authenticator
from penstock.operations.gate.context import Services
from penstock.operations.gate.open_streams import Proof
from penstock.runtime.ports.topics import Mark, Topic

__all__ = ["KeyMonitor"]

_LOGGER = logging.getLogger("penstock.gate")
# How often keys are checked although nothing was stored: they may have expired.
_LOOK_ANYWAY_SECONDS = 1.0
_CREDENTIALS = (Topic.KEYS, Topic.TOKENS, Topic.SESSIONS)


class KeyMonitor:
    """Ends calls and streams whose key or token is no longer valid."""

    def __init__(self, services: Services, authenticator: Authenticator) -> None:
        self._services = services
        self._authenticator = authenticator
        self._calls: dict[Proof, set[Callable[[], None]]] = {}
        """By key or token: how to end each call in flight."""
        self._ended: frozenset[Proof] = frozenset()
        """Keys and tokens that are no longer valid and whose streams have been woken."""
        self._mark: Mark = ()
        self._checked_at = 0.0
        self._check_requested = True
        self._wake: asyncio.Event | None = None

    def hold(self, proof: Proof, end: Callable[[], None]) -> None:
        """Call `end` when the key or token is revoked, or the key expires, until `release`."""
        ends = self._calls.get(proof)
        if ends is None:
            self._calls[proof] = ends = set()
        ends.add(end)

    def release(self, proof: Proof, end: Callable[[], None]) -> None:
        """Stop watching the key or token for this call."""
        ends = self._calls.get(proof)
        if ends is not None:
            ends.discard(end)
            if not ends:
                del self._calls[proof]

    def look_now(self) -> None:
        """Check the keys at once: one has changed."""
        self._check_requested = True
        if self._wake is not None:
            self._wake.set()

    async def run(self) -> None:
        """Check keys until cancelled."""
        self._wake = asyncio.Event()
        while True:
            # Not `wait_for`: it swallows a cancellation if the event is set in the same iteration of the loop.
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.KEY_LOOK_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._check()
            except PenstockError as error:
                _LOGGER.warning("cannot check keys at the moment: %s", error.code)

    async def _check(self) -> None:
        now, mark = asyncio.get_running_loop().time(), self._services.platform.changed(*_CREDENTIALS)
        unchanged = mark == self._mark and not self._check_requested
        if unchanged and now - self._checked_at < _LOOK_ANYWAY_SECONDS:
            return
        self._mark, self._checked_at, self._check_requested = mark, now, False
        for proof in tuple(self._calls):
            if not await self._authenticator.may_finish(proof):
                for end in tuple(self._calls.get(proof, ())):
                    end()
        holding = self._services.open_streams.proofs()
        ended = frozenset([proof for proof in holding if not await self._authenticator.holds(proof)])
        new, self._ended = ended - self._ended, ended
        if new:
            self._services.open_streams.wake()
