"""What a call was given is gone when the call is over, without the garbage collector.

A full collection looks at everything that is alive. If the arguments of calls waited for it, many large ones would take
far more memory than runs may, and then hold up the event loop for as long as it takes to look at them.
"""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any, Final

from penstock.app.serving.server import ServerOptions
from penstock.operations.gate.context import Request
from tests.fixtures.oauth_server import serving_oauth
from tests.scenarios.keyed_operations import ARRANGEMENTS, keyed_operations, open_desk
from tests.unit.rest.conftest import WAITS, opened
from tests.waiting import SECONDS_MAX, until

LISTS: Final = 60_000
RUNS: Final = 25


def test_no_operation_leaves_its_request_to_the_garbage_collector(tmp_path: Path) -> None:
    mark = "key-of-this-test"

    def left() -> list[str]:
        return sorted(
            {item.operation for item in gc.get_objects() if type(item) is Request and item.idempotency_key == mark}
        )

    async def is_clear() -> bool:
        return not left()

    async def test() -> None:
        async with serving_oauth() as oauth, open_desk(tmp_path, oauth) as desk:
            names = [item.name for item in keyed_operations(desk.gate)]
            gc.collect()
            gc.disable()
            try:
                for name in names:
                    arguments: Any = await ARRANGEMENTS[name](desk)
                    await desk.outcome(name, arguments, mark)
                # Runs that were begun go on for a moment.
                await until(is_clear)
            except TimeoutError:
                raise AssertionError(f"these are still in memory: {left()}") from None
            finally:
                gc.enable()

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_waiting_runs_with_large_inputs_take_no_more_memory_than_they_may(tmp_path: Path) -> None:
    body = json.dumps({"input": [["x"]] * LISTS}).encode()

    def alive() -> int:
        return sum(type(item) is list and len(item) == LISTS for item in gc.get_objects())

    async def test() -> None:
        async with opened(tmp_path, ServerOptions()) as client:
            assert (await client("POST", "workflows", {"document": WAITS})).status == 201
            gc.collect()
            gc.disable()
            try:
                for _ in range(RUNS):
                    assert (await client("POST", "workflows/waits/executions", body)).status == 202
                in_memory = len(client.gate.services.host.live_runs())  # type: ignore[attr-defined]  # the embedded host

                async def is_bounded() -> bool:
                    return alive() <= in_memory < RUNS

                await until(is_bounded)
            finally:
                gc.enable()

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
