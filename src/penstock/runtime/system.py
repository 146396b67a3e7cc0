"""What the runtime takes from the machine: the time, randomness, and who this process is.

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


# Goes on while the machine sleeps, which Linux's monotonic clock does not; both go on while a process is stopped.
_ELAPSED_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class TimeOfDay:
    """The time of day, steadied by a clock that nobody sets: a jump is believed when it has lasted for a while.

    Small corrections are followed at once. Until a jump is believed, time goes on from where it was.
    """

    def __init__(self) -> None:
        self._offset: int | None = None
        self._doubted = 0  # where the time of day went
        self._doubted_at: int | None = None  # since when, by the other clock

    def read(self, wall_ms: int, elapsed_ms: int) -> int:
        """The time to go by, of what both clocks say now."""
        offset = wall_ms - elapsed_ms
        if self._offset is None or abs(offset - self._offset) <= limits.CLOCK_STEP_MS_MAX:
            self._offset, self._doubted_at = offset, None
            return wall_ms
        if self._doubted_at is None or abs(offset - self._doubted) > limits.CLOCK_STEP_MS_MAX:
            self._doubted, self._doubted_at = offset, elapsed_ms
        elif elapsed_ms - self._doubted_at >= limits.CLOCK_SETTLES_MS:
            self._offset, self._doubted_at = offset, None
            return wall_ms
        return elapsed_ms + self._offset


# One for the process: all of its clocks agree.
_TIME_OF_DAY = TimeOfDay()


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """The present instant in epoch milliseconds, steadied as `TimeOfDay` says."""
        return _TIME_OF_DAY.read(time.time_ns() // 1_000_000, time.clock_gettime_ns(_ELAPSED_CLOCK) // 1_000_000)

    def elapsed_ms(self) -> int:
        """Milliseconds since the machine started, asleep or not."""
        return time.clock_gettime_ns(_ELAPSED_CLOCK) // 1_000_000


def new_run_id() -> str:
    """A fresh run id."""
    return run_id_of(time.time_ns() // 1_000_000, os.urandom(ENTROPY_BYTES))


def new_key_material() -> ParsedKey:
    """The id and the secret of a fresh API key; its `text` is to be shown once and its secret to be hashed."""
    key_id = base64.b32encode(secrets.token_bytes(KEY_ID_CHARACTERS)).decode("ascii").lower()[:KEY_ID_CHARACTERS]
    return ParsedKey(key_id=key_id, secret=secrets.token_urlsafe(SECRET_BYTES))


def new_worker_id() -> str:
    """The name of this process among those that share a store: machine, process, when it began, and a nonce."""
    return f"{socket.gethostname()}/{os.getpid()}/{_began(os.getpid())}/{secrets.token_hex(4)}"


def gone_workers(worker_ids: Iterable[str]) -> list[str]:
    """Those workers of this machine whose process is no longer there; nothing is known about other machines."""
    here = socket.gethostname()
    gone = []
    for worker_id in worker_ids:
        machine, _, rest = worker_id.partition("/")
        process, _, rest = rest.partition("/")
        began = rest.partition("/")[0]
        if machine == here and process.isdecimal() and _began(int(process)) != began:
            gone.append(worker_id)
    return gone


def _began(process: int) -> str:
    """When a process began, as the kernel counts it; a number that was given to a new process shows here."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return "" if not Path("/proc/self/stat").exists() and _exists(process) else "gone"
    return fields[19]


def _exists(process: int) -> bool:
    """Whether a process exists, where there is no /proc to ask."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
