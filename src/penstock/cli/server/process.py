"""A server as commands run it: it takes the port, opens the store, and serves until it must stop.

    async with open_server(workspace, options, observe=log_commit) as server:
        await server.run(began, announce)

Mistakes in settings, workflows and steps, and a port that is taken, are found before the store is touched. The first
SIGINT or SIGTERM drains; a second one ends the process at once, which loses nothing that was stored.

Above it: `serve`, `dev.command`. Below it: `app.serving`, `app.gate`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from penstock import __version__
from penstock.app.event_loop import loop_name
from penstock.app.gate import create_owner_key, has_keys
from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions, build_server, open_application
from penstock.app.serving.shutdown import StoppableServer, end_within, handle_signals, serve_until
from penstock.app.serving.systemd import notify_systemd
from penstock.app.sockets import address_of, is_loopback, listen
from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.cli.declaration import Context, echo
from penstock.cli.targets.workspace import Workspace, open_workspace
from penstock.cli.terminal.exits import command_text
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.ports.host import Committed

__all__ = ["OpenServer", "Started", "key_advice", "log_started", "open_server", "when_begun"]

_LOGGER = logging.getLogger("penstock.server")
_SIGNAL_EXIT = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What is announced once the server listens."""

    address: str
    base_path: str
    owner_key: str | None
    has_keys: bool
    started_ms: int
    event_loop: str


@dataclass(slots=True, kw_only=True)
class OpenServer:
    """A store with a gate and its surfaces, and the port that they will answer at."""

    penstock: Penstock
    gate: Gate
    stop_requested: asyncio.Event
    """Set when the server shall stop."""
    listener: socket.socket
    options: ServerOptions
    http: StoppableServer

    async def run(self, began: float, announce: Callable[[Started], None]) -> None:
        """Serve until a stop is requested, then drain. `began` is when the command began, as `perf_counter` has it."""
        # The first key is for the user of this machine; on any other address no key must appear unasked.
        owner_key = await create_owner_key(self.gate) if is_loopback(self.options.host) else None
        known = owner_key is not None or await has_keys(self.gate)

        def ready() -> None:
            # Objects that are in memory now stay until the end. Garbage collection is much faster if it skips them.
            gc.freeze()
            # On a full disk Python would keep half of a module's bytecode, and nobody could import the module again.
            sys.dont_write_bytecode = True
            started_ms = round((time.perf_counter() - began) * 1000)
            self.gate.services.information["started_ms"] = started_ms
            notify_systemd("READY=1")
            announce(
                Started(
                    address=address_of(self.options.host, self.listener),
                    base_path=self.options.rest.base_path,
                    owner_key=owner_key,
                    has_keys=known,
                    started_ms=started_ms,
                    event_loop=loop_name(),
                )
            )

        self.http.ready = ready
        drained = await serve_until(
            self.stop_requested,
            self.http,
            self.listener,
            gate=self.gate,
            penstock=self.penstock,
            drain_seconds=self.options.drain_seconds,
        )
        ended: JsonObject = {
            "requests_cut_off": drained.requests_cut_off,
            "activities_left_for_the_next_start": drained.activities_left,
        }
        _LOGGER.info("server_stopped", extra={"fields": ended})


@asynccontextmanager
async def open_server(
    workspace: Workspace,
    options: ServerOptions,
    *,
    observe: Callable[[Committed], None],
    steps: Iterable[Callable[..., Any]] | None = None,
    stopping: Callable[[], None] = lambda: None,
) -> AsyncIterator[OpenServer]:
    """Take the port, and open the store and everything on it; signals to stop are handled from here on.

    `steps` are those of the workspace, if they are loaded already. `stopping` is called when a stop is requested.
    """
    stop_requested = asyncio.Event()

    def stop() -> None:
        if not stop_requested.is_set():
            notify_systemd("STOPPING=1")
            stopping()
            _LOGGER.info("server_stopping", extra={"fields": {"drain_seconds": options.drain_seconds}})
            end_within(options.drain_seconds + limits.DRAIN_CLOSING_SECONDS)
        stop_requested.set()

    with handle_signals(stop, _exit_now), listen(options.host, options.port) as listener:
        async with (
            open_workspace(workspace, perform=True, create=True, observe=observe, steps=steps) as penstock,
            open_application(penstock, options) as (app, gate),
        ):
            yield OpenServer(
                penstock=penstock,
                gate=gate,
                stop_requested=stop_requested,
                listener=listener,
                options=options,
                http=build_server(app, options, gate=gate),
            )


def _exit_now(number: int) -> None:
    echo("stopped at once; the next start continues the work that was in progress", err=True)
    os._exit(_SIGNAL_EXIT + number)


def when_begun(context: Context) -> float:
    """When the command began, by the performance counter: before it was imported, if the entry point noted that."""
    noted = context.find_root().obj
    return noted if isinstance(noted, float) else time.perf_counter()


def log_started(workspace: Workspace, started: Started) -> None:
    """Log where the server is and how long it took to get there, for programs."""
    fields: JsonObject = {"address": started.address, "started_ms": started.started_ms, "version": __version__}
    fields.update({"database": str(workspace.database), "event_loop": started.event_loop})
    fields.update({"owner_key": started.owner_key, "has_keys": started.has_keys})
    _LOGGER.info("server_started", extra={"fields": fields})


def key_advice(workspace: Workspace) -> str:
    """The command that creates a key, for a server that creates none by itself."""
    return command_text("key", "create", "--db", str(workspace.database), "--name", "owner", "--scopes", "*")
