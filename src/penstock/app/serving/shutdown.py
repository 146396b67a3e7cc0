"""How a server stops: in order, within a time that the operator chose, and without blocking on slow clients.

On the signal to stop, it accepts no more connections. Streams end, so that their readers reconnect, elsewhere or later,
and continue where they were. Requests in progress are answered; those that only wait for a run get its handle after a
moment. Then activities in progress may finish, and everything else continues at the next start.

Above it: `server` creates the server, the commands decide when to stop. Below it: uvicorn, the gate, the driver.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import uvicorn

from penstock.app.penstock import Penstock
from penstock.app.serving.event_loop_monitor import EventLoopMonitor
from penstock.base import limits
from penstock.operations.gate.pipeline import Gate

__all__ = ["Drained", "StoppableServer", "end_within", "handle_signals", "serve_until"]

_LOGGER = logging.getLogger("penstock")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """How a server ended: the requests that were cut off, and the activities left for the next start."""

    requests_cut_off: int
    activities_left: int


class StoppableServer(uvicorn.Server):
    """uvicorn's server. It reports when it listens, leaves signals to the command, and waits for no stuck reader."""

    ready: Callable[[], None] | None = None
    watch: EventLoopMonitor | None = None
    requests_cut_off: int = 0

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: the command that started this server handles signals."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and report it."""
        await super().startup(sockets)
        if self.started and self.ready is not None:
            self.ready()
        if self.started and self.watch is not None:
            self.watch.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer requests in progress. Those that remain when the time is up are cut off."""
        stuck = asyncio.get_running_loop().call_later(limits.STREAM_END_SECONDS, self._leave_stuck_readers)
        await super().shutdown(sockets)
        stuck.cancel()
        self.requests_cut_off = len(self.server_state.tasks)

    def _leave_stuck_readers(self) -> None:
        """Close streams whose reader accepts nothing: their last message would wait for it forever."""
        for connection in list(self.server_state.connections):
            if _is_stuck(connection):
                connection.transport.abort()


def _is_stuck(connection: Any) -> bool:
    """True for a stream whose reader accepts nothing.

    Only a stream has no declared length. A large answer that is read slowly is waited for like any other.
    """
    cycle = getattr(connection, "cycle", None)
    return bool(cycle is not None and cycle.chunked_encoding and connection.flow.write_paused)


async def serve_until(
    stop_requested: asyncio.Event,
    server: StoppableServer,
    listener: socket.socket,
    *,
    gate: Gate,
    penstock: Penstock,
    drain_seconds: float,
) -> Drained:
    """Serve until told to stop, then drain. Returns how that went."""
    loop = asyncio.get_running_loop()
    watch = server.watch = EventLoopMonitor(gate.services.telemetry, loop)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    telling = asyncio.ensure_future(stop_requested.wait())
    try:
        await asyncio.wait({serving, telling}, return_when=asyncio.FIRST_COMPLETED)
        deadline = loop.time() + drain_seconds
        server.should_exit = True
        gate.services.open_streams.end()
        patience = loop.call_later(min(limits.DRAIN_WAIT_SECONDS, drain_seconds / 2), penstock.host.stop_waiting)
        await serving
        patience.cancel()
        left = 0
        if penstock.driver is not None:
            left = await penstock.driver.drain(timeout_seconds=max(deadline - loop.time(), 0))
        return Drained(requests_cut_off=server.requests_cut_off, activities_left=left)
    finally:
        watch.stop()
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling


def end_within(seconds: float) -> None:
    """End this process after some time, whatever its threads and its event loop are doing.

    Work in progress continues at the next start, as after a power failure.
    """
    ending = threading.Timer(seconds, _end_now, (seconds,))
    ending.daemon = True
    ending.name = "penstock-end"
    ending.start()


def _end_now(seconds: float) -> None:
    busy = sorted(thread.name for thread in threading.enumerate() if not thread.daemon)
    _LOGGER.error("server_ended_late", extra={"fields": {"seconds": seconds, "busy_threads": list(busy)}})
    os._exit(os.EX_SOFTWARE)


@contextmanager
def handle_signals(first: Callable[[], None], second: Callable[[int], None]) -> Iterator[None]:
    """Handle SIGINT and SIGTERM: the first signal asks to stop, a second one ends the process."""
    loop = asyncio.get_running_loop()
    was_signalled = False

    def on_signal(number: int) -> None:
        nonlocal was_signalled
        if was_signalled:
            second(number)
        was_signalled = True
        first()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
