"""Commands that are imported when they are called: `penstock --help` and `penstock serve` pay for nothing else.

A group is a table from names to places; its help shows the sentence that the table has for each, without importing
anything. A test holds that these are the first sentences of the commands themselves.

Above it: `main`, and groups that the command line makes of the catalogue. Below it: Typer.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["LazyCommand", "WithTrailingArguments", "build_command", "lazy_group", "trailing_arguments"]

_TRAILING = "penstock.trailing"


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is made: a function, a Typer application, or (with `argument`) what makes one of the two."""

    module: str
    attribute: str
    help: str
    panel: str | None = None
    argument: str | None = None
    hidden: bool = False
    """Whether help leaves it out: it is for those who work on Penstock itself."""
    alias: bool = False
    """Whether it is another name of a command; help and the reference have it under the first one."""


@dataclass(frozen=True, slots=True)
class WithTrailingArguments:
    """A command whose words after `--` are a command of their own; it finds them with `trailing_arguments`."""

    function: Callable[..., None]


def trailing_arguments(ctx: typer.Context) -> tuple[str, ...]:
    """The words that stood after `--`."""
    found: tuple[str, ...] = ctx.meta.get(_TRAILING, ())
    return found


class _TrailingCommand(TyperCommand):
    """Keeps what stands after `--` from its own arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_TRAILING] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ...]"]


def build_command(name: str, made: Any) -> Any:
    """The command of a function or of a Typer application."""
    if isinstance(made, typer.Typer):
        group = typer.main.get_group(made)
        group.name = name
        return group
    holder = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    if isinstance(made, WithTrailingArguments):
        holder.command(name, cls=_TrailingCommand)(made.function)
    else:
        holder.command(name)(made)
    command: Any = typer.main.get_command(holder)
    every = command.get_params
    command.get_params = lambda ctx: _spared(every(ctx))
    return command


def _spared(parameters: list[Any]) -> list[Any]:
    """Parameters that convert what was given, and nothing else: Typer loads a large library even for nothing."""
    for parameter in parameters:
        if not isinstance(parameter.process_value, _Conversion):
            parameter.process_value = _Conversion(parameter, parameter.process_value)
    return parameters


@dataclass(frozen=True, slots=True)
class _Conversion:
    """From what was given for a parameter to its value."""

    parameter: Any
    convert: Callable[[Any, Any], Any]

    def __call__(self, ctx: Any, value: Any) -> Any:
        """Convert a value; without one, do what Typer does then."""
        parameter = self.parameter
        if value is not None or parameter.required:
            return self.convert(ctx, value)
        nothing = () if parameter.multiple or parameter.nargs == -1 else None
        return nothing if parameter.callback is None else parameter.callback(ctx, parameter, nothing)


def _imported(module: str) -> ModuleType:
    """A module, imported without looking for garbage: an import makes none, and looking takes a fifth of its time."""
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        # What was imported stays; it need not be looked at again, either.
        gc.freeze()
        gc.enable()


class _Commands(MutableMapping[str, Any]):
    """Commands by name, imported when somebody takes one out."""

    def __init__(self, places: Mapping[str, LazyCommand]) -> None:
        self._places = dict(places)
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        spelt = name if name in self._places else name.replace("_", "-")
        if spelt not in self._made:
            place = self._places[spelt]
            found = getattr(_imported(place.module), place.attribute)
            made = found if place.argument is None else found(place.argument)
            self._made[spelt] = build_command(spelt, made)
            self._made[spelt].rich_help_panel = place.panel
            self._made[spelt].hidden = place.alias
        return self._made[spelt]

    def __setitem__(self, name: str, command: Any) -> None:
        self._places[name] = LazyCommand("", "", "")
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def listed(self, name: str) -> TyperCommand:
        """What stands for a command in a list of commands."""
        place = self._places[name]
        return TyperCommand(name, help=place.help, rich_help_panel=place.panel, hidden=place.hidden or place.alias)


def lazy_group(places: Callable[[], Mapping[str, LazyCommand]]) -> type[TyperGroup]:
    """A class of groups whose commands are found in a table; for the parameter `cls` of a Typer application."""

    class LazyGroup(TyperGroup):
        """A group that imports a command when it is called."""

        _lists = False

        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self._lazy = _Commands(places())
            self.commands = self._lazy

        def get_params(self, ctx: Any) -> list[Any]:
            return _spared(super().get_params(ctx))

        def list_commands(self, ctx: Any) -> list[str]:
            return list(self._lazy)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            return self._lazy.listed(cmd_name) if self._lists else self._lazy.get(cmd_name)

        def format_help(self, ctx: Any, formatter: Any) -> None:
            self._lists = True
            try:
                super().format_help(ctx, formatter)
            finally:
                self._lists = False

    return LazyGroup
