"""DBOS on SQLite as the peer of `benchmarks.durable`: the same workload in its own style, in its own environment.

    .venv/peers/bin/python benchmarks/durable/dbos_peer.py FILE STEPS CLIENTS SECONDS delete|wal

Runs by itself, with nothing of this project: `peers` makes the environment and starts it. Clients are threads
that call a workflow of plain functions and wait for its result, which is the faster of the library's two styles on
SQLite. `delete` is the journal mode it comes with; `wal` is set on the file before it opens it. Both synchronise every
commit (FULL). The last line is one JSON object.
"""

from __future__ import annotations

import importlib
import json
import sqlite3
import sys
import threading
import time
from collections.abc import Callable

__all__ = ["main"]


def declared(steps: int) -> Callable[[], str]:
    """The workflow: a number of steps that do nothing."""
    library = importlib.import_module("dbos").DBOS

    def work() -> dict[str, str]:
        return {"out": "done"}

    durable_work = library.step()(work)

    def flow() -> str:
        result = {"out": ""}
        for _ in range(steps):
            result = durable_work()
        return result["out"]

    durable_flow: Callable[[], str] = library.workflow()(flow)
    return durable_flow


def measure(flow: Callable[[], str], clients: int, seconds: float) -> dict[str, float]:
    """A closed loop of clients, bounded in time."""
    latencies_ms: list[float] = []
    wrong: list[object] = []
    cpu_began = time.process_time()
    began = time.perf_counter()
    deadline = began + seconds

    def client() -> None:
        started = time.perf_counter()
        while started < deadline and not wrong:
            try:
                result: object = flow()
            except Exception as error:  # a thread's exception would only be printed
                result = error
            if result != "done":
                wrong.append(result)
            ended = time.perf_counter()
            latencies_ms.append((ended - started) * 1000)
            started = ended

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - began
    if wrong:
        raise SystemExit(f"a workflow went wrong: {wrong[0]!r}")
    latencies_ms.sort()
    return {
        "runs": len(latencies_ms),
        "seconds": elapsed,
        "cpu_seconds": time.process_time() - cpu_began,
        "p50_ms": latencies_ms[len(latencies_ms) // 2],
        "p99_ms": latencies_ms[min(int(len(latencies_ms) * 0.99), len(latencies_ms) - 1)],
    }


def main(arguments: list[str]) -> int:
    """Measure and print the figures."""
    path, steps, clients, seconds, journal_mode = arguments
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {journal_mode}")
    connection.close()
    library = importlib.import_module("dbos").DBOS
    library(config={"name": "peer", "system_database_url": f"sqlite:///{path}", "log_level": "ERROR"})
    flow = declared(int(steps))
    library.launch()
    try:
        flow()
        figures = measure(flow, int(clients), float(seconds))
    finally:
        library.destroy()
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
