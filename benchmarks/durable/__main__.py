"""How fast the durable runtime is on a real file, beside a bare append loop and a peer, all in one run.

    scripts/benchmark durable              # about three minutes
    scripts/benchmark durable --quick      # one short round, for a first impression
    scripts/benchmark durable --full       # a million stored runs, needs some 6 GB of disk

Runs of 1, 5 and 20 steps that do nothing, by 1, 32 and 200 clients, each of which begins its next run when its last one
has ended; `synchronous=FULL`, a new file for each measurement. Contestants:

- the runtime (host, driver, SQLite store): `runs_per_second`;
- the product as a program sees it (`Penstock.open`, `start`, `result`): `product`;
- a bare loop that writes the rows that the runtime writes (history and index, so the same number of bytes and rows) and
  does nothing else, with group commit (the anchor) and with a transaction for each append; `wal_bytes_per_run` says
  what the runtime and the anchor committed;
- the product as a share of the runtime, 5 steps, 200 clients: `product_ratio_to_runtime`;
- the runtime's store alone, 5 steps, 200 clients: what remains of the time is the engine and its host;
- DBOS on SQLite, 5 steps, 32 clients, with the journal it comes with and with WAL; the better one counts. A client of
  DBOS calls a workflow and gets its result, so it is compared with the product, and with the runtime for information.

Contestants take turns within each round, and the best round of each counts: on a machine that does other things too,
that is the one that was disturbed least. Beside throughput: what many stored runs, many steps and many waiting runs
cost, how soon an answer is stored, and what a run takes on the disk (`bytes_per_stored_run`). The last line is one JSON
object; `ok` is true only if every target holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.durable.bare import Append, appends_of, bare_load
from benchmarks.durable.load import Load, best, filesystem_of, fsync_ms_p50
from benchmarks.durable.peers import PeerFailed, dbos_load, ensure_peers
from benchmarks.durable.product import engine_load, product_load, rows_of_a_run, store_load, writes_of_a_run
from benchmarks.durable.stored import STEPS as STORED_STEPS
from benchmarks.durable.stored import bytes_of_a_stored_run, fill, stored_rounds
from penstock.base.json import JsonObject

__all__ = ["main"]

STEPS = (1, 5, 20)
CLIENTS = (1, 32, 200)
PRODUCT_CELLS = ((5, 32), (5, 200))
PEERS = ("dbos_delete", "dbos_wal")
PEER_CELL = (5, 32)
ANCHOR_CELL = (5, 200)
TARGETS: dict[str, tuple[str, float]] = {
    "ratio_to_bare_loop_c200_5": ("at_least", 0.4),
    "product_ratio_to_runtime": ("at_least", 0.85),
    "ratio_to_dbos_c32_5": ("at_least", 35),
    "answer_to_next_record_ms_p50": ("below", 5),
    "step_cost_ratio_20_to_1": ("at_most", 1.3),  # "flat", with room for what measuring adds
    "stored_runs_cost_ratio": ("at_most", 1.3),
    "waiting_runs_rss_mb": ("below", 100),
    "bytes_per_stored_run": ("at_most", 1_500),
}
_MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs"})
_ROOT = Path(__file__).resolve().parents[2]

Cell = tuple[int, int]  # steps and clients


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long and how often to measure."""

    rounds: int
    seconds: float
    peer_seconds: float
    stored_runs: int
    waiting_runs: int = 10_000
    answers: int = 100
    single_commit_clients: tuple[int, ...] = (1, 32)  # more would only wait longer for each other
    peers: tuple[str, ...] = PEERS


PLANS = {
    "quick": Plan(
        rounds=1,
        seconds=0.3,
        peer_seconds=1.0,
        stored_runs=10_000,
        answers=50,
        single_commit_clients=(1,),
        peers=("dbos_wal",),
    ),
    "default": Plan(rounds=3, seconds=1.2, peer_seconds=3.0, stored_runs=100_000),
    "full": Plan(
        rounds=5, seconds=2.0, peer_seconds=4.0, stored_runs=1_000_000, answers=300, single_commit_clients=CLIENTS
    ),
}


