"""`promtool` of Debian's package, unpacked beside the temporary files: nothing is installed, and no server started."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

_PLACE = Path(tempfile.gettempdir()) / "penstock-tests-promtool"
_SECONDS_MAX = 300
_DOWNLOAD = ["apt-get", "download", "prometheus"]


@cache
def _found() -> str | None:
    own = shutil.which("promtool")
    if own is not None or shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return own
    command = _PLACE / "usr" / "bin" / "promtool"
    _PLACE.mkdir(exist_ok=True)
    with (_PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for step in (_DOWNLOAD, ["apt-get", "update"], _DOWNLOAD):
            if not list(_PLACE.glob("prometheus_*.deb")) and not command.exists():
                subprocess.run(step, cwd=_PLACE, capture_output=True, timeout=_SECONDS_MAX, check=False)
        for package in _PLACE.glob("prometheus_*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), str(_PLACE)], check=True, timeout=_SECONDS_MAX)
            package.unlink()
    return str(command) if command.exists() else None


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run it."""
    command = _found()
    if command is None:
        pytest.skip("there is no promtool, and it cannot be had: apt-get download prometheus")
    return subprocess.run(
        [command, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
        env=dict(os.environ),
    )
