"""What a command imports to declare itself: options, arguments, and how it ends.

    def show_command(
        name: Annotated[str, Argument(metavar="NAME", help="Which one.")],
        *,
        times: Annotated[int, Option("--times", min=1, help="How often.")] = 1,
        tag: Annotated[list[str] | None, Option(("--tag", "-t"), help="Repeatable.")] = None,
        loud: Annotated[bool, Option("--loud/--quiet", help="Whether to shout.")] = False,
    ) -> None:

The annotation says what the value is: text, a number, a path, a yes or no, one word of an enumeration, or a list. A
parameter without a default is required. One that is annotated with a dataclass stands for the options that its fields
declare. One that is annotated with `Context` gets the context of the call.

Above it: every command. Below it: Click.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from click import Context, echo
from click.exceptions import Exit

__all__ = ["Argument", "Context", "Exit", "Option", "echo"]


@dataclass(frozen=True, slots=True)
class Option:
    """An option. `--a/--b` declares what says yes, and what says no; without names, the parameter has the name."""

    names: str | tuple[str, ...] = ()
    help: str = ""
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    callback: Callable[[Context, Any], Any] | None = None
    """Checks the value, given or default, and returns the one that the command gets."""
    show_default: bool = True
    panel: str | None = None
    """The heading in help under which the option stands."""

    def all_names(self, parameter: str) -> tuple[str, ...]:
        """Return the names of the option, which belongs to a parameter of this name."""
        names = (self.names,) if isinstance(self.names, str) else self.names
        return names or (f"--{parameter.replace('_', '-')}",)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument: a value that is given by its place."""

    help: str = ""
    metavar: str | None = None
    show_default: bool = True
