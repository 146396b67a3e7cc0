"""Several servers on one database, with one queue of deliveries: real files, real requests, and a real kill."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.operations.gate.context import WebhookChoices
from penstock.runtime.ports.platform import DeliveryRow, ResourceRow
from penstock.runtime.system import SystemClock
from penstock.runtime.webhooks.dispatcher import DeliveryDispatcher, ShownEvent
from tests.unit.operations.conftest import Caller, OpenGate, change_services
from tests.unit.operations.receiver import Receiver, dispatching, receiving
from tests.waiting import SECONDS_MAX, until

ROOT = Path(__file__).parents[4]
EVENTS = 12
CLAIM_MS = 25_000


@dataclass(slots=True)
class LateClock(SystemClock):
    """The machine's clock, so many milliseconds ahead."""

    ahead_ms: int = 0

    def now_ms(self) -> int:
        """The time."""
        return SystemClock.now_ms(self) + self.ahead_ms


def run(test: Callable[[Receiver], Awaitable[None]]) -> None:
    async def body() -> None:
        async with asyncio.timeout(SECONDS_MAX), receiving() as receiver:
            await test(receiver)

    asyncio.run(body())


def prepare(caller: Caller) -> LateClock:
    clock = LateClock()
    change_services(caller.gate, webhooks=WebhookChoices(allow_private_addresses=True), clock=clock)
    return clock


async def queued(caller: Caller, receiver: Receiver, count: int) -> str:
    """A webhook with so many deliveries that nobody has sent yet."""
    made = await caller.call("webhook.create", url=receiver.url)
    for _ in range(count):
        await caller.call("webhook.test", endpoint_id=made["webhook"]["id"])
    return str(made["webhook"]["id"])


async def delivered(caller: Caller, endpoint_id: str, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    async def are_all() -> bool:
        page = await caller.call("delivery.list", endpoint_id=endpoint_id, state="delivered", limit=100)
        found[:] = page["items"]
        return len(found) >= count

    await until(are_all)
    return found


def test_of_two_servers_one_sends_each_event(open_caller: OpenGate) -> None:
    async def test(receiver: Receiver) -> None:
        async with open_caller() as here, open_caller() as there:
            for caller in (here, there):
                prepare(caller)
            endpoint_id = await queued(here, receiver, EVENTS)
            receiver.hold = asyncio.Event()
            async with AsyncExitStack() as stack:
                for caller in (here, there):
                    await stack.enter_async_context(dispatching(caller, per_endpoint_max=EVENTS, at_once_max=EVENTS))
                await receiver.events(EVENTS)
                receiver.hold.set()
                found = await delivered(here, endpoint_id, EVENTS)
            assert [item["attempts"] for item in found] == [1] * EVENTS
            assert len(receiver.received) == len({item.headers["webhook-id"] for item in receiver.received}) == EVENTS

    run(test)


def test_what_a_killed_server_claimed_is_sent_by_another_when_the_claim_ends(
    open_caller: OpenGate, tmp_path: Path
) -> None:
    async def test(receiver: Receiver) -> None:
        async with open_caller() as caller:
            clock = prepare(caller)
            receiver.hold = asyncio.Event()
            endpoint_id = await queued(caller, receiver, 1)
            command = [sys.executable, "-m", "tests.unit.operations.dying_sender", str(tmp_path / "penstock.db")]
            sender = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
            try:
                await receiver.events(1)
            finally:
                sender.kill()
                await sender.wait()
            receiver.hold.set()
            async with dispatching(caller) as dispatcher:
                # A later event is sent, and the claimed one is not: its claim holds.
                await caller.call("webhook.test", endpoint_id=endpoint_id)
                await delivered(caller, endpoint_id, 1)
                assert len(receiver.received) == 2
                clock.ahead_ms = CLAIM_MS
                dispatcher.nudge()
                found = await delivered(caller, endpoint_id, 2)
            assert sorted(item["attempts"] for item in found) == [1, 2]
            names = [item.headers["webhook-id"] for item in receiver.received]
            assert names[0] == names[2] != names[1]

    run(test)


def test_a_server_that_was_suspended_until_its_claim_ended_sends_nothing(open_caller: OpenGate) -> None:
    async def test(receiver: Receiver) -> None:
        async with open_caller() as caller:
            clock = prepare(caller)
            async with dispatching(caller) as dispatcher:
                before_suspended = receiver_counts(dispatcher, receiver, clock)
                endpoint_id = await queued(caller, receiver, 1)
                (item,) = await delivered(caller, endpoint_id, 1)
            assert item["attempts"] == 2
            assert before_suspended == [0, 0]
            assert len(receiver.received) == 1

    run(test)


def receiver_counts(dispatcher: DeliveryDispatcher, receiver: Receiver, clock: LateClock) -> list[int]:
    """Suspend the first attempt for as long as a claim lasts; what was received before each attempt."""
    shown, counts = dispatcher.shown, list[int]()
    assert shown is not None

    async def suspended(row: ResourceRow, delivery: DeliveryRow) -> ShownEvent | None:
        if not counts:
            clock.ahead_ms += CLAIM_MS
        counts.append(len(receiver.received))
        return await shown(row, delivery)

    dispatcher.shown = suspended
    return counts
