"""`penstock query`: stored queries in files and on a server.

Above it: `main`. Below it: the commands, which are imported when they are called.
"""

from __future__ import annotations

import typer

from penstock.cli.lazy_commands import LazyCommand, new_group

__all__ = ["query_group"]

_FILES = "penstock.cli.graphs.files"
_OPERATIONS = "penstock.cli.operations.commands"
_COMMANDS = {
    "validate": LazyCommand(_FILES, "validate_queries_command", "Check files of queries against a schema."),
    "format": LazyCommand(_FILES, "format_command", "Format files of schemas and queries, in place."),
    "test": LazyCommand(
        "penstock.cli.graphs.cases", "cases_command", "Run the test cases of queries on a graph of their own."
    ),
    "list": LazyCommand(
        _OPERATIONS,
        "operation_command",
        "List the stored queries of a graph that you may run, with their parameters.",
        None,
        "graph.queries_list",
    ),
    "explain": LazyCommand(
        _OPERATIONS,
        "operation_command",
        "Explain how a stored query is run: what it looks up, and what it reads as a whole.",
        None,
        "graph.queries_explain",
    ),
    "run": LazyCommand(
        _OPERATIONS, "operation_command", "Run a stored query, exposed or not.", None, "graph.query_run"
    ),
}


def query_group(words: str) -> typer.Typer:
    """The group of commands."""
    return new_group(lambda: _COMMANDS, words)
