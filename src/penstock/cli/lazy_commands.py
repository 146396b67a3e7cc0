"""Commands that are imported when they are called: `penstock --help` and `penstock serve` pay for nothing else.

A group is a table from names to references; its help shows the sentence that the table has for each command and imports
none of them. A test compares each sentence with the first one of the command's own help.

This is the only module that builds on how Typer works inside, for three things that Typer offers no option for:

- Typer imports a command to list it. `lazy_group` hands out placeholders while help or completions are listed.
- Typer lists the words of a choice. `_SkipAbsent` names the nearest one to a mistyped word.
- Typer imports pydantic, which takes longer than the rest of a command's start, to convert options that were not even
  given. `_SkipAbsent` converts only what was given.

`tests/unit/cli/test_lazy_commands.py` compares both with what Typer does by itself: it fails when an upgrade differs.

Above it: `application`, the groups. Below it: `references`, Typer.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from penstock.base.lazy_import import lazy_import
from penstock.cli.references import LazyCommand

if TYPE_CHECKING:
    from penstock.base import choices
else:
    choices = lazy_import("penstock.base.choices")

__all__ = [
    "LazyCommand",
    "WithTrailingArguments",
    "build_command",
    "command_placeholder",
    "command_tree",
    "lazy_group",
    "load_command",
    "new_group",
    "trailing_arguments",
]

_TRAILING = "penstock.trailing"


def load_command(name: str, reference: LazyCommand) -> Any:
    """Import a command and build it."""
    found = getattr(_imported(reference.module), reference.attribute)
    command = build_command(name, found if reference.argument is None else found(reference.argument))
    command.rich_help_panel = reference.panel
    command.hidden = reference.alias
    return command


def command_placeholder(name: str, reference: LazyCommand) -> TyperCommand:
    """A stand-in for a command in a list of commands."""
    is_hidden = reference.hidden or reference.alias
    return TyperCommand(name, help=reference.help, rich_help_panel=reference.panel, hidden=is_hidden)


@dataclass(frozen=True, slots=True)
class WithTrailingArguments:
    """A command whose arguments after `--` are a command of their own; `trailing_arguments` gives them."""

    function: Callable[..., None]


def trailing_arguments(ctx: typer.Context) -> tuple[str, ...]:
    """The arguments that stood after `--`."""
    found: tuple[str, ...] = ctx.meta.get(_TRAILING, ())
    return found


def new_group(table: Callable[[], Mapping[str, LazyCommand]], help_text: str) -> typer.Typer:
    """A Typer application with the commands of a table."""
    group = typer.Typer(cls=lazy_group(table), no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")
    # With a callback of its own, a group of one command stays a group.
    group.callback(help=help_text)(_do_nothing)
    return group


def _do_nothing() -> None:
    """The callback of a group; there is nothing to do before its command."""


def build_command(name: str, target: Any) -> Any:
    """The command of a function or of a Typer application."""
    if isinstance(target, typer.Typer):
        group = command_tree(target)
        group.name = name
        return group
    holder = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    if isinstance(target, WithTrailingArguments):
        holder.command(name, cls=_TrailingCommand)(target.function)
    else:
        holder.command(name, cls=_Command)(target)
    return command_tree(holder)


def command_tree(app: typer.Typer) -> Any:
    """What Typer makes of an application: a command with `params`, or a group with `commands`."""
    return typer.main.get_command(app)


class _Command(TyperCommand):
    """A command that converts only the options that were given."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _skip_absent(super().get_params(ctx))


class _TrailingCommand(_Command):
    """Keeps what stands after `--` apart from its own arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_TRAILING] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ...]"]


def _skip_absent(parameters: list[Any]) -> list[Any]:
    # Typer makes the parameters itself, so the method can only be replaced on each of them.
    for parameter in parameters:
        if not isinstance(parameter.process_value, _SkipAbsent):
            parameter.process_value = _SkipAbsent(parameter, parameter.process_value)
    return parameters


@dataclass(frozen=True, slots=True)
class _SkipAbsent:
    """A parameter's `process_value` that leaves the conversion out when there is nothing to convert."""

    parameter: Any
    convert: Callable[[Any, Any], Any]

    def __call__(self, ctx: Any, value: Any) -> Any:
        """Convert a value; without one, give what Typer gives then."""
        parameter = self.parameter
        if value is not None or parameter.required:
            try:
                return self.convert(ctx, value)
            except typer.BadParameter as error:
                words = _words_of(parameter.type_descriptor.annotation)
                if words and isinstance(value, str):
                    error.message = choices.refuse_choice(value, words)
                raise
        absent = () if parameter.multiple or parameter.nargs == -1 else None
        return absent if parameter.callback is None else parameter.callback(ctx, parameter, absent)


def _words_of(annotation: Any) -> tuple[str, ...]:
    """The words that an option takes; none if it takes any text."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(str(member.value) for member in annotation)
    return tuple(map(str, get_args(annotation))) if get_origin(annotation) is Literal else ()


def _imported(module: str) -> ModuleType:
    """Import a module with garbage collection off: an import makes no garbage, and looking for it takes time."""
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        # Imported objects stay for good, so later collections can skip them too.
        gc.freeze()
        gc.enable()


class _Commands(MutableMapping[str, Any]):
    """Commands by name, each imported on first access."""

    def __init__(self, references: Mapping[str, LazyCommand]) -> None:
        self.references = dict(references)
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        spelt = name if name in self.references else name.replace("_", "-")
        if spelt not in self._loaded:
            self._loaded[spelt] = load_command(spelt, self.references[spelt])
        return self._loaded[spelt]

    def __setitem__(self, name: str, command: Any) -> None:
        self.references[name] = LazyCommand("", "", "")
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self.references[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.references)

    def __len__(self) -> int:
        return len(self.references)


def lazy_group(table: Callable[[], Mapping[str, LazyCommand]]) -> type[TyperGroup]:
    """A class of groups whose commands are found in a table; for the parameter `cls` of a Typer application."""

    class LazyGroup(TyperGroup):
        """A group that imports a command when it is called."""

        _lists = False

        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self._lazy = _Commands(table())
            self.commands = self._lazy

        def get_params(self, ctx: Any) -> list[Any]:
            return _skip_absent(super().get_params(ctx))

        def list_commands(self, ctx: Any) -> list[str]:
            return list(self._lazy)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if self._lists:
                return command_placeholder(cmd_name, self._lazy.references[cmd_name])
            return self._lazy.get(cmd_name)

        def format_help(self, ctx: Any, formatter: Any) -> None:
            with self._only_listing():
                super().format_help(ctx, formatter)

        def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
            with self._only_listing():
                return super().shell_complete(ctx, incomplete)

        @contextmanager
        def _only_listing(self) -> Iterator[None]:
            self._lists = True
            try:
                yield
            finally:
                self._lists = False

    return LazyGroup
