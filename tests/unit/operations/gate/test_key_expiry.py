"""What is under way with a key ends with the key, and nothing else does."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from penstock.operations.gate.pipeline import RefusedCall
from penstock.runtime.tables.api_keys import put_key, read_key
from tests.unit.operations.conftest import Caller, OpenGate
from tests.waiting import SECONDS_MAX, until

NAP = {
    "penstock": "v1",
    "name": "nap",
    "nodes": [{"id": "nap", "type": "wait", "duration": "1h"}, {"id": "done", "type": "end"}],
}
# At once, on a machine that is busy; without being told, nobody would look for fifteen seconds.
SECONDS_TO_END = 10.0


async def until_held(caller: Caller, calls: int) -> None:
    watch = caller.gate.key_monitor
    await until(lambda: sum(map(len, watch._calls.values())) >= calls)


@pytest.mark.parametrize("way", ["revoked here", "revoked elsewhere", "expired"])
def test_calls_end_with_their_key_and_their_executions_go_on(open_caller: OpenGate, way: str) -> None:
    async def test(owner: Caller) -> None:
        await owner.call("workflow.create", document=NAP)
        run = (await owner.call("workflow.execute", workflow_id="nap"))["execution_id"]
        made = await owner.call("key.create", name="short", scopes=["*"])
        holder, other = owner.with_key(made["secret"]), await owner.new_caller("*")
        calls = [
            asyncio.create_task(holder.outcome("execution.wait", execution_id=run, wait_seconds=50)),
            asyncio.create_task(holder.outcome("workflow.execute", workflow_id="nap", wait_seconds=50)),
            asyncio.create_task(holder.outcome("execution.update", execution_id=run, name="go", wait_seconds=50)),
        ]
        stays = asyncio.create_task(other.outcome("execution.wait", execution_id=run, wait_seconds=50))
        await until_held(owner, 4)
        services, key_id = owner.gate.services, made["key"]["id"]
        began = asyncio.get_running_loop().time()
        if way == "revoked here":
            await owner.call("key.revoke", key_id=key_id)
        else:
            row = await read_key(services.platform, key_id)
            assert row is not None
            member = "revoked_at" if way == "revoked elsewhere" else "expires_at"
            await put_key(services.platform, msgspec.structs.replace(row, **{member: services.clock.now_ms()}))
        for ended in await asyncio.wait_for(asyncio.gather(*calls), SECONDS_MAX):
            assert isinstance(ended, RefusedCall)
            assert ended.error.code == "KEY_REVOKED"
        assert asyncio.get_running_loop().time() - began < SECONDS_TO_END
        assert not stays.done()
        assert not calls[0].cancelling()
        await asyncio.wait_for(owner.gate.finish(), SECONDS_MAX)  # nothing waits on for who was sent away
        runs = (await owner.call("execution.list"))["items"]
        assert [item["status"] for item in runs] == ["waiting_timer"] * 2
        stays.cancel()
        await asyncio.wait([stays])
        assert not owner.gate.key_monitor._calls

    async def body() -> None:
        async with open_caller() as owner:
            await test(owner)

    asyncio.run(body())


def test_who_replaces_their_own_key_gets_the_new_one(open_caller: OpenGate) -> None:
    async def body() -> None:
        async with open_caller() as owner:
            for _ in range(5):
                made = await owner.call("key.create", name="own", scopes=["*"])
                rotated = await owner.with_key(made["secret"]).call("key.rotate", key_id=made["key"]["id"])
                again = owner.with_key(rotated["secret"])
                await again.call("workflow.list")
                assert (await again.call("key.revoke", key_id=rotated["key"]["id"]))["status"] == "revoked"

    asyncio.run(body())
