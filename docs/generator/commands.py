"""The page about the command line, read from the commands themselves."""

import inspect
from collections.abc import Iterator
from typing import Final

import click

from docs.generator.markdown import anchor, code, link, page, prose, table
from penstock.cli.commands.parameters import ClickArgument, ClickOption
from penstock.cli.lazy_commands import load_command
from penstock.cli.operations.examples import example_of
from penstock.cli.references import CommandGroup, CommandRow, LazyCommand
from penstock.cli.terminal.exits import EXIT_CODES
from penstock.cli.tree.commands import commands_below
from penstock.cli.tree.old_spellings import OLD_SPELLINGS

__all__ = ["commands_page"]

# Described once for all commands that have them; a command with another text for one of them lists it.
_SHARED: Final = ("--server", "--profile", "--db", "--idempotency-key", "--json", "--help")
_SHARED_WITH: Final = "workflow start"
# The attribute of the rows that are an operation and nothing else.
_OPERATION: Final = "operation_command"


def commands_page() -> str:
    """Every command with its help, arguments and options."""
    return page("Command line", "the help texts in `cli`", _parts())


def _parts() -> Iterator[str]:
    yield (
        "`penstock COMMAND --help` shows the same. Commands about operations (`penstock workflow list`) talk to a "
        "server or work on a file; [the guide](../guides/command-line.md) says how to choose, and [REST](rest.md) "
        "describes each argument of an operation beside the option for it."
    )
    yield "Exit codes are the same everywhere:"
    yield table(["Exit code", "Meaning"], [[str(number), prose(meaning)] for number, meaning in EXIT_CODES.items()])
    shared = _shared_options()
    yield "Most commands have these options; the tables below leave them out:"
    yield table(["Option", "What it does"], [[_flags(option), option.help or ""] for option in shared.values()])
    rows = commands_below("")
    yield "## Commands"
    yield table(["Command", "What it does"], [[_link(name), row.help] for name, row in rows.items()])
    for name, row in rows.items():
        if isinstance(row, CommandGroup):
            yield from _group_parts(name, row, shared)
        else:
            yield from _command_parts(name, row, shared)
    yield "## Old names"
    yield "These names work until 0.2 and print the new one."
    yield table(
        ["Old name", "New name"], [[code(f"penstock {old}"), code(f"penstock {new}")] for old, new in _renamed()]
    )


def _renamed() -> Iterator[tuple[str, str]]:
    yield from OLD_SPELLINGS.items()
    yield "graph FILE", "workflow draw FILE"


def _shared_options() -> dict[str, ClickOption]:
    group, _, name = _SHARED_WITH.rpartition(" ")
    command = load_command(_SHARED_WITH, commands_below(group)[name])
    options = [item for item in command.params if isinstance(item, ClickOption)]
    return {item.opts[0]: item for item in options if item.opts[0] in _SHARED}


def _link(name: str) -> str:
    return f"[`penstock {name}`](#penstock-{name.replace(' ', '-')})"


def _group_parts(path: str, group: CommandGroup, shared: dict[str, ClickOption]) -> Iterator[str]:
    yield f"## penstock {path}"
    yield group.help
    if group.module:
        yield from _body(path, group, shared)
    for name, row in commands_below(path).items():
        words = f"{path} {name}"
        if isinstance(row, CommandGroup):
            yield from _group_parts(words, row, shared)
        else:
            yield from _command_parts(words, row, shared)


def _command_parts(path: str, row: CommandRow, shared: dict[str, ClickOption]) -> Iterator[str]:
    yield f"### penstock {path}"
    yield from _body(path, row, shared)


def _body(path: str, row: CommandRow, shared: dict[str, ClickOption]) -> Iterator[str]:
    command = load_command(path, row)
    ctx = click.Context(command)
    arguments = [parameter for parameter in command.params if isinstance(parameter, ClickArgument)]
    options = [parameter for parameter in command.params if isinstance(parameter, ClickOption)]
    usage = " ".join(["penstock", path, *command.collect_usage_pieces(ctx)])
    example = "" if isinstance(row, CommandGroup) else f"\n{example_of(path, row)}"
    yield f"```text\n{usage}{example}\n```"
    if isinstance(row, LazyCommand) and row.attribute == _OPERATION:
        yield " ".join(_operation_parts(row, [item for item in options if not _is_shared(item, shared)]))
        return
    yield inspect.cleandoc(command.help or "")
    rows = [[code(argument.make_metavar(ctx)), argument.text] for argument in arguments]
    rows += [[_flags(option), option.help or ""] for option in options if not _is_shared(option, shared)]
    if rows:
        yield table(["Argument or option", "What it does"], rows)


def _operation_parts(row: LazyCommand, options: list[ClickOption]) -> Iterator[str]:
    """One paragraph: the page about REST describes the arguments of an operation."""
    yield prose(row.help)
    if options:
        yield f"Options: {', '.join(code(item.opts[0]) for item in options)}."
    yield f"Calls {link(code(str(row.argument)), f'rest.md#{anchor(str(row.argument))}')}."


def _is_shared(option: ClickOption, shared: dict[str, ClickOption]) -> bool:
    known = shared.get(option.opts[0])
    return option.opts[0] == "--help" or (known is not None and known.help == option.help)


def _flags(option: ClickOption) -> str:
    names = ", ".join(map(code, (*option.opts, *option.secondary_opts)))
    value = option.value_name(click.Context(click.Command(None)))
    return f"{names} {code(value)}" if value else names
