"""Where starts are governed, child runs wait for the gate that decides about them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.app.child_starts import GovernedChildStarts
from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.engine.effects import StartChild
from penstock.engine.outcomes import Refused
from penstock.runtime.host.effects import ChildStarted

pytestmark = pytest.mark.anyio
EFFECT = StartChild(effect_id="e", child_id="c", workflow_ref="w", input={}, version_pin=None, depth=1)
RUN: Any = None


async def refuses(run: object, effect: StartChild) -> Refused | ChildStarted | None:
    return Refused("POLICY_DENIED", effect.child_id)


async def test_without_a_gate_the_host_starts_children_unless_starts_are_governed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await GovernedChildStarts().start(RUN, EFFECT) is None
    monkeypatch.setattr(limits, "HELD_CALL_GATE_SECONDS", 0.0)
    with pytest.raises(Unavailable, match="waits for a process that may start it"):
        await GovernedChildStarts(governed=True).start(RUN, EFFECT)


async def test_a_start_waits_for_the_gate_and_asks_it() -> None:
    starts = GovernedChildStarts(governed=True)
    waiting = asyncio.create_task(starts.start(RUN, EFFECT))
    await asyncio.sleep(0)
    assert not waiting.done()
    starts.attach(refuses)
    assert await waiting == Refused("POLICY_DENIED", "c")
    starts.detach()
    again = asyncio.create_task(starts.start(RUN, EFFECT))
    await asyncio.sleep(0)
    assert not again.done()
    again.cancel()
