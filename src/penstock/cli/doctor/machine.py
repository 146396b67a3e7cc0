"""Checks of the machine: the event loop, the port, the clock and the disk.

Above it: `command`. Below it: the operating system.
"""

from __future__ import annotations

import http.client
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from penstock.app.drivers import maintenance_of
from penstock.app.event_loop import SPEED_EXTRA, has_uvloop
from penstock.app.sockets import listen
from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.cli.terminal.checks import Check
from penstock.cli.terminal.hints import command_hint
from penstock.definitions.durations import format_instant
from penstock.operations.system.health import RUNS_CHECK, is_ready
from penstock.runtime.extras import install_hint
from penstock.runtime.system import SystemClock

__all__ = ["clock_checks", "disk_checks", "loop_checks", "port_checks"]

_GIBIBYTE = 1024**3
# The date of writing: a clock that is behind it was never set.
_WRITTEN_MS = 1_793_000_000_000


def loop_checks() -> Iterator[Check]:
    """Which event loop servers and workers use, and what the other one would give."""
    if has_uvloop():
        yield Check(name="event loop", status="ok", message="uvloop")
    elif sys.platform == "win32":
        yield Check(name="event loop", status="skip", message="asyncio; uvloop does not run on Windows")
    else:
        message = "asyncio; on uvloop, a server does 8 to 10 percent more with the same processor time"
        yield Check(name="event loop", status="skip", message=message, hint=install_hint(SPEED_EXTRA))


def port_checks(host: str, port: int) -> Iterator[Check]:
    """Whether the address of the server is free, or a server answers there already."""
    try:
        listen(host, port).close()
    except PenstockError as error:
        if not _is_served(host, port):
            yield Check(name="port", status="fail", message=error.message, hint=command_hint(error))
            return
        yield Check(name="port", status="ok", message=f"a server answers at {host}:{port}")
        yield _server_check(host, port)
    else:
        yield Check(name="port", status="ok", message=f"{host}:{port} is free")


def _is_served(host: str, port: int) -> bool:
    answer = _get(host, port, "/healthz")
    return answer is not None and answer[0] == http.client.OK


def _server_check(host: str, port: int) -> Check:
    """What the running server reports about itself: only the server knows which runs are stuck."""
    status, body = _get(host, port, "/readyz") or (0, b"")
    try:
        checks = msgspec.json.decode(body, type=_Readiness).checks
    except msgspec.DecodeError:
        message = f"it does not say how it is (status {status})"
        return Check(name="server", status="warn", message=message, hint="is it another program, or an older Penstock?")
    troubles = [f"{name}: {state}" for name, state in sorted(checks.items()) if state != "ok"]
    if not troubles:
        return Check(name="server", status="ok", message=f"{', '.join(sorted(checks))}: ok")
    if not is_ready(checks):
        return Check(name="server", status="fail", message=", ".join(troubles), hint="look at its log")
    hint = "look at its log, or at `penstock server health`, which names the files"
    if checks.get(RUNS_CHECK, "ok") != "ok":
        hint = "look for RUN_ABANDONED in its log, which names the runs; a restart continues them"
    return Check(name="server", status="warn", message=", ".join(troubles), hint=hint)


class _Readiness(msgspec.Struct):
    """The answer of `/readyz`."""

    checks: dict[str, str]


def _get(host: str, port: int, path: str) -> tuple[int, bytes] | None:
    """The answer of a server to a request that needs no key; None without an answer."""
    connection = http.client.HTTPConnection(host, port, timeout=limits.DOCTOR_CONNECT_SECONDS_MAX)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(limits.DOCTOR_ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def clock_checks(path: Path) -> Iterator[Check]:
    """Whether the clock can be right: not before this program was written, nor before the newest record."""
    now = SystemClock().now_ms()
    newest = None
    if (database := maintenance_of(path)).exists():
        try:
            newest = database.stats().newest_at
        except PenstockError:
            newest = None  # the check of the database reports this
    if now < _WRITTEN_MS:
        yield Check(name="clock", status="fail", message=f"it says {format_instant(now)}", hint="set the clock")
    elif newest is not None and newest > now + limits.WEBHOOK_SKEW_MS:
        message = f"it says {format_instant(now)}, and the newest run began at {format_instant(newest)}"
        yield Check(name="clock", status="warn", message=message, hint="set the clock: timers and schedules follow it")
    else:
        yield Check(name="clock", status="ok", message=format_instant(now))


def disk_checks(path: Path) -> Iterator[Check]:
    """Whether there is room for the database to grow."""
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    message = f"{free / _GIBIBYTE:.1f} GiB free at {folder}"
    if free < limits.DISK_FREE_BYTES_MIN:
        yield Check(name="disk", status="fail", message=message, hint="make room: a full disk stops every write")
    elif free < limits.DISK_FREE_BYTES_LOW:
        yield Check(name="disk", status="warn", message=message, hint="make room soon; retention.runs lets old runs go")
    else:
        yield Check(name="disk", status="ok", message=message)
