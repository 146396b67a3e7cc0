"""Every hostile case against a real server in one run.

    scripts/abuse

One server, one case after the other, while a probe in a process of its own asks for `/healthz` all the time. A case
holds if it was refused, bounded or cut off as it should, and the probe's 99th percentile stayed below a quarter of a
second meanwhile, without the time in which the machine had no processor free for server or probe (see `probe`).
The last line is one JSON object: `cases` and how many of them `held`, the longest stall of the event loop by its own
measure, the most memory that the server had, and what the probe noticed over the whole run; stalls and the probe's
answers with and without that time. `ok` is true only if every case held, no probe failed, the loop stood still no
longer than it may, memory stayed below its limit, and the server then ended when it was told to. Where the loop stood
still is told before that line.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.live.rest.servers import LiveServer
from tests.scenarios.abuse.cases import Case
from tests.scenarios.abuse.clients import CLIENT_CASES
from tests.scenarios.abuse.probe import Probe, percentile, probing
from tests.scenarios.abuse.tenants import TENANT_CASES
from tests.scenarios.abuse.upstreams import UPSTREAM_CASES, abused_server

HEALTH_P99_MS_MAX = 250.0
RESIDENT_MB_MAX = 500
STALL_MS_MAX = 150
STALLS_TOLD = 10
RUN_SECONDS_MAX = 300
MEGABYTE = 1_000_000


@dataclass(slots=True)
class Memory:
    """The most memory that a server has had."""

    server: LiveServer
    bytes_max: int = 0
    case_bytes_max: int = 0
    """The most in the case that is played."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self._ended.wait(0.05):
            now = self.server.resident_bytes()
            self.bytes_max, self.case_bytes_max = max(self.bytes_max, now), max(self.case_bytes_max, now)

    def end(self) -> None:
        self._ended.set()


@dataclass(frozen=True, slots=True)
class Stall:
    """A pause of the event loop, as the server's log tells it, in milliseconds."""

    noticed: int
    served: int
    """Without the time in which no processor was free."""
    computing: int
    where: str


def stalls_of(server: LiveServer) -> list[Stall]:
    """Every stall of the event loop; the server must have ended."""
    told = [entry for entry in server.rest_of_log() if entry["event"] == "event_loop_stalled"]
    return [
        Stall(
            noticed=entry["stalled_ms"],
            served=max(entry["stalled_ms"] - entry["unscheduled_ms"], 0),
            computing=entry["computing_ms"],
            where=" < ".join(entry["where"]),
        )
        for entry in told
    ]


def held(case: Case, server: LiveServer, probe: Probe, memory: Memory) -> bool:
    """Play a case, and say how it went."""
    before, began = len(probe.noticed), time.monotonic()
    memory.case_bytes_max = 0
    try:
        case.attack(server)
        probe.collected(before + 100)
        p99 = percentile(probe.served[before:], 0.99)
        assert p99 < HEALTH_P99_MS_MAX, f"the 99th percentile of /healthz was {p99:.0f} ms"
    except (AssertionError, OSError) as error:
        print(f"FAILED  {case.name}: {str(error)[:500]}", flush=True)
        return False
    taken, worst = time.monotonic() - began, max(probe.noticed[before:])
    health = f"/healthz p99 {p99:.0f} ms, longest {worst:.0f} ms"
    print(f"held    {case.name} ({taken:.1f} s; {health}; {memory.case_bytes_max // MEGABYTE} MB)", flush=True)
    return True


def main() -> int:
    """Play the cases; the exit code says whether all is well."""
    parser = argparse.ArgumentParser(description="Do to a server what hostile clients and tenants do.")
    parser.add_argument("--only", default="", help="cases with this in their name")
    only = parser.parse_args().only
    chosen = [case for case in (*TENANT_CASES, *CLIENT_CASES, *UPSTREAM_CASES) if only in case.name]
    signal.alarm(RUN_SECONDS_MAX)
    with tempfile.TemporaryDirectory() as folder, abused_server(Path(folder)) as server:
        memory = Memory(server)
        watching = threading.Thread(target=memory.watch, daemon=True)
        watching.start()
        with probing(server) as probe:
            number_held = sum([held(case, server, probe, memory) for case in chosen])
        memory.end()
        watching.join()
        began = time.monotonic()
        stopped, stopping = server.stop(), time.monotonic() - began
    stalls = stalls_of(server)
    for stall in sorted(stalls, key=lambda stall: -stall.served)[:STALLS_TOLD]:
        print(f"stalled {stall.noticed} ms, {stall.served} ms, {stall.computing} ms of computing: {stall.where}")
    stall_ms = max((stall.served for stall in stalls), default=0)
    p99, resident_mb = percentile(probe.served, 0.99), memory.bytes_max // MEGABYTE
    told = {
        "cases": len(chosen),
        "held": number_held,
        "loop_stall_ms_max": stall_ms,
        "loop_stall_ms_max_with_waits_for_a_processor": max((stall.noticed for stall in stalls), default=0),
        "loop_computing_ms_max": max((stall.computing for stall in stalls), default=0),
        "rss_mb_max": resident_mb,
        "healthz_p99_ms": round(p99, 1),
        "healthz_p99_ms_with_waits_for_a_processor": round(percentile(probe.noticed, 0.99), 1),
        "healthz_failures": probe.failures,
        "exit_code": stopped,
        "stopping_seconds": round(stopping, 1),
    }
    ok = (number_held, probe.failures, stopped) == (len(chosen), 0, 0)
    ok = ok and p99 < HEALTH_P99_MS_MAX and resident_mb < RESIDENT_MB_MAX and stall_ms < STALL_MS_MAX
    print(json.dumps({**told, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
