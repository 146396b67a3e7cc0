"""The Typer application of the command line, made from the table in `main`.

Above it: `main`, which imports it when a command is called. Below it: `lazy_commands`, Typer.
"""

from __future__ import annotations

from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.lazy_commands import lazy_group
from penstock.cli.main import COMMANDS, SUMMARY

__all__ = ["app"]

app = typer.Typer(
    name="penstock",
    cls=lazy_group(lambda: COMMANDS),
    help=SUMMARY,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback(help=SUMMARY)
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Read the options that stand before a command."""
