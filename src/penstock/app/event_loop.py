"""The event loop and the garbage collector of a process that does nothing but Penstock.

Servers and workers run like this. A program that embeds Penstock chooses: `penstock.run(main())` in place of
`asyncio.run(main())`. Nothing here happens by itself, since both settings affect the whole process.

Above it: the commands that serve, programs that embed Penstock. Below it: asyncio, uvloop, gc.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

from penstock.base import limits

__all__ = ["run", "server_loop", "tuned_collector"]

T = TypeVar("T")


def server_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the event loop of a server; the standard one where uvloop does not run (Windows)."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop
    make: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return make


@contextmanager
def tuned_collector() -> Iterator[None]:
    """Look for garbage less often while the block lasts, and never among what is there when it begins.

    Runs make many objects and hardly any cycles of them: what they leave goes without being looked for. A collector
    that somebody has disabled stays so.
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
    """Run a program to its end, as `asyncio.run` does, in the way that costs runs least.

    On uvloop where there is one, unless the program needs the standard event loop (`uvloop=False`); with the garbage
    collector of the process as in `tuned_collector`, unless other parts of the program make many cycles (`calm=False`).
    """
    with (
        tuned_collector() if calm else nullcontext(),
        asyncio.Runner(loop_factory=server_loop() if uvloop else None) as runner,
    ):
        return runner.run(work)
