"""The event loop of servers: uvloop where there is one, which halves what a request costs.

Above it: the commands that serve. Below it: nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Callable

__all__ = ["server_loop"]


def server_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the event loop of a server; the standard one where uvloop does not run (Windows)."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop
    make: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return make
