"""The `penstock` command: one module per subcommand, put together here.

Exit codes are the same everywhere: 0 for success, 1 for a negative result (findings, a difference, a failed run),
2 for a command that could not be carried out (wrong usage, an unreadable file), 3 for a run that still waits, 130 for
one that was left with Ctrl-C.
"""

from __future__ import annotations

from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.backup import backup_command, check_command, restore_command
from penstock.cli.cases import cases_command
from penstock.cli.diff import diff_command
from penstock.cli.graph import graph_command
from penstock.cli.run import run_command
from penstock.cli.runs import runs_app
from penstock.cli.schema import schema_command
from penstock.cli.simulate import simulate_command
from penstock.cli.validate import validate_command
from penstock.cli.worker import worker_command

__all__ = ["app", "main"]

app = typer.Typer(
    name="penstock",
    help="Workflows as tools that an assistant can safely call.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("run")(run_command)
app.add_typer(runs_app, name="runs")
app.command("worker")(worker_command)
app.command("validate")(validate_command)
app.command("graph")(graph_command)
app.command("diff")(diff_command)
app.command("simulate")(simulate_command)
app.command("test")(cases_command)
app.command("schema")(schema_command)
app.command("backup")(backup_command)
app.command("restore")(restore_command)
app.command("check")(check_command)


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
