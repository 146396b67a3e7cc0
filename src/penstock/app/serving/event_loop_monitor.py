"""Monitors the event loop: everything waits while one piece of work blocks it.

The loop writes a heartbeat every few milliseconds, and a thread checks it. If the heartbeat is old, the thread records
what the loop's thread is doing. After a stall, the loop measures, counts and logs it: where it was, how much of it was
computing, and for how much of it no processor was free. The rest is a blocking call, or other threads of this process
that hold the interpreter lock.

Above it: `shutdown`, which starts it when the server listens: slow work before that delays nobody. Below it:
`operations.telemetry.metrics`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.operations.telemetry.metrics import Telemetry

__all__ = ["EventLoopMonitor"]

_LOGGER = logging.getLogger("penstock")
_FRAMES_MAX = 8
_OWN = "/penstock/"
# Frames of the import machinery; the importing module is above them.
_IMPORTING = "<frozen importlib"


class _Unscheduled:
    """How long a thread was ready to run without a processor, as counted by the kernel; 0 if it does not count."""

    def __init__(self) -> None:
        self._file = -1
        with suppress(OSError):
            self._file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)

    def seconds(self) -> float:
        try:
            return int(os.pread(self._file, 64, 0).split()[1]) / 1e9 if self._file >= 0 else 0.0
        except (OSError, ValueError, IndexError):
            return 0.0

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class EventLoopMonitor:
    """The heartbeat of one event loop, and the thread that checks it."""

    def __init__(self, telemetry: Telemetry, loop: asyncio.AbstractEventLoop) -> None:
        self._telemetry = telemetry
        self._loop = loop
        self._thread_id = threading.get_ident()
        self._noted = time.monotonic()
        self._computed = time.thread_time()
        self._unscheduled = _Unscheduled()
        self._waited = 0.0
        self._where: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="penstock-loop-watch", daemon=True)

    def start(self) -> None:
        """Start. Call this in the loop's thread."""
        self._noted, self._computed, self._waited = time.monotonic(), time.thread_time(), self._unscheduled.seconds()
        self._timer = self._loop.call_later(limits.LOOP_NOTE_SECONDS, self._note)
        self._watcher.start()

    def stop(self) -> None:
        """Stop, whether or not it was started."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher.is_alive():
            self._watcher.join(limits.LOOP_STALL_SECONDS * 10)
        self._unscheduled.close()

    def _note(self) -> None:
        now, computed, waited = time.monotonic(), time.thread_time(), self._unscheduled.seconds()
        stalled = now - self._noted - limits.LOOP_NOTE_SECONDS
        if stalled > limits.LOOP_STALL_SECONDS:
            self._tell(stalled, computed - self._computed, waited - self._waited)
        self._noted, self._computed, self._waited, self._where = now, computed, waited, []
        self._timer = self._loop.call_later(limits.LOOP_NOTE_SECONDS, self._note)

    def _tell(self, stalled: float, computing: float, unscheduled: float) -> None:
        self._telemetry.loop_stalled(stalled)
        fields: JsonObject = {
            "stalled_ms": round(stalled * 1000),
            "computing_ms": round(computing * 1000),
            "unscheduled_ms": round(unscheduled * 1000),
            "where": list(self._where),
        }
        _LOGGER.warning("event_loop_stalled", extra={"fields": fields})

    def _watch(self) -> None:
        """Record where the loop is during a stall. Runs in a thread of its own."""
        while not self._stopped.wait(limits.LOOP_STALL_SECONDS / 2):
            if time.monotonic() - self._noted > limits.LOOP_STALL_SECONDS and not self._where:
                frame = sys._current_frames().get(self._thread_id)
                self._where = _innermost_frames(frame)


def _innermost_frames(frame: FrameType | None) -> list[str]:
    """The innermost calls, as module, line and function."""
    frames: list[str] = []
    while frame is not None and len(frames) < _FRAMES_MAX:
        code = frame.f_code
        _, ours, path = code.co_filename.rpartition(_OWN)
        if not code.co_filename.startswith(_IMPORTING):
            frames.append(f"{path if ours else code.co_filename.rpartition('/')[2]}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return frames
