"""Where commands are: the rows of the tables of commands, which can be read without importing Typer.

Above it: `main`, `lazy_commands`, every group. Below it: nothing.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["LazyCommand"]


class LazyCommand(NamedTuple):
    """Where a command is: a function, a Typer application, or (with `argument`) a factory of one of the two."""

    module: str
    attribute: str
    help: str
    panel: str | None = None
    argument: str | None = None
    hidden: bool = False
    """Whether help leaves it out, because it is for developers of Penstock."""
    alias: bool = False
    """Whether it is another name of a command; help and the reference have it under the first one."""
