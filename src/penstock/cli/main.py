"""The `penstock` command: a table of commands, each in a module that is imported when it is called.

`penstock --help` is printed from the table, without Typer. Everything else goes to `application`. Exit codes mean the
same everywhere; `terminal.exits` lists them.

Above it: the script of the package. Below it: `references`, `top_help`; `application` is imported when it is needed.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

from penstock import __version__
from penstock.cli.operations.resources import RESOURCES
from penstock.cli.references import LazyCommand
from penstock.cli.top_help import print_top_help

__all__ = ["COMMANDS", "SUMMARY", "main"]

_APPLICATION = "penstock.cli.application"

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
        "Check the database: the file itself, the history of every run, and that no stored row was changed.",
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

SUMMARY = "Workflows as tools that an assistant can safely call."


def main() -> None:
    """Run the command line; the entry point of the package."""
    # Commands report how long they took to start. They count from here, so that their own imports are included.
    began = time.perf_counter()
    if not print_top_help(sys.argv[1:], COMMANDS, SUMMARY, __version__):
        importlib.import_module(_APPLICATION).app(obj=began)


def __getattr__(name: str) -> Any:
    """Give out `app`, the Typer application, to programs that need it; the command line may not."""
    if name == "app":
        return importlib.import_module(_APPLICATION).app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
