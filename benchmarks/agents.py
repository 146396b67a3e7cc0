"""What a durable, governed turn of an agent costs, beside a bare pydantic-ai loop with the same scripted model.

    scripts/benchmark agents [--quick]

- overhead: an agent asks its model eight times and calls a tool in each turn but the last; the bare loop does the same
  in memory. Both are measured in turns, one after the other in small groups, in one process and one run. A turn of ours
  is stored on the disk before and after it is asked, its call passes the gate and is a durable run of its own. The
  figure is the median, over the groups, of the difference of their medians of the wall time of a turn: what slows the
  machine down for a while slows both sides of a group down. The disk is the one that the temporary files are
  on; `..._processor_ms` is the same in processor time, which does not depend on it. Both sides run on the event loop
  and with the collector that a server has; `--asyncio` takes those that Python has by itself.
- durable turns per second: of many agents side by side.
- imports of OpenAPI documents: what `scripts/benchmark openapi` measures, taken from there.

`--quick` measures less, and leaves out the two largest documents. The last line is one JSON object; `ok` if every
target holds, and the exit code is not 0 otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from benchmarks.openapi.__main__ import measure as measure_openapi
from benchmarks.servers import missed_targets
from penstock.app import event_loop
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base.json import JsonObject
from penstock.operations.gate.context import GateLimits, Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.port import LlmRequest
from penstock.runtime.executors.llm.pydantic_ai import LlmProviderConfig, PydanticProvider

__all__ = ["measure"]

_TARGETS = {
    "overhead_per_turn_ms_p50": ("at_most", 5.0),
    "openapi_usable_ratio_to_fastmcp": ("at_least", 1.0),
    "openapi_list_bytes_ratio_to_fastmcp": ("at_most", 1.0),
}
_TURNS = 8
_CALLS_MAX = 10**9
_SECONDS_MAX = 240.0
_GROUP = 5
_INSTRUCTIONS = "You work for the support of a shop. Look an order up before you say anything about it."
_FIND: JsonObject = {
    "penstock": "v1",
    "name": "find_order",
    "description": "Finds an order.",
    "input": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
    "expose": {"tool": True},
    "nodes": [{"id": "done", "type": "end", "output": {"id": "${ .input.id }", "status": "shipped"}}],
}
_SUPPORT: JsonObject = {
    "penstock": "v1",
    "name": "support",
    "agent": {"model": "fast", "instructions": _INSTRUCTIONS, "tools": ["workflow:find_order"]},
}


async def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call the tool until the last turn; the same for both. Were it no coroutine, it would be called in a thread."""
    taken = sum(isinstance(message, ModelResponse) for message in messages)
    if taken >= _TURNS - 1:
        return ModelResponse(parts=[TextPart("They are all on their way.")])
    return ModelResponse(parts=[ToolCallPart("find_order", {"id": f"A-{taken}"}, f"call_{taken}")])


_MODEL = FunctionModel(_answer)


class _Scripted(PydanticProvider):
    """The provider that a server has, with a model that needs no network."""

    async def _client(self, model: str) -> Model[Any]:
        return _MODEL

    async def _response(self, model: Model[Any], request: LlmRequest) -> ModelResponse:
        # A scripted model writes nothing piece by piece, and the bare loop does not ask for that either.
        return await super()._response(model, replace(request, reader=None))


def _bare() -> Callable[[], Awaitable[None]]:
    agent: Agent[None, str] = Agent(_MODEL, instructions=_INSTRUCTIONS)

    @agent.tool_plain
    async def find_order(id: str) -> dict[str, str]:  # the name that the model gives
        """Finds an order."""
        return {"id": id, "status": "shipped"}

    async def run() -> None:
        await agent.run("Where are my orders?")

    return run


