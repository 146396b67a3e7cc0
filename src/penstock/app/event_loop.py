"""The event loop, the garbage collector and the heaps of a process that only runs Penstock.

uvloop comes with the extra `speed`. Where it is not installed, servers and workers use the event loop of Python. They
say which one they use when they start.

Servers and workers use these. A program that embeds Penstock can choose them with `penstock.run(main())` in place of
`asyncio.run(main())`. Nothing here is applied by default, because both settings affect the whole process.

Above it: the commands that serve, programs that embed Penstock. Below it: asyncio, uvloop, gc.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import resource
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeVar

from penstock.base import limits

__all__ = ["SPEED_EXTRA", "has_uvloop", "loop_name", "run", "server_loop", "share_heaps", "tuned_collector"]

T = TypeVar("T")
SPEED_EXTRA = "speed"
"""The extra that installs uvloop."""
_M_ARENA_MAX = -8  # of mallopt(3)


def has_uvloop() -> bool:
    """Whether uvloop is installed; it does not run on Windows."""
    return importlib.util.find_spec("uvloop") is not None


def loop_name() -> str:
    """The library of the running event loop: `uvloop` or `asyncio`."""
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def server_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop factory of a server: uvloop's if it is installed, otherwise the standard one."""
    if not has_uvloop():
        return asyncio.new_event_loop
    make: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return make


def share_heaps() -> None:
    """Let threads share two heaps where the address space is limited.

    The C library reserves 64 MiB of addresses for each thread that allocates, of which a thread here uses hardly any.
    """
    if sys.platform != "linux" or resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    with suppress(OSError, AttributeError):  # another C library
        importlib.import_module("ctypes").CDLL(None).mallopt(_M_ARENA_MAX, 2)


@contextmanager
def tuned_collector() -> Iterator[None]:
    """Run the garbage collector less often in this block, and exclude the objects that already exist.

    Runs create many objects but hardly any cycles, so reference counting frees nearly all of them. A collector that is
    already disabled stays disabled.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(limits.GC_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def run(work: Coroutine[Any, Any, T], *, uvloop: bool = True, calm: bool = True) -> T:
    """Run a program to its end, as `asyncio.run` does, with the settings that make runs cheapest.

    It uses uvloop if available, unless the program needs the standard event loop (`uvloop=False`). It tunes the garbage
    collector as `tuned_collector` does, unless other parts of the program create many cycles (`calm=False`).
    """
    with (
        tuned_collector() if calm else nullcontext(),
        asyncio.Runner(loop_factory=server_loop() if uvloop else None) as runner,
    ):
        return runner.run(work)
