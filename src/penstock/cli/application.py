"""The whole command line as a group, made from the tree of commands.

Above it: `main`, which imports it when a command is called. Below it: `lazy_commands`, `top_help`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import click

from penstock import __version__
from penstock.base.lazy_import import lazy_import
from penstock.cli.commands.completion import completion_options
from penstock.cli.declaration import Context, Exit, Option, echo
from penstock.cli.lazy_commands import LazyGroup
from penstock.cli.main import PROGRAM, SUMMARY
from penstock.cli.top_help import FOOTER

if TYPE_CHECKING:
    from penstock.cli.overview import command as overview
else:
    overview = lazy_import("penstock.cli.overview.command")

__all__ = ["app"]


def _print_version(_: Context, __: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        echo(f"{PROGRAM} {__version__}")
        raise Exit


_VERSION = click.Option(
    ["--version"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)


def _say_where_you_are(
    ctx: Context,
    *,
    as_json: Annotated[bool, Option("--json", help="Without a command: say where you are, as JSON.")] = False,
) -> None:
    """Print the overview, unless a command follows."""
    if ctx.invoked_subcommand is None:
        overview.print_overview(as_json=as_json)


app = LazyGroup(
    "",
    SUMMARY,
    function=_say_where_you_are,
    params=[_VERSION, *completion_options(PROGRAM)],
    footer=FOOTER,
)
app.subcommand_metavar = "COMMAND [ARGS]..."  # not in brackets, although the program also works without a command