@dataclass(slots=True)
class Measured:
    """Every round of every contestant."""

    loads: dict[str, dict[Cell, list[Load]]] = field(default_factory=dict)
    peer_failure: str | None = None

    def add(self, contestant: str, cell: Cell, load: Load) -> None:
        """Keep a round."""
        self.loads.setdefault(contestant, {}).setdefault(cell, []).append(load)
        line = ", ".join(f"{name} {value}" for name, value in load.report().items())
        print(f"{contestant:28} {cell[0]:2} steps {cell[1]:3} clients: {line}", file=sys.stderr)

    def best(self, contestant: str, cell: Cell) -> Load | None:
        """The best round of a contestant, if it was measured."""
        loads = self.loads.get(contestant, {}).get(cell)
        return best(loads) if loads else None

    def ratio(self, first: str, second: str, cell: Cell) -> float | None:
        """The throughput of one contestant as a share of another's."""
        one, other = self.best(first, cell), self.best(second, cell)
        return None if one is None or other is None else round(one.runs_per_second / other.runs_per_second, 3)

    def cpu_ratio(self, first: str, second: str, cell: Cell) -> float | None:
        """The same by CPU time for a run, which other programs on the machine disturb less."""
        loads = [self.loads.get(name, {}).get(cell, []) for name in (first, second)]
        costs = [min((load.cpu_ms_per_run for load in found), default=None) for found in loads]
        return None if costs[0] is None or costs[1] is None else round(costs[1] / costs[0], 3)


