"""How long `/healthz` takes, asked all the time by a process of its own.

The processors are shared with whoever is hostile and with everything else on the machine. So each answer has two times:
what the probe noticed, and that without the time for which the server's main thread and the probe were ready to run and
no processor was free, as the kernel counted it. Whatever the server does to itself, as waiting for its own threads, is
in both.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from tests.live.rest.servers import LiveServer
from tests.waiting import SECONDS_MAX, wait_until

__all__ = ["SECONDS_MAX", "Probe", "percentile", "probing"]


_ASKING = """
import http.client, json, select, sys, time

port, pid = int(sys.argv[1]), sys.argv[2]

def unscheduled():
    try:
        return sum(int(open(f"/proc/{who}/schedstat").read().split()[1]) for who in (pid, "self")) / 1e6
    except OSError:
        return 0.0

connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
while not select.select([sys.stdin], [], [], 0.01)[0]:
    waited, began, well = unscheduled(), time.perf_counter(), True
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        answer.read()
        well = answer.status == 200
    except (OSError, http.client.HTTPException):
        well = False
        connection.close()
    taken = (time.perf_counter() - began) * 1000
    print(json.dumps([well, taken, max(taken - (unscheduled() - waited), 0.0)]), flush=True)
"""


@dataclass(slots=True)
class Probe:
    """What was noticed so far, in milliseconds."""

    noticed: list[float] = field(default_factory=list)
    served: list[float] = field(default_factory=list)
    """Without the time in which no processor was free."""
    failures: int = 0

    def listen(self, told: IO[str]) -> None:
        for line in told:
            well, noticed, served = json.loads(line)
            self.noticed.append(noticed)
            self.served.append(served)
            self.failures += not well

    def collected(self, count: int) -> None:
        """Wait until it has asked so many times."""
        wait_until(lambda: len(self.noticed) >= count)


def percentile(values: list[float], share: float) -> float:
    """The value below which a share of them lies."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


@contextmanager
def probing(server: LiveServer) -> Iterator[Probe]:
    """Measure while the block lasts."""
    probe = Probe()
    asking = subprocess.Popen(
        [sys.executable, "-I", "-c", _ASKING, str(server.port), str(server.running.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert asking.stdin is not None
    assert asking.stdout is not None
    listening = threading.Thread(target=probe.listen, args=(asking.stdout,), daemon=True)
    listening.start()
    try:
        probe.collected(1)
        yield probe
    finally:
        asking.stdin.close()
        asking.wait(SECONDS_MAX)
        listening.join(SECONDS_MAX)
        asking.stdout.close()
