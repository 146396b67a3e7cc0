"""Bytes that are no requests, and requests with mistakes in their bytes, fail neither a server nor a pipe."""

from __future__ import annotations

from pathlib import Path

from tests.live.raw_bytes import SETTINGS, noise_for_pipe, noise_for_port
from tests.live.rest.servers import serving

# Enough for hundreds of requests; `scripts/fuzz-raw` takes longer.
SECONDS = 5.0


def test_no_bytes_fail_the_port(tmp_path: Path) -> None:
    with serving(tmp_path, **SETTINGS) as server:
        found = noise_for_port(server, SECONDS)
        assert server.call("GET", "health")["ready"] is True
        server.stop()
        failed = [line for line in server.rest_of_log() if line.get("level") == "error" or "traceback" in line]
    assert found.wrong == []
    assert failed == []
    assert found.sent > 20
    assert {400, 401} <= set(found.statuses)


def test_no_bytes_fail_the_pipe(tmp_path: Path) -> None:
    found = noise_for_pipe(tmp_path, SECONDS)
    assert found.wrong == []
    assert found.sent > 20
