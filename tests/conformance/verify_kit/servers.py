"""Servers for the kit: as `penstock server verify` starts one, but in this process, to be broken on purpose.

Above it: the tests of broken servers, `scripts/verify`. Below it: `app.serving`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path

from penstock.app.gate import create_owner_key
from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions, build_server, open_application
from penstock.app.serving.shutdown import serve_until
from penstock.app.settings.model import Settings
from penstock.app.settings.sources import load_settings
from penstock.app.sockets import address_of, listen
from penstock.base.clock import Clock
from penstock.cli.verify.fresh_server import FRESH_SETTINGS, with_approver
from penstock.cli.verify.target import Target
from tests.conformance.verify_kit.breakages import Breakage

__all__ = ["serving", "serving_settings"]

_FLAGS = {"server.agent_profile.enabled": True, "server.agent_profile.fixtures": True, "server.port": 0}
_DRAIN_SECONDS = 2.0
# A record that a broken server never writes is not waited for longer than a server needs that does.
_PATIENCE_SECONDS = 12.0


@asynccontextmanager
async def serving(
    folder: Path, breakage: Breakage | None = None, *, text: str = FRESH_SETTINGS, clock: Clock | None = None
) -> AsyncIterator[Target]:
    """Serve from a folder until the block ends, with a mistake or without one; `text` has the settings."""
    config = folder / "penstock.yaml"
    config.write_text(text)
    settings = load_settings(config, environment={}, flags=_FLAGS).settings
    opening = Penstock.open(folder / "penstock.db", clock=clock)
    async with serving_settings(settings, opening, breakage) as target:
        yield target


@asynccontextmanager
async def serving_settings(
    settings: Settings, opening: AbstractAsyncContextManager[Penstock], breakage: Breakage | None = None
) -> AsyncIterator[Target]:
    """Serve as the settings say until the block ends, on a store that is opened for it."""
    options = ServerOptions.of(settings)
    logging.getLogger("penstock").setLevel(logging.CRITICAL)
    async with opening as penstock, open_application(penstock, options) as (app, gate):
        key = await create_owner_key(gate)
        assert key is not None
        with nullcontext(app) if breakage is None else breakage.applied(app, gate, key) as served:
            told, server = asyncio.Event(), build_server(served, options, gate=gate)
            with listen(options.host, options.port) as listener:
                ends = serve_until(told, server, listener, gate=gate, penstock=penstock, drain_seconds=_DRAIN_SECONDS)
                task = asyncio.create_task(ends)
                try:
                    url = address_of(options.host, listener)
                    found = Target(url=url, admin_key=key, patience_seconds=_PATIENCE_SECONDS)
                    yield await asyncio.to_thread(with_approver, found)
                finally:
                    told.set()
                    await task
