"""`penstock mcp doctor`: is a connection well, and if not, what is to be done?

Above it: the command line. Below it: `examining` looks at the server, `install.entries` at the files of assistants.
Exit codes: 0 when nothing failed (there may be warnings), 1 when something did.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from penstock.app.mcp.places import HttpPlace, Place
from penstock.base.lazy_import import lazy_import
from penstock.cli.lazy import WithTrailing, trailing_words
from penstock.cli.mcp.install.command import surroundings
from penstock.cli.mcp.install.entries import entry_checks
from penstock.cli.mcp.showing import hush_sdk
from penstock.cli.mcp.where import (
    HeaderOption,
    KeyVariableOption,
    ToolsetOption,
    UrlOption,
    Where,
    WorkflowsOption,
    place_of,
)
from penstock.cli.sessions.sessions import JsonOption
from penstock.cli.sessions.targets import ProfileOption, ServerOption, TargetFileOption
from penstock.cli.terminal.checks import Check, is_well, print_check, print_summary
from penstock.cli.terminal.endings import finish, print_json

if TYPE_CHECKING:
    from penstock.cli.mcp import examining
else:
    examining = lazy_import("penstock.cli.mcp.examining")

__all__ = ["DOCTOR", "doctor_command"]


def doctor_command(  # noqa: PLR0913  # every option is one the user can give
    ctx: typer.Context,
    *,
    toolset: ToolsetOption = None,
    server: ServerOption = None,
    profile: ProfileOption = None,
    url: UrlOption = None,
    header: HeaderOption = None,
    key_env: KeyVariableOption = None,
    database: TargetFileOption = None,
    workflows: WorkflowsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a connection to an MCP server end to end, step by step, and say what to do.

    Looks at the address, its names, the key, the clock, both eras of the protocol, the size of the catalogue, a call
    that changes nothing, and the entries of assistants on this machine. With --json: ok, server and checks.
    """
    where = Where(
        server=server,
        profile=profile,
        url=url,
        headers=tuple(header or ()),
        key_variable=key_env,
        database=database,
        workflows=tuple(workflows or ()),
        toolset=toolset,
        command=trailing_words(ctx),
        looks_only=True,
    )

    def work() -> int:
        hush_sdk()
        place = place_of(where)
        ours = url is None and not where.command
        checks = asyncio.run(_examined(place, ours=ours, quiet=as_json))
        if as_json:
            named = place.url if isinstance(place, HttpPlace) else " ".join((place.command, *place.arguments))
            print_json({"ok": is_well(checks), "server": named, "checks": [check.to_json() for check in checks]})
        else:
            print_summary(checks)
        return 0 if is_well(checks) else 1

    finish(work, as_json=as_json)


DOCTOR = WithTrailing(doctor_command)


async def _examined(place: Place, *, ours: bool, quiet: bool) -> list[Check]:
    """Every check, printed as soon as it is made."""
    checks = []
    async for check in _checks(place, ours=ours):
        checks.append(check)
        if not quiet:
            print_check(check)
    return checks


async def _checks(place: Place, *, ours: bool) -> AsyncIterator[Check]:
    async for check in examining.examine(place, ours=ours):
        yield check
    here = surroundings(os.environ, Path.home(), Path.cwd(), sys.platform)
    for check in entry_checks(here, place.url if isinstance(place, HttpPlace) else None):
        yield check
