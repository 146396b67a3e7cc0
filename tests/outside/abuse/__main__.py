"""Every hostile case against a real server in one run.

    scripts/abuse

One server, one case after the other, while a probe asks for `/healthz` all the time. The last line is one JSON object:
`cases` and how many of them `held`, the longest stall of the event loop by its own measure, the most memory that the
server had, and what the probe noticed. `ok` is true only if every case held, the probe's 99th percentile stayed below a
quarter of a second, and memory below its limit.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.live.rest.servers import LiveServer, serving
from tests.outside.hostile import CASES, probing

HEALTH_P99_MS_MAX = 250.0
RESIDENT_MB_MAX = 700
MEGABYTE = 1_000_000


@dataclass(slots=True)
class Memory:
    """The most memory that a server has had."""

    server: LiveServer
    bytes_max: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self._ended.wait(0.05):
            self.bytes_max = max(self.bytes_max, self.server.resident_bytes())

    def end(self) -> None:
        self._ended.set()


def stall_ms_max(server: LiveServer) -> float:
    """The longest stall of the event loop, as the server measured it."""
    name = "penstock_event_loop_stall_max_seconds"
    text = server.request("GET", "/metrics").body.decode()
    line = next(line for line in text.splitlines() if line.startswith(f"{name} "))
    return float(line.split()[1]) * 1000


def main() -> int:
    """Play the cases; the exit code says whether all is well."""
    parser = argparse.ArgumentParser(description="Do to a server what hostile clients and tenants do.")
    parser.add_argument("--only", default="", help="cases with this in their name")
    chosen = [case for case in CASES if parser.parse_args().only in case.name]
    held = 0
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as server:
        memory = Memory(server)
        watching = threading.Thread(target=memory.watch, daemon=True)
        watching.start()
        with probing(server) as quiet:
            quiet.collected(100)
        with probing(server) as probe:
            for case in chosen:
                before = len(probe.milliseconds)
                try:
                    case.attack(server)
                except (AssertionError, OSError) as error:
                    print(f"FAILED  {case.name}: {str(error)[:500]}")
                else:
                    held += 1
                    worst = max(probe.milliseconds[before:], default=0.0)
                    print(f"held    {case.name} (longest /healthz {worst:.0f} ms)")
        stall = stall_ms_max(server)
        memory.end()
        watching.join()
        stopped = server.stop()
    p99, resident_mb = probe.percentile(0.99), memory.bytes_max // MEGABYTE
    ok = held == len(chosen) and not probe.failures and p99 < HEALTH_P99_MS_MAX and resident_mb < RESIDENT_MB_MAX
    told = {
        "cases": len(chosen),
        "held": held,
        "loop_stall_ms_max": round(stall),
        "rss_mb_max": resident_mb,
        "healthz_p99_ms": round(p99, 1),
        "healthz_p99_ms_before": round(quiet.percentile(0.99), 1),
        "healthz_failures": probe.failures,
        "exit_code": stopped,
        "ok": ok,
    }
    print(json.dumps(told))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
