"""Two processes on one file: shared work, no activity twice under a live lease, and one takes over when the other dies.

    scripts/two-processes --seconds 60

Both processes start runs and perform them. In the middle the first is killed; it starts runs until then, however long
that takes. The second must finish its runs within the lease time. Every performance of an activity is written down with
its process and its time: two at once show.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from random import Random

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import inputs
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityOutcome
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.ports.runs import RunQuery
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.system import SystemClock, new_worker_id
from penstock.runtime.tables.runs.store import RunStore
from tests.torture.worker import DurableLines, read_lines

_ROOT = Path(__file__).resolve().parents[2]
_RUNS_AT_ONCE = 30
_STEPS = 4
# On a machine that is busy, processes take long to start.
_PATIENCE_SECONDS = 240
_PAUSE_SECONDS = 0.01
_TAKEOVER_SECONDS_MAX = 2 * limits.WORKER_LEASE_MS / 1000

_WORK: list[JsonValue] = [{"id": f"s{number}", "type": "step", "handler": "work"} for number in range(_STEPS)]
DOCUMENT: JsonObject = {
    "penstock": "v1",
    "name": "shared",
    "nodes": [
        *_WORK,
        {"id": "done", "type": "end", "output": "ok"},
    ],
}


class Timed:
    """Performs by waiting a little, and writes down who did what from when to when."""

    def __init__(self, lines: DurableLines, random: Random) -> None:
        self.lines = lines
        self.random = random

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Work for some milliseconds."""
        began = time.time_ns() / 1e9
        await asyncio.sleep(0.002 + self.random.random() * 0.02)
        line: JsonObject = {
            "effect": call.activity.effect_id,
            "process": os.getpid(),
            "from": began,
            "to": time.time_ns() / 1e9,
        }
        self.lines.append(line)
        return ActivityDone({})


async def live(folder: Path, name: str, seconds: float) -> None:
    """One of the two processes: start runs for a while, then stay until everything in the file has ended.

    The first goes on until it is killed: on a machine that is busy, it could otherwise end before that.
    """
    store = RunStore(SqliteDatabase(folder / "penstock.db"))
    await store.open()
    host = EmbeddedHost(store=store, clock=SystemClock(), worker_id=new_worker_id())
    performer = Timed(DurableLines(folder / f"performed-{name}.jsonl"), Random(name))
    driver = Driver(
        host=host, performer=performer, report=lambda where, error: print(f"{where}: {error!r}", flush=True)
    )
    workflow = build_workflow(DOCUMENT)
    await host.register(workflow)
    await driver.start()
    until = math.inf if name == "a" else time.monotonic() + seconds
    number = 0
    while time.monotonic() < until:
        number += 1
        start = inputs.StartRun(at=host.clock.now_ms(), run_id=f"{name}{number:06}", input={})
        await host.start(start, workflow_hash=workflow.hash)
        await asyncio.sleep(1 / _RUNS_AT_ONCE)
    while not await _all_ended(store):
        await host.next_commit(timeout_seconds=0.1)
    await driver.stop()
    await store.close()


async def _all_ended(store: RunStore) -> bool:
    page = await store.list_runs(RunQuery(statuses=("running", "waiting_activity"), limit=1))
    return not page.rows


def _kill_at_work(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Kill the first process while runs of its own are under way, however long it takes until some are.

    It is stopped only when it has some, and is killed if it still has: stopped all the time, it would never begin.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        if _has_runs_under_way(folder):
            process.send_signal(signal.SIGSTOP)
            if _has_runs_under_way(folder):
                break
            process.send_signal(signal.SIGCONT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PAUSE_SECONDS)
    process.send_signal(signal.SIGKILL)


def _has_runs_under_way(folder: Path) -> bool:
    """Read past the store: who is stopped may hold its lock."""
    if not (folder / "performed-a.jsonl").exists():
        return False
    with closing(sqlite3.connect(f"file:{folder / 'penstock.db'}?mode=ro", uri=True, timeout=0.1)) as connection:
        try:
            found = connection.execute("SELECT 1 FROM runs WHERE run_id LIKE 'a%' AND has_work LIMIT 1").fetchone()
        except sqlite3.OperationalError:  # locked after all, as while the file is made: look again later
            return False
    return found is not None


def overlaps(lines: list[JsonObject]) -> int:
    """How many performances of one activity overlap in time."""
    by_effect: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        by_effect.setdefault(str(line["effect"]), []).append((float(str(line["from"])), float(str(line["to"]))))
    return sum(
        later[0] < earlier[1]
        for times in by_effect.values()
        for earlier, later in zip(sorted(times), sorted(times)[1:], strict=False)
    )


def main(arguments: list[str] | None = None) -> int:
    """Let two processes work, kill one, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long both work (default 60)")
    parser.add_argument("--takeover-within", type=float, default=_TAKEOVER_SECONDS_MAX, help="seconds; twice the lease")
    parser.add_argument("--live", nargs=2, metavar=("FOLDER", "NAME"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.live:
        asyncio.run(live(Path(given.live[0]), given.live[1], given.seconds))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="penstock-pair-"))
    command = [sys.executable, "-m", "tests.torture.pair", "--seconds", str(given.seconds), "--live", str(folder)]
    pair = [subprocess.Popen([*command, name], cwd=_ROOT) for name in ("a", "b")]
    with suppress(subprocess.TimeoutExpired):
        pair[0].wait(timeout=given.seconds / 2)
    _kill_at_work(pair[0], folder)
    killed_at = time.time_ns() / 1e9
    pair[0].wait()
    finished = pair[1].wait(timeout=given.seconds + _PATIENCE_SECONDS) == 0
    mine, others = read_lines(folder / "performed-a.jsonl"), read_lines(folder / "performed-b.jsonl")
    taken = [float(str(line["from"])) for line in others if str(line["effect"]).startswith("a")]
    after_kill = [moment for moment in taken if moment > killed_at]
    takeover = min(after_kill) - killed_at if after_kill else None
    at_once = overlaps([*mine, *others])
    ok = finished and at_once == 0 and (takeover is None or takeover <= given.takeover_within)
    report = {
        "seconds": given.seconds,
        "performed": len(mine) + len(others),
        "performed_twice_at_once": at_once,
        "taken_over": len(after_kill),
        "takeover_seconds": None if takeover is None else round(takeover, 2),
        "lease_seconds": limits.WORKER_LEASE_MS / 1000,
        "all_finished": finished,
        "ok": ok,
    }
    if ok:
        shutil.rmtree(folder)
    print(json.dumps(report))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
