"""The groups of commands that come from the catalogue: what their help needs, and no more.

Above it: `main`. Below it: the client's table of operations. The commands themselves are in `commands`.
"""

from __future__ import annotations

import typer

from penstock.cli.lazy_commands import LazyCommand, new_group
from penstock.cli.operations.resources import RESOURCES
from penstock.client.operations import operation_table

__all__ = ["operation_group"]

_COMMANDS = "penstock.cli.operations.commands"


def operation_group(name: str) -> typer.Typer:
    """The group of commands with this name."""
    resource, words = RESOURCES[name]
    commands = {
        operation.action.replace("_", "-"): LazyCommand(
            _COMMANDS, "operation_command", f"{operation.title}.", None, operation.name
        )
        for operation in operation_table().values()
        if operation.resource == resource
    }
    return new_group(lambda: commands, words)