@asynccontextmanager
async def _platform(folder: Path) -> AsyncIterator[Gate]:
    config = LlmProviderConfig(kind="openai-compatible", needs_key=False, models={"fast": "fast"})
    limits = GateLimits(read_per_minute=_CALLS_MAX, write_per_minute=_CALLS_MAX, admin_per_minute=_CALLS_MAX)
    async with (
        Penstock.open(
            folder / "penstock.db",
            executors={"llm_call": LlmExecutor({"scripted": _Scripted("scripted", config)})},
            governed=True,
        ) as penstock,
        open_gate(penstock, chosen=limits) as gate,
    ):
        for document in (_FIND, _SUPPORT):
            await _called(gate, "workflow.create", document=document)
        yield gate


async def _called(gate: Gate, operation: str, /, **arguments: Any) -> Any:
    outcome = await gate.call(
        Request(operation=operation, arguments=arguments, principal=local_owner(), surface="rest", request_id="b")
    )
    if not isinstance(outcome, AnsweredCall):
        raise SystemExit(f"{operation} was refused: {outcome}")
    return outcome.reply


async def _ours(gate: Gate) -> None:
    given = {"workflow_id": "support", "input": {"prompt": "Where are my orders?"}}
    reply = await _called(gate, "workflow.execute", **given, sync=True, wait_seconds=_SECONDS_MAX)
    if reply.value.status != "completed":
        raise SystemExit(f"the agent did not end well: {reply.value}")


async def _timed(run: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """The wall time and the processor time of one turn, in milliseconds."""
    began, used = time.perf_counter(), time.process_time()
    await run()
    return (time.perf_counter() - began) * 1_000 / _TURNS, (time.process_time() - used) * 1_000 / _TURNS


async def _overhead(gate: Gate, count: int) -> dict[str, float]:
    bare = _bare()

    async def ours() -> None:
        await _ours(gate)

    for run in (ours, bare):  # warm up
        await _timed(run)
    groups: list[tuple[list[tuple[float, float]], list[tuple[float, float]]]] = []
    for _ in range(count):
        groups.append(([await _timed(ours) for _ in range(_GROUP)], [await _timed(bare) for _ in range(_GROUP)]))

    def p50(side: int, which: int) -> float:
        return median(item[which] for group in groups for item in group[side])

    def difference(which: int) -> float:
        found = (tuple(median(item[which] for item in side) for side in group) for group in groups)
        return median(mine - theirs for mine, theirs in found)

    return {
        "overhead_per_turn_ms_p50": round(difference(0), 3),
        "overhead_per_turn_processor_ms": round(difference(1), 3),
        "turn_ms_p50": round(p50(0, 0), 3),
        "turn_bare_ms_p50": round(p50(1, 0), 3),
    }


async def _throughput(gate: Gate, agents: int) -> dict[str, float]:
    began, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(_ours(gate) for _ in range(agents)))
    turns = agents * _TURNS
    return {
        "durable_turns_per_second": round(turns / (time.perf_counter() - began), 1),
        "durable_turn_processor_ms": round((time.process_time() - used) * 1_000 / turns, 3),
    }


async def measure(*, quick: bool) -> dict[str, float]:
    """Measure turns, without the imports."""
    with tempfile.TemporaryDirectory(prefix="penstock-agents-") as folder:
        async with _platform(Path(folder)) as gate:
            overhead = await _overhead(gate, 2 if quick else 12)
            return {**overhead, **await _throughput(gate, 20 if quick else 100)}


def main() -> None:
    """Print the figures as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer runs, and without the two largest documents")
    parser.add_argument("--turns-only", action="store_true", help="leave the imports out; then they miss no target")
    parser.add_argument("--asyncio", action="store_true", help="the event loop of Python, instead of a server's")
    given = parser.parse_args()
    measuring = measure(quick=given.quick)
    figures: dict[str, Any] = asyncio.run(measuring) if given.asyncio else event_loop.run(measuring)
    targets = dict(_TARGETS)
    if given.turns_only:
        targets = {name: target for name, target in _TARGETS.items() if not name.startswith("openapi")}
    else:
        print(json.dumps(figures), file=sys.stderr, flush=True)
        figures |= measure_openapi(quick=given.quick)
    missed = missed_targets(figures, targets)
    print(json.dumps({**figures, "missed": missed, "ok": not missed}))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
