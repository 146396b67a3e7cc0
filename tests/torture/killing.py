"""Kills a process inside a system call: while it writes to the store, or waits for the disk.

Needs nothing but Linux and Python: the process is traced with ptrace(2), by ctypes, and killed when a thread of it
enters the chosen call on a file of the store. On x86-64 a write can also be cut short first, as when the power fails in
the middle of it. Where tracing is not permitted (some containers, other operating systems) `impossible` says why.

Tracing is the business of a process of its own, which starts the victim: whoever traces hears of all its children.

Above it: `torture`. It knows nothing of runs.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import subprocess
import sys
import time
from enum import Enum
from pathlib import Path
from random import Random
from typing import Literal

__all__ = ["KINDS", "Ended", "Inside", "impossible", "run_and_kill"]

_ROOT = Path(__file__).resolve().parents[2]

Inside = Literal["fdatasync", "pwrite64", "torn pwrite64"]
KINDS: tuple[Inside, ...] = ("fdatasync", "pwrite64", "torn pwrite64")

_NUMBERS = {"x86_64": {"pwrite64": 18, "fdatasync": 75}, "aarch64": {"pwrite64": 68, "fdatasync": 83}}
_SEIZE, _INTERRUPT, _SYSCALL, _POKE_USER, _GET_SYSCALL_INFO = 0x4206, 0x4207, 24, 6, 0x420E
# Syscall stops are marked, new threads are traced too, and nobody outlives the tracer.
_OPTIONS = 0x1 | 0x8 | 0x100000
_WALL = 0x40000000
_SYSCALL_STOP = signal.SIGTRAP | 0x80
_ENTRY = 1
_INFO_BYTES = 88
_THIRD_ARGUMENT = 12 * 8  # rdx in the user area of x86-64
_TRACED_SECONDS_MAX = 240.0
_STORE_FILES = (".db", ".db-wal", ".db-shm")


def _ptrace(request: int, thread: int, address: int = 0, data: int = 0) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    return int(libc.ptrace(request, thread, address, data))


class Ended(Enum):
    """What became of a process that was to be killed; the values are exit codes of the tracer."""

    BY_ITSELF = 10
    KILLED_INSIDE = 11
    KILLED_OUTSIDE = 12


def impossible() -> str | None:
    """Why processes cannot be traced here, for people; None when they can."""
    if sys.platform != "linux" or platform.machine() not in _NUMBERS:
        return (
            f"system calls cannot be traced on {sys.platform} {platform.machine()}; Linux on x86-64 or arm64 is needed"
        )
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    refused = _ptrace(_SEIZE, child.pid, 0, _OPTIONS) != 0
    error = ctypes.get_errno()
    child.kill()
    child.communicate()
    if not refused:
        return None
    return f"ptrace is refused here ({os.strerror(error)}); allow it, for docker with --cap-add=SYS_PTRACE"


def run_and_kill(command: list[str], kind: Inside, number: int, *, after_seconds: float, seed: int) -> Ended:
    """Run a command, and after a while kill it in its n-th call of a kind on the store."""
    options = [kind, str(number), str(after_seconds), str(seed)]
    return Ended(
        subprocess.run(
            [sys.executable, "-m", "tests.torture.killing", *options, *command], cwd=_ROOT, check=False
        ).returncode
    )


def _trace(command: list[str], kind: Inside, number: int, after_seconds: float, random: Random) -> Ended:
    worker = subprocess.Popen(command)
    try:
        worker.wait(timeout=after_seconds)
    except subprocess.TimeoutExpired:
        return _kill_inside(worker.pid, kind, number, random)
    return Ended.BY_ITSELF


def _kill_inside(pid: int, kind: Inside, number: int, random: Random) -> Ended:
    for thread in os.listdir(f"/proc/{pid}/task"):
        if _ptrace(_SEIZE, int(thread), 0, _OPTIONS) == 0:
            _ptrace(_INTERRUPT, int(thread))
    wanted = _NUMBERS[platform.machine()][kind.removeprefix("torn ")]
    deadline, left, ended = time.monotonic() + _TRACED_SECONDS_MAX, number, Ended.KILLED_OUTSIDE
    while time.monotonic() < deadline:
        thread_id, status = os.waitpid(-1, _WALL)
        if not os.WIFSTOPPED(status):
            if thread_id == pid:
                return Ended.BY_ITSELF
            continue
        entered = _entered(thread_id, status)
        if entered is not None and entered[0] == wanted and _is_store(pid, entered[1]):
            left -= 1
            if left <= 0:
                _cut_short(thread_id, kind, entered[3], random)
                ended = Ended.KILLED_INSIDE
                break
        _go_on(thread_id, status)
    os.kill(pid, signal.SIGKILL)
    return ended


def _entered(thread: int, status: int) -> tuple[int, int, int, int] | None:
    """The number and the first arguments of a call that a thread is about to make."""
    if os.WSTOPSIG(status) != _SYSCALL_STOP:
        return None
    info = ctypes.create_string_buffer(_INFO_BYTES)
    if _ptrace(_GET_SYSCALL_INFO, thread, _INFO_BYTES, ctypes.addressof(info)) <= 0 or info.raw[0] != _ENTRY:
        return None
    number, first, second, third = struct.unpack_from("=4Q", info.raw, 24)
    return number, first, second, third


def _is_store(pid: int, descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}").endswith(_STORE_FILES)
    except OSError:
        return False


def _cut_short(thread: int, kind: Inside, size: int, random: Random) -> None:
    """Let a write happen in part, if that is wanted and possible here."""
    if kind != "torn pwrite64" or platform.machine() != "x86_64" or size <= 1:
        return
    if _ptrace(_POKE_USER, thread, _THIRD_ARGUMENT, random.randrange(1, size)) == 0:
        _ptrace(_SYSCALL, thread)
        os.waitpid(thread, _WALL)  # the write has returned, and nobody has heard of it


def _go_on(thread: int, status: int) -> None:
    received = os.WSTOPSIG(status)
    is_ours = received in (_SYSCALL_STOP, signal.SIGTRAP) or status >> 16
    _ptrace(_SYSCALL, thread, 0, 0 if is_ours else received)


def main() -> int:
    """The tracer."""
    kind, number, after_seconds, seed, *command = sys.argv[1:]
    chosen = next(item for item in KINDS if item == kind)
    return _trace(command, chosen, int(number), float(after_seconds), Random(seed)).value


if __name__ == "__main__":
    sys.exit(main())
