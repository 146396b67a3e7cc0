"""`penstock serve`: the server, until Ctrl-C or SIGTERM.

The first start on a loopback address creates a key that may do everything, and shows it once. On any other address the
server creates no key: create one beforehand with `penstock key create` on the file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from penstock import __version__
from penstock.app.event_loop import server_loop, share_heaps
from penstock.app.files.trusted import list_trusted_files
from penstock.app.serving.server import ServerOptions
from penstock.cli.declaration import Context, Option, echo
from penstock.cli.server.logs import configure_logging, log_commit
from penstock.cli.server.options import ServingOptions
from penstock.cli.server.process import Started, key_advice, log_started, open_server, when_begun
from penstock.cli.server.workflow_files import workflow_files
from penstock.cli.targets.settings import command_settings
from penstock.cli.targets.workspace import Workspace
from penstock.cli.terminal.event_loop import exit_with_async

__all__ = ["serve_command"]


def serve_command(
    context: Context,
    *,
    options: ServingOptions,
    as_json: Annotated[bool, Option("--json", help="Log JSON lines instead of text.")] = False,
    verbose: Annotated[bool, Option(("--verbose", "-v"), help="Log more.")] = False,
) -> None:
    """Serve REST, MCP and the console, and perform runs.

    A signal drains: requests and activities in progress may finish for `server.drain_seconds`; a second one ends the
    process at once.
    """
    began = when_begun(context)

    async def work() -> int:
        flags = {
            **options.flags(),
            "logging.format": "json" if as_json else None,
            "logging.level": "debug" if verbose else None,
        }
        loaded = command_settings(options.config, flags, as_json=as_json)
        settings = loaded.settings
        trusted = tuple(list_trusted_files(settings, loaded.file, options.secret_folder))
        configure_logging(settings.logging)
        share_heaps()
        await _serve(options.workspace(settings), replace(ServerOptions.of(settings), trusted_files=trusted), began)
        return 0

    exit_with_async(work, as_json=as_json, loop=server_loop())


async def _serve(workspace: Workspace, options: ServerOptions, began: float) -> None:
    chosen = replace(options, workflow_files=workflow_files(workspace.settings))
    async with open_server(workspace, chosen, observe=log_commit) as server:
        await server.run(began, lambda started: _announce(workspace, started))


def _announce(workspace: Workspace, started: Started) -> None:
    if workspace.settings.logging.format == "json":
        log_started(workspace, started)
        return
    rest = f"{started.address}{started.base_path}"
    lines = [
        f"penstock {__version__} · {workspace.database} · {started.event_loop} · ready in {started.started_ms} ms"
        " · Ctrl-C stops it",
        f"  REST     {rest}   (described at /openapi.json)",
    ]
    mcp = workspace.settings.server.mcp
    if mcp.enabled and mcp.transport != "stdio":
        lines.append(f"  MCP      {started.address}{mcp.path}")
    if workspace.settings.server.console_enabled:
        lines.append(f"  console  {started.address}/console")
    if started.owner_key is not None:
        lines.extend(
            (
                "  key      this is the owner's key; it may do everything, and is shown only now:",
                f"           {started.owner_key}",
                f"  try      curl -H 'Authorization: Bearer {started.owner_key}' {rest}/info",
            )
        )
    elif not started.has_keys:
        lines.append("  key      no key exists, so no request is accepted; make one on this machine:")
        lines.append(f"           {key_advice(workspace)}")
    echo("\n".join(lines), err=True)