class Files:
    """Names of new files in a folder; a file is gone when the next one is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def new(self) -> Path:
        """A name that was not used before."""
        for old in self._folder.glob("cell-*"):
            old.unlink()
        self._count += 1
        return self._folder / f"cell-{self._count}.db"


def appends_by_steps(files: Files) -> dict[int, list[Append]]:
    """What the runtime appends for one run, by the number of steps."""
    found = {}
    for steps in STEPS:
        writes = asyncio.run(writes_of_a_run(files.new(), steps))
        if len(writes) != steps + 1:
            raise SystemExit(f"a run of {steps} steps was stored in {len(writes)} appends, not {steps + 1}")
        found[steps] = appends_of(asyncio.run(rows_of_a_run(files.new(), writes)))
    return found


@dataclass(frozen=True, slots=True)
class Course:
    """What a contestant needs to be measured in a cell."""

    files: Files
    plan: Plan
    cell: Cell
    appends: list[Append]


def runtime(course: Course) -> Load:
    """Host, driver and store."""
    steps, clients = course.cell
    return asyncio.run(engine_load(course.files.new(), steps, clients=clients, seconds=course.plan.seconds))


def product(course: Course) -> Load:
    """What a program sees that embeds the package."""
    steps, clients = course.cell
    return asyncio.run(product_load(course.files.new(), steps, clients=clients, seconds=course.plan.seconds))


def store_alone(course: Course) -> Load:
    """The store without an engine."""
    steps, clients = course.cell
    writes = asyncio.run(writes_of_a_run(course.files.new(), steps))
    return asyncio.run(store_load(course.files.new(), writes, clients=clients, seconds=course.plan.seconds))


def bare(course: Course, *, group: bool) -> Load:
    """The bare loop. Without group commit clients do not help each other, so that a shorter look says as much."""
    seconds = course.plan.seconds if group else course.plan.seconds / 2
    clients = course.cell[1]
    return asyncio.run(bare_load(course.files.new(), course.appends, group=group, clients=clients, seconds=seconds))


def dbos(course: Course, *, journal_mode: str) -> Load:
    """The peer."""
    steps, clients = course.cell
    path, seconds = course.files.new(), course.plan.peer_seconds
    return dbos_load(path, steps, clients=clients, seconds=seconds, journal_mode=journal_mode)


CONTESTANTS: dict[str, Callable[[Course], Load]] = {
    "penstock": runtime,
    "bare_group_commit": partial(bare, group=True),
    "bare_single_commit": partial(bare, group=False),
    "product": product,
    "store_alone": store_alone,
    "dbos_delete": partial(dbos, journal_mode="delete"),
    "dbos_wal": partial(dbos, journal_mode="wal"),
}


def takes_part(contestant: str, cell: Cell, plan: Plan) -> bool:
    """Whether a contestant is measured in a cell."""
    match contestant:
        case "bare_single_commit":
            return cell[1] in plan.single_commit_clients
        case "product":
            return cell in PRODUCT_CELLS
        case "store_alone":
            return cell == ANCHOR_CELL
        case "dbos_delete" | "dbos_wal":
            return cell == PEER_CELL and contestant in plan.peers
        case _:
            return True


def measure_cell(measured: Measured, course: Course, turn: int) -> None:
    """One round of one cell: every contestant once, each time in another order."""
    names = [name for name in CONTESTANTS if takes_part(name, course.cell, course.plan)]
    shift = turn % len(names)
    for name in names[shift:] + names[:shift]:
        if name in PEERS and measured.peer_failure is not None:
            continue
        try:
            measured.add(name, course.cell, CONTESTANTS[name](course))
        except PeerFailed as failure:
            measured.peer_failure = str(failure)
            print(f"DBOS could not be measured: {failure}", file=sys.stderr)


def measure_log(files: Files, plan: Plan, appends: list[Append]) -> JsonObject:
    """What a run commits to the write-ahead log where the runtime is compared with the bare loop."""
    steps, clients = ANCHOR_CELL
    load = asyncio.run(engine_load(files.new(), steps, clients=clients, seconds=plan.seconds, keep_log=True))
    bare = asyncio.run(
        bare_load(files.new(), appends, group=True, clients=clients, seconds=plan.seconds, keep_log=True)
    )
    return {
        "penstock": round(load.log_bytes / load.runs),
        "bare_group_commit": round(bare.log_bytes / bare.runs),
    }


def measure_waiting(folder: Path, plan: Plan) -> JsonObject:
    """Waiting runs, in a process of their own."""
    given = [str(folder / "waiting.db"), str(plan.waiting_runs), str(max(plan.rounds, 2)), str(plan.answers)]
    command = [sys.executable, "-m", "benchmarks.durable.waiting", *given]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=_ROOT)
    if done.returncode != 0:
        raise SystemExit("the measurement of waiting runs failed")
    print(f"waiting runs: {done.stdout.strip()}", file=sys.stderr)
    return msgspec.json.decode(done.stdout, type=dict)


def measure_stored(folder: Path, plan: Plan) -> JsonObject:
    """What many stored runs cost."""
    full = folder / "full.db"
    bytes_per_run = asyncio.run(bytes_of_a_stored_run(folder))
    seconds = fill(full, plan.stored_runs)
    size_mb = full.stat().st_size / 1e6
    print(f"stored {plan.stored_runs} runs in {seconds:.1f} s, {size_mb:.0f} MB", file=sys.stderr)
    rounds = max(plan.rounds, 3)
    empty_rounds, full_rounds = stored_rounds(folder, full, rounds=rounds, seconds=plan.seconds)
    on_empty, on_full = best(empty_rounds), best(full_rounds)
    steps_ratio = on_empty.runs_per_second / on_full.runs_per_second
    return {
        "stored_runs": plan.stored_runs,
        "file_mb": round(size_mb),
        "bytes_per_run": round(bytes_per_run),
        "steps": STORED_STEPS,
        "empty": on_empty.report(),
        "full": on_full.report(),
        "cost_ratio": round(steps_ratio, 3),
        "cpu_ratio": round(on_full.cpu_ms_per_run / on_empty.cpu_ms_per_run, 3),
    }


def table(measured: Measured, contestant: str, figure: str) -> JsonObject:
    """One figure of a contestant by steps, then by clients."""
    found: dict[str, dict[str, object]] = {}
    for (steps, clients), loads in measured.loads.get(contestant, {}).items():
        found.setdefault(str(steps), {})[str(clients)] = best(loads).report()[figure]
    return msgspec.convert(found, dict)


def contestants_report(measured: Measured) -> JsonObject:
    """Every figure of every contestant."""
    figures = ("runs_per_second", "p50_ms", "p99_ms", "cpu_ms_per_run", "written_kb_per_run")
    return {name: {figure: table(measured, name, figure) for figure in figures} for name in sorted(measured.loads)}


def step_costs(measured: Measured) -> JsonObject:
    """What a step costs in runs of 1, 5 and 20 steps with 200 clients, by the clock and in CPU time."""
    clients = CLIENTS[-1]
    loads = {steps: measured.best("penstock", (steps, clients)) for steps in STEPS}
    wall = {steps: load.seconds / load.runs / steps * 1e6 for steps, load in loads.items() if load}
    cpu = {steps: load.cpu_seconds / load.runs / steps * 1e6 for steps, load in loads.items() if load}
    run = {steps: cost * steps for steps, cost in wall.items()}
    early, late = (run[5] - run[1]) / 4, (run[20] - run[5]) / 15
    return {
        "us_per_step": {str(steps): round(cost, 1) for steps, cost in wall.items()},
        "cpu_us_per_step": {str(steps): round(cost, 1) for steps, cost in cpu.items()},
        "cpu_ratio_20_to_1": round(cpu[20] / cpu[1], 3),
        # Without what starting a run costs: steps 6 to 20 against steps 2 to 5.
        "further_step_ratio": round(late / early, 3) if early > 0 else None,
        "ratio_20_to_1": round(wall[20] / wall[1], 3),
    }


def judged(figures: JsonObject) -> JsonObject:
    """Each target and whether it is met; what was not measured is not met."""
    verdicts: JsonObject = {}
    for name, (relation, bound) in TARGETS.items():
        value = figures.get(name)
        met = False
        if isinstance(value, int | float):
            met = {"at_least": value >= bound, "at_most": value <= bound, "below": value < bound}[relation]
        verdicts[name] = {relation: bound, "met": met}
    return verdicts


def report(measured: Measured, stored: JsonObject, waiting: JsonObject) -> JsonObject:
    """The figures of the last line."""
    costs = step_costs(measured)
    peer = max(
        PEERS,
        key=lambda name: load.runs_per_second if (load := measured.best(name, PEER_CELL)) else 0.0,
    )
    answer = waiting["answer_ms"]
    figures: JsonObject = {
        "runs_per_second": table(measured, "penstock", "runs_per_second"),
        "ratio_to_bare_loop_c200_5": measured.ratio("penstock", "bare_group_commit", ANCHOR_CELL),
        "cpu_ratio_to_bare_loop_c200_5": measured.cpu_ratio("penstock", "bare_group_commit", ANCHOR_CELL),
        "product_ratio_to_runtime": measured.ratio("product", "penstock", ANCHOR_CELL),
        "product_cpu_ratio_to_runtime": measured.cpu_ratio("product", "penstock", ANCHOR_CELL),
        "ratio_to_store_alone_c200_5": measured.ratio("penstock", "store_alone", ANCHOR_CELL),
        "ratio_to_dbos_c32_5": measured.ratio("product", peer, PEER_CELL),
        "ratio_of_runtime_to_dbos_c32_5": measured.ratio("penstock", peer, PEER_CELL),
        "cpu_ratio_to_dbos_c32_5": measured.cpu_ratio("product", peer, PEER_CELL),
        "dbos_compared": peer if measured.peer_failure is None else measured.peer_failure,
        "answer_to_next_record_ms_p50": answer["p50"] if isinstance(answer, dict) else None,
        "step_cost_ratio_20_to_1": costs["ratio_20_to_1"],
        "stored_runs_cost_ratio": stored["cost_ratio"],
        "waiting_runs_rss_mb": waiting["rss_mb"],
        "bytes_per_stored_run": stored["bytes_per_run"],
    }
    targets = judged(figures)
    ok = all(isinstance(verdict, dict) and verdict["met"] is True for verdict in targets.values())
    details: JsonObject = {
        "step_costs": costs,
        "stored": stored,
        "waiting": waiting,
        "contestants": contestants_report(measured),
    }
    return {**figures, **details, "targets": targets, "ok": ok}


def measure_all(folder: Path, plan: Plan) -> JsonObject:
    """Everything, in turn."""
    measured = Measured()
    files = Files(folder)
    try:
        ensure_peers()
    except PeerFailed as failure:
        measured.peer_failure = str(failure)
    appends = appends_by_steps(files)
    fsync_ms = [fsync_ms_p50(folder)]
    for turn in range(plan.rounds):
        for steps in STEPS:
            for clients in CLIENTS:
                measure_cell(measured, Course(files, plan, (steps, clients), appends[steps]), turn)
        fsync_ms.append(fsync_ms_p50(folder))
    log = measure_log(files, plan, appends[ANCHOR_CELL[0]])
    waiting = measure_waiting(folder, plan)
    stored = measure_stored(folder, plan)
    machine: JsonObject = {
        "processors": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
        "filesystem": filesystem_of(folder),
        "fsync_ms_p50": [round(value, 3) for value in fsync_ms],
        "history_bytes_per_run": {
            str(steps): sum(append.history_bytes for append in appends[steps]) for steps in STEPS
        },
    }
    return {**report(measured, stored, waiting), "wal_bytes_per_run": log, "machine": machine}


def main() -> int:
    """Measure everything and print the figures."""
    parser = argparse.ArgumentParser(prog="scripts/benchmark durable")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_const", const="quick", dest="plan", help="one short round")
    length.add_argument("--full", action="store_const", const="full", dest="plan", help="a million stored runs")
    parser.add_argument("--folder", type=Path, default=_ROOT / ".cache", help="where the files are made; a real disk")
    arguments = parser.parse_args()
    plan = arguments.plan or "default"
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if filesystem_of(arguments.folder) in _MEMORY_FILESYSTEMS:
        parser.error(f"{arguments.folder} is in memory; name a folder on a disk with --folder")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=arguments.folder) as folder:
        figures = measure_all(Path(folder), PLANS[plan])
    figures = {"plan": plan, "seconds": round(time.perf_counter() - began, 1), **figures}
    print(json.dumps(figures))
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
