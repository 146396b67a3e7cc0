"""Servers as processes of their own, for the benchmarks that load them over 127.0.0.1.

Used by `benchmarks.rest`, `benchmarks.mcp` and `benchmarks.before`; knows nothing of what is measured.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.http_load import request_bytes

__all__ = [
    "LIFTED",
    "cpu_seconds",
    "free_port",
    "missed_targets",
    "owner_key",
    "process",
    "rss_mb",
    "wait_for",
]

# One key sends everything in a benchmark, so its rates are lifted.
LIFTED = {
    "PENSTOCK_LIMITS_READ_PER_MINUTE": "100000000",
    "PENSTOCK_LIMITS_WRITE_PER_MINUTE": "100000000",
    "PENSTOCK_LIMITS_CONCURRENT_PER_KEY": "100000",
    # The cache of compiled modules is what makes a start warm.
    "PYTHONDONTWRITEBYTECODE": "",
}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(port: int, path: str, *, seconds: float = 30.0) -> float:
    """Ask until there is an answer; how long that took, in milliseconds."""
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(request_bytes("GET", path, port=port, headers={"connection": "close"}))
                if connection.recv(12).startswith(b"HTTP/1.1 "):
                    return (time.perf_counter() - began) * 1000
        except OSError:
            time.sleep(0.002)
    raise SystemExit(f"nothing answers on port {port}")


@contextmanager
def process(command: list[str], *, folder: Path, environment: dict[str, str] | None = None) -> Iterator[int]:
    """A server that ends with the block; its process id."""
    with (folder / "server.log").open("ab") as log:
        running = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env={**os.environ, **(environment or {})}
        )
    try:
        yield running.pid
    finally:
        running.terminate()
        try:
            running.wait(30)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def rss_mb(pid: int) -> float:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def owner_key(log: Path) -> str:
    """The owner's key from the line that a server logs when it starts."""
    for line in log.read_text(encoding="utf-8").splitlines():
        if line.startswith("{"):
            fields = json.loads(line)
            if fields.get("event") == "server_started" and fields.get("owner_key"):
                key: str = fields["owner_key"]
                return key
    raise SystemExit(f"the server told no key: {log.read_text(encoding='utf-8')[-2000:]}")


def missed_targets(figures: Mapping[str, Any], targets: Mapping[str, tuple[str, float]]) -> list[str]:
    """The names of the figures that do not reach their targets."""
    return [
        name
        for name, (kind, target) in targets.items()
        if (figures[name] < target if kind == "at_least" else figures[name] > target)
    ]
