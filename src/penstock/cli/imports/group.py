"""The group `penstock import`.

Above it: `main`. Below it: a module for each kind of thing that is imported.
"""

from __future__ import annotations

import typer

from penstock.cli.lazy_commands import LazyCommand, new_group

__all__ = ["import_group"]

_COMMANDS = {
    "openapi": LazyCommand(
        "penstock.cli.imports.openapi",
        "openapi_command",
        "Offer operations of an API as governed tools, from its OpenAPI document.",
    )
}


def import_group(help_text: str) -> typer.Typer:
    """The group with its commands."""
    return new_group(lambda: _COMMANDS, help_text)
