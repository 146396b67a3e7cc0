"""What the runtime takes from the machine: the time, randomness, and the identity of this process.

Above it: `app`. It is the only place in the runtime that asks the operating system.
"""

from __future__ import annotations

import base64
import os
import secrets
import socket
import time
from collections.abc import Iterable
from pathlib import Path

from penstock.base import limits
from penstock.base.ids import ENTROPY_BYTES, run_id_of
from penstock.governance.keys import KEY_ID_CHARACTERS, SECRET_BYTES, ParsedKey

__all__ = ["SystemClock", "TimeOfDay", "gone_workers", "new_key_material", "new_run_id", "new_worker_id"]


# Keeps running while the machine sleeps, which Linux's monotonic clock does not; both run while a process is stopped.
_ELAPSED_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class TimeOfDay:
    """The time of day, stabilised by a monotonic clock: a jump is accepted only after it has lasted for a while.

    Small corrections are followed at once. Until a jump is accepted, time continues from where it was.
    """

    def __init__(self) -> None:
        self._offset: int | None = None
        self._jump_offset = 0  # the offset after a jump that is not yet accepted
        self._jump_since: int | None = None  # since when, by the monotonic clock

    def read(self, wall_ms: int, elapsed_ms: int) -> int:
        """Return the time to use, given the readings of both clocks."""
        offset = wall_ms - elapsed_ms
        if self._offset is None or abs(offset - self._offset) <= limits.CLOCK_STEP_MS_MAX:
            self._offset, self._jump_since = offset, None
            return wall_ms
        if self._jump_since is None or abs(offset - self._jump_offset) > limits.CLOCK_STEP_MS_MAX:
            self._jump_offset, self._jump_since = offset, elapsed_ms
        elif elapsed_ms - self._jump_since >= limits.CLOCK_SETTLES_MS:
            self._offset, self._jump_since = offset, None
            return wall_ms
        return elapsed_ms + self._offset


# One per process, so that all of its clocks agree.
_TIME_OF_DAY = TimeOfDay()


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Return the current time in epoch milliseconds, stabilised by `TimeOfDay`."""
        return _TIME_OF_DAY.read(time.time_ns() // 1_000_000, time.clock_gettime_ns(_ELAPSED_CLOCK) // 1_000_000)

    def elapsed_ms(self) -> int:
        """Return milliseconds since the machine started, including sleep."""
        return time.clock_gettime_ns(_ELAPSED_CLOCK) // 1_000_000


def new_run_id() -> str:
    """Return a fresh run id."""
    return run_id_of(time.time_ns() // 1_000_000, os.urandom(ENTROPY_BYTES))


def new_key_material() -> ParsedKey:
    """Return the id and the secret of a fresh API key. Show its `text` once, and store only a hash of the secret."""
    key_id = base64.b32encode(secrets.token_bytes(KEY_ID_CHARACTERS)).decode("ascii").lower()[:KEY_ID_CHARACTERS]
    return ParsedKey(key_id=key_id, secret=secrets.token_urlsafe(SECRET_BYTES))


def new_worker_id() -> str:
    """Return a unique name for this process among those that share a store: host, pid, start time, and a nonce."""
    return f"{socket.gethostname()}/{os.getpid()}/{_start_time(os.getpid())}/{secrets.token_hex(4)}"


def gone_workers(worker_ids: Iterable[str]) -> list[str]:
    """Return the workers of this machine whose process no longer exists. Workers of other machines are not checked."""
    here = socket.gethostname()
    gone = []
    for worker_id in worker_ids:
        machine, _, rest = worker_id.partition("/")
        process, _, rest = rest.partition("/")
        began = rest.partition("/")[0]
        if machine == here and process.isdecimal() and _start_time(int(process)) != began:
            gone.append(worker_id)
    return gone


def _start_time(process: int) -> str:
    """Return when a process began, by the kernel's count. This detects a process id that was reused."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return "" if not Path("/proc/self/stat").exists() and _exists(process) else "gone"
    return fields[19]


def _exists(process: int) -> bool:
    """Whether a process exists, on systems without /proc."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
