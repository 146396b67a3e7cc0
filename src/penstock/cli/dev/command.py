"""`penstock dev`: a server for writing workflows. It takes up every file as soon as you save it."""

from __future__ import annotations

import logging
import sys
import threading
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from penstock.app.event_loop import server_loop
from penstock.app.gate import local_owner
from penstock.app.serving.server import ServerOptions
from penstock.app.settings.sources import DEFAULT_FILE, load_settings
from penstock.app.sockets import is_loopback
from penstock.cli.declaration import Context, Option
from penstock.cli.dev.output import DevOutput
from penstock.cli.dev.reload import Reloader
from penstock.cli.project.step_modules import StepModules
from penstock.cli.server.logs import configure_logging
from penstock.cli.server.options import ServingOptions
from penstock.cli.server.process import Started, open_server, when_begun
from penstock.cli.targets.settings import command_settings
from penstock.cli.targets.workspace import Workspace
from penstock.cli.terminal.console import console_for
from penstock.cli.terminal.event_loop import exit_with_async
from penstock.console.one_time_links import OneTimeLinks

__all__ = ["dev_command"]


def dev_command(
    context: Context,
    *,
    options: ServingOptions,
    verbose: Annotated[bool, Option(("--verbose", "-v"), help="Log more.")] = False,
    no_browser: Annotated[
        bool, Option("--no-browser", help="Only print the link that signs you in; open no browser.")
    ] = False,
) -> None:
    """Serve a project, and reload what you save.

    A changed workflow is a new version at once; runs that have begun stay with theirs. Mistakes are shown with file,
    line and column, and what was known before stays. Changed steps are imported again. A settings file that changed is
    applied as far as possible; what needs a restart is named.

    On an address of this machine, at a terminal, a browser is opened with the console. The link that signs you in works
    once, for two minutes.
    """
    began = when_begun(context)
    flags = {
        **options.flags(),
        "logging.level": "debug" if verbose else None,
    }

    async def work() -> int:
        settings = command_settings(options.config, flags).settings
        configure_logging(settings.logging)
        if not verbose:
            # The lines that this command prints say the same more briefly.
            for name in ("penstock.server", "penstock.access"):
                logging.getLogger(name).setLevel(logging.WARNING)
        workspace = options.workspace(settings)
        lines = DevOutput(console=console_for(sys.stderr), workspace=workspace)
        reloader = Reloader(
            settings=settings,
            settings_file=options.config or Path(DEFAULT_FILE),
            load=lambda: load_settings(options.config, flags=flags).settings,
            lines=lines,
            modules=StepModules(settings.steps.modules),
        )
        serving = ServerOptions.of(settings)
        if serving.console and is_loopback(serving.host):
            serving = replace(serving, console_links=OneTimeLinks(local_owner()))
        opens_browser = not no_browser and sys.stderr.isatty()
        await _develop(workspace, serving, reloader, began, opens_browser=opens_browser)
        return 0

    exit_with_async(work, loop=server_loop())


async def _develop(
    workspace: Workspace, options: ServerOptions, reloader: Reloader, began: float, *, opens_browser: bool
) -> None:
    # Steps are loaded before the store is opened, because runs continue at once and must find them.
    steps, lines = reloader.load_steps(), reloader.lines
    async with open_server(workspace, options, observe=lines.committed, steps=steps, stopping=lines.stopping) as server:
        await reloader.begin(server.gate)

        def announce(started: Started) -> None:
            links = options.console_links
            path = None if links is None else links.path(server.gate.services.clock.now_ms())
            address = None if path is None else started.address + path
            lines.started(started, [*reloader.workflows.values()], sign_in=address)
            if address is not None and opens_browser:
                # Some browsers are programs that the call waits for.
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        async with reloader.watching(server.penstock, server.gate):
            await server.run(began, announce)
