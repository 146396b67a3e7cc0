"""The `penstock` command: one module per subcommand, put together here.

Exit codes are the same everywhere: 0 for success, 1 for a negative result (findings, a difference, a failed run),
2 for a command that could not be carried out (wrong usage, an unreadable file).
"""

from __future__ import annotations

from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.schema import schema
from penstock.cli.validate import validate

__all__ = ["app", "main"]

app = typer.Typer(
    name="penstock",
    help="Workflows as tools that an assistant can safely call.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(validate)
app.command()(schema)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Workflows as tools that an assistant can safely call."""


def main() -> None:
    """Run the command line; the entry point of the package."""
    app()
