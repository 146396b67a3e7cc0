"""Rows of the tables of commands, which can be read without importing Click.

Above it: `tree`, `top_help`, `lazy_commands`. Below it: nothing.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CommandGroup", "CommandRow", "LazyCommand"]


class LazyCommand(NamedTuple):
    """Where a command is: a function or (with `argument`) a factory of one."""

    module: str
    attribute: str
    help: str
    panel: str | None = None
    argument: str | None = None
    hidden: bool = False
    """Whether help leaves it out."""


class CommandGroup(NamedTuple):
    """A group of commands. `module` and `attribute` name its `LazyGroup` if the group is a command, too."""

    help: str
    panel: str | None = None
    module: str = ""
    attribute: str = ""
    hidden: bool = False


CommandRow = LazyCommand | CommandGroup
