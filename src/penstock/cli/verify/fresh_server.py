"""A fresh server to check: a process of its own, on an empty file, in preset `strict`, with the demo ledger.

Above it: the command. Below it: `penstock serve`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx2

from penstock.cli.terminal.values import UsageError
from penstock.cli.verify.target import Target

__all__ = ["FRESH_SETTINGS", "fresh_server", "with_approver"]

FRESH_SETTINGS = """\
governance:
  preset: strict
limits:
  read_per_minute: 1200
  write_per_minute: 2400
  admin_per_minute: 6000
"""
"""Limits low enough to be reached by the checks of limits, and high enough for all others."""
_START_SECONDS_MAX = 120.0
_CREATED = 201
_STOP_SECONDS_MAX = 30.0
_PAUSE_SECONDS = 0.05


@contextmanager
def fresh_server() -> Iterator[Target]:
    """Serve until the block ends; gives the address and the owner's key."""
    with tempfile.TemporaryDirectory(prefix="penstock-verify-") as name:
        folder = Path(name)
        (folder / "penstock.yaml").write_text(FRESH_SETTINGS)
        command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--json", "--conformance-fixtures"]
        # Settings of the environment are for the user's own server.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
        log = folder / "server.log"
        with log.open("wb") as output:
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
        try:
            yield _started(process, log)
        finally:
            process.terminate()
            try:
                process.wait(timeout=_STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def with_approver(target: Target) -> Target:
    """Return a server of ours with a key of a second person, who decides about drafts."""
    headers = {"authorization": f"Bearer {target.admin_key}"}
    with httpx2.Client(base_url=target.url, headers=headers, timeout=_START_SECONDS_MAX, trust_env=False) as http:
        wanted = {"name": "approver", "scopes": ["*"], "kind": "person", "subject": "person:verify-approver"}
        made = http.post("/api/v0/keys", json=wanted)
    if made.status_code != _CREATED:
        raise UsageError(f"no key could be made for an approver: {made.text[:300]}")
    return replace(target, approver_key=str(made.json()["secret"]))


def _started(process: subprocess.Popen[bytes], log: Path) -> Target:
    """Wait until the server says where it listens, and with which key."""
    until = time.monotonic() + _START_SECONDS_MAX
    while time.monotonic() < until:
        for line in log.read_text(errors="replace").splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict) and said.get("event") == "server_started":
                return with_approver(Target(url=str(said["address"]), admin_key=str(said["owner_key"])))
        if process.poll() is not None:
            break
        time.sleep(_PAUSE_SECONDS)
    raise UsageError(f"no fresh server could be started: {log.read_text(errors='replace')[-500:]}")
