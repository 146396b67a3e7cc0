"""Runs every client that others wrote against a real server; the last line is one JSON object.

    python -m tests.live.foreign_clients.run [--client NAME]...

Above it: `scripts/clients`. Below it: `clients`, `judging`, a server of the live tests.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.live.foreign_clients.clients import CLIENTS, Client, Place
from tests.live.foreign_clients.judging import judged
from tests.live.mcp.workflows import ALL
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX

# How long a run is looked at after its caller has hung up: the server hears of that soon, not at once.
_LOOKED_AT_SECONDS = 2
_PAUSE_SECONDS = 0.05
_ENDED = ("completed", "failed", "cancelled")


def main(arguments: list[str]) -> int:
    """Run them; the exit code."""
    names = [client.name for client in CLIENTS]
    parser = argparse.ArgumentParser(description="Clients that others wrote, against a real server.")
    parser.add_argument("--client", action="append", choices=names, help="only this one; may be given several times")
    chosen = parser.parse_args(arguments).client or names
    with tempfile.TemporaryDirectory() as folder, serving(_made(Path(folder) / "server")) as server:
        for document in ALL:
            server.call("POST", "workflows", {"document": document})
        told = {client.name: _tried(client, server, Path(folder)) for client in CLIENTS if client.name in chosen}
    is_ok = all(one["checks"] == one["passed"] for one in told.values())
    print(json.dumps({"clients": told, "ok": is_ok}))
    return 0 if is_ok else 1


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _tried(client: Client, server: LiveServer, folder: Path) -> dict[str, Any]:
    """How many checks there were of a client, and how many it passed; the others are told on standard error."""
    found: dict[str, str | None] = {}
    for kind in client.kinds:
        place = _place(server, folder / f"{client.name}-{kind.replace(':', '-')}")
        began = time.monotonic()
        seen = client.observed(kind, place)
        if not kind.startswith("pipe") and client.driver:
            seen["hang_up"] = _hung_up(client, kind, place, server)
        found.update({f"{kind} {check}": wrong for check, wrong in judged(seen).items()})
        _tell(f"{client.name} {kind}: {len(seen)} checks in {time.monotonic() - began:.1f} s")
    for check, wrong in found.items():
        if wrong is not None:
            _tell(f"{client.name} {check} is not right: {wrong}")
    failed = [check for check, wrong in found.items() if wrong is not None]
    return {"checks": len(found), "passed": len(found) - len(failed), "failed": failed}


def _place(server: LiveServer, folder: Path) -> Place:
    folder.mkdir()
    for document in ALL:
        (folder / f"{document['name']}.json").write_text(json.dumps(document), encoding="utf-8")
    command = (sys.executable, "-m", "penstock", "mcp", "--db", "penstock.db", "--workflows", ".")
    return Place(server.url, server.key, command, folder)


def _hung_up(client: Client, kind: str, place: Place, server: LiveServer) -> dict[str, Any]:
    """How a run stands whose caller was killed while it waited, and whether the server still answers."""
    before = _naps(server)
    process = client.hanging(kind, place)
    if process is None:
        return {}
    try:
        begun = _begun(server, before, process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(SECONDS_MAX)
    if begun is None:
        return {"status": None, "server": "the call never arrived"}
    status = server.call("GET", f"executions/{begun}/wait?wait_seconds={_LOOKED_AT_SECONDS}")["status"]
    answers = server.request("GET", "/healthz").status == 200
    if status not in _ENDED:
        server.call("POST", f"executions/{begun}/cancel", {})
    return {"status": status, "server": "ok" if answers else "does not answer"}


def _naps(server: LiveServer) -> set[str]:
    items = server.call("GET", "workflows/nap/executions?limit=500")["items"]
    return {item["execution_id"] for item in items}


def _begun(server: LiveServer, before: set[str], process: subprocess.Popen[bytes]) -> str | None:
    """The run that the process started, once it waits."""
    until = time.monotonic() + SECONDS_MAX
    while time.monotonic() < until:
        for name in _naps(server) - before:
            if server.call("GET", f"executions/{name}")["status"] == "waiting_timer":
                return name
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PAUSE_SECONDS)
            return None
    return None


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
