"""The embedded host as if it were elsewhere: inputs go to it as bytes, and it has no attribute but those of the port.

A driver that looks past the port, or that needs the very object that it sent, does not work with it.

Above it: `test_hosts`. Below it: any `EffectHost`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec.structs import replace

from penstock.engine import inputs
from penstock.engine.outcomes import Decision
from penstock.runtime.host.effect_host import EffectHost
from penstock.runtime.ports.host import Committed
from tests.conformance.mailbox_host import input_from_bytes, input_to_bytes

__all__ = ["PORT", "wired"]


def _members(protocol: type[Any]) -> frozenset[str]:
    return frozenset(
        name
        for kind in protocol.__mro__
        if kind.__module__.startswith("penstock.")
        for name in (*vars(kind), *vars(kind).get("__annotations__", ()))
        if not name.startswith("_")
    )


PORT = _members(EffectHost)


def wired(host: EffectHost) -> EffectHost:
    """A host behind a wire."""
    return cast("EffectHost", _WiredHost(host))


class _WiredHost:
    _inner: EffectHost

    def __init__(self, inner: EffectHost) -> None:
        self.__dict__["_inner"] = inner

    def __getattr__(self, name: str) -> Any:
        if name not in PORT:
            raise AttributeError(f"{name} is not of the host port")
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "worker_id":
            raise AttributeError(f"{name} of a host is not for others to set")
        self._inner.worker_id = value

    async def start(self, given: inputs.StartRun, **more: Any) -> Decision:
        return await self._inner.start(cast("inputs.StartRun", input_from_bytes(input_to_bytes(given))), **more)

    async def send(self, run_id: str, given: inputs.Input, **more: Any) -> Decision:
        return await self._inner.send(run_id, input_from_bytes(input_to_bytes(given)), **more)

    def subscribe(self, listener: Callable[[Committed], None] | None) -> None:
        if listener is None:
            self._inner.subscribe(None)
            return
        told = listener

        def hand_on(committed: Committed) -> None:
            given = committed.given
            told(committed if given is None else replace(committed, given=input_from_bytes(input_to_bytes(given))))

        self._inner.subscribe(hand_on)
