"""The epoch beside the idempotency key, and the last look before an effect that had to wait."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Self

import pytest
from msgspec.structs import replace

from penstock.base.clock import ManualClock
from penstock.runtime.activities.performing import ActivityCall
from penstock.runtime.executors.http.executor import HttpExecutor
from penstock.runtime.executors.step.executor import StepExecutor
from penstock.runtime.host.leases import HeldLease, WorkerLease
from penstock.runtime.steps.registry import StepContext, StepRegistry
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.workers import remove_worker
from tests.opened_database import opened_store
from tests.unit.runtime.executors import process_steps
from tests.unit.runtime.executors.calls import bounded, call_of, done
from tests.unit.runtime.executors.mcp.test_executor import executor_of, script, tool
from tests.unit.runtime.executors.web_server import Answer, serving
from tests.waiting import SECONDS_MAX

GAP_MS = 30_000


class Owner:
    """A process that can be suspended, and whose runs can be taken over."""

    def __init__(self, store: RunStore) -> None:
        self.store, self.clock = store, ManualClock(1)
        self.lost: list[str] = []
        self.lease = WorkerLease(store=self.store, clock=self.clock, worker_id="w", on_lost=self.lost.append)

    @classmethod
    @asynccontextmanager
    async def opened(cls) -> AsyncIterator[Self]:
        async with opened_store(RunStore(TemporaryDatabase())) as store:
            yield cls(store)

    async def begun(self, call: ActivityCall) -> ActivityCall:
        await self.lease.renew()
        return replace(call, epoch=3, ownership=HeldLease(self.lease, "w"))

    async def is_suspended(self) -> None:
        self.clock.elapse(GAP_MS)
        await remove_worker(self.store.database, "w")


@pytest.mark.parametrize(("method", "epoch"), [("GET", None), ("POST", "3")])
def test_a_request_with_effects_tells_the_epoch(method: str, epoch: str | None) -> None:
    async def work() -> str | None:
        async with serving(Answer()) as server, Owner.opened() as owner:
            executor = HttpExecutor(allow_private=True)
            call = call_of("http", {"method": method}, {"url": server.url("/pay")})
            await executor.perform(await owner.begun(call))
            await executor.close()
            return server.seen[0].headers.get("penstock-epoch")

    assert bounded(work()) == epoch


def test_a_request_is_not_sent_after_its_run_was_taken_over_while_it_connected() -> None:
    async def work() -> int:
        async def resolve(host: str, port: int) -> Sequence[str]:
            await owner.is_suspended()
            return ["127.0.0.1"]

        async with serving(Answer()) as server, Owner.opened() as owner:
            executor = HttpExecutor(allow_private=True, resolve=resolve)
            call = call_of("http", {"method": "POST"}, {"url": f"http://shop.test:{server.port}/pay"})
            with pytest.raises(asyncio.CancelledError):
                await executor.perform(await owner.begun(call))
            await executor.close()
            return len(server.seen)

    assert bounded(work()) == 0


def test_a_step_that_waited_for_a_thread_is_not_called_after_its_run_was_taken_over() -> None:
    async def work() -> None:
        calls, may_end, began = list[int](), threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def charge(context: StepContext) -> int:
            calls.append(context.epoch)
            loop.call_soon_threadsafe(began.set)
            may_end.wait(SECONDS_MAX)
            return context.epoch

        registry = StepRegistry()
        registry.register(charge)
        executor = StepExecutor(registry, threads=1)
        async with Owner.opened() as owner:
            call = await owner.begun(call_of("step", {"handler": f"{charge.__module__}:{charge.__qualname__}"}))
            first = asyncio.ensure_future(executor.perform(call))
            await began.wait()
            second = asyncio.ensure_future(executor.perform(call))
            await asyncio.sleep(0)
            await owner.is_suspended()
            may_end.set()
            assert done(await first) == 3
            with pytest.raises(asyncio.CancelledError):
                await second
            assert calls == [3]
            await executor.close()

    bounded(work())


def test_a_step_with_a_process_of_its_own_is_not_begun_after_its_run_was_taken_over() -> None:
    async def work() -> None:
        registry = StepRegistry()
        registry.register(process_steps.add)
        executor = StepExecutor(registry)
        handler = f"{process_steps.add.__module__}:add"
        async with Owner.opened() as owner:
            call = await owner.begun(call_of("step", {"handler": handler}, {"one": 40, "other": 9}))
            result = done(await executor.perform(call))
            assert isinstance(result, dict)
            assert result["total"] == 49
            await owner.is_suspended()
            with pytest.raises(asyncio.CancelledError):
                await executor.perform(call)
            await executor.close()

    bounded(work())


def test_the_server_of_a_tool_is_told_the_epoch() -> None:
    async def work() -> None:
        async with executor_of(script("mcp_tools_server.py")) as executor, Owner.opened() as owner:
            told = done(await executor.perform(await owner.begun(tool("about"))))
            assert isinstance(told, dict)
            assert (told["key"], told["epoch"]) == ("r_1/pay/1", 3)

    bounded(work())
