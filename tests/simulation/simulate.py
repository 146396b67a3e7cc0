"""The command behind `scripts/simulate`: many seeds on all cores, or one seed step by step.

The last line on stdout is one JSON object with the figures; the exit status says whether every seed held.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.simulation.scenario import Report, simulate_seed

__all__ = ["main"]

# Cutting a history after each of its rows costs much more than after a few, so only some seeds do it.
_EVERY_CUT_INTERVAL = 10
_PROGRESS_INTERVAL = 100
_COUNTED = ("runs", "records", "effects", "accepted", "moves", "refused", "crashes", "lost", "continued")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="scripts/simulate", description="Run the engine in a world of faults.")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many seeds to run (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--seed", type=int, help="run this one seed and tell everything that happens")
    parser.add_argument("--torn", action="store_true", help="a crash may leave only a part of a decision in the log")
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        return _one(chosen.seed, torn=chosen.torn)
    return _many(range(chosen.first, chosen.first + chosen.seeds), torn=chosen.torn)


def _one(seed: int, *, torn: bool) -> int:
    report = simulate_seed(seed, torn=torn, every_cut=True, tell=print)
    if report.failure is not None:
        print(report.details, file=sys.stderr)
    return _finish([report], torn=torn, seconds=report.seconds)


def _many(seeds: range, *, torn: bool) -> int:
    began = time.perf_counter()
    reports: list[Report] = []
    workers = max(1, min(len(seeds), os.cpu_count() or 1))
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for report in pool.imap_unordered(_job, [(seed, torn) for seed in seeds], chunksize=5):
            reports.append(report)
            if report.failure is not None:
                _complain(report)
            if len(reports) % _PROGRESS_INTERVAL == 0:
                print(f"{len(reports)} of {len(seeds)} seeds", file=sys.stderr, flush=True)
    return _finish(reports, torn=torn, seconds=time.perf_counter() - began)


def _job(chosen: tuple[int, bool]) -> Report:
    seed, torn = chosen
    return simulate_seed(seed, torn=torn, every_cut=seed % _EVERY_CUT_INTERVAL == 0)


def _complain(report: Report) -> None:
    again = f"scripts/simulate --seed {report.seed}{' --torn' if report.torn else ''}"
    first_line = (report.failure or "").splitlines()[0][:300]
    print(f"seed {report.seed} FAILED: {first_line}\n  again: {again}", file=sys.stderr, flush=True)


def _finish(reports: list[Report], *, torn: bool, seconds: float) -> int:
    failed = sorted(report.seed for report in reports if report.failure is not None)
    counts: Counter[str] = Counter()
    endings: Counter[str] = Counter()
    for report in reports:
        counts.update(report.counts)
        endings.update(report.statuses.values())
    figures: dict[str, object] = {"seeds": len(reports), "failures": len(failed), "ok": not failed, "torn": torn}
    if failed:
        figures["failed_seeds"] = failed[:50]
    figures.update({name: counts[name] for name in _COUNTED})
    figures["endings"] = dict(sorted(endings.items()))
    figures["seconds"] = round(seconds, 1)
    print(json.dumps(figures), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
