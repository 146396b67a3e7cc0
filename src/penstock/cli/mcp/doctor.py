"""`penstock mcp doctor`: check a connection, and say what to do about what is wrong.

`connection_checks` looks at the server, `install.entries` at the configuration files of assistants.
Exit codes: 0 when nothing failed (there may be warnings), 1 when something did.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.lazy_import import lazy_import
from penstock.cli.commands.command import WithTrailingArguments, trailing_arguments
from penstock.cli.declaration import Context
from penstock.cli.mcp.answers import silence_sdk_logs
from penstock.cli.mcp.install.command import install_environment
from penstock.cli.mcp.install.entries import entry_checks
from penstock.cli.mcp.servers import (
    HttpServer,
    McpServer,
    ServerOptions,
    ToolsetOption,
    resolve_server,
)
from penstock.cli.terminal.checks import Check, is_well, print_check, print_summary
from penstock.cli.terminal.exits import JsonOption, exit_with, print_json

if TYPE_CHECKING:
    from penstock.cli.mcp import connection_checks
else:
    connection_checks = lazy_import("penstock.cli.mcp.connection_checks")

__all__ = ["DOCTOR", "doctor_command"]


def doctor_command(
    ctx: Context,
    *,
    toolset: ToolsetOption = None,
    options: ServerOptions,
    as_json: JsonOption = False,
) -> None:
    """Check a connection to an MCP server step by step, and say what to do.

    Checks the address and its names, how clients sign in, the key and the clock. Then tries both eras of the protocol,
    the size of the catalogue, and a call that changes nothing. Last, reads the entries of assistants on this machine.
    With --json: ok, server and checks.
    """
    choice = options.choice(toolset, trailing_arguments(ctx), looks_only=True)

    def work() -> int:
        silence_sdk_logs()
        server = resolve_server(choice)
        ours = choice.url is None and not choice.command
        checks = asyncio.run(_run_checks(server, ours=ours, quiet=as_json))
        if as_json:
            named = server.url if isinstance(server, HttpServer) else " ".join((server.command, *server.arguments))
            print_json({"ok": is_well(checks), "server": named, "checks": [check.to_json() for check in checks]})
        else:
            print_summary(checks)
        return 0 if is_well(checks) else 1

    exit_with(work, as_json=as_json)


DOCTOR = WithTrailingArguments(doctor_command)


async def _run_checks(server: McpServer, *, ours: bool, quiet: bool) -> list[Check]:
    """Every check, printed as soon as it is made."""
    checks = []
    async for check in _checks(server, ours=ours):
        checks.append(check)
        if not quiet:
            print_check(check)
    return checks


async def _checks(server: McpServer, *, ours: bool) -> AsyncIterator[Check]:
    async for check in connection_checks.check_connection(server, ours=ours):
        yield check
    here = install_environment(os.environ, Path.home(), Path.cwd(), sys.platform)
    for check in entry_checks(here, server.url if isinstance(server, HttpServer) else None):
        yield check
