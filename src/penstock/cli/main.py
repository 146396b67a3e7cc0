"""The `penstock` command: a table of commands, each in a module that is imported when it is called.

Exit codes mean the same everywhere; `terminal.exits` lists them.
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.lazy_commands import LazyCommand, lazy_group
from penstock.cli.operations.resources import RESOURCES

__all__ = ["COMMANDS", "app", "main"]

_RUNS = "Runs"
_DOCUMENTS = "Workflow files"
_SERVER = "Server and settings"
_OPERATIONS = "Operations, on a server or in a file"
_RUNS_MODULE = "penstock.cli.runs.group"
_RUNS_WORDS = RESOURCES["runs"].help
_IMPORT_WORDS = "Offer what other people describe as tools: operations of an API."
_QUERY_WORDS = "Queries of graphs: check, format and test files, list, explain and run stored ones."

# The sentence is the first one of the command's own help; a test compares them.
COMMANDS: dict[str, LazyCommand] = {
    "run": LazyCommand(
        "penstock.cli.run.command",
        "run_command",
        "Run a workflow and watch it; questions to a person are asked right here.",
        _RUNS,
    ),
    "runs": LazyCommand(_RUNS_MODULE, "runs_group", _RUNS_WORDS, _RUNS, _RUNS_WORDS),
    "execution": LazyCommand(_RUNS_MODULE, "runs_group", _RUNS_WORDS, _RUNS, _RUNS_WORDS, alias=True),
    "top": LazyCommand(
        "penstock.cli.top.command",
        "top_command",
        "Show live runs, queues, rates and questions, until you press q.",
        _RUNS,
    ),
    "worker": LazyCommand(
        "penstock.cli.server.worker", "worker_command", "Perform the runs of a database until Ctrl-C or SIGTERM.", _RUNS
    ),
    "validate": LazyCommand(
        "penstock.cli.documents.validate",
        "validate_command",
        "Find every mistake in workflow files, each with its place and a hint.",
        _DOCUMENTS,
    ),
    "graph": LazyCommand(
        "penstock.cli.documents.graph",
        "graph_command",
        "Draw a workflow: its nodes, where they lead, and what is inside of them.",
        _DOCUMENTS,
    ),
    "diff": LazyCommand(
        "penstock.cli.documents.diff",
        "diff_command",
        "Compare two versions of a workflow: what changed, does it break callers, could runs in flight be moved to it.",
        _DOCUMENTS,
    ),
    "simulate": LazyCommand(
        "penstock.cli.documents.simulate",
        "simulate_command",
        "Run a workflow in memory with mocked activities and show every step.",
        _DOCUMENTS,
    ),
    "test": LazyCommand(
        "penstock.cli.documents.test",
        "cases_command",
        "Run the test cases of workflows in memory: activities are mocked, time is simulated, nothing is stored.",
        _DOCUMENTS,
    ),
    "eval": LazyCommand(
        "penstock.cli.evaluation.command",
        "eval_command",
        "Run a data set against a workflow or an agent, and compare what comes out with what is expected.",
        _DOCUMENTS,
    ),
    "sign": LazyCommand("penstock.cli.documents.sign", "sign_command", "Sign workflow files, in place.", _DOCUMENTS),
    "verify-signature": LazyCommand(
        "penstock.cli.documents.sign",
        "verify_signature_command",
        "Check that workflow files are signed with trusted keys.",
        _DOCUMENTS,
    ),
    "schema": LazyCommand(
        "penstock.cli.documents.schema", "schema_app", "Print the JSON Schema of workflow documents.", _DOCUMENTS
    ),
    "query": LazyCommand("penstock.cli.graphs.group", "query_group", _QUERY_WORDS, _DOCUMENTS, _QUERY_WORDS),
    "import": LazyCommand("penstock.cli.imports.group", "import_group", _IMPORT_WORDS, _DOCUMENTS, _IMPORT_WORDS),
    "init": LazyCommand(
        "penstock.cli.project.init",
        "init_command",
        "Create a project: a workflow that runs, its Python step, its tests, and settings.",
        _SERVER,
    ),
    "dev": LazyCommand(
        "penstock.cli.dev.command",
        "dev_command",
        "Serve a project while you write it: workflows, steps and settings are taken up as you save them.",
        _SERVER,
    ),
    "serve": LazyCommand(
        "penstock.cli.server.serve",
        "serve_command",
        "Serve REST and MCP, and perform the runs of the database, until Ctrl-C or SIGTERM.",
        _SERVER,
    ),
    "mcp": LazyCommand(
        "penstock.cli.mcp.command",
        "mcp_app",
        "Offer the workflows as MCP tools over standard input and output.",
        _SERVER,
    ),
    "config": LazyCommand("penstock.cli.server.config", "config_app", "Look at the settings and check them.", _SERVER),
    "backup": LazyCommand(
        "penstock.cli.server.backup",
        "backup_command",
        "Copy the database while it is in use: one moment of it, checked, in one file.",
        _SERVER,
    ),
    "restore": LazyCommand(
        "penstock.cli.server.backup", "restore_command", "Put a backup in the place of the database.", _SERVER
    ),
    "check": LazyCommand(
        "penstock.cli.server.backup",
        "check_command",
        "Check the database: the file itself, and that every run is what its history says.",
        _SERVER,
    ),
    "vacuum": LazyCommand(
        "penstock.cli.server.backup",
        "vacuum_command",
        "Write the database anew without free space, and let it shrink by itself from then on.",
        _SERVER,
    ),
    "doctor": LazyCommand(
        "penstock.cli.doctor.command",
        "doctor_command",
        "Look at the whole installation, part by part, and say what to do.",
        _SERVER,
    ),
    "verify": LazyCommand(
        "penstock.cli.verify.command",
        "verify_command",
        "Check from outside how a server governs agents: its agent profile over HTTP, and MCP.",
        _SERVER,
    ),
    "profile": LazyCommand(
        "penstock.cli.server.profile", "profile_app", "Name the servers that you work with.", _SERVER
    ),
    "coverage": LazyCommand(
        "penstock.cli.coverage",
        "coverage_command",
        "Prove that every operation is reachable on every surface, and that all of it is documented.",
        _SERVER,
        hidden=True,
    ),
}

# Commands of the catalogue: `penstock workflow list`.
COMMANDS.update(
    {
        name: LazyCommand("penstock.cli.operations.groups", "operation_group", group.help, _OPERATIONS, name)
        for name, group in RESOURCES.items()
        if name not in COMMANDS
    }
)

app = typer.Typer(
    name="penstock",
    cls=lazy_group(lambda: COMMANDS),
    help="Workflows as tools that an assistant can safely call.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


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
    # Commands report how long they took to start. They count from here, so that their own imports are included.
    app(obj=time.perf_counter())
