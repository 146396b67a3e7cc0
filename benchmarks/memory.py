"""What runs in memory take, by what they hold: many that wait, with a megabyte each of text, lists and objects.

    python -m benchmarks.memory            # or: scripts/benchmark memory
    python -m benchmarks.memory 200        # fewer runs

Each kind is a process of its own, so that the growth of its memory is that of its runs. Every run waits for a signal,
so that nobody is busy with it. The anchor is `limits.LIVE_RUNS_BYTES_MAX`: the process may grow by twice as much, for
what Python and SQLite hold beside the runs.

The last line is one JSON object; `ok` is true only if no kind makes the process grow by more.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.durable.waiting import resident_bytes
from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue

RUNS = 1_000
MEGABYTE = 1_000_000
GROWTH_MAX = 2 * limits.LIVE_RUNS_BYTES_MAX
# Of those that are nothing but structure fewer are needed: a few of them take as much, and each takes a second.
KINDS = {"text": 1, "lists": 25, "objects": 25}

WAITING: JsonObject = {
    "penstock": "v1",
    "name": "waiting",
    "nodes": [{"id": "wait", "type": "wait", "signal": "go"}, {"id": "done", "type": "end"}],
}


def value_of(kind: str) -> JsonValue:
    """About a megabyte of JSON."""
    match kind:
        case "text":
            return {"body": "x" * MEGABYTE}
        case "lists":
            return {"body": [[] for _ in range(MEGABYTE // 3)]}
        case _:
            return {"body": [{"a": index} for index in range(MEGABYTE // 13)]}


async def measured(kind: str, runs: int, folder: Path) -> JsonObject:
    """Start runs one after the other; how much this process has grown then, and at most."""
    async with Penstock.open(folder / "memory.db", workflows=[WAITING]) as penstock:
        await penstock.start("waiting", {"body": 1})
        gc.collect()
        before = peak = resident_bytes()
        for _ in range(runs):
            await penstock.start("waiting", value_of(kind))
            peak = max(peak, resident_bytes())
        gc.collect()
        assert penstock.driver is not None
        kept = len(penstock.driver.host.live_runs())
        return {
            "kind": kind,
            "kept": kept,
            "grown_mb": (resident_bytes() - before) // MEGABYTE,
            "peak_mb": peak // MEGABYTE,
        }


def main() -> int:
    """Measure each kind in a process of its own."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    if len(sys.argv) > 2:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(asyncio.run(measured(sys.argv[2], runs, Path(folder)))))
        return 0
    found: list[dict[str, int | str]] = []
    for kind, part in KINDS.items():
        command = [sys.executable, "-m", "benchmarks.memory", str(runs // part), kind]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"{kind}: grown by {found[-1]['grown_mb']} MB, {found[-1]['kept']} runs in memory")
    grown_mb_max = max(int(item["grown_mb"]) for item in found)
    ok = grown_mb_max * MEGABYTE <= GROWTH_MAX
    print(
        json.dumps(
            {"runs": runs, "kinds": found, "grown_mb_max": grown_mb_max, "limit_mb": GROWTH_MAX // MEGABYTE, "ok": ok}
        )
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
