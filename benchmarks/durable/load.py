"""A closed loop of clients and what came of it: shared by every contestant of `benchmarks.durable`.

A client begins its next run when its last one has ended. The loop is bounded in time, not in runs, so that a slow
contestant costs no more time than a fast one; what was begun before the time was over is finished and counted.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from penstock.base.json import JsonObject

__all__ = ["Load", "best", "closed_loop", "filesystem_of", "fsync_ms_p50", "percentile", "written_bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a closed loop did: runs that ended, wall and CPU seconds, how long a run took its client, bytes written.

    `written_bytes` is what the process handed to the system (log, index, checkpoints), 0 where the system does not say;
    `log_bytes` is what was committed to the write-ahead log alone, 0 where it was not kept to be measured.
    """

    runs: int
    seconds: float
    cpu_seconds: float
    p50_ms: float
    p99_ms: float
    written_bytes: int = 0
    log_bytes: int = 0

    @property
    def runs_per_second(self) -> float:
        """The throughput."""
        return self.runs / self.seconds

    @property
    def cpu_ms_per_run(self) -> float:
        """CPU time of all threads of the process, for one run."""
        return self.cpu_seconds / self.runs * 1000

    def report(self) -> JsonObject:
        """The figures, rounded."""
        return {
            "runs_per_second": round(self.runs_per_second, 1),
            "p50_ms": round(self.p50_ms, 2),
            "p99_ms": round(self.p99_ms, 2),
            "cpu_ms_per_run": round(self.cpu_ms_per_run, 3),
            "written_kb_per_run": round(self.written_bytes / self.runs / 1000, 1),
        }


def percentile(sorted_values: list[float], share: float) -> float:
    """The value below which a share of the values lies."""
    return sorted_values[min(int(len(sorted_values) * share), len(sorted_values) - 1)]


class _KeptLog:
    """The write-ahead log of a file, which cannot begin anew while somebody reads from before: it only grows."""

    def __init__(self, path: Path) -> None:
        self._log = Path(f"{path}-wal")
        self._reader = sqlite3.connect(path, isolation_level=None)
        self._reader.execute("BEGIN")
        self._reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        self._bytes_before = self._log.stat().st_size

    def grown_bytes(self) -> int:
        """How much was committed; the log may begin anew afterwards."""
        grown = self._log.stat().st_size - self._bytes_before
        self._reader.close()
        return grown


async def closed_loop(
    work: Callable[[], Awaitable[None]], *, clients: int, seconds: float, keep_log_of: Path | None = None
) -> Load:
    """Let clients do one piece of work after the other until the time is over.

    With `keep_log_of` the log of that file is measured, which is then not copied into the file: its times say nothing.
    """
    latencies_ms: list[float] = []
    log = _KeptLog(keep_log_of) if keep_log_of is not None else None
    gc.collect()
    written = written_bytes()
    cpu_began = time.process_time()
    began = time.perf_counter()
    deadline = began + seconds

    async def client() -> None:
        started = time.perf_counter()
        while started < deadline:
            await work()
            ended = time.perf_counter()
            latencies_ms.append((ended - started) * 1000)
            started = ended

    await asyncio.gather(*(client() for _ in range(clients)))
    elapsed = time.perf_counter() - began
    used = time.process_time() - cpu_began
    latencies_ms.sort()
    return Load(
        runs=len(latencies_ms),
        seconds=elapsed,
        cpu_seconds=used,
        p50_ms=percentile(latencies_ms, 0.5),
        p99_ms=percentile(latencies_ms, 0.99),
        written_bytes=written_bytes() - written,
        log_bytes=log.grown_bytes() if log is not None else 0,
    )


def written_bytes() -> int:
    """Everything this process has written to files so far; 0 where the system does not count it."""
    counters = Path("/proc/self/io")
    if not counters.exists():
        return 0
    lines = dict(line.split(": ") for line in counters.read_text(encoding="utf-8").splitlines())
    return int(lines["wchar"])


def best(loads: Iterable[Load]) -> Load:
    """The round that was disturbed least: the one with the highest throughput."""
    return max(loads, key=lambda load: load.runs_per_second)


def fsync_ms_p50(folder: Path, *, samples: int = 50) -> float:
    """How long the disk takes to make 4 KiB durable, as it is just now."""
    path = folder / "fsync-probe"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        taken = []
        for number in range(samples):
            os.pwrite(file, b"x" * 4096, number * 4096)
            began = time.perf_counter()
            os.fsync(file)
            taken.append((time.perf_counter() - began) * 1000)
    finally:
        os.close(file)
        path.unlink()
    return statistics.median(taken)


def filesystem_of(folder: Path) -> str:
    """The type of the filesystem that holds a folder, where the system tells; `unknown` otherwise."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "unknown"
    place = folder.resolve()
    found, longest = "unknown", -1
    for line in mounts.read_text(encoding="utf-8").splitlines():
        _, point, kind, *_ = line.split()
        if place.is_relative_to(point) and len(point) >= longest:
            found, longest = kind, len(point)
    return found
