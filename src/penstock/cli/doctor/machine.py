"""The machine below an installation: the port, the clock and the disk.

Above it: `command`. Below it: the system.
"""

from __future__ import annotations

import http.client
import shutil
from collections.abc import Iterator
from pathlib import Path

from penstock.app.listening import listen
from penstock.app.maintenance import store_stats
from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.cli.configuration import is_store
from penstock.cli.mcp_checks import Check
from penstock.definitions.durations import format_instant
from penstock.runtime.system import SystemClock

__all__ = ["clock_checks", "disk_checks", "port_checks"]

_GIBIBYTE = 1024**3
# When this was written; a clock before it was never set.
_WRITTEN_MS = 1_793_000_000_000


def port_checks(host: str, port: int) -> Iterator[Check]:
    """Whether the address of the server is free, or a server answers there already."""
    try:
        listen(host, port).close()
    except PenstockError as error:
        if _is_served(host, port):
            yield Check(name="port", status="ok", told=f"a server answers at {host}:{port}")
        else:
            yield Check(name="port", status="fail", told=error.message, todo=error.hint)
    else:
        yield Check(name="port", status="ok", told=f"{host}:{port} is free")


def _is_served(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=limits.DOCTOR_CONNECT_SECONDS_MAX)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def clock_checks(path: Path) -> Iterator[Check]:
    """Whether the time can be right: not before this program was written, and not before what is stored."""
    now = SystemClock().now_ms()
    newest = None
    if is_store(path):
        try:
            newest = store_stats(path).newest_at
        except PenstockError:
            newest = None  # the check of the database has said it
    if now < _WRITTEN_MS:
        yield Check(name="clock", status="fail", told=f"it says {format_instant(now)}", todo="set the clock")
    elif newest is not None and newest > now + limits.WEBHOOK_SKEW_MS:
        told = f"it says {format_instant(now)}, and the newest run began at {format_instant(newest)}"
        yield Check(name="clock", status="warn", told=told, todo="set the clock: timers and schedules follow it")
    else:
        yield Check(name="clock", status="ok", told=format_instant(now))


def disk_checks(path: Path) -> Iterator[Check]:
    """Whether there is room for the database to grow."""
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    told = f"{free / _GIBIBYTE:.1f} GiB free at {folder}"
    if free < limits.DISK_FREE_BYTES_MIN:
        yield Check(name="disk", status="fail", told=told, todo="make room: a full disk stops every write")
    elif free < limits.DISK_FREE_BYTES_LOW:
        yield Check(name="disk", status="warn", told=told, todo="make room soon; retention.runs lets old runs go")
    else:
        yield Check(name="disk", status="ok", told=told)
