"""The page about the command line, read from the commands themselves."""

import inspect
from collections.abc import Iterator
from enum import Enum

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from docs.generator.markdown import code, page, prose, table
from penstock.cli.main import app
from penstock.cli.terminal.exits import EXIT_CODES

__all__ = ["commands_page"]

_ANY_NUMBER = -1


def commands_page() -> str:
    """Every command with its help, arguments and options."""
    return page("Command line", "the help texts in `cli`", _parts())


def _parts() -> Iterator[str]:
    group = typer.main.get_command(app)
    if not isinstance(group, TyperGroup):
        raise TypeError("the command line has no subcommands")
    yield (
        "`penstock COMMAND --help` shows the same. Commands about operations (`penstock workflow list`) talk to a "
        "server or work on a file; [the guide](../guides/command-line.md) says how to choose."
    )
    yield "Exit codes are the same everywhere:"
    yield table(["Exit code", "Meaning"], [[str(number), prose(meaning)] for number, meaning in EXIT_CODES.items()])
    yield from _group_parts("", group)


def _group_parts(prefix: str, group: TyperGroup) -> Iterator[str]:
    for name, command in group.commands.items():
        if command.hidden:  # another name of a command
            continue
        if isinstance(command, TyperGroup):
            if command.invoke_without_command:
                yield f"## penstock {prefix}{name}"
                yield from _command_parts(f"{prefix}{name}", command)
            yield from _group_parts(f"{prefix}{name} ", command)
        elif isinstance(command, TyperCommand):
            yield f"## penstock {prefix}{name}"
            yield from _command_parts(f"{prefix}{name}", command)


def _command_parts(name: str, command: TyperCommand | TyperGroup) -> Iterator[str]:
    arguments = [parameter for parameter in command.params if isinstance(parameter, TyperArgument)]
    options = [parameter for parameter in command.params if isinstance(parameter, TyperOption)]
    usage = " ".join(["penstock", name, "[OPTIONS]", *map(_metavar, arguments)])
    yield f"```text\n{usage}\n```"
    yield inspect.cleandoc(command.help or "")
    rows = [[code(_metavar(argument)), argument.help or ""] for argument in arguments]
    rows += [[_flags(option), option.help or ""] for option in options]
    yield table(["Argument or option", "What it does"], rows)


def _metavar(argument: TyperArgument) -> str:
    name = str(argument.metavar or argument.name).removesuffix("...")
    return f"{name}..." if argument.nargs == _ANY_NUMBER else name


def _flags(option: TyperOption) -> str:
    names = ", ".join(map(code, (*option.opts, *option.secondary_opts)))
    if option.is_flag:
        return names
    annotation = option.type_descriptor.annotation
    choices = list(annotation) if isinstance(annotation, type) and issubclass(annotation, Enum) else []
    value = "|".join(str(choice.value) for choice in choices) or option.metavar or str(option.name).upper()
    return f"{names} {code(value)}"
