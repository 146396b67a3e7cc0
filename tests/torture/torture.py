"""The torturer: rounds of starting mixed runs, killing their process at random moments, and counting what is left.

    scripts/torture --rounds 50

Each round has a fresh file. Its worker starts a few hundred runs, is killed with SIGKILL several times, at random
moments or while it writes to the store or waits for the disk, and is then allowed to finish. Its callers hang up at
random, and the clock of its machine jumps. Afterwards the file is read: every acknowledged start and input must be
there, every history must be complete, replay clean and hold each result once, and the ledger must show for every
activity what its policy promises: at least once under one key, or at most once. No run may have waited for somebody to
carry it on.

In between a process is suspended while another, whose clock is an hour ahead, takes over and an operator retries
(`suspended`), and a process that makes changes through a gate is killed, with audit inserts that fail at random
(`audited`). The last line is one JSON object; the exit code is not 0 when `ok` is false.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import Replayed, fold, replay
from penstock.engine.records import Record
from penstock.runtime.ports.runs import RunQuery, StoredRun
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.torture import killing
from tests.torture.audited import torment_changes
from tests.torture.suspended import suspend
from tests.torture.worker import read_lines
from tests.torture.workflows import WORKFLOWS

_ROOT = Path(__file__).resolve().parents[2]
_ROUND_SECONDS_MAX = 240
_INSIDE_SHARE = 0.5  # of the kills
_ROUNDS_PER_SUSPENSION = 10
_ROUNDS_PER_AUDIT = 2
_AUDITED_KILLS = 4  # in every second of these lives audit inserts fail at random


@dataclass
class Count:
    """What was found, over all rounds."""

    rounds: int = 0
    runs: int = 0
    kills: int = 0
    records: int = 0
    effects: int = 0
    repeated_effects: int = 0
    lost_runs: int = 0
    lost_inputs: int = 0
    doubled_records: int = 0
    doubled_effects: int = 0
    missing_effects: int = 0
    replay_failures: int = 0
    unfinished_runs: int = 0
    kills_inside_calls: int = 0
    hang_ups: int = 0
    clock_jumps: int = 0
    abandoned_runs: int = 0
    suspensions: int = 0
    suspended_runs: int = 0
    suspended_doubled: int = 0
    suspended_refused_by_epoch: int = 0
    audited_changes: int = 0
    acknowledged_without_audit: int = 0
    audit_without_change: int = 0

    @property
    def ok(self) -> bool:
        """True when nothing was lost and nothing happened that its policy forbids."""
        bad = (
            self.lost_runs,
            self.lost_inputs,
            self.doubled_records,
            self.doubled_effects,
            self.missing_effects,
            self.replay_failures,
            self.unfinished_runs,
            self.abandoned_runs,
            self.suspended_doubled,
            self.acknowledged_without_audit,
            self.audit_without_change,
        )
        return self.runs > 0 and not any(bad)


def plan_round(random: Random, runs: int) -> list[JsonObject]:
    """Which runs a round starts."""
    names = list(WORKFLOWS)
    return [{"run_id": f"t{n:05}", "workflow": random.choice(names), "n": n} for n in range(runs)]


def torment(folder: Path, random: Random, kills: int, count: Count, *, inside: bool) -> None:
    """Run the worker and kill it; the last life is allowed to finish."""
    for life in range(kills + 1):
        command = [sys.executable, "-m", "tests.torture.worker", str(folder), str(random.randrange(10**9))]
        seconds = 0.35 + random.random() * 1.2
        if life < kills and inside and random.random() < _INSIDE_SHARE:
            kind, number = random.choice(killing.KINDS), random.randrange(1, 30)
            ended = killing.run_and_kill(command, kind, number, after_seconds=seconds, seed=random.randrange(10**9))
        else:
            ended = run(command, seconds_max=seconds if life < kills else _ROUND_SECONDS_MAX)
        if ended is killing.Ended.BY_ITSELF:
            break
        count.kills += 1
        count.kills_inside_calls += ended is killing.Ended.KILLED_INSIDE


def run(command: list[str], *, seconds_max: float) -> killing.Ended:
    """Run the worker, and kill it when its time is up."""
    worker = subprocess.Popen(command, cwd=_ROOT)
    try:
        worker.wait(timeout=seconds_max)
    except subprocess.TimeoutExpired:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        return killing.Ended.KILLED_OUTSIDE
    return killing.Ended.BY_ITSELF


def suspended(folder: Path, count: Count, *, runs: int, lease_ms: int) -> None:
    """Suspend a process, let another take over and an operator retry, and count what happened twice."""
    found = suspend(folder, runs=runs, lease_ms=lease_ms)
    count.suspensions += 1
    count.suspended_runs += found.runs
    count.suspended_doubled += found.doubled
    count.suspended_refused_by_epoch += found.refused_by_epoch
    count.unfinished_runs += found.unfinished


def audited(folder: Path, random: Random, count: Count) -> None:
    """Kill a process that makes changes through a gate, and compare them with the audit trail, both ways."""
    found = torment_changes(folder, random, _AUDITED_KILLS)
    count.kills += _AUDITED_KILLS
    count.audited_changes += found.changes
    count.acknowledged_without_audit += found.without_audit
    count.audit_without_change += found.without_change


async def examine(folder: Path, plan: list[JsonObject], count: Count) -> None:
    """Read what is left and compare it with what was promised."""
    store = RunStore(SqliteDatabase(folder / "penstock.db"))
    await store.open()
    acknowledged = read_lines(folder / "acknowledged.jsonl")
    stored: dict[str, StoredRun] = {}
    page = await store.list_runs(RunQuery(limit=100_000))
    for row in page.rows:
        found = await store.load(row.run_id)
        if found is not None:
            stored[row.run_id] = found
    await store.close()
    started = {str(line["run_id"]) for line in acknowledged if line["kind"] == "start"}
    count.runs += len(plan)
    count.lost_runs += len({str(entry["run_id"]) for entry in plan} - set(stored)) + len(started - set(stored))
    for line in acknowledged:
        if line["kind"] in ("answer", "signal"):
            text = json.dumps([record.payload for record in stored[str(line["of"])].records])
            count.lost_inputs += str(line["token"]) not in text
    for run in stored.values():
        count.records += len(run.records)
        count.unfinished_runs += not run.row.terminal
        last = run.records[-1]
        count.lost_runs += last.name == "ExecutionContinued" and last.payload["successorExecutionId"] not in stored
        count.unfinished_runs += run.row.has_work and last.name == "ExecutionContinued"
        examine_history(run, count)
    examine_ledger(read_lines(folder / "ledger.jsonl"), stored, count)
    notes = read_lines(folder / "notes.jsonl")
    count.hang_ups += sum(note["kind"] == "hang-up" for note in notes)
    count.clock_jumps += sum(note["kind"] == "jump" for note in notes)
    count.abandoned_runs += len({note["name"] for note in notes if note["kind"] == "abandoned"})


def examine_history(run: StoredRun, count: Count) -> None:
    """A history must be complete, in order, hold every result once, and replay to the same state."""
    results = Counter(_result_key(record) for record in run.records if record.name == "ActivityCompleted")
    count.doubled_records += sum(number - 1 for number in results.values())
    if [record.seq for record in run.records] != list(range(1, len(run.records) + 1)):
        count.doubled_records += 1
    outcome = replay(build_workflow(WORKFLOWS[run.row.workflow_name]), run.records)
    clean = isinstance(outcome, Replayed) and not outcome.missing and outcome.state == fold(run.records)
    count.replay_failures += not clean


def _result_key(record: Record) -> tuple[object, ...]:
    return record.payload.get("nodeId"), record.payload.get("visit")


def examine_ledger(ledger: list[JsonObject], stored: dict[str, StoredRun], count: Count) -> None:
    """Every completed activity took effect; one that must happen at most once did not happen twice."""
    performed = Counter(str(line["key"]) for line in ledger)
    count.effects += len(performed)
    count.repeated_effects += sum(number - 1 for number in performed.values())
    count.doubled_effects += sum(number > 1 for key, number in performed.items() if "/charge/" in key)
    for run_id, run in stored.items():
        for record in run.records:
            if record.name == "ActivityCompleted":
                key = f"{run_id}/{record.payload['nodeId']}/{record.payload['visit']}"
                count.missing_effects += performed[key] == 0


def main(arguments: list[str] | None = None) -> int:
    """Torture and report."""
    given = _options(arguments)
    count, began = Count(), time.monotonic()
    impossible = killing.impossible()
    if impossible is not None:
        print(f"no kills inside system calls: {impossible}", file=sys.stderr, flush=True)
    for number in range(given.rounds):
        random = Random(given.seed + number)
        folder = Path(tempfile.mkdtemp(prefix="penstock-torture-"))
        plan = plan_round(random, given.runs)
        (folder / "plan.json").write_text(json.dumps(plan))
        count.rounds += 1
        torment(folder, random, given.kills, count, inside=impossible is None)
        asyncio.run(examine(folder, plan, count))
        if count.ok and number % _ROUNDS_PER_AUDIT == 0:
            (folder / "audited").mkdir()
            audited(folder / "audited", random, count)
        if count.ok and number % _ROUNDS_PER_SUSPENSION == 0 and given.suspended_runs:
            (folder / "suspended").mkdir()
            suspended(folder / "suspended", count, runs=given.suspended_runs, lease_ms=given.lease_ms)
        state = "ok" if count.ok else f"FAILED, see {folder}"
        print(f"round {count.rounds}/{given.rounds}: {count.kills} kills so far, {state}", file=sys.stderr, flush=True)
        if not count.ok:
            break
        shutil.rmtree(folder)
    report = {**asdict(count), "seconds": round(time.monotonic() - began, 1), "ok": count.ok}
    print(json.dumps(report))
    return 0 if count.ok else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="how many rounds (default 50)")
    parser.add_argument("--runs", type=int, default=200, help="runs per round (default 200)")
    parser.add_argument("--kills", type=int, default=4, help="kills per round at most (default 4)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first round (default 1)")
    parser.add_argument(
        "--suspended-runs", type=int, default=600, help="runs of a suspended process, every tenth round (default 600)"
    )
    parser.add_argument("--lease-ms", type=int, default=limits.WORKER_LEASE_MS, help="how long its lease lasts")
    parser.add_argument("--quick", action="store_true", help="two small rounds and one short suspension")
    given = parser.parse_args(arguments)
    if given.quick:
        given.rounds, given.runs, given.kills, given.suspended_runs, given.lease_ms = 2, 60, 3, 40, 2_000
    return given


if __name__ == "__main__":
    sys.exit(main())
