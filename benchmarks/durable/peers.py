"""The environment of the engines that `benchmarks.durable` compares with, and how they are run.

They live in `.venv/peers`, made from `requirements/peers.txt`, so that nothing of theirs is ever installed beside
Penstock. A peer that cannot be installed or fails is reported as such; its target then counts as missed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

import msgspec

from benchmarks.durable.load import Load

__all__ = ["PEERS_PYTHON", "PeerFailed", "dbos_load", "ensure_peers"]

_ROOT = Path(__file__).resolve().parents[2]
_PINS = _ROOT / "requirements" / "peers.txt"
_PLACE = _ROOT / ".venv" / "peers"
PEERS_PYTHON = _PLACE / "bin" / "python"
_INSTALL_SECONDS_MAX = 180
# Beyond its measuring time: start, the runs that are under way when the time is over, and stop.
_GRACE_SECONDS = 60


class PeerFailed(Exception):
    """A peer could not be measured; the text says why."""


def ensure_peers() -> None:
    """Make the environment, or bring it up to date with its pins."""
    stamp = _PLACE / ".pins"
    wanted = hashlib.sha256(_PINS.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted and PEERS_PYTHON.exists():
        return
    print("==> installing the peers into .venv/peers", file=sys.stderr)
    venv.create(_PLACE, clear=True, with_pip=False, symlinks=True)
    uv = Path(sys.executable).with_name("uv")
    _finished(
        [str(uv), "pip", "sync", "-q", "--require-hashes", "--python", str(PEERS_PYTHON), str(_PINS)],
        _INSTALL_SECONDS_MAX,
    )
    stamp.write_text(wanted, encoding="utf-8")


def dbos_load(path: Path, steps: int, *, clients: int, seconds: float, journal_mode: str) -> Load:
    """The throughput of DBOS on an SQLite file of its own."""
    program = Path(__file__).with_name("dbos_peer.py")
    figures = [str(steps), str(clients), str(seconds), journal_mode]
    printed = _finished([str(PEERS_PYTHON), "-P", str(program), str(path), *figures], seconds + _GRACE_SECONDS)
    try:
        return msgspec.json.decode(printed.splitlines()[-1], type=Load)
    except (IndexError, msgspec.DecodeError) as error:
        raise PeerFailed(f"DBOS printed no figures: {printed[-200:]!r}") from error


def _finished(command: list[str], timeout_seconds: float) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerFailed(f"{Path(command[0]).name}: {error}") from error
    if done.returncode != 0:
        raise PeerFailed(f"{Path(command[0]).name} failed: {done.stderr.strip()[-400:]}")
    return done.stdout
