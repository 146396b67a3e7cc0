"""Part of `benchmarks.durable`: many runs that wait for a person, what they cost, and how soon an answer is stored.

    python -m benchmarks.durable.waiting FILE RUNS ROUNDS ANSWERS

A process of its own, so that the growth of its memory is that of the waiting runs. Answered are runs spread over all
that wait: most of them are no longer in memory, as after a night. The time is from the call that gives the answer
until the records that follow it are durable and have been read back from the file.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import threading
import time
from pathlib import Path

from benchmarks.durable.load import percentile
from benchmarks.durable.product import Engine, opened
from penstock.base.json import JsonObject
from penstock.engine import inputs
from penstock.engine.outcomes import Refused
from penstock.runtime.system import new_run_id

__all__ = ["main"]

_STARTERS = 200
_MEGABYTE = 1_000_000

ASKING: JsonObject = {
    "penstock": "v1",
    "name": "asking",
    "nodes": [
        {
            "id": "ask",
            "type": "interrupt",
            "message": "Go on?",
            "answer": {"type": "object", "required": ["approve"], "properties": {"approve": {"type": "boolean"}}},
        },
        {"id": "work", "type": "step", "handler": "work"},
        {"id": "finish", "type": "end", "output": "${ .work.out }"},
    ],
}


def resident_bytes() -> int:
    """Memory of this process; its peak where the present value is not known."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text(encoding="utf-8").split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


async def _start_many(engine: Engine, count: int) -> dict[str, int]:
    """Start runs that wait; where the history of each stood when it began to."""
    seqs: dict[str, int] = {}
    left = count

    async def starter() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            run_id = new_run_id()
            seqs[run_id] = await engine.start(run_id)

    await asyncio.gather(*(starter() for _ in range(_STARTERS)))
    return seqs


async def _answer(engine: Engine, run_id: str, seq: int) -> float:
    """Answer a run; how long it took until the next records could be read, in milliseconds."""
    ended = engine.ending(run_id)
    began = time.perf_counter()
    given = inputs.AnswerInterrupt(at=engine.host.clock.now_ms(), answer={"approve": True})
    decision = await engine.host.send(run_id, given)
    records = await engine.host.history(run_id, after_seq=seq)
    taken_ms = (time.perf_counter() - began) * 1000
    if isinstance(decision, Refused) or not records or records[0].seq != seq + 1:
        raise SystemExit(f"the answer to run {run_id} is not in its history")
    await ended  # the rest of the run must not disturb the next answer
    return taken_ms


async def _answer_some(engine: Engine, chosen: list[tuple[str, int]]) -> list[float]:
    return sorted([await _answer(engine, run_id, seq) for run_id, seq in chosen])


def _best(rounds: list[list[float]]) -> JsonObject:
    quietest = min(rounds, key=lambda taken: percentile(taken, 0.5))
    return {"p50": round(percentile(quietest, 0.5), 3), "p99": round(percentile(quietest, 0.99), 3)}


async def _measure(path: Path, count: int, rounds: int, answers: int) -> JsonObject:
    async with opened(path, ASKING) as engine:
        first = await _start_many(engine, 1)
        await _answer_some(engine, list(first.items()))
        gc.collect()
        tasks, threads, resident = len(asyncio.all_tasks()), threading.active_count(), resident_bytes()
        began = time.perf_counter()
        asked = await _start_many(engine, count)
        seconds = time.perf_counter() - began
        gc.collect()
        figures: JsonObject = {
            "waiting_runs": len(asked),
            "rss_mb": round((resident_bytes() - resident) / _MEGABYTE, 1),
            "tasks_before": tasks,
            "tasks": len(asyncio.all_tasks()),
            "threads_before": threads,
            "threads": threading.active_count(),
            "starts_per_second": round(count / seconds, 1),
        }
        spread = list(asked.items())[:: max(count // (rounds * answers), 1)][: rounds * answers]
        anywhere, in_memory = [], []
        for number in range(rounds):
            anywhere.append(await _answer_some(engine, spread[number::rounds]))
            fresh = await _start_many(engine, answers)
            in_memory.append(await _answer_some(engine, list(fresh.items())))
        return {**figures, "answer_ms": _best(anywhere), "answer_in_memory_ms": _best(in_memory)}


def main(arguments: list[str]) -> int:
    """Measure and print the figures."""
    path, count, rounds, answers = arguments
    print(json.dumps(asyncio.run(_measure(Path(path), int(count), int(rounds), int(answers)))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
